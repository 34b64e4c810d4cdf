//! Trace formats: reads recordings of real kernels, writes the events of a run.
//!
//! In: the text of `trace-cmd report`, of `perf script` and of `/sys/kernel/tracing/trace` ([`Reader`]), plain or gzipped, Perfetto
//! traces ([`open`]), and the snapshot of `/sys/kernel/debug/sched/debug` ([`Snapshot`]). Out: a Perfetto trace ([`write_perfetto`]) and ftrace text
//! ([`write_ftrace`]), which [`Reader`] reads back.

mod error;
mod fields;
mod ftrace;
mod further;
mod head;
mod input;
mod label;
mod line;
mod payload;
mod perfetto;
mod perfetto_input;
mod probe;
pub mod proto;
mod reader;
mod record;
mod snap;
mod snapshot;

pub use error::TraceError;
pub use fields::Pid;
pub use ftrace::write_ftrace;
pub use head::Head;
pub use input::{open, open_bytes, read_text};
pub use label::{PID_BASE, TaskLabel, pid};
pub use perfetto::{PerfettoOptions, write_perfetto};
pub use probe::{Probe, Server};
pub use reader::Reader;
pub use record::{Context, EntityRef, Flags, QueueClocks, Record, RecordKind, RecordState, TaskRef};
pub use snap::{EevdfSnap, LoadSnap, TaskSnap};
pub use snapshot::{FairQueue, Snapshot, SnapshotTask};
