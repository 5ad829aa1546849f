translator struct out { int x; } { x = 1; };
