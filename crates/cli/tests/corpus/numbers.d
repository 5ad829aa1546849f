/* Integer and floating-point constants, C's conversions, byte order, addresses as text. */
uint32_t ip[1];
BEGIN
{
	printf("%d %d %d %d %d\n", 0x10, 010, 'a', 'ab', 1ull << 40);
	printf("%d %d %d %d\n", -7 / 2, -7 % 2, 7u / 2, -1 >> 1);
	printf("%u %x %d\n", (unsigned char)-1, (short)0x18000, (int8_t)200);
	printf("%d %d %d\n", -1 < 1u, -1L < 1u, (unsigned)-1 > 0);
	printf("%d %d %d\n", 1 ^^ 1, 2 ^^ 0, !5);
	printf("%x %x %x\n", htons(0x1234), htonl(0x12345678), ntohll(0x0102030405060708));
	printf("%d %d\n", getmajor(0x800001), getminor(0x800001));
	printf("%.2f %e %g\n", 1.5, 12345.678, 0.25);
	printf("%d %d\n", (int)2.9, 3.5 > 3);
	ip[0] = htonl(0x7f000001);
	printf("%s\n", inet_ntoa(&ip[0]));
	i = 0;
	j = (i++, i + 10);
	printf("%d %d %d\n", i, j, i == 1 ? 3 : 4);
	exit(0);
}
