//! The short way of flat fair queues: what `core.rs` and `fair/` do step by step, in one go.
//!
//! Flat is a machine on which all tasks are SCHED_OTHER and may run anywhere, without groups, bandwidth, high-resolution ticks before 7.2, a policy
//! of the user's own or CPUs that go off line ([`Sched::is_flat`], and the driver's word that this stays so). There most of what a
//! sequence asks has one answer: only the fair class has tasks, no task is throttled, no level stands above a queue, nothing is to
//! be pushed or pulled. What is left is written here once for each of the sequences that make up nearly all of a run:
//!
//! - `wake.rs`: a sleeper's timer expires, and its CPU, if that idles, takes it (`select_task_rq`, `try_to_wake_up`, `schedule`); `eevdf.rs`
//!   of a busy CPU under EEVDF;
//! - `block.rs`: the running task goes to sleep, and another task or none runs (`schedule`);
//! - `newidle.rs`: a CPU that would idle looks at others for work (`sched_balance_newidle`);
//! - `switch.rs`: a woken task preempts the running one, or an idle CPU begins to run a task (`schedule`);
//! - `tick.rs`: ticks that look at a slice, with those that were put off before them, and the switch to the next task that follows
//!   (`task_tick_fair`, `schedule`); and those of a task that is alone beside CPUs that idle, which mostly leave balancing as it was
//!   (`sched_balance_trigger`);
//! - `slices.rs`: all ticks and switches of a CPU whose tasks compute, as long as no other CPU or task has a part in it.
//!
//! Task groups that have nothing but a weight, no quota and no `cpu.idle`, are on the fast path too: `groups.rs` has the sequences for wake-ups, tasks
//! that go to sleep or have to go, and tasks that are moved, `levels.rs` what they do on each level. Ticks are the general path's.
//!
//! Exact, and not only close, for these reasons.
//!
//! - The state is the same: each function leaves queues, entities, averages and balancing as the long way does, and whatever comes next
//!   may take either. Where an answer is not the one assumed, a function changes nothing and says that the long way is to be
//!   taken.
//! - Arithmetic and decisions are those of `fair/rules/`, which both ways call.
//! - What is left out does nothing. Above all, averages are brought up to the same clock several times within one sequence: after the
//!   first time no whole microsecond (1024 ns) is left to be added, so that `update_sum` returns at once.
//!
//! Records are looked up by [`known!`], which does not ask whether a number is one of the table's: of some 35 questions a pair, one instruction in
//! fifteen, none ever had another answer. What comes from outside, the arguments of public functions and the CPU's `curr`, which may be
//! [`TaskId::IDLE`](schedlab_model::TaskId::IDLE), is looked up as anywhere; from there on numbers are those that records hold, or that a
//! [`Wakeup`] of the same machine hands on.
//!
//! `crates/sim/src/fast_path_tests.rs` runs random flat workloads both ways and compares every event and all that is left behind.

/// A record, or a `mut` one, of a number that is known to be in the table. Not for numbers that come from outside.
///
/// Builds with debug assertions, and so all tests, check each number (`tests` below); release builds do not.
///
/// # Why every number is in its table
///
/// 1. The tables are [`Table`](crate::table::Table)s, which only grow: a number that once was in one is in it for ever.
/// 2. `Sched::new` makes a queue and its fair queue for each CPU, `add_task` a task and its entity, and groups make further entities and fair
///    queues: so there are no fewer fair queues than CPUs and no fewer entities than tasks, and the number of a CPU or a task is in the other
///    table as well.
/// 3. A number in a record (a task's CPU, a CPU's tasks and `curr`, a fair queue's `curr` and timeline, the CPUs of a domain) is that of a
///    record of the same [`Sched`](crate::Sched), which gave it out when that was made. `curr` may be [`TaskId::IDLE`](schedlab_model::TaskId), and is
///    compared with that first.
///    So are a task's entity, an entity's `cfs_rq`, `parent` and `my_q`, and a fair queue's `group`, whose tables only grow as well.
/// 4. What callers pass to public functions is looked up by `[]` once, or was ([`Wakeup`]: [`Sched::flat_wake`](crate::Sched)), before it gets here.
macro_rules! known {
    (mut $($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        debug_assert!(number < $($table).+.len(), "no record of {} has number {number}", stringify!($($table).+));
        // SAFETY: the number is in the table, by the four points above.
        unsafe { $($table).+.get_unchecked_mut(number) }
    }};
    ($($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        debug_assert!(number < $($table).+.len(), "no record of {} has number {number}", stringify!($($table).+));
        // SAFETY: the number is in the table, by the four points above.
        unsafe { $($table).+.get_unchecked(number) }
    }};
}

mod block;
mod eevdf;
mod groups;
mod levels;
mod newidle;
mod slices;
mod switch;
mod tick;
mod wake;

pub use slices::{Books, FlatSlices};
pub use tick::FlatTick;
pub use wake::Wakeup;

use crate::decider::Ours;
use crate::machine::Sched;

impl Sched<Ours> {
    /// Whether the fast path may be taken as long as no call changes what a task, a group or a CPU is. Without groups each task has the
    /// entity of its own number; each CPU has the fair queue of its own as its root either way.
    pub fn is_flat(&self) -> bool {
        let plain =
            |task: &crate::entity::TaskStruct| task.policy == schedlab_model::Policy::Other && task.affinity.is_none();
        self.balance.moves_tasks()
            && self.tracks_load
            && !self.balance.other_classes
            && self.has_plain_groups()
            && self.custom.is_none()
            && self.offline.is_none()
            && self.rules.weights.is_none()
            // Up to 6.18 __schedule clears the timer first, and the picked task sets it anew.
            && (!self.rules.has_hrtick() || self.rules.hrtick_set_late)
            && !self.rules.tunables.features.vcpu_pack
            && self.rules.has_fast_path
            && self.tasks.iter().all(plain)
            && (self.has_groups() || self.entities.len() == self.tasks.len())
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::{Attributes, CpuId, Scheduler};

    use super::*;
    use crate::EntityId;
    use crate::rules::Rules;

    fn machine(cpus: u32) -> Sched<Ours> {
        let rules = Rules::new(&Scheduler::new("6.1".parse().unwrap()), cpus).unwrap();
        Sched::new(rules, cpus, Ours::default())
    }

    /// Beside the leaf: on one level, without groups, the remembered slice is `sched_slice`'s, however many wait and whatever they weigh.
    #[test]
    fn a_slice_of_one_level_is_the_hierarchy_s() {
        for release in ["5.10", "6.1"] {
            let rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 1).unwrap();
            let mut sched = Sched::new(rules, 1, Ours::default());
            for nice in [0, 5, -5, 19, -20, 0, 1, -1, 10, 3] {
                let task = sched.new_task(&Attributes { nice, ..Attributes::default() });
                sched.wake_up_new_task(task, CpuId(0));
                for number in 0..=task.0 {
                    let cfs = sched.rqs[0].cfs;
                    let ours = sched.sched_slice(cfs, EntityId(number));
                    let weight = sched.entities[number as usize].load.scaled;
                    let Sched { rules, cfs_rqs, .. } = &mut sched;
                    assert_eq!(
                        rules.flat_slice(&mut cfs_rqs[cfs.index()], weight),
                        ours,
                        "{release}: {number} of {}",
                        task.0
                    );
                }
            }
        }
    }

    /// Where tests are built without debug assertions nothing covers `known!`.
    #[test]
    fn tests_check_numbers() {
        let checked = cfg!(debug_assertions);
        assert!(checked, "this build does not check its look-ups");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no record of entities has number 1")]
    fn a_number_beyond_the_table_is_caught() {
        let mut sched = machine(1);
        sched.new_task(&Attributes::default());
        let entities = &sched.entities;
        let _ = known!(entities[1]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no record of sched.rqs has number 2")]
    fn a_number_beyond_the_table_is_caught_before_it_is_written() {
        let mut sched = machine(2);
        known!(mut sched.rqs[2]).need_resched = true;
    }

    /// In every build: another machine's wake-up names a task and a CPU that this one does not have.
    #[test]
    fn a_wakeup_of_another_machine_is_refused() {
        let mut large = machine(4);
        for _ in 0..9 {
            large.new_task(&Attributes::default());
        }
        let wakeup = Wakeup::of(schedlab_model::TaskId(8), schedlab_model::CpuId(3));
        assert!(large.owns(wakeup));
        let mut small = machine(4);
        small.new_task(&Attributes::default());
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            small.flat_wake_later::<false>(wakeup);
        }));
        assert!(refused.is_err());
        let mut narrow = machine(1);
        for _ in 0..9 {
            narrow.new_task(&Attributes::default());
        }
        assert!(!narrow.owns(wakeup));
    }
}
