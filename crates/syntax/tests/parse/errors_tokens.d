BEGIN { trace("open
); trace('x
); trace(''); trace('123456789'); }
BEGIN { 12x; 08; 0x; 18446744073709551616; 1.5q; }
BEGIN { trace(#); trace(é); trace(	$); }
BEGIN { trace("end); }
