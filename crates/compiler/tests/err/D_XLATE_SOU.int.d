translator int < int *v > { x = 1; };
BEGIN { }
