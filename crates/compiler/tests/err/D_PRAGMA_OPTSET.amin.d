#pragma D option amin=Good
BEGIN { }
