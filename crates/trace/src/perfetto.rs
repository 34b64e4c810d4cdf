//! Writing Perfetto traces.

use std::io::Write;

use prost::Message;
use schedlab_model::{Event, EventKind, TaskId, TaskState};

use crate::TraceError;
use crate::label::{BACKGROUND_PID, Labels, TaskLabel};
use crate::proto::ftrace_event::Event as Ftrace;
use crate::proto::process_tree::{Process, Thread};
use crate::proto::trace_packet::Data;
use crate::proto::{
    FtraceEvent, FtraceEventBundle, PrintFtraceEvent, ProcessTree, SchedMigrateTaskFtraceEvent,
    SchedProcessExitFtraceEvent, SchedProcessFreeFtraceEvent, SchedSwitchFtraceEvent, SchedWakeupFtraceEvent,
    SystemInfo, TaskNewtaskFtraceEvent, TracePacket, Utsname,
};

/// What a trace says of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfettoOptions {
    /// The kernel release whose scheduler ran; viewers decode task states by it.
    pub release: String,
    /// The machine's number of CPUs.
    pub cpus: u32,
}

/// All packets are of one sequence; any number but 0 will do.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing before this packet is needed to understand it.
const STATE_CLEARED: u32 = 1;
/// Events of one CPU that share a packet.
const BUNDLE: usize = 1024;
/// `CLONE_THREAD` (`include/uapi/linux/sched.h`).
const CLONE_THREAD: u64 = 0x1_0000;

/// Writes `events` as a trace that ui.perfetto.dev opens: a track for each CPU, the states of each thread.
///
/// `labels` names the tasks in the order of their [`TaskId`]s. Timestamps are the events' own, in nanoseconds. Tasks that are
/// there from the start stand in the process tree, background tasks among them as threads of one process called `background`; forked ones
/// appear with `task_newtask`. A waking writes `sched_waking`, a
/// mark an instant of the task that made it.
///
/// # Errors
/// [`TraceError::Io`] if `output` cannot be written.
pub fn write_perfetto<W: Write>(
    mut output: W,
    events: &[Event],
    labels: &[TaskLabel],
    options: &PerfettoOptions,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { what: "writing a Perfetto trace".to_owned(), source };
    let utsname = Utsname { sysname: Some("Linux".to_owned()), release: Some(options.release.clone()) };
    let system = SystemInfo { utsname: Some(utsname), num_cpus: Some(options.cpus) };
    let mut head = packet(Data::SystemInfo(system));
    head.sequence_flags = Some(STATE_CLEARED);
    write_packet(&mut output, head).map_err(failed)?;
    let mut tree = packet(Data::ProcessTree(process_tree(events, labels)));
    tree.timestamp = Some(events.first().map_or(0, |event| event.time.as_nanos()));
    write_packet(&mut output, tree).map_err(failed)?;

    let translator = Translator { labels: Labels(labels), tasks: labels };
    let mut bundles: Vec<Vec<FtraceEvent>> = Vec::new();
    for event in events {
        let cpu = event.cpu.index();
        if bundles.len() <= cpu {
            bundles.resize_with(cpu + 1, Vec::new);
        }
        translator.translate(event, &mut bundles[cpu]);
        if bundles[cpu].len() >= BUNDLE {
            let bundle = std::mem::take(&mut bundles[cpu]);
            write_bundle(&mut output, cpu, bundle).map_err(failed)?;
        }
    }
    for (cpu, bundle) in bundles.into_iter().enumerate().filter(|(_, bundle)| !bundle.is_empty()) {
        write_bundle(&mut output, cpu, bundle).map_err(failed)?;
    }
    output.flush().map_err(failed)
}

fn packet(data: Data) -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), data: Some(data), ..TracePacket::default() }
}

fn write_bundle<W: Write>(output: &mut W, cpu: usize, event: Vec<FtraceEvent>) -> std::io::Result<()> {
    write_packet(
        output,
        packet(Data::FtraceEvents(FtraceEventBundle {
            cpu: Some(cpu as u32),
            event,
            lost_events: None,
            compact_sched: None,
        })),
    )
}

/// Writes one element of `Trace.packet`, so that the whole trace need not be in memory.
fn write_packet<W: Write>(output: &mut W, packet: TracePacket) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(packet.encoded_len() + 8);
    prost::encoding::message::encode(1, &packet, &mut bytes);
    output.write_all(&bytes)
}

/// Those that no `fork` in the trace makes, with their threads.
fn process_tree(events: &[Event], labels: &[TaskLabel]) -> ProcessTree {
    let mut forked = vec![false; labels.len()];
    for event in events {
        if let EventKind::Fork { parent, child } = event.kind
            && parent != TaskId::IDLE
            && let Some(flag) = forked.get_mut(child.index())
        {
            *flag = true;
        }
    }
    let mut tree = ProcessTree::default();
    let background = i32::try_from(BACKGROUND_PID).ok();
    if labels.iter().any(|label| label.background) {
        tree.processes.push(Process { pid: background, ppid: Some(0), cmdline: vec!["background".to_owned()] });
    }
    let names = Labels(labels);
    for task in (0..).map(TaskId).zip(labels).zip(forked).filter_map(|((task, _), forked)| (!forked).then_some(task)) {
        let (name, number, _) = names.of(task, 0);
        let label = &labels[task.index()];
        if label.background {
            tree.threads.push(Thread { tid: Some(number), name: Some(name), tgid: background });
            continue;
        }
        match label.process {
            Some(leader) if leader != task => {
                let tgid = Some(names.of(leader, 0).1);
                tree.threads.push(Thread { tid: Some(number), name: Some(name), tgid });
            }
            _ => {
                tree.threads.push(Thread { tid: Some(number), name: Some(name.clone()), tgid: Some(number) });
                tree.processes.push(Process { pid: Some(number), ppid: Some(1), cmdline: vec![name] });
            }
        }
    }
    tree
}

struct Translator<'a> {
    labels: Labels<'a>,
    tasks: &'a [TaskLabel],
}

impl Translator<'_> {
    fn translate(&self, event: &Event, into: &mut Vec<FtraceEvent>) {
        let cpu = event.cpu.0;
        let mut push = |pid: i32, kind| {
            let pid = u32::try_from(pid).ok();
            into.push(FtraceEvent { timestamp: Some(event.time.as_nanos()), pid, event: Some(kind) });
        };
        match event.kind {
            EventKind::Fork { parent, child } => {
                if parent == TaskId::IDLE {
                    return;
                }
                let (_, parent, _) = self.labels.of(parent, cpu);
                let (name, child_pid, _) = self.labels.of(child, cpu);
                let leader = self.tasks.get(child.index()).and_then(|label| label.process);
                let thread = leader.is_some_and(|leader| leader != child);
                push(
                    parent,
                    Ftrace::TaskNewtask(TaskNewtaskFtraceEvent {
                        pid: Some(child_pid),
                        comm: Some(name),
                        clone_flags: Some(if thread { CLONE_THREAD } else { 0 }),
                    }),
                );
            }
            EventKind::Waking { task, waker, target } => {
                let (_, waker, _) = self.labels.of(waker, cpu);
                push(waker, Ftrace::SchedWaking(self.woken(task, target.0)));
            }
            EventKind::WakeupNew { task, target } => {
                push(0, Ftrace::SchedWakeupNew(self.woken(task, target.0)));
            }
            EventKind::Switch { previous, state, next } => {
                let (prev_comm, prev_pid, prev_prio) = self.labels.of(previous, cpu);
                let (next_comm, next_pid, next_prio) = self.labels.of(next, cpu);
                push(
                    prev_pid,
                    Ftrace::SchedSwitch(SchedSwitchFtraceEvent {
                        prev_comm: Some(prev_comm.clone()),
                        prev_pid: Some(prev_pid),
                        prev_prio: Some(prev_prio),
                        prev_state: Some(state_bits(state)),
                        next_comm: Some(next_comm),
                        next_pid: Some(next_pid),
                        next_prio: Some(next_prio),
                    }),
                );
                if state == TaskState::Dead {
                    // After its last switch: viewers end the thread's track here.
                    let (comm, pid, prio) = (Some(prev_comm), Some(prev_pid), Some(prev_prio));
                    push(next_pid, Ftrace::SchedProcessFree(SchedProcessFreeFtraceEvent { comm, pid, prio }));
                }
            }
            EventKind::Migrate { task, from, to } => {
                let (name, pid, prio) = self.labels.of(task, cpu);
                push(
                    pid,
                    Ftrace::SchedMigrateTask(SchedMigrateTaskFtraceEvent {
                        comm: Some(name),
                        pid: Some(pid),
                        prio: Some(prio),
                        orig_cpu: i32::try_from(from.0).ok(),
                        dest_cpu: i32::try_from(to.0).ok(),
                    }),
                );
            }
            EventKind::Exit { task } => {
                let (name, pid, prio) = self.labels.of(task, cpu);
                let exit = SchedProcessExitFtraceEvent { comm: Some(name), pid: Some(pid), prio: Some(prio) };
                push(pid, Ftrace::SchedProcessExit(exit));
            }
            EventKind::Mark { task, mark } => {
                let (_, pid, _) = self.labels.of(task, cpu);
                // atrace's instant: I|PROCESS|NAME.
                let buf = Some(format!("I|{pid}|mark {mark}\n"));
                push(pid, Ftrace::Print(PrintFtraceEvent { ip: None, buf }));
            }
        }
    }

    fn woken(&self, task: TaskId, target: u32) -> SchedWakeupFtraceEvent {
        let (name, pid, prio) = self.labels.of(task, target);
        SchedWakeupFtraceEvent {
            comm: Some(name),
            pid: Some(pid),
            prio: Some(prio),
            success: Some(1),
            target_cpu: i32::try_from(target).ok(),
        }
    }
}

/// `sched_switch`'s `prev_state` as kernels report it since 4.14 (`include/linux/sched.h`, `TASK_REPORT`).
const fn state_bits(state: TaskState) -> i64 {
    match state {
        TaskState::Running => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Stopped => 4,
        TaskState::Dead => 16,
    }
}
