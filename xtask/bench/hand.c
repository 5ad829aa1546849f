// Loads hand.bpf.o with libbpf, attaches the programs of one question, runs a command, prints what BPF's statistics say.
// usage: hand OBJECT QUESTION PATH-OF-UPROBE-TARGET COMMAND ARGS…
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  const char *question = argv[2];
  struct bpf_object *obj = bpf_object__open(argv[1]);
  if (!obj) return 1;
  struct bpf_program *p;
  bpf_object__for_each_program(p, obj) {
    const char *name = bpf_program__name(p);
    int want = !strcmp(question, "count") ? !strcmp(name, "count_execname")
             : !strcmp(question, "read")  ? !strncmp(name, "read_", 5)
                                          : !strcmp(name, "count_calls");
    bpf_program__set_autoload(p, want);
    if (!strcmp(name, "count_calls")) bpf_program__set_type(p, BPF_PROG_TYPE_KPROBE);
  }
  if (bpf_object__load(obj)) return 1;
  bpf_object__for_each_program(p, obj) {
    if (bpf_program__fd(p) < 0) continue;
    struct bpf_link *link;
    if (!strcmp(bpf_program__name(p), "count_calls")) {
#ifdef HAVE_UPROBE_MULTI
      LIBBPF_OPTS(bpf_uprobe_multi_opts, o);
      link = bpf_program__attach_uprobe_multi(p, -1, argv[3], "target", &o);
#else
      LIBBPF_OPTS(bpf_uprobe_opts, o, .func_name = "target");
      link = bpf_program__attach_uprobe_opts(p, -1, argv[3], 0, &o);
#endif
    } else
      link = bpf_program__attach(p);
    if (!link) return 1;
  }
  pid_t child = fork();
  if (!child) { execvp(argv[4], argv + 4); _exit(127); }
  int status;
  waitpid(child, &status, 0);
  return 0;
}
