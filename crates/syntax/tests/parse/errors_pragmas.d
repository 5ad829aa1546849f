#define X 1
#include <x.h>
#nonsense
#pragma D
#pragma D optoin quiet
#pragma D option
#pragma D option a b
#pragma D attributes x
#pragma D binding x
#pragma D depends_on x
#line x
#error some text  
#pragma D error more
# 40 "renamed.d"
BEGIN { 0x; }
