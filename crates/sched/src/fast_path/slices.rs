//! Slices of a CPU whose tasks all compute, one after the other, until something else may happen.
//!
//! Between two balancings, ticks of CPUs that all have work change nothing that another CPU reads. A driver that knows of nothing else that
//! comes may have each CPU go on alone, ticks and switches, up to an instant that is the same for all, and only then asks again which CPU
//! is first.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::turns::QueueSlices;
use crate::machine::Sched;
use crate::rules::Rules;

/// What the slices of a CPU came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatSlices {
    /// The task that runs now.
    pub current: TaskId,
    /// The first tick that was not done, and the first that may act, in nanoseconds.
    pub ticks: [u64; 2],
    /// Ticks that might have acted.
    pub looked: u64,
    /// Some were put off.
    pub skipped: bool,
}

/// What a driver writes down of switches.
pub trait Books {
    /// `next` has the CPU instead of `previous` from `now` on, in nanoseconds.
    fn switched(&mut self, now: u64, previous: TaskId, next: TaskId);
}

impl Sched<Ours> {
    /// The beginning of the first jiffy in which some CPU balances load, in nanoseconds: before that no tick looks at another CPU. None where one may at any time.
    pub fn flat_horizon(&self) -> Option<u64> {
        if self.has_groups() || self.rules.eevdf || !self.balance.nohz.idle_cpus.is_empty() {
            return None;
        }
        let mut first = u64::MAX;
        for rq in self.rqs.iter() {
            if rq.balance.tick_stopped || rq.balance.push_cpu.is_some() || rq.need_resched {
                return None;
            }
            first = first.min(rq.balance.next_balance);
        }
        Some(first.saturating_mul(self.rules.tick))
    }

    /// What [`Sched::flat_tick`] does at each tick of the CPU that may act before `horizon`, which is [`Sched::flat_horizon`] at most; `ticks` are the
    /// first that was not done and the first that may act, `books` are told of each switch.
    /// None, and nothing done, where that is to be called.
    #[inline(always)]
    pub fn flat_slices(
        &mut self,
        cpu: CpuId,
        ticks: [u64; 2],
        horizon: u64,
        books: &mut impl Books,
    ) -> Option<FlatSlices> {
        let Self { rules, rqs, tasks, entities, cfs_rqs, pelt_origin, .. } = self;
        let (rq, queue) = (&mut rqs[cpu.index()], &mut cfs_rqs[CfsRqId(cpu.0).index()]);
        let ([mut first, mut due], tick, origin) = (ticks, rules.tick, *pelt_origin);
        if due >= horizon || rq.curr == TaskId::IDLE || queue.has_buddies() || queue.pelt.removed.count > 0 {
            return None;
        }
        let mut entity = &mut entities[rq.curr.index()];
        let what = (queue.load.down_of_tasks(), u64::from(queue.h_nr_runnable()));
        let mut averages = QueueSlices::of(&queue.pelt.avg, tick, what).filter(|_| first > entity.exec_start)?;
        let (mut leftmost, mut first_key) = queue.timeline.first_with_key()?;
        let mut slice = rules.slice(queue, entity);
        let mut count = rules.in_ticks.quotient(due - first) + 1;
        let (began, mut waited, mut looked) = (first, false, 0);
        let inactive = loop {
            let (own, weight) = (&mut entity.pelt, entity.load.down_of_tasks());
            if !averages.take_ticks(own, (first + origin, count), waited, weight) {
                if looked == 0 {
                    return None;
                }
                if waited {
                    own.end_wait(first - tick + origin, weight);
                }
                break count - 1;
            }
            entity.update_se_at_ticks(first, count, rules);
            queue.min_vruntime = queue.min_vruntime.max(entity.vruntime.min(first_key));
            let ahead = entity.vruntime.since(first_key);
            let scheduled = rules.check_preempt_tick(entity.turn(), slice.ideal, Some(ahead)).preempts();
            (looked, first) = (looked + 1, due + tick);
            let comes = scheduled && ahead >= 0;
            let inactive = if comes {
                let (vruntime, length, previous) = (entity.vruntime, entity.slice, entity.task);
                let (se, comer) = (EntityId(previous.0), TaskId(leftmost.0));
                let (sequence, next) = queue.timeline.insert_and_take_first(vruntime, vruntime, length, se);
                entity.sequence = sequence;
                // The task that was put in waits at least.
                (leftmost, first_key) = next.unwrap_or((se, vruntime));
                entity = known!(mut entities[comer.index()]);
                entity.begin_turn(due);
                rq.cfs_tasks.move_to_front(tasks, comer);
                books.switched(due, previous, comer);
                if entity.load.scaled != slice.weight {
                    slice = rules.slice(queue, entity);
                }
                slice.inactive_ticks_of_comer(rules, queue, entity, first_key)
            } else {
                if scheduled {
                    rq.cfs_tasks.move_to_front(tasks, entity.task);
                }
                rules.flat_inactive_ticks(queue, entity, Some(first_key), slice.ideal)
            };
            (due, count) = (first + inactive * tick, inactive + 1);
            // Two ticks end a period, so that nothing reads the averages at the end of a wait.
            waited = comes && count > 1 && due < horizon;
            if comes && !waited {
                entity.pelt.end_wait(first - tick + origin, entity.load.down_of_tasks());
            }
            if due >= horizon {
                break inactive;
            }
        };
        averages.store(&mut queue.pelt.avg);
        (rq.curr, queue.curr, rq.lazily) = (entity.task, Some(EntityId(entity.task.0)), false);
        let last = first - tick;
        rq.set_clocks_at(last, origin);
        let until_balance = rq.balance.next_balance - (rules.in_ticks.quotient(last) + 1);
        let inactive = inactive.min(until_balance);
        let skipped = inactive > 0 || (last - began) / tick + 1 > looked;
        Some(FlatSlices { current: rq.curr, ticks: [first, first + inactive * tick], looked, skipped })
    }
}

/// What all slices of entities of one weight have in common, on a queue of which nothing changes but the current task.
struct Slice {
    weight: u64,
    /// `sched_slice`.
    ideal: u64,
    /// A tick in virtual time.
    step: u64,
    /// How many ticks leave one running that begins, unless it gets ahead of all others.
    inactive: u64,
}

impl Rules {
    #[inline(never)]
    fn slice(&self, queue: &mut CfsRq, entity: &mut Entity) -> Slice {
        let ideal = self.flat_slice(queue, entity.load.scaled);
        let step = self.calc_delta_fair(self.tick, &mut entity.load);
        let inactive = self.inactive_ticks_cfs(self.tick, ideal, i64::MIN, 0);
        Slice { weight: entity.load.scaled, ideal, step, inactive }
    }
}

impl Slice {
    /// [`Rules::flat_inactive_ticks`] of one that begins.
    #[inline(always)]
    fn inactive_ticks_of_comer(&self, rules: &Rules, queue: &CfsRq, entity: &mut Entity, first_key: Vruntime) -> u64 {
        let ahead = entity.vruntime.plus(self.step).since(first_key);
        // As `inactive_ticks_cfs` has it.
        if self.step <= rules.tick && ahead <= rules.tick as i64 {
            return self.inactive;
        }
        rules.flat_inactive_ticks(queue, entity, Some(first_key), self.ideal)
    }
}
