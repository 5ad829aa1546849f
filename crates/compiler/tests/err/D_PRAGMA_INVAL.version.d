inline int x = 1;
#pragma D binding "one" x
BEGIN { }
