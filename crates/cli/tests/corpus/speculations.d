/* A speculation is printed when it is committed, and never when it is discarded. */
#pragma D option nspec=2
BEGIN { this->a = speculation(); this->b = speculation(); a = this->a; b = this->b; printf("%d %d\n", a, b); }
BEGIN { speculate(a); printf("kept %d\n", 1); }
BEGIN { speculate(b); printf("never\n"); }
BEGIN { printf("before\n"); }
BEGIN { commit(a); }
BEGIN { discard(b); }
BEGIN { printf("after\n"); }
END { printf("end\n"); }
BEGIN { exit(0); }
