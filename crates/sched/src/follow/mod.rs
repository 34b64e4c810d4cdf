//! What a replay needs to follow a kernel: states and decisions that were recorded take the place of ours.

mod assume;
mod balance;
mod recorded;

pub use balance::{DomainPast, Past};
pub use recorded::RtState;
