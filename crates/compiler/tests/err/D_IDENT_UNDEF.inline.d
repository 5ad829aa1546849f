inline int foo = foo + 3; BEGIN { }
