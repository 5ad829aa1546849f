// test: args=99999999999999999999
BEGIN { $2; $$3; $target; $targte; $nonsense; $1; $; }
pid$target:::entry { }
