/* Options set by pragmas and by setopt(), and cut strings. */
#pragma D option strsize=8
#pragma D option aggsortrev
#pragma D option defaultargs
BEGIN
{
	printf("%s|\n", strjoin("abcdefg", "hij"));
	printf("%d %s|\n", $1, $$2);
	@["a"] = sum(1); @["b"] = sum(2);
	printa("%s %@d\n", @);
	setopt("aggsortrev", "unset");
	trunc(@);
	exit(3);
}
