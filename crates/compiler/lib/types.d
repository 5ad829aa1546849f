/* Names of types that DTrace's programs take for granted and Linux's headers do not have, or not everywhere. */

typedef int boolean_t;
typedef char *caddr_t;
typedef id_t cpuid_t;
typedef id_t lwpid_t;
typedef id_t poolid_t;
typedef int64_t daddr_t;
typedef uint64_t ino_t;
typedef uint32_t nlink_t;
typedef uint16_t in_port_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
typedef unsigned char u_char;
typedef unsigned char unchar;
typedef unsigned short u_short;
typedef unsigned int u_int;
typedef unsigned long u_long;
typedef struct task_struct kthread_t;
