//! Compiles a [`Workload`](schedlab_model::Workload) to primitive operations.
//!
//! A [`Program`] is checked and compiled once and then shared by any number of runs; each task of a run walks it with a
//! [`Cursor`] of its own. The simulator and the native runner both take their operations from here, so that both do the same work.
//!
//! ```
//! use schedlab_model::{Duration, Step, Task, TaskKind, Time, Workload};
//! use schedlab_program::{Cursor, Op, Program};
//!
//! let run = Step::Run(Duration::Fixed(Time::from_micros(5)));
//! let steps = vec![Step::Loop { count: 2, steps: vec![run, Step::Yield] }];
//! let task = Task { name: "worker".into(), instances: 1, kind: TaskKind::Process, attributes: None, steps, ..Task::default() };
//! let workload = Workload {
//!     name: "example".into(),
//!     channels: Default::default(),
//!     latches: vec![],
//!     tasks: vec![task],
//!     ..Workload::default()
//! };
//! let program = Program::compile(&workload)?;
//! let (template, instance) = program.roots().next().expect("one task is there from the start");
//! let mut cursor = Cursor::root(&program, template, instance, 1);
//! let run = Op::Run(Time::from_micros(5));
//! for expected in [run, Op::Yield, run, Op::Yield, Op::Exit, Op::Exit] {
//!     assert_eq!(cursor.next(&program), expected);
//! }
//! # Ok::<(), schedlab_model::ModelError>(())
//! ```

mod background;
mod check;
mod compile;
mod cursor;
mod holding;
mod objects;
mod op;
mod places;
mod program;
mod random;
mod totals;

pub use check::{MAX_MESSAGE, MAX_NESTING};
pub use compile::FORKS_WITHOUT_END;
pub use cursor::Cursor;
pub use objects::{Barrier, Change, FileOp, FileVerb, Memory, Request, Timer};
pub use op::{Op, TemplateId};
pub use places::Places;
pub use program::{Membership, Program, Template, Traffic};
