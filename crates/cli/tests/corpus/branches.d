/* if and else, nested, with actions and assignments in them. */
BEGIN
{
	n = 7;
	if (n > 5) {
		printf("big ");
		if (n % 2) { printf("odd\n"); x = 1; } else { printf("even\n"); }
	} else {
		printf("small\n");
	}
	if (x) y = 2; else y = 3;
	if ("") printf("not here\n"); else printf("empty is false\n");
	if (n == 1) printf("one\n"); else if (n == 7) printf("seven %d\n", y); else printf("other\n");
	exit(0);
}
