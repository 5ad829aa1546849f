struct in { int i; }; struct out { int o; char *p; };
translator struct out < struct in *v > { o = v->i; };
translator struct out < struct in *w > { o = w->i + 1; };
