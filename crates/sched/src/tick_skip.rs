//! Skipping ticks, exactly: ticks that would change nothing but accounting are counted instead of executed.
//!
//! Exact because nothing that a tick reads can change while the queue is left alone: weights, the number of tasks, the first of the
//! timeline. What changes is the running task's time alone, by the same amount each tick. A driver that skips catches up
//! ([`Sched::skip_ticks`]) before any other access to the queue.
//!
//! Where load is balanced between CPUs, a tick does two things more, and other CPUs look at what it leaves behind.
//!
//! - It balances its CPU's domains once `next_balance` has come, which nothing but its own CPU's balancing changes: ticks before that
//!   do not. It has an idle CPU balance for it, and only then looks at anything else, if there is one: no tick is skipped then, nor
//!   the first one after the CPU idled, which takes it off the list of idle ones (`nohz.idle_cpus`).
//! - It brings averages of load up to date ([`SchedAvg::add_ticks`] takes the very steps). Others read them where they balance, choose
//!   a CPU for a task, or take a task away: before each of these a driver makes up for the ticks of every CPU that is looked at
//!   ([`Sched::looks_at_others`], [`Sched::tick_balances`]), and asks anew.
//!
//! Real-time and deadline tasks are pushed to other CPUs at any time, and groups' weights follow each tick: with them no tick is
//! skipped.

use schedlab_model::{CpuId, Policy, TaskState, Time};

use crate::class::Class;
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId};
use crate::machine::Sched;
use crate::runqueue::Clocks;

impl<D: Decider> Sched<D> {
    /// How many of the coming ticks, the first at `next_tick`, would change nothing but accounting: a lower bound, and
    /// [`u64::MAX`] if none ever acts.
    pub fn inactive_ticks(&mut self, cpu: CpuId, next_tick: Time) -> u64 {
        let class = self.curr_class(cpu);
        if self.balance.on() && class != Class::Idle {
            let until_balance = self.ticks_until_balance(cpu, next_tick.as_nanos());
            if until_balance == 0 || class != Class::Fair {
                return 0;
            }
            return self.inactive_ticks_fair(cpu, next_tick.as_nanos()).min(until_balance);
        }
        match class {
            Class::Idle => u64::MAX,
            Class::Deadline => self.inactive_ticks_dl(cpu, next_tick.as_nanos()),
            Class::Rt => self.inactive_ticks_rt(cpu, next_tick.as_nanos()),
            Class::Fair => self.inactive_ticks_fair(cpu, next_tick.as_nanos()),
            Class::Custom => self.inactive_ticks_custom(cpu, next_tick),
        }
    }

    /// Coming ticks of a busy CPU that neither balance load nor have an idle CPU do so ([`Sched::sched_balance_trigger`]).
    fn ticks_until_balance(&self, cpu: CpuId, next_tick: u64) -> u64 {
        let state = &self.rqs[cpu.index()].balance;
        if self.balance.other_classes || state.tick_stopped || self.balance.nohz.idle_cpus.first().is_some() {
            return 0;
        }
        state.next_balance.saturating_sub(self.rules.in_ticks.quotient(next_tick))
    }

    /// Whether a tick of the CPU now may look at other CPUs, or touch them. A driver that skips ticks makes up for those of all CPUs
    /// first.
    #[inline]
    pub fn tick_balances(&self, cpu: CpuId) -> bool {
        self.balance.on() && self.ticks_until_balance(cpu, self.balance.now) == 0
    }

    /// Whether [`Sched::schedule`] now may look at other CPUs, or touch them: the CPU may run out of work, or push a task to another one.
    #[inline]
    pub fn looks_at_others(&self, cpu: CpuId, state: TaskState) -> bool {
        let Some(balance) = self.balance_of(cpu) else { return false };
        balance.push_cpu.is_some() || self.nr_awake(cpu) <= u32::from(state != TaskState::Running)
    }

    fn inactive_ticks_rt(&self, cpu: CpuId, next_tick: u64) -> u64 {
        let rq = &self.rqs[cpu.index()];
        let task = &self.tasks[rq.curr.index()];
        let first = next_tick.saturating_sub(self.entities[task.se.index()].exec_start);
        let until_throttled = self.inactive_ticks_rt_bandwidth(cpu, first);
        let until_slice = match task.policy {
            // Alone on the CPU no slice ends anything.
            Policy::Rr(_) if rq.rt.nr_running > 1 => u64::from(task.time_slice.saturating_sub(1)),
            _ => u64::MAX,
        };
        until_slice.min(until_throttled)
    }

    fn inactive_ticks_fair(&mut self, cpu: CpuId, next_tick: u64) -> u64 {
        let se = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        let first = next_tick.saturating_sub(self.entities[se.index()].exec_start);
        let until_server = self.inactive_ticks_server(cpu, first);
        // Groups' weights and load averages follow each tick.
        if self.entities[se.index()].parent.is_some() || (self.tracks_load && self.has_groups()) {
            return 0;
        }
        if !self.looks_at_slice(cfs) {
            return until_server;
        }
        if self.rules.eevdf {
            let (entity, queue) = (&mut self.entities[se.index()], &self.cfs_rqs[cfs.index()]);
            let partial = next_tick.saturating_sub(entity.exec_start);
            return self.rules.ticks_until_unprotected(queue, entity, partial).min(until_server);
        }
        if let Some(until_hrtick) = self.ticks_until_hrtick(cpu, next_tick) {
            return until_hrtick;
        }
        let ideal = self.sched_slice(cfs, se);
        self.inactive_ticks_cfs(cfs, se, ideal, next_tick)
    }

    /// Of a task that is not alone under CFS, whose slice is `ideal`.
    fn inactive_ticks_cfs(&mut self, cfs: CfsRqId, se: EntityId, ideal: u64, next_tick: u64) -> u64 {
        let entity = &mut self.entities[se.index()];
        let partial = next_tick.saturating_sub(entity.exec_start);
        let first_key = self.cfs_rqs[cfs.index()].timeline.first_key();
        self.rules.ticks_until_preempted(entity, partial, ideal, first_key)
    }

    /// Does what `count` ticks would have done, the first at `first`, one tick apart: none of them may act
    /// ([`Sched::inactive_ticks`]).
    pub fn skip_ticks(&mut self, cpu: CpuId, first: Time, count: u64) {
        if count == 0 {
            return;
        }
        if self.tracks_load && self.curr_class(cpu) == Class::Fair {
            self.skip_ticks_of_load(cpu, first, count);
        }
        let last = first + self.rules.tick_time() * (count - 1);
        match self.curr_class(cpu) {
            Class::Idle => self.set_clocks(cpu, Clocks::all(last)),
            Class::Rt => {
                self.set_clocks(cpu, Clocks::all(last));
                self.update_curr_rt(cpu);
                self.skip_rr_ticks(cpu, count);
            }
            Class::Custom => {
                self.set_clocks(cpu, Clocks::all(last));
                self.update_curr_custom(cpu);
            }
            // What it has left, and whether that counts for real-time tasks, is a matter of each tick.
            Class::Deadline => {
                for number in 0..count {
                    self.set_clocks(cpu, Clocks::all(first + self.rules.tick_time() * number));
                    self.update_curr_dl(cpu);
                }
            }
            Class::Fair if self.rules.eevdf && self.skip_ticks_of_request(cpu, first, count) => {
                self.set_clocks(cpu, Clocks::all(last));
            }
            // Alone on its queue an EEVDF task renews its deadline every slice: that is counted tick by tick.
            Class::Fair if self.rules.eevdf => {
                for number in 0..count {
                    self.set_clocks(cpu, Clocks::all(first + self.rules.tick_time() * number));
                    self.update_curr_fair(cpu);
                }
            }
            Class::Fair => {
                self.set_clocks(cpu, Clocks::all(first));
                self.update_curr_fair(cpu);
                self.set_clocks(cpu, Clocks::all(last));
                if count > 1 {
                    self.charge_whole_ticks(cpu, count - 1);
                }
            }
        }
    }

    /// Charges an EEVDF task for `count` ticks at once, the first at `first`: false, and nothing done, where its request or its CPU's fair server's
    /// runtime may end in between. No tick that is skipped takes protection away from a task that is not alone.
    fn skip_ticks_of_request(&mut self, cpu: CpuId, first: Time, count: u64) -> bool {
        let Self { rules, rqs, tasks, entities, dl_entities, .. } = self;
        let entity = &mut entities[tasks[rqs[cpu.index()].curr.index()].se.index()];
        if entity.parent.is_some() || first.as_nanos() <= entity.exec_start {
            return false;
        }
        let charge = entity.charge_at_ticks(first.as_nanos(), count, rules);
        let mut serves = || !rules.has_fair_server() || dl_entities[cpu.index()].has_served(charge.delta);
        let goes_on = charge.vruntime.before(entity.deadline) && serves();
        if goes_on {
            entity.charge(charge);
        }
        goes_on
    }

    /// Each round of `rr_ticks` ends with a fresh slice, as the task is alone in its list or the slice does not end.
    fn skip_rr_ticks(&mut self, cpu: CpuId, count: u64) {
        let curr = self.rqs[cpu.index()].curr;
        let rr_ticks = u64::from(self.rules.rr_ticks);
        let task = &mut self.tasks[curr.index()];
        if !matches!(task.policy, Policy::Rr(_)) {
            return;
        }
        // time_slice runs s, s−1, …, 1, then rr_ticks again: count it down modulo rr_ticks, with 0 standing for rr_ticks.
        let left = u64::from(task.time_slice) % rr_ticks;
        let left = (left + rr_ticks - count % rr_ticks) % rr_ticks;
        task.time_slice = if left == 0 { rr_ticks } else { left } as u32;
    }

    /// `update_curr` once for each of `count` whole ticks: the rounding of virtual time is the same each time, so it multiplies.
    fn charge_whole_ticks(&mut self, cpu: CpuId, count: u64) {
        let now = self.rqs[cpu.index()].clock_task;
        let se = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        let entity = &mut self.entities[se.index()];
        let first = entity.exec_start.wrapping_add(self.rules.tick);
        entity.update_se_at_ticks(first, count, &self.rules);
        debug_assert_eq!(entity.exec_start, now);
        let cfs = entity.cfs_rq;
        self.update_min_vruntime(cfs);
    }
}
