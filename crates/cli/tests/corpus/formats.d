/* The conversions, flags and modifiers of printf. */
BEGIN
{
	printf("[%5d][%-5d][%05d][%+d][% d]\n", 42, 42, 42, 42, 42);
	printf("[%x][%#x][%X][%o][%#o]\n", 255, 255, 255, 8, 8);
	printf("[%10s][%-10s][%.2s][%c][%C]\n", "right", "left", "cut", 'z', '\n');
	printf("[%*d][%.*s]\n", 6, 7, 3, "abcdef");
	printf("[%hhd][%hd][%ld][%lld]\n", (char)-1, (short)-2, -3, -4);
	printf("[%u][%x][%d]\n", -1, -1, 0x100000001);
	printf("[%i][%s][%S]\n", 3, "tab\there", "tab\there");
	printf("[%8.3f][%e][%g]\n", 3.14159, 0.001, 1e10);
	printf("%d%% %s\n", 100, "done");
	printf("%Y\n", 1000000000000000000);
	exit(0);
}
