/* Every aggregating function, keys of several members, ordering, and what is done to aggregations. */
#pragma D option aggsortkey
struct pt { int x, y; };
struct pt at[1];
BEGIN
{
	@n[1, "a"] = count(); @n[1, "a"] = count(); @n[0, "b"] = count();
	@s["k"] = sum(-5); @s["k"] = sum(3);
	@lo["k"] = min(-5); @lo["k"] = min(3); @hi["k"] = max(-5); @hi["k"] = max(-9);
	@mean["k"] = avg(2); @mean["k"] = avg(5);
	@dev["k"] = stddev(2); @dev["k"] = stddev(4); @dev["k"] = stddev(9);
	printa("%d %s %@d\n", @n);
	printa("%s sum %@d min %@d max %@d avg %@d stddev %@d\n", @s, @lo, @hi, @mean, @dev);
	@q = quantize(5); @q = quantize(-3); @q = quantize(0, 2);
	printa(@q);
	@l = lquantize(25, 0, 40, 10); @l = lquantize(-1, 0, 40, 10); @l = lquantize(99, 0, 40, 10, 3);
	printa(@l);
	@ll = llquantize(150, 10, 0, 3, 10);
	printa(@ll);
	at[0].x = 1;
	@z[at[0]] = sum(4);
	printa("%@d\n", @z);
	@t[1] = sum(10); @t[2] = sum(30); @t[3] = sum(20);
	trunc(@t, 2);
	normalize(@t, 10);
	printa("%d=%@d ", @t);
	denormalize(@t);
	printa("%d=%@d ", @t);
	clear(@t);
	printa("%d=%@d ", @t);
	trunc(@t);
	printa("%d=%@d ", @t);
	printf("end\n");
	trunc(@n); trunc(@s); trunc(@lo); trunc(@hi); trunc(@mean); trunc(@dev); trunc(@q); trunc(@l); trunc(@ll); trunc(@z);
	exit(0);
}
