//! The same primitive operations on the running kernel: real processes and threads, pipes, sockets and policies.
//!
//! [`run()`] executes a compiled [`Program`](schedlab_program::Program), operation by operation as the simulator does, and measures it.

mod attributes;
mod error;
mod outcome;
mod plumbing;
mod shared;
mod spin;
mod supervise;
mod system;
mod task;

pub use error::NativeError;
pub use supervise::{RunOptions, run};
