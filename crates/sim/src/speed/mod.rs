//! How fast the engine is: named scenarios, the same for `cargo bench` and `schedlab bench`, and how they are measured.
//!
//! ```
//! use schedlab_sim::speed::{SCENARIOS, Scenario};
//! let hogs = Scenario::find("hogs-64x4").expect("a scenario");
//! assert_eq!(hogs.goal_ms, Some(5.0));
//! assert!(SCENARIOS.iter().any(|scenario| scenario.name == "ceiling"));
//! ```

mod batch;
mod ceiling;
mod floor;
mod measure;
mod scenario;

pub use batch::{Batch, measure_batch};
pub use measure::{Measured, facts, measure, peak_memory};
pub use scenario::{Counts, Prepared, SCENARIOS, Scenario, Set};
