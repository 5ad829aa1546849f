// test: defaultargs
BEGIN { $1; $$2; }
