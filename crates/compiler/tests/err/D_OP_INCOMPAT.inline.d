inline int i = "a string"; BEGIN { }
