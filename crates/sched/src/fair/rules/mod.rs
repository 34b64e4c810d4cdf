//! The rules of the fair class, each once: what every way through the code asks, be it level by level through groups, the fast path, the
//! skipping of ticks or a replay.
//!
//! A *decision* takes values and returns its margin or its reason, an *accounting* rule borrows the records that it changes. What differs
//! between ways is the sequence in which they are asked, never the formula.

mod average;
mod charge;
mod lag;
mod pick;
mod place;
mod protect;
mod slice;
mod tick_preempt;
mod wakeup_preempt;

pub(crate) use pick::Picked;
