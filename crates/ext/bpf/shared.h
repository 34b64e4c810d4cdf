/* What the scheduler and its loader have in common; src/shared.rs mirrors it. */
#ifndef SCHEDLAB_SHARED_H
#define SCHEDLAB_SHARED_H

/* Threads that a table of factors tells apart; a process with more has the last entry's factor. */
#define MOST_THREADS 4095U
#define TABLE_SIZE (MOST_THREADS + 1)

/* CPUs, and so shared queues at the most. Queue FIRST_OWN + n is CPU n's own. */
#define MOST_CPUS 1024U
#define FIRST_OWN MOST_CPUS
#define MOST_QUEUES (2 * MOST_CPUS)

/* 40 nice levels, and SCHED_IDLE. */
#define IDLE_LEVEL 40U

/* Fixed before loading (.rodata). Times are in nanoseconds, weights have the kernel's ten extra bits. */
struct parameters {
	u64 slice;
	u64 lag_cap;
	/* After how long a thread is taken out of turn. */
	u64 patience;
	u64 base_weights[64];
	u64 least_weight;
	u32 factor_shift;
	u32 shared_queues;
	u32 cpus;
	u32 unused;
};

/* Written by the scheduler (.bss). */
struct report {
	u64 hotplugs;
	u64 steals;
	u64 keeps;
	u64 reliefs;
	s64 exit_code;
	u32 online;
	s32 exit_kind;
	char exit_reason[128];
	char exit_message[512];
};

/* One of `processes`, by process id. */
struct process {
	u64 runtime;
	u64 switches;
	u32 threads;
	char name[16];
};

#endif
