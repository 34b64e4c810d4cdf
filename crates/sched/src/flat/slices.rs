//! Slices of a CPU whose tasks all compute, one after the other, until something else may happen.
//!
//! Between two balancings, ticks of CPUs that all have work change nothing that another CPU reads. A driver that knows of nothing else that
//! comes may have each CPU go on alone, ticks and switches, up to an instant that is the same for all, and only then asks again who is first.

use schedlab_model::{CpuId, TaskId};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId};

/// What the slices of a CPU came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatSlices {
    /// The first tick that was not done, and the first that may act.
    pub ticks: [u64; 2],
    /// Ticks that might have acted.
    pub looked: u64,
    /// Some were put off.
    pub skipped: bool,
}

impl Sched<Ours> {
    /// The beginning of the first jiffy in which some CPU balances load: before that no tick looks at another CPU. None where one may at any time.
    pub fn flat_horizon(&self) -> Option<u64> {
        if self.rules.eevdf() || !self.balance.nohz.idle_cpus.is_empty() {
            return None;
        }
        let mut first = u64::MAX;
        for rq in &self.rqs {
            if rq.balance.tick_stopped || rq.balance.push_cpu.is_some() || rq.need_resched {
                return None;
            }
            first = first.min(rq.balance.next_balance);
        }
        Some(first.saturating_mul(self.rules.tick))
    }

    /// What [`Sched::flat_tick`] does at each tick of the CPU that may act before `horizon`, which is [`Sched::flat_horizon`] at most; `ticks` are the first that
    /// was not done and the first that may act, `switched` is told of each switch when it comes, who leaves and who comes. None, and nothing done,
    /// where that is to be called.
    pub fn flat_slices(
        &mut self,
        cpu: CpuId,
        ticks: [u64; 2],
        horizon: u64,
        mut switched: impl FnMut(u64, TaskId, TaskId),
    ) -> Option<FlatSlices> {
        let Self { rules, rqs, tasks, entities, cfs_rqs, pelt_origin, .. } = self;
        let (rq, queue) = (&mut rqs[cpu.index()], &mut cfs_rqs[CfsRqId(cpu.0).index()]);
        let ([mut first, mut due], tick) = (ticks, rules.tick);
        let mut se = EntityId(rq.curr.0);
        if due >= horizon || rq.curr == TaskId::IDLE || queue.has_buddies() || queue.pelt.removed.count > 0 {
            return None;
        }
        let (mut leftmost, mut first_key) = queue.timeline.first_with_key()?;
        if first <= entities[se.index()].exec_start {
            return None;
        }
        let granularity = rules.tunables.min_granularity.as_nanos();
        let mut count = rules.in_ticks.quotient(due - first) + 1;
        let (mut looked, mut skipped) = (0, false);
        let last = loop {
            let entity = &mut entities[se.index()];
            rq.flat_charge_ticks(queue, entity, rules, (first, count), *pelt_origin);
            queue.min_vruntime = queue.min_vruntime.max(entity.vruntime.min(first_key));
            let ideal = rules.flat_slice(queue, entity.load.scaled);
            let (ran, ahead) =
                (entity.sum_exec_runtime - entity.prev_sum_exec_runtime, entity.vruntime.since(first_key));
            let scheduled = ran > ideal || (ran >= granularity && ahead >= 0 && ahead as u64 > ideal);
            looked += 1;
            let inactive = if scheduled && ahead >= 0 {
                let (vruntime, slice) = (entity.vruntime, entity.slice);
                let (sequence, next) = queue.timeline.insert_and_take_first(vruntime, vruntime, slice, se);
                entity.sequence = sequence;
                let (previous, comer) = (se, &mut entities[leftmost.index()]);
                comer.exec_start = due;
                comer.prev_sum_exec_runtime = comer.sum_exec_runtime;
                comer.pelt.end_wait(queue.pelt.flat_clock(due + *pelt_origin), comer.load.scaled >> 10);
                se = leftmost;
                rq.cfs_tasks.move_to_front(tasks, TaskId(se.0));
                switched(due, TaskId(previous.0), TaskId(se.0));
                // Whoever was put in waits at least.
                (leftmost, first_key) = next.unwrap_or((previous, vruntime));
                let ideal = rules.flat_slice(queue, comer.load.scaled);
                rules.flat_inactive_ticks(queue, comer, Some(first_key), ideal)
            } else {
                if scheduled {
                    rq.cfs_tasks.move_to_front(tasks, TaskId(se.0));
                }
                rules.flat_inactive_ticks(queue, entity, Some(first_key), ideal)
            };
            skipped |= inactive > 0;
            first = due + tick;
            let next = first.saturating_add(inactive.saturating_mul(tick));
            if next >= horizon {
                break (due, inactive);
            }
            (due, count) = (next, inactive + 1);
        };
        let (done, inactive) = last;
        rq.curr = TaskId(se.0);
        queue.curr = Some(se);
        rq.set_clocks_at(done, *pelt_origin);
        let until_balance = rq.balance.next_balance - (rules.in_ticks.quotient(done) + 1);
        Some(FlatSlices { ticks: [first, first + inactive.min(until_balance) * tick], looked, skipped })
    }
}
