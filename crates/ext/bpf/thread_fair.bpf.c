/*
 * A sched_ext scheduler that shares CPUs by weight, each thread's weight scaled by a factor of the number of its process's threads.
 *
 * Virtual time: a thread's vtime advances by its CPU time x 1024 / weight. Threads wait in queues in the order of the vtime at
 * which their next slice would end, as in weighted fair queueing: with the order of slices' beginnings a thread of weight 1/32,
 * whose slice is 32 times as long in virtual time, would come too early by as much.
 *
 * Queues: one a cache domain, for threads that may run anywhere there, and one a CPU for those that may run nowhere else. All
 * queues share one clock, the latest beginning of a slice. A CPU takes from its own two whichever is earlier, and from another
 * domain's if that is earlier by more than STRAY slices. If the first of a queue trails the clock by more than STRAY slices (its
 * threads may run on few CPUs and are many), all that wait in it are moved up. Whoever waits for too long, as the clock goes little
 * for all that comes and goes before it, is taken out of turn.
 *
 * What is said of weights stands in src/weights.rs, which fills the tables with the code of crates/sched.
 */
#include "kernel.h"
#include "service.h"
#include "shared.h"

char LICENSE[] SEC("license") = "GPL";

/* ---- the kernel's functions, in whichever form it has them ---- */

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

/* Whether a thread can be taken from the midst of a queue (6.13 on). */
static bool can_move(void)
{
	return bpf_ksym_exists(scx_bpf_dsq_move);
}

static bool move_here(struct bpf_iter_scx_dsq *place, struct task_struct *p)
{
	return bpf_ksym_exists(scx_bpf_dsq_move) && scx_bpf_dsq_move(place, p, SCX_DSQ_LOCAL, 0);
}

static bool take_from(u32 queue)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___compat))
		return scx_bpf_dsq_move_to_local___v2___compat(queue, 0);
	return scx_bpf_dsq_move_to_local___v1(queue);
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
	thread->since = bpf_ktime_get_ns();
	wait_in(p, index, finish(thread->vtime, weight) - thread->offset, enq_flags);
	if (!bound_here)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
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
		key = follow(queue, p->scx.dsq_vtime) + margin;
		if (!choice->any || before(key, choice->key)) {
			choice->key = key;
			choice->queue = index;
			choice->any = true;
		}
		break;
	}
}

/*
 * Run whoever has waited in a queue for longer than is borne. By weights alone a thread of tiny weight may wait for as long as the
 * others that come keep the clock from reaching it.
 */
static bool relieve(u32 index, s32 cpu)
{
	struct queue *queue = queue_of(index);
	u64 time = bpf_ktime_get_ns();
	struct task_struct *p;

	if (!queue || !can_move() || time - queue->searched < parameters.patience / 8)
		return false;
	bpf_for_each(scx_dsq, p, index, 0) {
		struct thread *thread;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		thread = bpf_task_storage_get(&threads, p, 0, 0);
		if (!thread || (s64)(time - thread->since) < (s64)parameters.patience)
			continue;
		if (move_here(BPF_FOR_EACH_ITER, p)) {
			__sync_fetch_and_add(&report.reliefs, 1);
			return true;
		}
	}
	queue->searched = time;
	return false;
}

SEC("struct_ops/dispatch")
void dispatch(u64 *ctx)
{
	s32 cpu = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	u32 domain = domain_of(cpu);
	struct choice choice = {};
	s32 other;

	if (relieve(FIRST_OWN + cpu, cpu) || relieve(domain, cpu))
		return;
	consider(&choice, FIRST_OWN + cpu, cpu, 0);
	consider(&choice, domain, cpu, 0);
	bpf_for(other, 0, parameters.shared_queues) {
		if (other != domain)
			consider(&choice, other, cpu, STRAY * parameters.slice);
	}
	/* Whoever ran is in no queue: it is charged and compared here, or it would wait for one that is later. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		struct thread *thread = bpf_task_storage_get(&threads, prev, 0, 0);

		struct queue *queue = thread ? queue_of(thread->queue) : NULL;

		if (queue) {
			u64 weight = weight_of(prev);

			charge(prev, thread, weight);
			learn(prev, thread);
			if (!choice.any || !before(choice.key, finish(thread->vtime, weight))) {
				reach(thread->vtime);
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
	thread->began = thread->charged;
	queue = queue_of(thread->queue);
	if (queue) {
		keep_up(thread, queue);
		reach(thread->vtime);
	}
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
