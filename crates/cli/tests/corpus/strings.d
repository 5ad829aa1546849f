/* Every subroutine of strings. */
BEGIN
{
	printf("%s|%s|%s\n", substr("probity", 3), substr("probity", 1, 3), substr("probity", -4, 2));
	printf("%d %d %d\n", index("banana", "an"), rindex("banana", "an"), index("banana", "x"));
	printf("%s|%s|%s\n", strchr("a=b=c", '='), strrchr("a=b=c", '='), strstr("kernel", "rn"));
	printf("%s|%s|%s\n", basename("/usr/lib/libc.so"), dirname("/usr/lib/libc.so"), cleanpath("/a/./b/../c//d"));
	printf("%s %s %s\n", lltostr(-42), lltostr(255, 16), lltostr(8, 2));
	printf("%d %d %d\n", strtoll("123abc"), strtoll("0x1f", 16), strtoll("-77", 8));
	printf("%s %s\n", toupper("MiXed1"), tolower("MiXed1"));
	printf("%s %d\n", strjoin("con", "cat"), strlen("four"));
	printf("%s|%s|%s|%s\n", json("{\"a\": {\"b\": [1, \"two\", true]}}", "a.b[1]"), json("{\"a\": 17}", "a"),
	    json("{\"a\": {\"b\": [1, \"two\", true]}}", "a.b[2]"), json("[{\"k\": \"v\"}]", "[0].k"));
	this->a = strtok("one,two;three", ",;");
	this->b = strtok(NULL, ",;");
	this->c = strtok(NULL, ",;");
	printf("%s %s %s %d\n", this->a, this->b, this->c, strtok(NULL, ",;") == NULL);
	printf("%d %d %d %d\n", "abc" < "abd", "abc" == "abc", "b" > "abc", "" == NULL);
	x = 1 ? "yes" : "no";
	printf("%s %s\n", x, stringof("plain"));
	exit(0);
}
