//! The messages of Perfetto's trace format that are read and written, under Perfetto's names and field numbers.
//!
//! A hand-declared subset of `protos/perfetto/trace/perfetto_trace.proto`; readers skip what they do not know, so a subset
//! is a valid trace.
#![expect(missing_docs, reason = "every message and field is named and documented by perfetto_trace.proto")]

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(oneof = "trace_packet::Data", tags = "1, 2, 45, 50")]
    pub data: Option<trace_packet::Data>,
}

pub mod trace_packet {
    use super::{FtraceEventBundle, Oneof, ProcessTree, SystemInfo};

    #[derive(Clone, PartialEq, Oneof)]
    pub enum Data {
        #[prost(message, tag = "1")]
        FtraceEvents(FtraceEventBundle),
        #[prost(message, tag = "2")]
        ProcessTree(ProcessTree),
        #[prost(message, tag = "45")]
        SystemInfo(SystemInfo),
        /// Packets of a trace, by zlib.
        #[prost(bytes, tag = "50")]
        CompressedPackets(Vec<u8>),
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
    #[prost(uint32, optional, tag = "8")]
    pub num_cpus: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(string, optional, tag = "1")]
    pub sysname: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub release: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<process_tree::Process>,
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<process_tree::Thread>,
}

pub mod process_tree {
    use super::Message;

    #[derive(Clone, PartialEq, Message)]
    pub struct Process {
        #[prost(int32, optional, tag = "1")]
        pub pid: Option<i32>,
        #[prost(int32, optional, tag = "2")]
        pub ppid: Option<i32>,
        #[prost(string, repeated, tag = "3")]
        pub cmdline: Vec<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Thread {
        #[prost(int32, optional, tag = "1")]
        pub tid: Option<i32>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
        #[prost(int32, optional, tag = "3")]
        pub tgid: Option<i32>,
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<FtraceEvent>,
    #[prost(bool, optional, tag = "3")]
    pub lost_events: Option<bool>,
    #[prost(message, optional, boxed, tag = "4")]
    pub compact_sched: Option<Box<CompactSched>>,
}

/// `FtraceEventBundle.CompactSched`: times are differences from the one before.
#[derive(Clone, PartialEq, Message)]
pub struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub switch_next_prio: Vec<i32>,
    #[prost(string, repeated, tag = "5")]
    pub intern_table: Vec<String>,
    #[prost(uint32, repeated, tag = "6")]
    pub switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub waking_target_cpu: Vec<i32>,
    #[prost(int32, repeated, tag = "10")]
    pub waking_prio: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub waking_comm_index: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    #[prost(oneof = "ftrace_event::Event", tags = "3, 4, 17, 20, 114, 235, 238, 239, 240, 491")]
    pub event: Option<ftrace_event::Event>,
}

pub mod ftrace_event {
    use super::{
        Oneof, PrintFtraceEvent, SchedMigrateTaskFtraceEvent, SchedProcessExitFtraceEvent, SchedProcessForkFtraceEvent,
        SchedProcessFreeFtraceEvent, SchedSwitchFtraceEvent, SchedWakeupFtraceEvent, TaskNewtaskFtraceEvent,
    };

    #[derive(Clone, PartialEq, Oneof)]
    pub enum Event {
        #[prost(message, tag = "3")]
        Print(PrintFtraceEvent),
        #[prost(message, tag = "4")]
        SchedSwitch(SchedSwitchFtraceEvent),
        #[prost(message, tag = "17")]
        SchedWakeup(SchedWakeupFtraceEvent),
        #[prost(message, tag = "20")]
        SchedWaking(SchedWakeupFtraceEvent),
        #[prost(message, tag = "114")]
        SchedWakeupNew(SchedWakeupFtraceEvent),
        #[prost(message, tag = "235")]
        TaskNewtask(TaskNewtaskFtraceEvent),
        #[prost(message, tag = "238")]
        SchedProcessExit(SchedProcessExitFtraceEvent),
        #[prost(message, tag = "239")]
        SchedProcessFork(SchedProcessForkFtraceEvent),
        #[prost(message, tag = "240")]
        SchedProcessFree(SchedProcessFreeFtraceEvent),
        #[prost(message, tag = "491")]
        SchedMigrateTask(SchedMigrateTaskFtraceEvent),
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct PrintFtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub ip: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub buf: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitchFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub next_prio: Option<i32>,
}

/// `SchedWakeupFtraceEvent`, `SchedWakingFtraceEvent` and `SchedWakeupNewFtraceEvent`, which are alike.
#[derive(Clone, PartialEq, Message)]
pub struct SchedWakeupFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskNewtaskFtraceEvent {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub comm: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub clone_flags: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessExitFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessForkFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub parent_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub parent_pid: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub child_comm: Option<String>,
    #[prost(int32, optional, tag = "4")]
    pub child_pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessFreeFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedMigrateTaskFtraceEvent {
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub orig_cpu: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub dest_cpu: Option<i32>,
}
