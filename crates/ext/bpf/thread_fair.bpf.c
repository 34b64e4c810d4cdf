/*
 * A sched_ext scheduler that shares CPUs by weight, each thread's weight scaled by a factor of the number of its process's threads.
 *
 * Virtual time: a thread's vtime advances by its CPU time x 1024 / weight. Threads wait in queues in the order of the vtime at
 * which their next slice would end, as in weighted fair queueing: with the order of slices' beginnings a thread of weight 1/32,
 * whose slice is 32 times as long in virtual time, would come too early by as much.
 *
 * Queues: one a cache domain, for threads that may run anywhere there, and one a CPU for those that may run nowhere else. All
 * queues share one scale of virtual time. A CPU takes from its own two whichever is earlier, and from another domain's if that is
 * earlier by more than STRAY slices. The clock of a queue is the latest beginning of a slice given from it; if one trails the
 * foremost by more than STRAY slices (its threads may run on few CPUs and are many), it and all that wait in it are moved up.
 *
 * What is said of weights stands in src/weights.rs, which fills the tables with the code of crates/sched.
 */
#include "kernel.h"
#include "shared.h"

char LICENSE[] SEC("license") = "GPL";

/* Bits of weights below the point: 1024 << 10 is nice 0. */
#define WEIGHT_ONE_SHIFT 20
#define WEIGHT_ONE (1ULL << WEIGHT_ONE_SHIFT)
/* How far queues may be apart, and a thread behind its queue's clock, in slices of a thread of nice 0. */
#define STRAY 2
#define CREDIT 20
/* Threads at the head of a queue that are looked at for one that may run on this CPU. */
#define LOOK 16
/* Over this time the rate of a clock is measured, in nanoseconds. */
#define RATE_SPAN 1000000000ULL

volatile const struct parameters parameters;
struct control control SEC(".data");
struct report report SEC(".bss");

struct queue {
	u64 clock;
	/* Added to the keys of those that wait here gives the common scale. */
	u64 offset;
	/* Virtual time that passes in a second of real time, and since when it is measured. */
	u64 rate;
	u64 since;
	u64 clock_then;
};

struct thread {
	u64 vtime;
	/* sum_exec_runtime up to which it was charged. */
	u64 charged;
	/* Its share in `load`. */
	u64 load;
	/* Of its queue, when it began to wait. */
	u64 offset;
	/* Where it waits or waited last, and whether it still does. */
	u32 queue;
	bool waits;
	bool placed;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * TABLE_SIZE);
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

/* Wakes the loader: a CPU came or went, or the scheduler was taken away. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* The foremost clock, and the weight of all that can run. */
static u64 front SEC(".bss.private");
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
	index = (control.table & 1) * TABLE_SIZE + count;
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

/* Move a queue up that trails the foremost by too much. */
static void follow(struct queue *queue)
{
	u64 latest = front - STRAY * parameters.slice;

	if (before(queue->clock, latest)) {
		u64 step = latest - queue->clock;

		queue->offset += step;
		queue->clock += step;
		queue->clock_then += step;
	}
}

static void advance(struct queue *queue, u64 vtime)
{
	u64 now, span;

	if (!before(queue->clock, vtime))
		return;
	queue->clock = vtime;
	if (before(front, vtime))
		front = vtime;
	now = bpf_ktime_get_ns();
	span = now - queue->since;
	if (span >= RATE_SPAN) {
		u64 passed = vtime - queue->clock_then;

		/* In a long pause the product could leave 64 bits. */
		if (queue->since && span < 16 * RATE_SPAN && passed < 256 * RATE_SPAN)
			queue->rate = passed * (RATE_SPAN >> 10) / (span >> 10);
		queue->since = now;
		queue->clock_then = vtime;
	}
}

/* Keep a thread's vtime within what the lag caps allow. */
static void bound(struct thread *thread, struct queue *queue, u64 credit)
{
	u64 least = queue->clock - credit;
	u64 distance, most;

	/* What passes in the lag cap's time; at least two slices of nice 0. */
	distance = (queue->rate >> 10) * (parameters.lag_cap >> 10) / (RATE_SPAN >> 20);
	if (distance < 2 * parameters.slice)
		distance = 2 * parameters.slice;
	most = queue->clock + distance;
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

		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), p->group_leader->comm);
		bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
		process = bpf_map_lookup_elem(&processes, &key);
		if (!process)
			return;
	}
	__sync_fetch_and_add(&process->runtime, runtime);
	__sync_fetch_and_add(&process->switches, switches);
	process->threads = p->signal->nr_threads;
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
	/*
	 * Threads that start, run less than a slice and end would all have the clock's vtime, and whoever is later would wait for
	 * ever. So the clock also goes with the service given; at half of its pace, as it must not outrun those that compete.
	 */
	all = load;
	advance(queue, queue->clock + scaled(runtime, 2 * (all > WEIGHT_ONE ? all : WEIGHT_ONE)));
	bound(thread, queue, CREDIT * parameters.slice);
}

static void set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

static void run_here(struct task_struct *p)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___compat))
		scx_bpf_dsq_insert___v2___compat(p, SCX_DSQ_LOCAL, parameters.slice, 0);
	else
		scx_bpf_dsq_insert___v1(p, SCX_DSQ_LOCAL, parameters.slice, 0);
}

static void wait_in(struct task_struct *p, u32 queue, u64 key, u64 enq_flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = queue,
			.slice = parameters.slice,
			.vtime = key,
			.enq_flags = enq_flags,
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
	} else {
		scx_bpf_dsq_insert_vtime(p, queue, parameters.slice, key, enq_flags);
	}
}

static bool take_from(u32 queue)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___compat))
		return scx_bpf_dsq_move_to_local___v2___compat(queue, 0);
	return scx_bpf_dsq_move_to_local___v1(queue);
}

/* Give a thread its place in the virtual time of a queue: a new one starts at the clock, one that slept has a slice of credit. */
static struct queue *place(struct thread *thread, u32 index, bool woken, u64 weight)
{
	struct queue *queue = queue_of(index);
	u64 credit = CREDIT * parameters.slice;

	if (!queue)
		return NULL;
	follow(queue);
	if (!thread->placed) {
		thread->vtime = queue->clock;
		thread->placed = true;
	}
	if (woken) {
		u64 slice = scaled(parameters.slice, weight);

		if (slice < credit)
			credit = slice;
	}
	bound(thread, queue, credit);
	thread->queue = index;
	return queue;
}

/* ---- operations ---- */

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 prev_cpu = ctx[1];
	u64 wake_flags = ctx[2];
	struct thread *thread;
	bool idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

	if (idle && cpu >= 0) {
		thread = bpf_task_storage_get(&threads, p, 0, 0);
		if (thread) {
			place(thread, domain_of(cpu), true, weight_of(p));
			run_here(p);
		}
	}
	return cpu;
}

SEC("struct_ops/enqueue")
void enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 enq_flags = ctx[1];
	bool woken = enq_flags & SCX_ENQ_WAKEUP;
	s32 cpu = scx_bpf_task_cpu(p);
	bool bound_here = p->nr_cpus_allowed == 1;
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct queue *queue;
	u64 weight;
	u32 index;

	if (!thread) {
		run_here(p);
		return;
	}
	weight = weight_of(p);
	index = bound_here ? FIRST_OWN + cpu : domain_of(cpu);
	queue = place(thread, index, woken, weight);
	/* A CPU's own kernel threads serve everybody and run at once; if they run long, their next slices are as anyone's. */
	if (!queue || (bound_here && woken && (p->flags & PF_KTHREAD))) {
		run_here(p);
		return;
	}
	thread->waits = true;
	thread->offset = queue->offset;
	wait_in(p, index, thread->vtime + scaled(parameters.slice, weight) - thread->offset, enq_flags);
	if (!bound_here) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

struct choice {
	u64 key;
	u32 queue;
	bool any;
};

/* Whether the first in a queue that may run on a CPU is earlier than the choice so far, by more than a margin. */
static void consider(struct choice *choice, u32 index, s32 cpu, u64 margin)
{
	struct queue *queue;
	struct task_struct *p;
	u32 looked = 0;

	if (scx_bpf_dsq_nr_queued(index) <= 0)
		return;
	queue = queue_of(index);
	if (!queue)
		return;
	bpf_for_each(scx_dsq, p, index, 0) {
		u64 key;

		if (++looked > LOOK)
			break;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		key = p->scx.dsq_vtime + queue->offset + margin;
		if (!choice->any || before(key, choice->key)) {
			choice->key = key;
			choice->queue = index;
			choice->any = true;
		}
		break;
	}
}

SEC("struct_ops/dispatch")
void dispatch(u64 *ctx)
{
	s32 cpu = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	u32 domain = domain_of(cpu);
	struct choice choice = {};
	s32 other;

	consider(&choice, FIRST_OWN + cpu, cpu, 0);
	consider(&choice, domain, cpu, 0);
	bpf_for(other, 0, parameters.shared_queues) {
		if (other != domain)
			consider(&choice, other, cpu, STRAY * parameters.slice);
	}
	/* Whoever ran is in no queue: it is charged and compared here, or it would wait for one that is later. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		struct thread *thread = bpf_task_storage_get(&threads, prev, 0, 0);

		if (thread) {
			u64 weight = weight_of(prev);

			charge(prev, thread, weight);
			if (!choice.any || !before(choice.key, thread->vtime + scaled(parameters.slice, weight))) {
				__sync_fetch_and_add(&report.keeps, 1);
				set_slice(prev, parameters.slice);
				return;
			}
		}
	}
	if (choice.any && take_from(choice.queue)) {
		if (choice.queue != domain && choice.queue < FIRST_OWN)
			__sync_fetch_and_add(&report.steals, 1);
		return;
	}
	/* Another CPU was faster, or nobody among the first few may run here. */
	if (take_from(FIRST_OWN + cpu) || take_from(domain))
		return;
	bpf_for(other, 0, parameters.shared_queues) {
		if (other != domain && scx_bpf_dsq_nr_queued(other) > 0 && take_from(other))
			break;
	}
}

SEC("struct_ops/runnable")
void runnable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);

	if (thread)
		weigh_in(thread, weight_of(p));
}

SEC("struct_ops/running")
void running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct queue *queue;

	note(p, 0, 1);
	if (!thread)
		return;
	thread->charged = p->se.sum_exec_runtime;
	queue = queue_of(thread->queue);
	if (thread->waits && queue) {
		thread->vtime += queue->offset - thread->offset;
		advance(queue, thread->vtime);
	}
	thread->waits = false;
}

SEC("struct_ops/stopping")
void stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);

	if (thread)
		charge(p, thread, weight_of(p));
}

SEC("struct_ops/quiescent")
void quiescent(u64 *ctx)
{
	struct thread *thread = bpf_task_storage_get(&threads, (struct task_struct *)ctx[0], 0, 0);

	if (thread)
		weigh_in(thread, 0);
}

/* sched_yield(2): as if the slice were used up. */
SEC("struct_ops/yield")
bool yield(u64 *ctx)
{
	struct task_struct *from = (void *)ctx[0];
	struct thread *thread;

	if (ctx[1])
		return false;
	thread = bpf_task_storage_get(&threads, from, 0, 0);
	if (thread)
		thread->vtime += scaled(parameters.slice, weight_of(from));
	set_slice(from, 0);
	return false;
}

SEC("struct_ops.s/init_task")
s32 init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return thread ? 0 : -12; /* ENOMEM */
}

/* It comes to us, new or from another class: what it ran elsewhere is not counted. */
SEC("struct_ops/enable")
void enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);

	if (thread) {
		thread->placed = false;
		thread->charged = p->se.sum_exec_runtime;
	}
}

static void count_online(s32 cpu, bool up)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 count = bpf_cpumask_weight(online);

	/* The mask is changed before CPU n's coming is told, and after its going is. */
	if (cpu >= 0 && bpf_cpumask_test_cpu(cpu, online) != up)
		count += up ? 1 : -1;
	scx_bpf_put_cpumask(online);
	report.online = count;
}

SEC("struct_ops/cpu_online")
void cpu_online(u64 *ctx)
{
	count_online(ctx[0], true);
	__sync_fetch_and_add(&report.hotplugs, 1);
	tell();
}

SEC("struct_ops/cpu_offline")
void cpu_offline(u64 *ctx)
{
	count_online(ctx[0], false);
	__sync_fetch_and_add(&report.hotplugs, 1);
	tell();
}

SEC("struct_ops.s/init")
s32 init(void *ctx)
{
	s32 cpu, queue;

	bpf_for(queue, 0, parameters.shared_queues) {
		s32 error = scx_bpf_create_dsq(queue, -1);

		if (error)
			return error;
	}
	bpf_for(cpu, 0, parameters.cpus) {
		s32 error = scx_bpf_create_dsq(FIRST_OWN + cpu, -1);

		if (error)
			return error;
	}
	count_online(-1, true);
	return 0;
}

SEC("struct_ops/exit")
void leave(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];

	bpf_probe_read_kernel_str(report.exit_reason, sizeof(report.exit_reason), info->reason);
	bpf_probe_read_kernel_str(report.exit_message, sizeof(report.exit_message), info->msg);
	report.exit_code = info->exit_code;
	report.exit_kind = info->kind;
	tell();
}

SEC(".struct_ops.link")
struct sched_ext_ops thread_fair = {
	.timeout_ms = 30000,
	.name = "schedlab",
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.runnable = (void *)runnable,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.quiescent = (void *)quiescent,
	.yield = (void *)yield,
	.init_task = (void *)init_task,
	.enable = (void *)enable,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	.exit = (void *)leave,
};
