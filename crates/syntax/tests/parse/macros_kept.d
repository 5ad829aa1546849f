// test: keepmacros
pid$target:::entry, $1:$$2 { trace($1); $target; $$target; pid$target`sym; }
