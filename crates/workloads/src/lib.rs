//! Built-in workloads: builders of [`Workload`](schedlab_model::Workload)s, and the one-word text that names one.
//!
//! ```
//! let workload = schedlab_workloads::parse("hackbench:groups=5,loops=10,pipe")?;
//! assert_eq!(workload.name, "hackbench:groups=5,fds=20,loops=10,datasize=100,pipe=1,threads=0");
//! let error = schedlab_workloads::parse("hackbench:groups=0").unwrap_err().to_string();
//! assert_eq!(error, "workload 'hackbench', groups = '0' is out of range; allowed: 1 to 100000");
//! # Ok::<(), schedlab_workloads::WorkloadError>(())
//! ```

mod computing;
mod error;
mod hackbench;
mod keys;
mod periodic;
mod pingpong;
pub mod rtapp;
mod serving;
mod simple;

pub use computing::{Copy, Mixed, Pi};
pub use error::WorkloadError;
pub use hackbench::Hackbench;
pub use keys::{BUILDERS, Builder, Key, KeyKind, parse};
pub use periodic::Periodic;
pub use pingpong::PingPong;
pub use serving::{Aio, Http, Schbench};
pub use simple::{Hogs, Sleepers};
