/* Options set by pragmas and by setopt(), and cut strings. */
#pragma D option strsize=16
#pragma D option aggsortrev
#pragma D option defaultargs
BEGIN
{
	printf("%s|\n", strjoin("abcdefghijkl", "mnopq"));
	printf("%d %s|\n", $1, $$2);
	@["a"] = sum(1); @["b"] = sum(2);
	printa("%s %@d\n", @);
	setopt("aggsortrev", "unset");
	trunc(@);
	exit(3);
}
