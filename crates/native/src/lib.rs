//! The same primitive operations on the running kernel: real processes and threads, pipes, sockets and policies.
//!
//! [`run()`] executes a compiled [`Program`](schedlab_program::Program), operation by operation as the simulator does, and measures
//! it; [`calibrate()`] measures what the machine's operations cost, and [`probe()`] what its kernel lets a user do.

mod attributes;
mod background;
mod calibrate;
mod capacity;
mod cgroups;
mod error;
mod guard;
mod janitor;
mod memory;
mod network;
mod objects;
mod ops;
mod outcome;
mod plumbing;
mod preflight;
mod probe;
mod record;
mod scenario;
mod sessions;
mod shared;
mod spin;
mod stop;
mod storage;
mod supervise;
mod system;
mod task;
mod watch;

pub use background::{Background, Group, Interrupts, Watched, background};
pub use calibrate::{Calibration, Spread, calibrate};
pub use error::NativeError;
pub use guard::{GuardOptions, guard};
pub use probe::{Allowed, Probe, probe};
pub use record::{Level, RecordOptions, Recorded, record};
pub use scenario::{Played, Scenario, play};
pub use supervise::{RunOptions, run};
