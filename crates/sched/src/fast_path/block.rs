//! Running tasks that go to sleep on flat queues.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Life, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::load::Action;
use crate::fair::pelt::SchedAvg;
use crate::fair::pelt::rounding::Sums;
use crate::fast_path::newidle::Work;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Rq;

/// What is on a CPU whose task is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The task, and the long way is to be taken.
    Running,
    /// The task, which is to leave by [`Sched::flat_leave`].
    Not,
    /// Others, of which one is to be picked.
    Others,
    /// No task: it is to look for work.
    Empty,
    /// No task, and newidle balancing is not worth its cost: all is done but [`Sched::flat_enter_idle`], with whether its tick goes.
    Idles { ticks: bool },
}

impl Sched<Ours> {
    /// [`Sched::schedule`] of a CPU whose task goes to sleep, under `EEVDF` or CFS: the task that runs then. None, and nothing done, where
    /// the general path is to be taken: a fair server serves, or the task would be pushed away. The CPU gets its clocks, those of the
    /// machine ([`Sched::set_machine_clock`]).
    #[inline(always)]
    pub fn flat_block<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        debug_assert_eq!(EEVDF, self.rules.eevdf);
        if self.has_groups() {
            return self.group_block_apart::<EEVDF>(cpu);
        }
        if !EEVDF || !self.rules.hrtick_set_late {
            return self.flat_block_at_ticks::<EEVDF>(cpu);
        }
        let previous = self.rqs[cpu.index()].curr;
        self.hrtick_schedule_enter(cpu);
        let next = self.flat_block_at_ticks::<EEVDF>(cpu)?;
        self.flat_hrtick(cpu, previous, next);
        Some(next)
    }

    /// [`Sched::flat_block`] without high-resolution ticks.
    #[inline(always)]
    fn flat_block_at_ticks<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        match self.flat_leave_once::<EEVDF>(cpu) {
            Left::Running => None,
            Left::Idles { ticks } => {
                self.flat_enter_idle(cpu, ticks);
                Some(TaskId::IDLE)
            }
            Left::Empty => Some(self.flat_look_on::<EEVDF>(cpu)),
            left => Some(self.flat_go_on::<EEVDF>(cpu, left)),
        }
    }

    /// The rest of [`Sched::flat_block`] where no task is left, and it is worth to look for work: the task that runs.
    #[inline(never)]
    fn flat_look_on<const EEVDF: bool>(&mut self, cpu: CpuId) -> TaskId {
        match self.flat_look(cpu) {
            Work::Nothing => {
                self.flat_idle(cpu);
                TaskId::IDLE
            }
            Work::Taken(next) => {
                self.flat_take_over(cpu, next);
                next
            }
            Work::Queued => self.flat_go_on::<EEVDF>(cpu, Left::Empty),
        }
    }

    /// The rest of [`Sched::flat_block`] where the CPU may have a task to run, as others are left or were found: the task that runs. A
    /// separate function, so that a CPU that idles has few registers to save.
    #[inline(never)]
    fn flat_go_on<const EEVDF: bool>(&mut self, cpu: CpuId, left: Left) -> TaskId {
        let previous = known!(self.rqs[cpu.index()]).curr;
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(previous.0));
        let mut others = left == Left::Others;
        if left == Left::Not {
            others = self.flat_leave(cpu, previous) == Left::Others;
            if !others {
                return self.flat_look_on::<EEVDF>(cpu);
            }
        }
        if !EEVDF {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            let first = queue.timeline.first().filter(|_| !queue.has_buddies());
            if let Some(next) = first.or_else(|| self.pick_next_entity(cfs, None).map(|picked| picked.se)) {
                return self.flat_set_next(cpu, cfs, next);
            }
        }
        let mut next = self.flat_pick_eevdf(cpu, cfs);
        if next.is_none() && others {
            // The delayed tasks were dequeued.
            match self.flat_newidle(cpu) {
                Work::Taken(next) => {
                    self.flat_take_over(cpu, next);
                    return next;
                }
                Work::Queued => next = self.flat_pick_eevdf(cpu, cfs),
                Work::Nothing => {}
            }
        }
        // put_prev_entity: a delayed task is still queued, unless it was picked and dequeued.
        if EEVDF && known!(self.entities[se.index()]).on_rq {
            self.flat_put_back(cfs, se);
        }
        let Some(next) = next else {
            self.flat_idle(cpu);
            return TaskId::IDLE;
        };
        self.flat_set_next_eevdf(cpu, cfs, next)
    }

    /// `deactivate_task` of the running task, which goes to sleep.
    #[inline(never)]
    fn flat_leave(&mut self, cpu: CpuId, previous: TaskId) -> Left {
        let (cfs, se, eevdf) = (CfsRqId(cpu.0), EntityId(previous.0), self.rules.eevdf);
        // dequeue_entity
        let charged = self.flat_charge(cpu, cfs, se);
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, tasks, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        known!(mut tasks[previous.index()]).life = Life::Asleep;
        let own = &mut entity.pelt;
        queue.pelt.util_est = queue.pelt.util_est.saturating_sub(own.util_est.value() as u32);
        if rules.util_est_before_dequeue {
            own.util_est.update(&own.avg, rules);
        }
        // Alone it is V itself: eligible, and without lag.
        let alone = queue.nr_running == 1;
        let delays = eevdf && !alone && queue.delays_dequeue(entity.vruntime, Some(entity), rules);
        self.flat_update_load(cpu, cfs, se);
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue, entity) =
            (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if !rules.util_est_before_dequeue {
            entity.pelt.util_est.update(&entity.pelt.avg, rules);
        }
        if delays {
            queue.delay_dequeue(entity, rules);
            return Left::Others;
        }
        if eevdf && !alone {
            queue.keep_lag(entity, rules);
        }
        rq.cfs_tasks.remove(tasks, previous);
        rq.count_left(queue, entity);
        if eevdf && alone {
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
        } else if !eevdf {
            queue.update_min_vruntime_after_dequeue(Some(entity.vruntime).filter(|_| charged));
        }
        if rq.nr_running > 0 { Left::Others } else { Left::Empty }
    }

    /// [`Sched::flat_leave`] of a task that ran for some time and whose request goes on, with what follows where no task is left and it is
    /// not worth to look for work: all that is touched is looked up once. Elsewhere nothing is done but clocks set.
    #[inline(always)]
    fn flat_leave_once<const EEVDF: bool>(&mut self, cpu: CpuId) -> Left {
        let Self { rules, rqs, tasks, entities, cfs_rqs, dl_entities, balance, pelt_origin, .. } = self;
        let (rq, queue) = (&mut rqs[cpu.index()], known!(mut cfs_rqs[cpu.index()]));
        rq.set_clocks_at(balance.now, *pelt_origin);
        debug_assert!(EEVDF || rq.dl.first().is_none(), "only a fair server is of that class");
        if (EEVDF && rq.dl.first().is_some()) || rq.balance.push_cpu.is_some() {
            return Left::Running;
        }
        let previous = rq.curr;
        let entity = &mut entities[previous.index()];
        if queue.has_buddies() || entity.pelt.avg.last_update_time == 0 {
            return Left::Not;
        }
        let alone = queue.nr_running == 1;
        let Some(charge) = entity.charge_until(rq.clock_task, rules) else { return Left::Not };
        if EEVDF {
            // Its request would be served, or the fair server's runtime be over. Whether protection ends has no effect here: the mark for
            // rescheduling that update_curr leaves is cleared by this switch, and what reads it before (wakeup_preempt of a task that newidle
            // balancing pulls) only takes protection that is over already.
            if !charge.vruntime.before(entity.deadline) {
                return Left::Not;
            }
            if rules.has_fair_server() && !dl_entities[cpu.index()].has_served(charge.delta) {
                return Left::Not;
            }
        }
        entity.charge(charge);
        let (load, own) = (&mut queue.pelt, &mut entity.pelt);
        load.util_est = load.util_est.saturating_sub(own.util_est.value() as u32);
        if EEVDF && rules.util_est_before_dequeue {
            own.util_est.update_as::<EEVDF>(&own.avg, rules);
        }
        load.take_out(Sums::of(rules));
        let now = load.flat_clock(rq.clock_pelt);
        let weight = entity.load.down_of_tasks();
        // CFS has no delayed dequeue.
        let runnable = if EEVDF { queue.h_nr_running - queue.h_nr_delayed } else { queue.h_nr_running };
        let what = (queue.load.down_of_tasks(), u64::from(runnable));
        if SchedAvg::update_both([&mut load.avg, &mut own.avg], now, what, weight) {
            own.util_est.changed();
        }
        if !EEVDF || !rules.util_est_before_dequeue {
            own.util_est.update_as::<EEVDF>(&own.avg, rules);
        }
        known!(mut tasks[previous.index()]).life = Life::Asleep;
        if EEVDF && !alone {
            if queue.delays_dequeue(entity.vruntime, Some(entity), rules) {
                queue.delay_dequeue(entity, rules);
                return Left::Others;
            }
            queue.keep_lag(entity, rules);
        }
        rq.count_left(queue, entity);
        if EEVDF && alone {
            // Alone it was V itself: eligible, and without lag.
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
        } else if !EEVDF {
            queue.update_min_vruntime_after_dequeue(Some(entity.vruntime));
        }
        if rq.nr_running > 0 {
            rq.cfs_tasks.remove(tasks, previous);
            return Left::Others;
        }
        rq.cfs_tasks.clear();
        let Some(next_balance) = balance.idles_without_looking(rules, cpu, &rq.balance) else {
            return Left::Empty;
        };
        rq.begin_idle(next_balance);
        rq.idle(queue);
        balance.nohz.has_blocked = true;
        Left::Idles { ticks: !rq.balance.tick_stopped }
    }

    /// `update_curr` but for `min_vruntime`: whether any time passed.
    #[inline(always)]
    pub(super) fn flat_charge(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) -> bool {
        let (now, entity) = (known!(self.rqs[cpu.index()]).clock_task, known!(mut self.entities[se.index()]));
        let Some(delta) = entity.update_se(now, &self.rules) else { return false };
        if self.rules.eevdf {
            // No request is served, and the task need not go, while its deadline is to come and it is protected.
            let goes_on = entity.vruntime.before(entity.deadline) && self.rules.protect_slice(entity);
            self.dl_server_update(cpu, delta);
            if !goes_on && self.served(cfs, se).is_some() {
                self.resched_curr_lazy(cpu);
            }
        }
        true
    }

    /// `update_load_avg` of the running task.
    #[inline(always)]
    pub(super) fn flat_update_load(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        let (queue, entity) = (known!(mut self.cfs_rqs[cfs.index()]), known!(mut self.entities[se.index()]));
        if entity.pelt.avg.last_update_time == 0 {
            return self.update_load_avg_slow(cfs, se, Action::UPDATE);
        }
        let what = (queue.load.down_of_tasks(), u64::from(queue.h_nr_runnable()));
        let (load, own) = (&mut queue.pelt, &mut entity.pelt);
        load.take_out(Sums::of(&self.rules));
        let now = load.flat_clock(known!(self.rqs[cpu.index()]).clock_pelt);
        if SchedAvg::update_both([&mut load.avg, &mut own.avg], now, what, entity.load.down_of_tasks()) {
            own.util_est.changed();
        }
    }

    /// The end of [`Sched::schedule`] of a CPU that has nothing to run.
    #[inline(always)]
    pub(super) fn flat_idle(&mut self, cpu: CpuId) {
        let rq = known!(mut self.rqs[cpu.index()]);
        rq.idle(known!(mut self.cfs_rqs[cpu.index()]));
        self.balance.nohz.has_blocked = true;
        let ticks = !rq.balance.tick_stopped;
        self.flat_enter_idle(cpu, ticks);
    }

    /// The rest of it once [`Rq::idle`] is done: with `nohz_balance_enter_idle` of a CPU that `ticks`.
    #[inline(always)]
    fn flat_enter_idle(&mut self, cpu: CpuId, ticks: bool) {
        if self.balance.domains.smt_active() {
            self.update_idle_core(cpu);
        }
        self.idle_cpus.insert(cpu.index());
        if ticks {
            self.nohz_balance_enter_idle(cpu);
        }
    }
}

impl Rq {
    /// [`Sched::sched_balance_newidle`] where it is not worth to look at others for work, and the CPU balances at `next_balance` at the latest.
    #[inline(always)]
    pub(super) fn begin_idle(&mut self, next_balance: u64) {
        let state = &mut self.balance;
        state.idle_stamp = Some(self.clock);
        state.next_balance = state.next_balance.min(next_balance);
    }

    /// No task runs from now on; the caller sets that the CPU has blocked load (`nohz.has_blocked`).
    #[inline(always)]
    fn idle(&mut self, queue: &mut CfsRq) {
        queue.curr = None;
        self.idle_exec_start = self.clock_task;
        (self.curr, self.need_resched, self.lazily) = (TaskId::IDLE, false, false);
        self.balance.has_blocked_load = true;
    }
}

impl CfsRq {
    /// `set_delayed`, with what the lag is from then on, where that is kept in bounds.
    #[inline(always)]
    fn delay_dequeue(&mut self, entity: &mut Entity, rules: &Rules) {
        if rules.bounds_lag_while_delayed {
            self.keep_lag(entity, rules);
        }
        entity.sched_delayed = true;
        self.h_nr_delayed += 1;
    }

    /// `update_min_vruntime` under CFS twice, as a task leaves: with its virtual time, if time passed for it, and without it. Where another
    /// task waits, that is the later of `min_vruntime` and the first waiting task's; else only the first update counts.
    #[inline(always)]
    fn update_min_vruntime_after_dequeue(&mut self, own: Option<Vruntime>) {
        if let Some(least) = self.timeline.first_key().or(own) {
            self.min_vruntime = self.min_vruntime.max(least);
        }
    }
}
