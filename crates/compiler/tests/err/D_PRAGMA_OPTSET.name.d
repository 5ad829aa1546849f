#pragma D option quite
BEGIN { }
