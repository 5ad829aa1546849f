enum e { A = 0x1ffffffff }; BEGIN { }
