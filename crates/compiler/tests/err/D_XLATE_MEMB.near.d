struct in { int i; }; struct out { int o; char *p; };
translator struct out < struct in *v > { oo = v->i; };
