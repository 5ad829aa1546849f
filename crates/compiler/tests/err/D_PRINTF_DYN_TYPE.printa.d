BEGIN { @a["x"] = count(); printa("%*d", @a); }
