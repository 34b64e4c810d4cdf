//! What a driver needs that follows a recording of several CPUs: the state to start from, and the parts of wake-ups and of balancing
//! that lie apart in time there.

use schedlab_model::{CpuId, TaskId, TaskState};

use crate::balance::domains::DomainFlags;
use crate::balance::env::Idle;
use crate::balance::state::Wakes;
use crate::class::{Class, DequeueFlags};
use crate::decider::Decider;
use crate::entity::{CfsRqId, Life, Vruntime};
use crate::fair::pelt::SchedAvg;
use crate::fair::pelt::util_est::UtilEst;
use crate::machine::Sched;

/// Which tasks a task had woken, and where it had run, when the recording began.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// `wakee_flips`.
    pub flips: u32,
    /// `wakee_flip_decay_ts`, in ticks of the CPUs' clocks.
    pub decayed: u64,
    /// `last_wakee`, if it is known.
    pub last: Option<TaskId>,
    /// `recent_used_cpu`.
    pub recent: CpuId,
}

/// How a domain was balanced when the recording began.
#[derive(Debug, Clone, Copy)]
pub struct DomainPast {
    /// `last_balance`, in ticks from `INITIAL_JIFFIES` on.
    pub last_balance: u64,
    /// `balance_interval`, in milliseconds.
    pub interval: u64,
    /// `nr_balance_failed`.
    pub failed: u32,
    /// `max_newidle_lb_cost`, in nanoseconds.
    pub cost: u64,
}

impl<D: Decider> Sched<D> {
    /// From now on the recording says what is balanced, and when ([`Sched::set_topology`] comes first): only the driver moves tasks and
    /// updates averages.
    pub fn follow_balancing(&mut self) {
        self.balance.recorded = true;
    }

    /// The first part of a wake-up on another CPU, `set_task_cpu`: [`Sched::activate_waking`] follows, there.
    pub fn migrate_waking(&mut self, task: TaskId, to: CpuId) {
        self.set_task_cpu(task, to);
    }

    /// [`Sched::migrate_waking`] except for the task's virtual time ([`Sched::leave_virtual_time`]), where the recording has the time to
    /// which its averages are updated: `updated`, the old queue's as the waker read it (another CPU may be updating that queue), and then
    /// `lag` if the waker saw the old CPU idle (`migrate_se_pelt_lag`).
    pub fn migrate_load(&mut self, task: TaskId, to: CpuId, updated: u64, lag: Option<u64>) {
        let se = self.task(task).se;
        self.remove_load_at(se, updated, lag);
        self.tasks[task.index()].cpu = to;
        self.set_task_rq(task, to);
    }

    /// A task that is about to wake elsewhere counts its virtual time from what it read of its old queue's (`migrate_task_rq_fair`; CFS).
    pub fn leave_virtual_time(&mut self, task: TaskId, least: Vruntime) {
        if !self.rules.eevdf {
            let entity = self.entity_mut(task);
            entity.vruntime = entity.vruntime.minus(least.0);
        }
    }

    /// What a queue's `min_vruntime` comes to once what runs there is charged up to `now` of the task clock, in nanoseconds (CFS).
    pub fn least_once_charged(&self, queue: CfsRqId, now: u64) -> Vruntime {
        let mut queue = self.cfs_rqs[queue.index()].clone();
        if let Some(mut running) = queue.level_curr().map(|running| self.entities[running.index()].clone())
            && let Some(charge) = running.charge_until(now, &self.rules)
        {
            let counts = running.on_rq || !self.rules.min_vruntime_of_queued;
            queue.update_min_vruntime(counts.then_some(charge.vruntime));
        }
        queue.min_vruntime
    }

    /// [`Sched::task_dead`] where it read that its queue's averages are of the time `updated`.
    pub fn task_dead_at(&mut self, task: TaskId, updated: u64) {
        if task != TaskId::IDLE && self.task(task).class == Class::Fair {
            let se = self.task(task).se;
            self.remove_load_at(se, updated, None);
        }
    }

    /// The second part of a wake-up, `ttwu_do_activate`, on the CPU that was chosen (`sched_ttwu_pending` where that is remote). False, and
    /// nothing done, if the task is not asleep.
    pub fn activate_waking(&mut self, task: TaskId, migrated: bool) -> bool {
        let record = &mut self.tasks[task.index()];
        if record.life != Life::Asleep {
            return false;
        }
        record.life = Life::Runnable;
        let cpu = record.cpu;
        self.ttwu_do_activate(task, cpu, migrated);
        true
    }

    /// `__schedule` up to where a CPU without waiting tasks searches others for work: the previous task is blocked in `state`, and the
    /// queue still charges it until [`Sched::schedule`] ends. Returns the task that is picked all the same; [`TaskId::IDLE`] if none is.
    pub fn schedule_until_search(&mut self, cpu: CpuId, state: TaskState) -> TaskId {
        let previous = self.rqs[cpu.index()].curr;
        self.block_task(cpu, previous, state);
        self.search_on(cpu)
    }

    /// The pick after a CPU that searches for work has found some. Returns the task that is picked; if there is none, the search goes on.
    pub fn search_on(&mut self, cpu: CpuId) -> TaskId {
        let next = self.pick_next_task(cpu);
        if next == TaskId::IDLE {
            self.sched_balance_newidle(cpu);
        }
        next
    }

    /// `sched_balance_update_blocked_averages` of one CPU, at its clock.
    pub fn update_blocked_load(&mut self, cpu: CpuId) {
        self.sched_balance_update_blocked_averages(cpu);
    }

    /// `sched_balance_domains` where the recording says that the CPU may balance, if it is time (`next_balance`): each domain that is due
    /// balances, the decider gets the task that it would take ([`Decider::pull`]), and its answer decides the rest. `idle`: the CPU was
    /// idle at its tick.
    pub fn rebalance(&mut self, cpu: CpuId, idle: bool) {
        let due = self.balance_of(cpu).is_some_and(|state| self.jiffies(cpu) >= state.next_balance);
        if due {
            self.sched_balance_domains(cpu, if idle { Idle::Idle } else { Idle::Busy });
        }
    }

    /// When a CPU may balance next, in ticks, and how its domains were balanced until now, the smallest first.
    pub fn balancing_of(&self, cpu: CpuId) -> (u64, Vec<DomainPast>) {
        let domains = self.domains(cpu).iter().map(|domain| DomainPast {
            last_balance: domain.last_balance,
            interval: domain.balance_interval,
            failed: domain.nr_balance_failed,
            cost: domain.max_newidle_lb_cost,
        });
        (self.balance_of(cpu).map_or(0, |state| state.next_balance), domains.collect())
    }

    /// When a CPU may balance next, in ticks.
    pub fn assume_next_balance(&mut self, cpu: CpuId, next: u64) {
        if let Some(state) = self.balance_of_mut(cpu) {
            state.next_balance = next;
        }
    }

    /// The stopper of `cpu` is to push a task to `target`.
    pub fn assume_push(&mut self, cpu: CpuId, target: CpuId) {
        if let Some(state) = self.balance_of_mut(cpu) {
            state.push_cpu = Some(target);
        }
    }

    /// The CPU to which our rules had the stopper of `cpu` push a task since this was last asked (`push_cpu`).
    pub fn take_push(&mut self, cpu: CpuId) -> Option<CpuId> {
        self.balance_of_mut(cpu).and_then(|state| state.push_cpu.take())
    }

    /// `active_load_balance_cpu_stop` where the recording has the pushed task: the task that our rules would push from `cpu` to `target`
    /// (`detach_one_task`).
    pub fn active_load_balance_task(&mut self, cpu: CpuId, target: CpuId) -> Option<TaskId> {
        let (level, task) = self.next_to_push(cpu, target)?;
        self.balance.domains.cpus[target.index()].levels[level].nr_balance_failed = 0;
        Some(task)
    }

    /// `sched_balance_newidle` from where it brought the averages up to date on: who would be taken is asked of each domain in turn
    /// ([`Decider::pull`]).
    pub fn search_for_work(&mut self, cpu: CpuId) {
        let was_idle = self.rqs[cpu.index()].curr == TaskId::IDLE;
        let levels = self.balance.domains.cpus.get(cpu.index()).map_or(0, |place| place.levels.len());
        for level in 0..levels {
            let domain = &self.balance.domains.cpus[cpu.index()].levels[level];
            let flags = domain.shape.flags;
            let mut next = self.rqs[cpu.index()].balance.next_balance;
            self.update_next_balance(cpu, level, &mut next);
            self.rqs[cpu.index()].balance.next_balance = next;
            if flags.has(DomainFlags::BALANCE_NEWIDLE) {
                let (moved, goes_on) = self.sched_balance_rq(cpu, level, Idle::NewlyIdle, was_idle);
                if moved > 0 || !goes_on {
                    return;
                }
            }
        }
    }

    /// A wake-up is on its way to the CPU (`ttwu_pending`), or it looks for work before it idles: it is not idle.
    pub fn assume_not_idle(&mut self, cpu: CpuId) {
        self.idle_cpus.remove(cpu.index());
    }

    /// Takes a queued task that does not run off its queue, as if it slept: it is throttled by what the driver does not follow, or comes
    /// back in another state. It leaves at once, also where EEVDF would delay its dequeue.
    pub fn put_aside(&mut self, task: TaskId) {
        let cpu = self.task_cpu(task);
        let delayed = self.entity(task).sched_delayed;
        let leaves = if delayed { DequeueFlags::DELAYED } else { DequeueFlags::SPECIAL };
        self.deactivate_task(cpu, task, DequeueFlags::SLEEP.and(DequeueFlags::NOCLOCK).and(leaves));
        self.tasks[task.index()].life = Life::Asleep;
    }

    /// Newly idle balancing found work after all: there was no idle time (`idle_stamp`).
    pub fn assume_work_found(&mut self, cpu: CpuId) {
        if let Some(state) = self.balance_of_mut(cpu) {
            state.idle_stamp = None;
        }
    }

    /// The averages of a task.
    pub fn assume_load(&mut self, task: TaskId, avg: SchedAvg) {
        let se = self.task(task).se;
        self.set_entity_load(se, avg);
    }

    /// The averages of a CPU's root queue, and what is about to be taken out of them: tasks, their load, utilisation and runnable time.
    pub fn assume_queue_load(&mut self, cpu: CpuId, avg: SchedAvg, removed: (u32, u64, u64, u64)) {
        let cfs = self.rqs[cpu.index()].cfs;
        self.set_queue_load(cfs, avg, removed);
    }

    /// What is about to be taken out of the averages of a queue, in the same order.
    pub fn removed_of(&self, queue: CfsRqId) -> (u32, u64, u64, u64) {
        self.queue_removed(queue)
    }

    /// The same, from the recording.
    pub fn assume_removed(&mut self, queue: CfsRqId, removed: (u32, u64, u64, u64)) {
        self.set_queue_load(queue, self.queue_avg(queue), removed);
    }

    /// What is expected of a task when it runs: `util_est` with the kernel's flags; both its parts up to 6.7, `ewma` alone later.
    pub fn assume_util_est(&mut self, task: TaskId, ewma: u64, enqueued: u64) {
        let se = self.task(task).se;
        self.set_util_est(se, UtilEst::told(ewma, enqueued));
    }

    /// What is expected of all tasks that are queued on a CPU.
    pub fn assume_queue_util_est(&mut self, cpu: CpuId, expected: u32) {
        let cfs = self.rqs[cpu.index()].cfs;
        self.set_queue_util_est(cfs, expected);
    }

    /// `jiffies`, counted from `INITIAL_JIFFIES`, where the recording tells it: what the CPUs' clocks show does not.
    pub fn assume_jiffies(&mut self, number: u64) {
        self.balance.jiffy = (number, self.balance.now);
    }

    /// When a CPU's domain was last balanced, in ticks, how long it is until the next time, in milliseconds, and how often that failed.
    pub fn assume_domain(&mut self, cpu: CpuId, level: usize, domain: DomainPast) {
        let place = self.balance.domains.cpus.get_mut(cpu.index());
        if let Some(found) = place.and_then(|place| place.levels.get_mut(level)) {
            found.last_balance = domain.last_balance;
            found.balance_interval = domain.interval;
            found.nr_balance_failed = domain.failed;
            found.max_newidle_lb_cost = domain.cost;
        }
    }

    /// Sets which tasks a task had woken, and where it had run.
    pub fn assume_past(&mut self, task: TaskId, past: Past) {
        let cpu = self.task_cpu(task);
        self.remember_task(task, cpu);
        if self.balance.on() {
            let state = &mut self.tasks[task.index()].balance;
            state.recent_used_cpu = past.recent;
            state.wakes = Wakes { flips: past.flips, decayed: past.decayed, last: past.last.unwrap_or(TaskId::IDLE) };
        }
    }

    /// [`Sched::assume_past`] for a CPU's idle task: interrupts that come while it runs wake tasks in its name.
    pub fn assume_idle_past(&mut self, cpu: CpuId, past: Past) {
        if let Some(state) = self.balance_of_mut(cpu) {
            state.wakes = Wakes { flips: past.flips, decayed: past.decayed, last: past.last.unwrap_or(TaskId::IDLE) };
        }
    }

    /// How many CPUs a search for an idle one in the CPU's cache may look at (`nr_idle_scan`).
    pub fn assume_idle_scan(&mut self, cpu: CpuId, scan: u32) {
        if let Some(shared) = self.balance.domains.cpus.get(cpu.index()).and_then(|place| place.shared) {
            self.balance.domains.shared[shared as usize].nr_idle_scan = scan;
        }
    }

    /// A CPU's average idle time, since when it idles if it does, and what balancing it may cost at most, in nanoseconds.
    pub fn assume_idle_time(&mut self, cpu: CpuId, average: u64, since: Option<u64>, most_cost: u64) {
        if let Some(state) = self.balance_of_mut(cpu) {
            (state.avg_idle, state.idle_stamp, state.max_idle_balance_cost) = (average, since, most_cost);
        }
    }
}
