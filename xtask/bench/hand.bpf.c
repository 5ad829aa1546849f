// What a person would write by hand for the three questions of `cargo xtask bench`.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

typedef struct { char comm[16]; } comm_key;

struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 4096); __type(key, comm_key); __type(value, __u64); } counts SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 65536); __type(key, __u32); __type(value, __u64); } start SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 64); __type(key, __u32); __type(value, __u64); } buckets SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } calls SEC(".maps");

// 1. syscall:::entry { @[execname] = count(); }
SEC("raw_tp/sys_enter") int count_execname(struct bpf_raw_tracepoint_args *ctx) {
  comm_key key;
  __u64 one = 1, *value;
  bpf_get_current_comm(&key, sizeof key);
  value = bpf_map_lookup_elem(&counts, &key);
  if (value)
    __sync_fetch_and_add(value, 1);
  else
    bpf_map_update_elem(&counts, &key, &one, BPF_ANY);
  return 0;
}

// 2. syscall::read:entry { self->t = timestamp; } syscall::read:return /self->t/ { @ = quantize(timestamp - self->t); self->t = 0; }
SEC("raw_tp/sys_enter") int read_enter(struct bpf_raw_tracepoint_args *ctx) {
  if (ctx->args[1] != 0) return 0;
  __u32 tid = bpf_get_current_pid_tgid();
  __u64 now = bpf_ktime_get_ns();
  bpf_map_update_elem(&start, &tid, &now, BPF_ANY);
  return 0;
}

static __always_inline __u32 log2_u64(__u64 v) {
  __u32 r = 0;
  if (v >> 32) { v >>= 32; r += 32; }
  if (v >> 16) { v >>= 16; r += 16; }
  if (v >> 8) { v >>= 8; r += 8; }
  if (v >> 4) { v >>= 4; r += 4; }
  if (v >> 2) { v >>= 2; r += 2; }
  if (v >> 1) r += 1;
  return r;
}

struct regs { unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax; };

SEC("raw_tp/sys_exit") int read_exit(struct bpf_raw_tracepoint_args *ctx) {
  unsigned long number = 0;
  bpf_probe_read_kernel(&number, 8, &((struct regs *)ctx->args[0])->orig_ax);
  if (number != 0) return 0;
  __u32 tid = bpf_get_current_pid_tgid();
  __u64 *then = bpf_map_lookup_elem(&start, &tid);
  if (!then) return 0;
  __u64 delta = bpf_ktime_get_ns() - *then;
  __u32 slot = log2_u64(delta) & 63;
  __u64 *bucket = bpf_map_lookup_elem(&buckets, &slot);
  if (bucket) __sync_fetch_and_add(bucket, 1);
  bpf_map_delete_elem(&start, &tid);
  return 0;
}

// 3. uprobe:./work:target:entry { @ = count(); }
SEC("uprobe.multi") int count_calls(void *ctx) {
  __u32 zero = 0;
  __u64 *value = bpf_map_lookup_elem(&calls, &zero);
  if (value) __sync_fetch_and_add(value, 1);
  return 0;
}
