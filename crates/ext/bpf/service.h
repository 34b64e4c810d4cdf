/*
 * Weights, clocks and charging: what a thread is due, and what it got.
 */
#ifndef SCHEDLAB_SERVICE_H
#define SCHEDLAB_SERVICE_H

#include "kernel.h"
#include "shared.h"

/* Bits of weights below the point: 1024 << 10 is nice 0. */
#define WEIGHT_ONE_SHIFT 20
#define WEIGHT_ONE (1ULL << WEIGHT_ONE_SHIFT)
/* How far the first of a queue may trail the clock, and any thread, in slices of a thread of nice 0. */
#define STRAY 2
#define CREDIT 40
/* Threads at the head of a queue that are looked at for one that may run on this CPU. */
#define LOOK 16

volatile const struct parameters parameters;
struct report report SEC(".bss");

struct queue {
	/* What all that wait in it were moved up by. */
	u64 offset;
	/* When nobody was found in it who waited too long. */
	u64 searched;
};

struct thread {
	u64 vtime;
	/* sum_exec_runtime up to which it was charged, and when it was put on a CPU. */
	u64 charged;
	u64 began;
	/* Its share in `load`. */
	u64 load;
	/* Its queue's, of which vtime has taken account. */
	u64 offset;
	/* Since when it waits. */
	u64 since;
	/* Where it waits or waited last. */
	u32 queue;
	bool placed;
};

/* A table for each number of CPUs on line, one after the other; the loader makes the map as large as it has to be. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TABLE_SIZE);
	__type(key, u32);
	__type(value, u32);
} factors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_QUEUES);
	__type(key, u32);
	__type(value, struct queue);
} queues SEC(".maps");

/* The shared queue of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, u32);
	__type(value, u32);
} domains SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Wakes the loader, which tells people: a CPU came or went, or the scheduler was taken away. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* The clock, how long slices turn out to be, and the weight of all that can run. */
static u64 now SEC(".bss.private");
static u64 stint SEC(".bss.private");
static u64 load SEC(".bss.private");

static inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static void tell(void)
{
	u32 *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (event) {
		*event = 1;
		bpf_ringbuf_submit(event, 0);
	}
}

/* ---- weights ---- */

static u64 weight_of(struct task_struct *p)
{
	u32 level = p->policy == SCHED_IDLE ? IDLE_LEVEL : (u32)(p->static_prio - 100);
	u64 base = parameters.base_weights[level & 63];
	u32 count = p->signal->nr_threads;
	u32 index, *factor;
	u64 weight;

	if (level == IDLE_LEVEL)
		return base;
	if (count > MOST_THREADS)
		count = MOST_THREADS;
	index = (report.online - 1) * TABLE_SIZE + count;
	factor = bpf_map_lookup_elem(&factors, &index);
	if (!factor)
		return base;
	weight = (base * *factor + (1ULL << (parameters.factor_shift - 1))) >> parameters.factor_shift;
	return weight < parameters.least_weight ? parameters.least_weight : weight;
}

/* CPU time in virtual time. */
static u64 scaled(u64 time, u64 weight)
{
	return (time << WEIGHT_ONE_SHIFT) / (weight ? weight : WEIGHT_ONE);
}

/* ---- clocks ---- */

static struct queue *queue_of(u32 index)
{
	return bpf_map_lookup_elem(&queues, &index);
}

static u32 domain_of(s32 cpu)
{
	u32 key = cpu, *domain = bpf_map_lookup_elem(&domains, &key);

	return domain ? *domain : 0;
}

/* The clock is where the latest slice began: a thread that runs where nobody else would is not put back for that later. */
static void reach(u64 vtime)
{
	u64 seen = now;

	/* Whoever else moved it meanwhile moved it as far, give or take a slice. */
	if (before(seen, vtime))
		__sync_val_compare_and_swap(&now, seen, vtime);
}

/*
 * Threads bound to few CPUs that are many get less than those elsewhere, and trail. Their queue is moved up with all that wait in
 * it: order in it stays, and nobody comes back with old claims. It is moved only if its first, whose key is given, trails: one that
 * is ahead of the clock stays where it is, and the clock comes to it, however little happens in its queue.
 */
static u64 follow(struct queue *queue, u64 key)
{
	u64 offset = queue->offset;
	u64 place = key + offset;
	u64 least = now - STRAY * parameters.slice;

	if (!before(place, least))
		return place;
	/* If another CPU was faster, it moved the queue for the same thread. */
	__sync_val_compare_and_swap(&queue->offset, offset, offset + least - place);
	return least;
}

/*
 * Have a queue follow before a thread of it is held to the clock: where the clock has leapt since the queue was looked at, the thread
 * alone would be moved up to it, and a second time with its queue.
 */
static void catch_up(struct queue *queue, u32 index)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, index, 0) {
		follow(queue, p->scx.dsq_vtime);
		break;
	}
}

/* Move a thread as far as its queue was moved. */
static void keep_up(struct thread *thread, struct queue *queue)
{
	u64 offset = queue->offset;

	thread->vtime += offset - thread->offset;
	thread->offset = offset;
}

/*
 * The virtual time by which a thread may be put back: what passes in the lag cap's time if all that can run share all CPUs; at
 * least two slices of nice 0.
 */
static u64 farthest(void)
{
	u64 all = load > WEIGHT_ONE ? load : WEIGHT_ONE;
	u64 distance = scaled(parameters.lag_cap, all) * report.online;

	return now + (distance < 2 * parameters.slice ? 2 * parameters.slice : distance);
}

/* Keep a thread's vtime within what the lag cap and its credit allow. */
static void bound(struct thread *thread, u64 credit)
{
	u64 least = now - credit;
	u64 most = farthest();

	if (before(thread->vtime, least))
		thread->vtime = least;
	else if (before(most, thread->vtime))
		thread->vtime = most;
}

/* ---- service ---- */

static void note(struct task_struct *p, u64 runtime, u64 switches)
{
	u32 key = p->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &key);

	if (!process) {
		struct process fresh = {};

		bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
		process = bpf_map_lookup_elem(&processes, &key);
		if (!process)
			return;
	}
	__sync_fetch_and_add(&process->runtime, runtime);
	__sync_fetch_and_add(&process->switches, switches);
	process->threads = p->signal->nr_threads;
	if (switches)
		bpf_probe_read_kernel_str(process->name, sizeof(process->name), p->group_leader->comm);
}

static void weigh_in(struct thread *thread, u64 weight)
{
	__sync_fetch_and_add(&load, weight - thread->load);
	thread->load = weight;
}

/* Charge a thread for what it ran since it was charged last. */
static void charge(struct task_struct *p, struct thread *thread, u64 weight)
{
	u64 runtime = p->se.sum_exec_runtime - thread->charged;
	struct queue *queue = queue_of(thread->queue);
	u64 all;

	thread->charged += runtime;
	thread->vtime += scaled(runtime, weight);
	note(p, runtime, 0);
	if (thread->load)
		weigh_in(thread, weight);
	if (!queue)
		return;
	catch_up(queue, thread->queue);
	keep_up(thread, queue);
	/*
	 * Threads that start, run less than a slice and end would all have the clock's vtime, and whoever is later would wait for
	 * ever. So the clock also goes with the service given; at half of its pace, as it must not outrun those that compete.
	 */
	all = load;
	__sync_fetch_and_add(&now, scaled(runtime, 2 * (all > WEIGHT_ONE ? all : WEIGHT_ONE)));
	bound(thread, CREDIT * parameters.slice);
}

/*
 * Where a thread's next slice would end. Ticks end slices, late by up to one: a slice of 5 ms is one of 8 ms at 250 ticks a second.
 * What counts is how long slices of late turned out to be, or threads of great and small weight would not be compared at the same
 * place of their slices.
 */
static u64 finish(u64 vtime, u64 weight)
{
	u64 end = vtime + scaled(stint > parameters.slice ? stint : parameters.slice, weight);
	u64 most = farthest();

	/* A slice of a thread of tiny weight is long in virtual time: it would wait for all of that. */
	return before(most, end) ? most : end;
}

/* A thread has used its slice up. */
static void learn(struct task_struct *p, struct thread *thread)
{
	u64 ran = p->se.sum_exec_runtime - thread->began;

	if (ran > 8 * parameters.slice)
		ran = 8 * parameters.slice;
	stint += ((s64)(ran - stint)) >> 4;
	thread->began = p->se.sum_exec_runtime;
}

/* Give a thread its place in the virtual time of a queue: a new one starts at the clock, one that slept has a slice of credit. */
static struct queue *place(struct thread *thread, u32 index, bool woken, u64 weight)
{
	struct queue *queue = queue_of(index), *last = queue_of(thread->queue);
	u64 credit = CREDIT * parameters.slice;

	if (!queue || !last)
		return NULL;
	if (thread->placed)
		keep_up(thread, last);
	else
		thread->vtime = now;
	thread->placed = true;
	thread->offset = queue->offset;
	if (woken) {
		u64 slice = scaled(parameters.slice, weight);

		if (slice < credit)
			credit = slice;
	}
	bound(thread, credit);
	thread->queue = index;
	return queue;
}

#endif
