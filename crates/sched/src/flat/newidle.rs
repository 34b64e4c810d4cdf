//! CPUs of flat queues that run out of work, and look for some.

use schedlab_model::{CpuId, Series, TaskId};

use crate::balance::domains::{Domain, DomainFlags};
use crate::balance::state::Migration;
use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::queue_load::{attach_entity_load_avg, detach_entity_load_avg, update_cfs_rq_load_avg};
use crate::fair::sums::Sums;

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
    /// A task that it took and nobody else: all is done but [`Sched::flat_take_over`].
    Taken(TaskId),
}

impl Work {
    fn of(queued: bool) -> Self {
        if queued { Self::Queued } else { Self::Nothing }
    }
}

impl Sched<Ours> {
    /// [`Sched::newidle_balance`] of a CPU whose last task left just now.
    #[inline(always)]
    pub(super) fn flat_newidle(&mut self, cpu: CpuId) -> Work {
        let Some(next_balance) = self.idles_without_looking(cpu) else { return self.flat_look(cpu) };
        let state = &mut self.balance.cpus[cpu.index()];
        state.idle_stamp = Some(self.rqs[cpu.index()].clock);
        state.next_balance = state.next_balance.min(next_balance);
        Work::Nothing
    }

    /// Where it is not worth to look at others for work: when the CPU balances at the latest, that its lowest domain is due then.
    #[inline(always)]
    fn idles_without_looking(&self, cpu: CpuId) -> Option<u64> {
        let (balance, migration_cost) = (&self.balance, self.rules.tunables.migration_cost.as_nanos());
        let (state, place) = (&balance.cpus[cpu.index()], &balance.domains.cpus[cpu.index()]);
        let lowest = place.levels.first()?;
        let least = if self.rules.series == Series::V5_10 { migration_cost } else { lowest.max_newidle_lb_cost };
        // One that will idle for long brings loads of idle CPUs up to date (`nohz_newidle_balance`), if that is due.
        let updates = state.avg_idle >= migration_cost && balance.nohz.has_blocked;
        if (balance.overload && state.avg_idle >= least) || (updates && balance.jiffy.0 >= balance.nohz.next_blocked) {
            return None;
        }
        Some(self.latest_balance(lowest))
    }

    /// When a CPU that idles balances at the latest, if this is its lowest domain.
    #[inline(always)]
    fn latest_balance(&self, lowest: &Domain) -> u64 {
        let next = lowest.last_balance + self.get_sd_balance_interval(lowest, false);
        next.min(self.balance.jiffy.0 + self.balance.second)
    }

    /// [`Sched::newidle_balance`] where it is worth to look at others for work.
    ///
    /// With one domain, in which CPUs share a cache and no core, each group is one CPU, and of what balancing asks of groups little is left. The
    /// CPU itself has capacity to spare and nothing to run; so it is others with two tasks or more, and their number alone says how many are
    /// to be moved. Where there are none, as mostly, neither loads nor utilisation matter.
    fn flat_look(&mut self, cpu: CpuId) -> Work {
        let [only] = &self.balance.domains.cpus[cpu.index()].levels[..] else {
            return Work::of(self.newidle_balance(cpu));
        };
        let (shape, tunables) = (&only.shape, &self.rules.tunables);
        let (flags, avg_idle) = (shape.flags, self.balance.cpus[cpu.index()].avg_idle);
        let one_each = shape.groups.len() == shape.weight as usize && self.loads.is_some();
        let near = flags.has(DomainFlags::SHARE_LLC.and(DomainFlags::BALANCE_NEWIDLE));
        let plain = near && !flags.has(DomainFlags::SHARE_CPUCAPACITY) && !flags.has(DomainFlags::NUMA);
        // After many attempts in vain a running task is moved, and after 32 tasks a balancer takes breath.
        let usual = only.nr_balance_failed <= shape.cache_nice_tries + 2 && tunables.nr_migrate <= 32;
        let worth_it = self.balance.overload && avg_idle >= only.max_newidle_lb_cost;
        if !(one_each && plain && usual && worth_it) || self.rules.series == Series::V5_10 {
            return Work::of(self.newidle_balance(cpu));
        }
        let (now, weight) = (self.balance.jiffy.0, u64::from(shape.weight));
        let (next_balance, own) = (self.latest_balance(only), only.groups().next());
        // update_blocked_averages: the queue's were brought up to date as its last task left.
        let rq = &self.rqs[cpu.index()];
        let (clock, clock_pelt) = (rq.clock, rq.clock_pelt);
        let left = self.loads.as_deref().is_some_and(|loads| {
            let avg = &loads.queues[cpu.index()].avg;
            avg.load_avg > 0 || avg.util_avg > 0
        });
        let state = &mut self.balance.cpus[cpu.index()];
        state.idle_stamp = Some(clock);
        state.last_blocked_update = now;
        state.has_blocked_load &= left;
        debug_assert_eq!(state.avg_rt.util_avg + state.avg_dl.util_avg, 0, "all are fair");
        state.avg_rt.age(clock_pelt);
        state.avg_dl.age(clock_pelt);
        let mut work = Work::Nothing;
        if let Some(success) = self.newidle_weight(cpu, 0) {
            if own.is_some_and(|own| now >= self.balance.domains.groups[own].next_update) {
                self.update_group_capacity(cpu, 0);
            }
            self.balance.looked_at += weight;
            let busiest = self.flat_busiest(cpu);
            if let Some(busiest) = busiest {
                work = self.flat_pull(cpu, busiest);
            }
            let domain = &mut self.balance.domains.cpus[cpu.index()].levels[0];
            if busiest.is_none() || work != Work::Nothing {
                domain.nr_balance_failed = 0;
            }
            if busiest.is_some() {
                domain.balance_interval = domain.shape.min_interval;
            }
            let cost = weight * self.balance.search_cost;
            self.update_newidle_cost(cpu, 0, cost, success * u32::from(work != Work::Nothing));
            let state = &mut self.balance.cpus[cpu.index()];
            state.max_idle_balance_cost = state.max_idle_balance_cost.max(cost);
        }
        let state = &mut self.balance.cpus[cpu.index()];
        state.next_balance = state.next_balance.min(next_balance);
        if work == Work::Nothing {
            self.nohz_newidle_balance(cpu);
        } else {
            state.idle_stamp = None;
        }
        work
    }

    /// `find_busiest_group` and `find_busiest_queue` among single CPUs for one that has nothing to run.
    fn flat_busiest(&mut self, cpu: CpuId) -> Option<CpuId> {
        let Self { rules, rqs, loads, balance, .. } = self;
        let shape = &balance.domains.cpus[cpu.index()].levels[0].shape;
        let waits = |number: usize| rqs[number].nr_running > 1;
        balance.overload = shape.span.iter().any(waits);
        let loads = loads.as_deref().filter(|_| balance.overload)?;
        let (mut busiest, mut most) = (None, (Kind::HasSpare, 0, 0));
        for number in shape.span.iter_wrap(cpu.index() + 1) {
            let running = rqs[number].nr_running;
            if running == 0 {
                continue;
            }
            let (load, pct) = (&loads.queues[number], shape.imbalance_pct);
            let util = load.avg.util_avg.max(u64::from(load.util_est)).min(1024);
            // group_is_overloaded and group_has_capacity of 1024.
            let (crowded, used) = (1024 * pct < load.avg.runnable_avg * 100, 1024 * 100 < util * pct);
            let kind = if running > 1 && (used || crowded) {
                Kind::Overloaded
            } else if crowded || util * pct >= 1024 * 100 {
                Kind::FullyBusy
            } else {
                Kind::HasSpare
            };
            // update_sd_pick_busiest
            let busier = kind > most.0
                || (kind == most.0
                    && match kind {
                        Kind::Overloaded => load.avg.load_avg > most.1,
                        Kind::FullyBusy => rules.eevdf(),
                        Kind::HasSpare => running > most.2,
                    });
            if busier {
                (busiest, most) = (Some(CpuId(number as u32)), (kind, load.avg.load_avg, running));
            }
        }
        // Half of as many tasks as it has more is to be moved: none of one.
        busiest.filter(|_| most.2 > 1)
    }

    /// `detach_tasks` and `attach_tasks` of one task, as kernels that preempt themselves do for a CPU that is about to idle: of those that wait
    /// the one that came or ran first and is not cache-hot.
    fn flat_pull(&mut self, cpu: CpuId, busiest: CpuId) -> Work {
        self.update_rq_clock(busiest);
        let tunables = &self.rules.tunables;
        let domain = &self.balance.domains.cpus[cpu.index()].levels[0];
        let hot_too = domain.nr_balance_failed > domain.shape.cache_nice_tries;
        let cost = tunables.migration_cost.as_nanos() as i64;
        let rq = &self.rqs[busiest.index()];
        let (running, now) = (rq.curr, rq.clock_task);
        for _ in 0..tunables.nr_migrate.min(rq.nr_running) {
            let Some(task) = self.balance.cfs_tasks.last(busiest) else { break };
            let ran = now.wrapping_sub(self.entities[task.index()].exec_start) as i64;
            if task != running && (hot_too || ran >= cost) {
                self.balance.migrations.push(Migration { task, from: busiest, to: cpu });
                if self.rules.eevdf() {
                    self.detach_task(task, cpu);
                    self.attach_task(cpu, task);
                    return Work::Queued;
                }
                self.flat_detach(task, busiest);
                self.flat_attach_alone(task, cpu);
                return Work::Taken(task);
            }
            self.balance.cfs_tasks.move_to_front(busiest, task);
        }
        Work::Nothing
    }

    /// [`Sched::detach_task`] under CFS of a task that waits.
    fn flat_detach(&mut self, task: TaskId, from: CpuId) {
        let (cfs, se) = (CfsRqId(from.0), EntityId(task.0));
        if self.cfs_rqs[cfs.index()].has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, rqs, entities, cfs_rqs, loads, balance, .. } = self;
        let (rq, queue) = (&mut rqs[from.index()], &mut cfs_rqs[from.index()]);
        if let Some(curr) = queue.curr {
            entities[curr.index()].charge(queue, rq.clock_task, rules);
        }
        let (entity, sums) = (&mut entities[se.index()], Sums::of(rules.series));
        let weight = entity.load.scaled >> 10;
        if let Some(loads) = loads.as_deref_mut() {
            let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[from.index()]);
            load.util_est = load.util_est.saturating_sub(own.util_est.value() as u32);
            let now = load.clock(rq.clock_pelt);
            if own.avg.last_update_time != 0 {
                own.end_wait(now, weight);
            }
            update_cfs_rq_load_avg(queue, load, now, sums);
            detach_entity_load_avg(load, &own.avg, weight, sums);
            own.avg.last_update_time = 0;
        }
        let found = queue.timeline.remove(entity.vruntime, entity.sequence);
        debug_assert!(found, "an entity that waits is in its timeline");
        balance.cfs_tasks.remove(from, task);
        entity.on_rq = false;
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        queue.h_nr_running -= 1;
        rq.nr_running -= 1;
        entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
        self.update_min_vruntime(cfs);
    }

    /// [`Sched::attach_task`] under CFS to a CPU whose last task left just now, but for the timeline, which it would leave as it is picked:
    /// [`Sched::flat_take_over`] must follow. Nobody is there to be preempted.
    fn flat_attach_alone(&mut self, task: TaskId, to: CpuId) {
        let (se, sums) = (EntityId(task.0), Sums::of(self.rules.series));
        self.tasks[task.index()].cpu = to;
        self.balance.cfs_tasks.add(to, task);
        let (rq, queue) = (&mut self.rqs[to.index()], &mut self.cfs_rqs[to.index()]);
        let entity = &mut self.entities[se.index()];
        if let Some(loads) = self.loads.as_deref_mut() {
            let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[to.index()]);
            load.util_est += own.util_est.value() as u32;
            attach_entity_load_avg(load, &mut own.avg, entity.load.scaled >> 10, sums);
        }
        entity.cfs_rq = CfsRqId(to.0);
        entity.vruntime = entity.vruntime.plus(queue.min_vruntime.0);
        (entity.on_rq, entity.exec_start) = (true, 0);
        queue.load.add(entity.load.scaled);
        (queue.nr_running, queue.h_nr_running, rq.nr_running) = (1, 1, 1);
    }

    /// The end of [`Sched::schedule`] of a CPU that took a task from another one as its last one left.
    pub(super) fn flat_take_over(&mut self, cpu: CpuId, task: TaskId) {
        let (rq, queue) = (&mut self.rqs[cpu.index()], &mut self.cfs_rqs[cpu.index()]);
        let entity = &mut self.entities[task.index()];
        queue.curr = Some(EntityId(task.0));
        entity.exec_start = rq.clock_task;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        (rq.curr, rq.need_resched, rq.lazily) = (task, false, false);
    }
}
