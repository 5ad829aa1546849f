BEGIN
{
	0; 7; 017; 0x1F; 12u; 12UL; 12ull; 12LL; 0xffffffffffffffff; 18446744073709551615;
	'a'; '\n'; '\''; '"'; '\0'; '\377'; '\x41'; 'ab'; 'abcdefgh';
	""; "a"; "a\tb\n"; "\"q\" \\ \101 \x41 \q \z"; "é";
	1.5; .5; 1e9; 1.5e-3f; 2.L; 1.;
	"never /* a comment */ // here";
}
