//! CPUs of flat queues that run out of work, and look for some.

use std::hint::select_unpredictable;

use schedlab_model::{CpuId, TaskId};

use crate::balance::state::{Balance, CpuState, Migration};
use crate::balance::stats::{is_crowded, is_overused, is_used_up};
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::SchedAvg;
use crate::fair::pelt::queue_load::{attach_entity_load_avg, detach_entity_load_avg};
use crate::fair::pelt::rounding::Sums;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Rq;

/// The part of `enum group_type` that a single CPU may be, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    HasSpare,
    FullyBusy,
    Overloaded,
}

/// What a CPU has that was about to idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Nothing,
    /// Tasks on its queue, of which one is to be picked.
    Queued,
    /// One pulled task and no others: all is done but [`Sched::flat_take_over`].
    Taken(TaskId),
}

impl Work {
    fn of(queued: bool) -> Self {
        if queued { Self::Queued } else { Self::Nothing }
    }
}

impl Sched<Ours> {
    /// [`Sched::sched_balance_newidle`] of a CPU whose last task left just now.
    #[inline(never)]
    pub(super) fn flat_newidle(&mut self, cpu: CpuId) -> Work {
        let rq = known!(mut self.rqs[cpu.index()]);
        let Some(next_balance) = self.balance.idles_without_looking(&self.rules, cpu, &rq.balance) else {
            return self.flat_look(cpu);
        };
        rq.begin_idle(next_balance);
        Work::Nothing
    }

    /// [`Sched::sched_balance_newidle`] where it is worth to look at others for work.
    ///
    /// With one domain, in which CPUs share a cache and no core, each group is one CPU, and of what balancing asks of groups little is left. The
    /// CPU itself has capacity to spare and nothing to run; so it is others with two tasks or more, and their number alone says how many are
    /// to be moved. Where there are none, as mostly, neither loads nor utilisation matter.
    #[inline(always)]
    pub(super) fn flat_look(&mut self, cpu: CpuId) -> Work {
        let Self { rules, rqs, cfs_rqs, balance, .. } = self;
        let place = &balance.domains.cpus[cpu.index()];
        let (Some(only), true) = (place.levels.first(), place.only_cache) else {
            return Work::of(self.sched_balance_newidle(cpu));
        };
        let (shape, tunables, rq) = (&only.shape, &rules.tunables, known!(mut rqs[cpu.index()]));
        // After many attempts in vain a running task is moved, and after 32 tasks a balancer takes breath.
        let usual = only.nr_balance_failed <= shape.cache_nice_tries + 2 && tunables.nr_migrate <= 32;
        let worth_it = balance.is_worth_looking(rq.balance.avg_idle, rules.least_idle_time(only.max_newidle_lb_cost));
        if !(usual && worth_it && rules.newidle_by_balance_cost) {
            return Work::of(self.sched_balance_newidle(cpu));
        }
        let (now, next_balance) = (balance.jiffy.0, balance.latest_balance(rq.balance.newidle.due));
        if self.groups.len() > 1 {
            self.group_update_blocked(cpu);
        } else {
            rq.update_blocked(&known!(cfs_rqs[cpu.index()]).pelt.avg, now);
        }
        let Self { rules, rqs, balance, .. } = self;
        let (tunables, rq) = (&rules.tunables, known!(mut rqs[cpu.index()]));
        let (clock, state) = (rq.clock, &mut rq.balance);
        state.idle_stamp = Some(clock);
        state.next_balance = state.next_balance.min(next_balance);
        // NI_RANDOM
        let draw = if tunables.features.ni_random { balance.draw() } else { 0 };
        let tries = match &mut balance.domains.cpus[cpu.index()].levels[..] {
            [only, ..] if tunables.features.ni_random => only.tries_newidle(draw),
            _ => true,
        };
        let work = if tries { self.flat_search(cpu) } else { Work::Nothing };
        if work == Work::Nothing {
            // nohz_newidle_balance
            let Self { rules, rqs, balance, .. } = self;
            if balance.updates_blocked(rules, &known!(rqs[cpu.index()]).balance) {
                self.update_blocked_of_idle(cpu);
            }
        } else {
            known!(mut self.rqs[cpu.index()]).balance.idle_stamp = None;
        }
        work
    }

    /// [`Sched::sched_balance_rq`] with what the domain remembers of it.
    #[inline(always)]
    fn flat_search(&mut self, cpu: CpuId) -> Work {
        let Self { rqs, balance, .. } = self;
        let Balance { domains, jiffy, second, search_cost, looked_at, overload, .. } = balance;
        let (now, second) = (jiffy.0, *second);
        let [only, ..] = &mut domains.cpus[cpu.index()].levels[..] else { return Work::Nothing };
        let weight = u64::from(only.shape.weight);
        let cost = weight * *search_cost;
        *looked_at += weight;
        let updates = only.own_group().is_some_and(|own| now >= domains.groups[own].next_update);
        *overload = only.shape.span.any(|number: usize| known!(rqs[number]).nr_running > 1);
        if !*overload && !updates && cost == 0 && only.keeps_newidle_cost(now, second) {
            // No task waits on any CPU: mostly so.
            only.nr_balance_failed = 0;
            return Work::Nothing;
        }
        if updates {
            self.update_group_capacity(cpu, 0);
        }
        self.flat_balance(cpu, cost, now, second)
    }

    /// [`Sched::flat_search`] where a task waits, or what the domain remembers changes even if none does.
    #[inline(never)]
    fn flat_balance(&mut self, cpu: CpuId, cost: u64, now: u64, second: u64) -> Work {
        let busiest = if self.balance.overload { self.flat_busiest(cpu) } else { None };
        let work = busiest.map_or(Work::Nothing, |busiest| self.flat_pull(cpu, busiest));
        let [domain, ..] = &mut self.balance.domains.cpus[cpu.index()].levels[..] else { return work };
        if busiest.is_none() || work != Work::Nothing {
            domain.nr_balance_failed = 0;
        }
        if busiest.is_some() {
            domain.balance_interval = domain.shape.min_interval;
        }
        if self.rules.tunables.features.ni_random && (cost > 0 || work != Work::Nothing) {
            let success = if work == Work::Nothing { 0 } else { domain.newidle_weight() };
            domain.update_newidle_stats(success);
        }
        domain.update_newidle_cost(cost, now, second);
        let newidle = self.balance.newidle(&self.rules, cpu);
        let state = &mut known!(mut self.rqs[cpu.index()]).balance;
        state.max_idle_balance_cost = state.max_idle_balance_cost.max(cost);
        state.newidle = newidle;
        work
    }

    /// `sched_balance_find_src_group` and `sched_balance_find_src_rq` among single CPUs for one that has nothing to run, where a task waits on some CPU.
    fn flat_busiest(&mut self, cpu: CpuId) -> Option<CpuId> {
        let Self { rules, rqs, cfs_rqs, balance, idle_cpus, .. } = self;
        let shape = &balance.domains.cpus[cpu.index()].levels[0].shape;
        let (mut busiest, mut most) = (cpu, (Kind::HasSpare, 0, 0, 0));
        // Idle CPUs have no tasks, nor has the CPU itself any more. The comparisons of the others are as good as random, so that none is a
        // branch.
        shape.span.each_after_but(cpu.index(), idle_cpus, |number| {
            let running = known!(rqs[number]).nr_running;
            // Before 6.19 delayed tasks count.
            let delayed = known!(cfs_rqs[number]).h_nr_delayed;
            let awake = select_unpredictable(rules.balance_counts_runnable, running - delayed, running);
            let (load, pct) = (&known!(cfs_rqs[number]).pelt, shape.imbalance_pct);
            let util = load.avg.util_avg.max(u64::from(load.util_est)).min(1024);
            let crowded = is_crowded(1024, load.avg.runnable_avg, pct);
            let full = crowded | is_used_up(1024, util, pct);
            let kind = select_unpredictable(full, Kind::FullyBusy, Kind::HasSpare);
            let kind =
                select_unpredictable((running > 1) & (is_overused(1024, util, pct) | crowded), Kind::Overloaded, kind);
            // update_sd_pick_busiest
            let more = select_unpredictable(kind == Kind::FullyBusy, rules.fully_busy_prefers_no_smt, running > most.2);
            let more = select_unpredictable(kind == Kind::Overloaded, load.avg.load_avg > most.1, more);
            let busier = (awake > 0) & ((kind > most.0) | ((kind == most.0) & more));
            busiest = select_unpredictable(busier, CpuId(number as u32), busiest);
            most.0 = select_unpredictable(busier, kind, most.0);
            most.1 = select_unpredictable(busier, load.avg.load_avg, most.1);
            most.2 = select_unpredictable(busier, running, most.2);
            most.3 = select_unpredictable(busier, awake, most.3);
        });
        // Half of as many tasks as it has more is to be moved: none of one.
        (most.2 > 1 && (most.3 != 1 || most.0 == Kind::Overloaded)).then_some(busiest)
    }

    /// `detach_tasks` and `attach_tasks` of one task, as kernels that preempt themselves do for a CPU that is about to idle: of those that wait
    /// the one that came or ran first and is not cache-hot.
    fn flat_pull(&mut self, cpu: CpuId, busiest: CpuId) -> Work {
        let Self { rules, rqs, tasks, entities, balance, pelt_origin, .. } = self;
        let (tunables, rq) = (&rules.tunables, known!(mut rqs[busiest.index()]));
        // update_rq_clock
        debug_assert!(rq.clock_task <= balance.now, "clocks never go back");
        rq.set_clocks_at(balance.now, *pelt_origin);
        let domain = &balance.domains.cpus[cpu.index()].levels[0];
        let hot_too = domain.nr_balance_failed > domain.shape.cache_nice_tries;
        let mut left = tunables.nr_migrate.min(rq.nr_running);
        let (task, delayed, slice) = loop {
            let Some(task) = rq.cfs_tasks.last().filter(|_| left > 0) else { return Work::Nothing };
            left -= 1;
            let entity = known!(entities[known!(tasks[task.index()]).se.index()]);
            let hot = rules.ran_just_now(rq.clock_task, entity.exec_start);
            let stays = rules.balance_leaves_delayed && entity.sched_delayed;
            if task != rq.curr && !stays && (hot_too || !hot) {
                break (task, entity.sched_delayed, entity.slice);
            }
            rq.cfs_tasks.move_to_front(tasks, task);
        };
        balance.migrations.push(Migration { task, from: busiest, to: cpu });
        // The task that went to sleep just now is still `curr`, and loses its protection to a shorter slice that comes (`attach_task`).
        if self.groups.len() > 1 {
            if delayed {
                self.move_queued_task(task, cpu);
            } else if self.rules.eevdf {
                self.group_move::<true>(task, busiest, cpu);
            } else {
                self.group_move::<false>(task, busiest, cpu);
            }
            return Work::Queued;
        }
        let left = known!(rqs[cpu.index()]).curr;
        let shorter = rules.eevdf && entities.get(left.index()).is_some_and(|left| slice < left.slice);
        if delayed || shorter {
            self.move_queued_task(task, cpu);
            return Work::Queued;
        }
        if self.rules.eevdf {
            self.flat_detach_eevdf(task, busiest);
        } else {
            self.flat_detach(task, busiest);
        }
        self.flat_attach_alone(task, cpu);
        Work::Taken(task)
    }

    /// [`Sched::detach_task`] under CFS of a task that waits.
    fn flat_detach(&mut self, task: TaskId, from: CpuId) {
        let (cfs, se) = (CfsRqId(from.0), EntityId(task.0));
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[from.index()]), known!(mut cfs_rqs[from.index()]));
        if let Some(curr) = queue.curr {
            queue.charge(known!(mut entities[curr.index()]), rq.clock_task, rules);
        }
        let (entity, sums) = (known!(mut entities[se.index()]), Sums::of(rules));
        entity.leave_account(queue, rq.clock_pelt, sums);
        let found = queue.timeline.remove(entity.vruntime, entity.sequence);
        debug_assert!(found, "an entity that waits is in its timeline");
        rq.cfs_tasks.remove(tasks, task);
        rq.count_left(queue, entity);
        entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
        self.update_min_vruntime(cfs);
    }

    /// [`Sched::attach_task`] to a CPU whose last task left just now, but for the timeline, which it would leave as it is picked:
    /// [`Sched::flat_take_over`] must follow. There is no task to preempt, or to lose its protection.
    fn flat_attach_alone(&mut self, task: TaskId, to: CpuId) {
        if self.rules.eevdf {
            self.first_fair_task(to);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[to.index()]), known!(mut cfs_rqs[to.index()]));
        let (entity, sums) = (known!(mut entities[task.index()]), Sums::of(rules));
        known!(mut tasks[task.index()]).cpu = to;
        rq.cfs_tasks.add(tasks, task);
        queue.pelt.util_est += entity.pelt.util_est.value() as u32;
        attach_entity_load_avg(&mut queue.pelt, &mut entity.pelt.avg, entity.load.down_of_tasks(), sums);
        entity.cfs_rq = CfsRqId(to.0);
        if rules.eevdf {
            // V is where the queue stands, and no lag counts.
            entity.vruntime = queue.zero_vruntime;
            rules.place_deadline(entity, false);
        } else {
            entity.vruntime = entity.vruntime.plus(queue.min_vruntime.0);
        }
        (entity.on_rq, entity.exec_start) = (true, 0);
        queue.load.add(entity.load.scaled);
        (queue.nr_running, queue.h_nr_running, rq.nr_running) = (1, 1, 1);
    }

    /// The end of [`Sched::schedule`] of a CPU that took a task from another one as its last one left.
    pub(super) fn flat_take_over(&mut self, cpu: CpuId, task: TaskId) {
        let (rq, queue) = (known!(mut self.rqs[cpu.index()]), known!(mut self.cfs_rqs[cpu.index()]));
        let entity = known!(mut self.entities[task.index()]);
        queue.curr = Some(EntityId(task.0));
        entity.begin_turn(rq.clock_task);
        if self.rules.eevdf {
            // It is the only task.
            let slice = entity.slice;
            self.rules.set_protect_slice(entity, || slice);
        }
        (rq.curr, rq.need_resched, rq.lazily) = (task, false, false);
    }
}

impl Rq {
    /// [`Sched::sched_balance_update_blocked_averages`] in the tick `now` of a CPU whose fair queue's averages, these, are up to date.
    #[inline(always)]
    pub(super) fn update_blocked(&mut self, avg: &SchedAvg, now: u64) {
        let state = &mut self.balance;
        state.last_blocked_update = now;
        state.has_blocked_load &= avg.load_avg > 0 || avg.util_avg > 0;
        // Nothing of `avg_rt` and `avg_dl` fades: of what was always zero, no more than the time would change at which it was last looked at.
        debug_assert!(state.avg_rt.is_zero() && state.avg_dl.is_zero(), "all are fair");
    }
}

impl Balance {
    /// Where it is not worth to look at others for work: when the CPU balances at the latest, that its lowest domain is due then.
    #[inline(always)]
    pub(super) fn idles_without_looking(&self, rules: &Rules, cpu: CpuId, state: &CpuState) -> Option<u64> {
        debug_assert_eq!(state.newidle, self.newidle(rules, cpu));
        if self.is_worth_looking(state.avg_idle, state.newidle.least) || self.updates_blocked(rules, state) {
            return None;
        }
        Some(self.latest_balance(state.newidle.due))
    }

    /// [`Self::is_update_due`] of a CPU that is about to idle.
    #[inline(always)]
    fn updates_blocked(&self, rules: &Rules, state: &CpuState) -> bool {
        self.is_update_due(rules, state.avg_idle, self.jiffy.0)
    }

    /// When a CPU that idles balances at the latest, if its lowest domain is due then.
    #[inline(always)]
    fn latest_balance(&self, due: u64) -> u64 {
        due.min(self.jiffy.0 + self.second)
    }
}

impl Entity {
    /// `util_est_dequeue` and `update_load_avg` with DO_DETACH of a task that waits, on its way to another CPU.
    #[inline(always)]
    pub(super) fn leave_account(&mut self, queue: &mut CfsRq, clock_pelt: u64, sums: Sums) {
        let (own, weight) = (&mut self.pelt, self.load.down_of_tasks());
        queue.pelt.util_est = queue.pelt.util_est.saturating_sub(own.util_est.value() as u32);
        let now = queue.pelt.flat_clock(clock_pelt);
        own.end_wait(now, weight);
        queue.update_load_avg(now, sums);
        detach_entity_load_avg(&mut queue.pelt, &own.avg, weight, sums);
        own.avg.last_update_time = 0;
    }
}
