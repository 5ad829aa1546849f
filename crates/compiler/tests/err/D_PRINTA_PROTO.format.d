BEGIN { printa("%@d"); }
