BEGIN { trace(`hp_avenrun); }
