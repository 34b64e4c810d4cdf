//! The short way of flat fair queues: what `core.rs` and `fair/` do step by step, in one go.
//!
//! Flat is a machine on which all tasks are SCHED_OTHER and may run anywhere, without groups, bandwidth, high-resolution ticks, a policy of
//! the user's own or CPUs that go off line ([`Sched::is_flat`], and the driver's word that this stays so). There most of what a
//! sequence asks has one answer: no class but the fair one has anybody, nobody is throttled, no level stands above a queue, nothing is to
//! be pushed or pulled. What is left is written here once for each of the sequences that make up nearly all of a run:
//!
//! - `wake.rs`: a sleeper's timer expires, and its CPU, if that idles, takes it (`select_task_rq`, `try_to_wake_up`, `schedule`); `eevdf.rs`
//!   of a busy CPU under EEVDF;
//! - `block.rs`: the running task goes to sleep, and somebody else or nobody runs (`schedule`);
//! - `newidle.rs`: a CPU that would idle looks at others for work (`newidle_balance`);
//! - `switch.rs`: the running task has to go as somebody woke (`schedule`);
//! - `tick.rs`: ticks that look at a slice, with those that were put off before them, and the switch to the next task that follows
//!   (`task_tick_fair`, `schedule`); and those of a task that is alone beside CPUs that idle, which mostly leave balancing as it was
//!   (`trigger_load_balance`);
//! - `slices.rs`: all ticks and switches of a CPU whose tasks compute, as long as nobody else has a part in it.
//!
//! Exact, and not only close, for these reasons.
//!
//! - The state is the same: each function leaves queues, entities, averages and balancing as the long way does, and whatever comes next
//!   may take either. Where an answer is not the one assumed, a function changes nothing and says that the long way is to be
//!   taken.
//! - Arithmetic is that of `fair/`: the same functions are called, or their operations are done in the same order.
//! - What is left out does nothing. Above all, averages are brought up to the same clock several times within one sequence: after the
//!   first time no whole microsecond (1024 ns) is left to be added, so that `update_sum` returns at once.
//!
//! Records are looked up by [`known!`], which does not ask whether a number is one of the table's: of some 35 questions a pair, one instruction in
//! fifteen, none ever had another answer. What comes from outside, the arguments of public functions and the CPU's `curr`, which may be nobody, is looked
//! up as anywhere; from there on numbers are those that records hold, or that a [`Wakeup`] of the same machine hands on.
//!
//! `crates/sim/src/flat_tests.rs` runs random flat workloads both ways and compares every event and all that is left behind.

/// A record, or a `mut` one, of a number that is known to be in the table. Not for numbers that come from outside. Builds with debug assertions, and so
/// all tests, ask whether it is.
///
/// Safe as numbers of tasks, entities and CPUs are places in tables that never shrink, and are given out as their records are made: a CPU's
/// run queue with its fair queue, a task with its entity. So who knows that one of them is there may look the other up, too; and what records name (a CPU's
/// tasks, a task's CPU, CPUs of a domain) is there.
macro_rules! known {
    (mut $($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        // SAFETY: see above.
        unsafe { $($table).+.get_unchecked_mut(number) }
    }};
    ($($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        // SAFETY: see above.
        unsafe { $($table).+.get_unchecked(number) }
    }};
}

mod block;
mod eevdf;
mod newidle;
mod slices;
mod switch;
mod tick;
mod wake;

pub use slices::{Books, FlatSlices};
pub use tick::FlatTick;
pub use wake::Wakeup;

use schedlab_model::Series;

use crate::core::Sched;
use crate::decider::Ours;

impl Sched<Ours> {
    /// Whether the short way may be taken as long as nobody changes what a task or a CPU is. Without groups each task has the entity of its
    /// own number, and each CPU the fair queue of its own.
    pub fn is_flat(&self) -> bool {
        let plain =
            |task: &crate::entity::TaskStruct| task.policy == schedlab_model::Policy::Other && task.affinity.is_none();
        self.balance.moves_tasks()
            && self.tracks_load
            && !self.balance.other_classes
            && !self.has_groups()
            && self.custom.is_none()
            && self.offline.is_none()
            && self.rules.weights.is_none()
            && !self.rules.has_hrtick()
            && !self.rules.tunables.features.vcpu_pack
            && matches!(self.rules.series, Series::V5_10 | Series::V6_1 | Series::V6_12)
            && self.tasks.iter().all(plain)
            && self.entities.len() == self.tasks.len()
    }
}
