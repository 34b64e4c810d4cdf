//! Ticks of a flat queue.

use schedlab_model::{CpuId, TaskId, Time, TurnRule};

use crate::balance::state::Balance;
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::load::EntityLoad;
use crate::fair::pelt::SchedAvg;
use crate::fair::weight::calc_delta;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Rq;

/// What a tick came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatTick {
    /// Which task runs now.
    pub next: TaskId,
    /// The tick had the CPU schedule.
    pub scheduled: bool,
    /// So many of the ticks to come would change nothing but accounting ([`Sched::inactive_ticks`]).
    pub inactive: u64,
}

impl Sched<Ours> {
    /// `count` ticks, the first at `first`, one tick apart, of which the last is due now and may act: [`Sched::skip_ticks`] of the
    /// others, [`Sched::sched_tick`], and, if that asks for it, [`Sched::schedule`]. None, and nothing done, where the long way is to be
    /// taken: where load is to be balanced, where sleepers that left are to be taken out of the queue's averages, and where a fair server's
    /// runtime or (EEVDF) the request of a task that is alone is over.
    ///
    /// All averages take all ticks at once, as in [`Sched::skip_ticks`]: a tick that acts does so after it brought them up to date.
    /// So does the charge, whose rounding is that of each tick.
    #[inline]
    pub fn flat_tick(&mut self, cpu: CpuId, first: Time, count: u64) -> Option<FlatTick> {
        if self.has_groups() {
            return None;
        }
        let (cfs, jiffies) = (CfsRqId(cpu.0), self.balance.jiffy.0);
        debug_assert_eq!(jiffies, self.jiffies(cpu));
        let Self { rules, rqs, tasks, entities, cfs_rqs, balance, pelt_origin, .. } = self;
        let (rq, queue) = (&mut rqs[cpu.index()], &mut cfs_rqs[cfs.index()]);
        let (previous, next_balance) = (rq.curr, rq.balance.next_balance);
        if previous == TaskId::IDLE || rq.need_resched || jiffies >= next_balance {
            return None;
        }
        if rq.balance.tick_stopped || rq.balance.push_cpu.is_some() || !balance.nohz.idle_cpus.is_empty() {
            return None;
        }
        let se = EntityId(previous.0);
        let entity = &mut entities[se.index()];
        if first.as_nanos() <= entity.exec_start || queue.pelt.removed.count > 0 {
            return None;
        }
        let until_balance = next_balance - (jiffies + 1);
        if rules.eevdf {
            return self.flat_tick_eevdf(cpu, first.as_nanos(), count, until_balance);
        }
        rq.flat_charge_ticks(queue, entity, rules, (first.as_nanos(), count), *pelt_origin);
        let Some((leftmost, first_key)) = queue.timeline.first_with_key() else {
            queue.min_vruntime = queue.min_vruntime.max(entity.vruntime);
            return Some(FlatTick { next: previous, scheduled: false, inactive: until_balance });
        };
        queue.min_vruntime = queue.min_vruntime.max(entity.vruntime.min(first_key));
        let weight = entity.load.scaled;
        let ideal = rules.flat_slice(queue, weight);
        let ahead = entity.vruntime.since(first_key);
        let found = rules.check_preempt_tick(entity.turn(), ideal, Some(ahead));
        let scheduled = found.preempts();
        if !scheduled {
            let inactive = rules.flat_inactive_ticks(queue, entity, Some(first_key), ideal);
            return Some(FlatTick { next: previous, scheduled, inactive: inactive.min(until_balance) });
        }
        if queue.has_buddies() {
            if let TurnRule::SliceOver(_) = found {
                self.clear_buddies(cfs, se);
            }
            let next = self.flat_switch(cpu, cfs, se);
            let next_key = self.cfs_rqs[cfs.index()].timeline.first_key();
            let (entity, queue) = (&mut self.entities[next.0 as usize], &mut self.cfs_rqs[cfs.index()]);
            let ideal = self.rules.flat_slice(queue, entity.load.scaled);
            let inactive = self.rules.flat_inactive_ticks(queue, entity, next_key, ideal).min(until_balance);
            return Some(FlatTick { next, scheduled, inactive });
        }
        rq.need_resched = false;
        // pick_next_entity: no buddy is set, so the first in virtual time runs, which may be the previous task.
        if ahead < 0 {
            rq.cfs_tasks.move_to_front(tasks, previous);
            let inactive = rules.flat_inactive_ticks(queue, entity, Some(first_key), ideal);
            return Some(FlatTick { next: previous, scheduled, inactive: inactive.min(until_balance) });
        }
        // put_prev_entity; the averages are up to date.
        let (vruntime, slice) = (entity.vruntime, entity.slice);
        let (sequence, next_first) = queue.timeline.insert_and_take_first(vruntime, vruntime, slice, se);
        let next_key = next_first.map(|(_, key)| key);
        entity.sequence = sequence;
        // set_next_entity
        let next = TaskId(leftmost.0);
        let comer = &mut entities[leftmost.index()];
        queue.curr = Some(leftmost);
        comer.begin_turn(rq.clock_task);
        comer.pelt.end_wait(queue.pelt.flat_clock(rq.clock_pelt), comer.load.down_of_tasks());
        rq.curr = next;
        rq.cfs_tasks.move_to_front(tasks, next);
        let ideal = if comer.load.scaled == weight { ideal } else { rules.flat_slice(queue, comer.load.scaled) };
        let inactive = rules.flat_inactive_ticks(queue, comer, next_key, ideal).min(until_balance);
        Some(FlatTick { next, scheduled, inactive })
    }

    /// The same under EEVDF of a CPU that neither balances load nor has an idle one do so, for `until_balance` ticks after these.
    ///
    /// Of the ticks that were put off none ends a request, nor the fair server's runtime, so that they are charged at once.
    #[inline(never)]
    fn flat_tick_eevdf(&mut self, cpu: CpuId, first: u64, count: u64, until_balance: u64) -> Option<FlatTick> {
        let (cfs, previous) = (CfsRqId(cpu.0), known!(self.rqs[cpu.index()]).curr);
        let Self { rules, rqs, entities, cfs_rqs, dl_entities, pelt_origin, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        let se = EntityId(previous.0);
        let entity = known!(mut entities[se.index()]);
        let charge = entity.charge_at_ticks(first, count, rules);
        let alone = queue.nr_running == 1;
        // Alone each tick may have renewed its request.
        if rq.dl.first().is_some() || (alone && !charge.vruntime.before(entity.deadline)) {
            return None;
        }
        if rules.has_fair_server() && !dl_entities[cpu.index()].has_served(charge.delta) {
            return None;
        }
        rq.flat_average_ticks(queue, entity, rules, (first, count), *pelt_origin);
        entity.charge(charge);
        let served = rules.update_deadline(entity);
        if served {
            queue.avg_vruntime(Some(entity), rules);
        }
        let eligible = || queue.average(Some(entity), rules).is_eligible(entity.vruntime);
        let scheduled = !alone && (served || rules.is_unprotected(entity, eligible));
        let mut next = previous;
        if scheduled {
            if queue.has_buddies() {
                self.clear_buddies(cfs, se);
            }
            next = self.flat_switch_eevdf(cpu, cfs, se);
        }
        let Self { rules, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(cfs_rqs[cfs.index()]), known!(mut entities[next.index()]));
        let until_over = match queue.nr_running {
            1 => u64::MAX,
            _ => rules.ticks_until_unprotected(queue, entity, rules.tick),
        };
        let inactive = until_over.min(self.inactive_ticks_server(cpu, self.rules.tick)).min(until_balance);
        Some(FlatTick { next, scheduled, inactive })
    }

    /// [`Sched::sched_tick`] of a task that is alone on its CPU, at the machine's time, where the tick looks at other CPUs, as one of them idles or
    /// load is to be balanced: whether the CPU is to schedule. None, and nothing done, where the long way is to be taken.
    #[inline]
    pub fn flat_tick_alone(&mut self, cpu: CpuId) -> Option<bool> {
        if self.has_groups() {
            return None;
        }
        let Self { rules, rqs, entities, cfs_rqs, balance, pelt_origin, .. } = self;
        let (rq, queue) = (&mut rqs[cpu.index()], &cfs_rqs[cpu.index()]);
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(rq.curr.0));
        if rq.curr == TaskId::IDLE || queue.nr_running != 1 {
            return None;
        }
        let entity = &mut entities[se.index()];
        let charge = entity.charge_until(balance.now, rules)?;
        // Alone it is not preempted, protected or not.
        if rules.eevdf && !charge.vruntime.before(entity.deadline) {
            return None;
        }
        let (idle, state) = (balance.nohz.idle_cpus.first(), &rq.balance);
        if idle.is_none() && !state.tick_stopped && balance.jiffy.0 < state.next_balance {
            return None;
        }
        rq.set_clocks_at(balance.now, *pelt_origin);
        rq.lazily = false;
        self.flat_charge(cpu, cfs, se);
        if !self.rules.eevdf {
            self.cfs_rqs[cfs.index()].update_min_vruntime(Some(self.entities[se.index()].vruntime));
        }
        self.flat_update_load(cpu, cfs, se);
        self.flat_balance_trigger(cpu);
        Some(self.need_resched(cpu))
    }

    /// [`Sched::hrtick`] of a CPU that has its clocks: the current task is marked for rescheduling, so a charge need not do so again.
    pub fn flat_queued_tick(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        if self.groups.len() > 1 || rq.curr == TaskId::IDLE {
            return self.hrtick(cpu);
        }
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(rq.curr.0));
        rq.hrtick.expires = None;
        self.flat_charge(cpu, cfs, se);
        self.flat_update_load(cpu, cfs, se);
        self.resched_curr(cpu);
    }

    /// [`Sched::sched_balance_trigger`] of a CPU whose task is alone, and whose averages are up to date. Mostly its domain is not due, as it is due more
    /// rarely than while the CPU idled, when it was last said when that would be.
    #[inline(always)]
    fn flat_balance_trigger(&mut self, cpu: CpuId) {
        let kick = self.nohz_balancer_kick(cpu);
        let Self { rules, rqs, cfs_rqs, balance, .. } = self;
        let (rq, now) = (&mut rqs[cpu.index()], balance.jiffy.0);
        if now >= rq.balance.next_balance {
            match balance.not_due(rules, cpu) {
                Some(next_balance) => {
                    rq.update_blocked(&cfs_rqs[cpu.index()].pelt.avg, now);
                    rq.balance.next_balance = next_balance;
                }
                None => self.balance_domains(cpu),
            }
        }
        if let Some(kick) = kick {
            self.kick_ilb_at_its_cost(cpu, kick);
        }
    }
}

impl Balance {
    /// When the only domain of a busy CPU is balanced next, if it is not now, and nothing that is remembered of it changes. The CPU's
    /// [`CpuState::newidle`](crate::balance::state::CpuState) stays what it is, too.
    #[inline(always)]
    fn not_due(&self, rules: &Rules, cpu: CpuId) -> Option<u64> {
        let [only] = &self.domains.cpus[cpu.index()].levels[..] else { return None };
        let (now, due) = (self.jiffy.0, only.last_balance + self.sd_interval(rules, only, true));
        (now < due && due < now + 60 * self.second && only.keeps_newidle_cost(now, self.second)).then_some(due)
    }
}

impl Rq {
    /// `count` times the clocks, the averages and `update_curr` but for `min_vruntime`, the first at `first`.
    #[inline(always)]
    fn flat_charge_ticks(
        &mut self,
        queue: &mut CfsRq,
        entity: &mut Entity,
        rules: &Rules,
        ticks: (u64, u64),
        pelt_origin: u64,
    ) {
        self.flat_average_ticks(queue, entity, rules, ticks, pelt_origin);
        entity.update_se_at_ticks(ticks.0, ticks.1, rules);
    }

    /// The part of it that are clocks and averages.
    #[inline(always)]
    fn flat_average_ticks(
        &mut self,
        queue: &mut CfsRq,
        entity: &mut Entity,
        rules: &Rules,
        (first, count): (u64, u64),
        pelt_origin: u64,
    ) {
        let tick = rules.tick;
        let last = first + tick * (count - 1);
        // skip_ticks_of_load of a task that is awake, with no averages to be taken out first.
        let what = (queue.load.down_of_tasks(), u64::from(queue.h_nr_runnable()));
        let (load, own) = (&mut queue.pelt, &mut entity.pelt);
        let before = load.flat_clock(first + pelt_origin).wrapping_sub(tick);
        let weight = entity.load.down_of_tasks();
        if SchedAvg::add_ticks_to_both([&mut load.avg, &mut own.avg], before, tick, count, what, weight) {
            own.util_est.changed();
        }
        self.set_clocks_at(last, pelt_origin);
        self.lazily = false;
    }
}

impl EntityLoad {
    /// `set_next_entity` of a task of this weight that waited, on a queue whose averages are up to `now`.
    #[inline(always)]
    pub(super) fn end_wait(&mut self, now: u64, weight: u64) {
        // It waited for others' slices, over the end of a period mostly.
        if self.avg.last_update_time != 0 && self.avg.update_sum(now, 1, 1, false) {
            self.avg.update_avg(weight);
            self.util_est.changed();
        }
    }
}

impl Rules {
    /// [`Sched::inactive_ticks_fair`] of a task that was charged just now, whose slice is `ideal`; `first_key` is the first waiting task's.
    #[inline(always)]
    pub(super) fn flat_inactive_ticks(
        &self,
        queue: &CfsRq,
        entity: &mut Entity,
        first_key: Option<Vruntime>,
        ideal: u64,
    ) -> u64 {
        debug_assert_eq!(queue.timeline.first_key(), first_key);
        if first_key.is_none() {
            return 0;
        }
        self.ticks_until_preempted(entity, self.tick, ideal, first_key)
    }

    /// `sched_slice` of an entity of this weight that is queued at the top, on a queue without SCHED_IDLE tasks.
    #[inline(always)]
    pub(super) fn flat_slice(&self, queue: &mut CfsRq, weight: u64) -> u64 {
        let of = (queue.load.scaled, weight, queue.nr_running);
        if queue.last_slice.0 == of { queue.last_slice.1 } else { self.find_slice(queue, weight) }
    }

    /// The same where it was another slice that was found last: `sched_slice`'s walk of one level.
    fn find_slice(&self, queue: &mut CfsRq, weight: u64) -> u64 {
        let of = (queue.load.scaled, weight, queue.nr_running);
        let period = self.sched_period(u64::from(queue.nr_running));
        let slice = calc_delta(period, weight, &mut queue.load);
        let slice = self.slice_at_least(slice, || self.tunables.min_granularity.as_nanos());
        queue.last_slice = (of, slice);
        slice
    }
}

impl CfsRq {
    /// Whether a next, last or skip buddy is set.
    #[inline]
    pub(crate) fn has_buddies(&self) -> bool {
        self.next.is_some() || self.last.is_some() || self.skip.is_some()
    }
}
