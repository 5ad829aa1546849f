BEGIN { @a = count(); printa("%@*d", @a); }
