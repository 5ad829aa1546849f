// The loads that are traced. Prints "ns N": nanoseconds for each iteration, of the best of many short rounds, because others use
// the machine too and some rounds fit between them.
// usage: work LOAD ITERATIONS-OF-A-ROUND ROUNDS
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) long target(long x) {
  __asm__ volatile("" : "+r"(x));
  return x;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *what = argv[1];
  long n = atol(argv[2]), rounds = atol(argv[3]), sum = 0;
  int zero = open("/dev/zero", O_RDONLY);
  char byte;
  double best = 1e18;
  prctl(PR_SET_NAME, "work");
  for (long round = 0; round < rounds; round++) {
    double from = now();
    if (!strcmp(what, "getppid"))
      for (long i = 0; i < n; i++) syscall(SYS_getppid);
    else if (!strcmp(what, "read"))
      for (long i = 0; i < n; i++) sum += read(zero, &byte, 1);
    else
      for (long i = 0; i < n; i++) sum += target(i);
    double each = (now() - from) / n;
    if (each < best) best = each;
  }
  fprintf(stderr, "ns %.2f\n", best);
  return sum == 42;
}
