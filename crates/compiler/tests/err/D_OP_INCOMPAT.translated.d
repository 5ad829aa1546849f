struct in { int i; }; struct out { int o; char *p; };
translator struct out < struct in *v > { o = v->i; };
BEGIN { x = xlate<struct out *>((struct in *)8); x = pid; }
