//! A look at our machine during a replay.

use schedlab_sched::{Ours, Sched};

use crate::recorded_decider::RecordedDecider;

/// The state of our machine after a step of a recording.
#[derive(Debug)]
pub struct Watched<'a> {
    sched: &'a Sched<RecordedDecider>,
}

/// Shown our machine after each step of a recording.
pub type Watch<'a> = &'a mut dyn FnMut(&Watched<'_>);

impl<'a> Watched<'a> {
    pub(crate) const fn of(sched: &'a Sched<RecordedDecider>) -> Self {
        Self { sched }
    }

    /// A copy of the machine, which goes on by the rules alone.
    pub fn machine(&self) -> Sched<Ours> {
        self.sched.with_decider(Ours::default())
    }
}
