//! Thread-fair weights inside a real kernel: a sched_ext scheduler (bpf/), and what loads it and keeps it right.
//!
//! The scheduler shares CPUs by weighted virtual time; each thread's weight is that of its nice level times a factor of the number
//! of its process's threads and of CPUs on line, from a table computed by the simulator's own rules ([`weights`]).

mod error;
pub mod kernel;
pub mod scheduler;
#[expect(missing_docs, reason = "mirrors bpf/shared.h, which describes the fields")]
pub mod shared;
pub mod topology;
pub mod watch;
pub mod weights;

pub use error::ExtError;
