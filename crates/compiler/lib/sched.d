/*
 * CPUs: `cpuinfo_t`, `curcpu` and the variables that are its members. A CPU is told by its number. Which package and which memory
 * node it belongs to is asked of the system when the program is compiled.
 */

typedef struct cpuinfo_t {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;

translator cpuinfo_t < int C > {
	cpu_id = C;
	/* Linux has no processor sets: every CPU is in the one set that there is. */
	cpu_pset = 0;
	cpu_chip = _cpu_chip(C);
	cpu_lgrp = _cpu_node(C);
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> ((int)cpu);
inline psetid_t pset = 0;
inline chipid_t chip = curcpu->cpu_chip;
inline lgrp_id_t lgrp = curcpu->cpu_lgrp;
