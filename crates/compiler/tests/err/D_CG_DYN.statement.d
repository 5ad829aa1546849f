struct in { int i; }; struct out { int o; };
translator struct out < struct in *v > { o = v->i; };
BEGIN { xlate<struct out *>((struct in *)8); }
