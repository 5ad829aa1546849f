BEGIN { trace(stringof(*curthread)); }
