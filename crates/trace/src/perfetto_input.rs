//! Reading Perfetto traces: the scheduler's ftrace events, single or compact, as the lines that `perf script` would print.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;

use flate2::bufread::ZlibDecoder;
use prost::Message;

use crate::TraceError;
use crate::fields::Pid;
use crate::line::MAX_CPUS;
use crate::proto::ftrace_event::Event as Ftrace;
use crate::proto::trace_packet::Data;
use crate::proto::{CompactSched, FtraceEvent, FtraceEventBundle, SchedWakeupFtraceEvent, TracePacket};
use crate::reader::MOST_EVENTS;

/// Most bytes of a trace, and of what its compressed packets hold.
const MOST_BYTES: usize = 256 << 20;
/// Most bytes of one packet, whose messages are in memory at once.
const LONGEST_PACKET: usize = 8 << 20;
/// The tag of `Trace.packet`: field 1, of a length and so many bytes.
const PACKET: u8 = 0x0a;
/// `TASK_COMM_LEN` without the final zero (`include/linux/sched.h`).
const NAME_LENGTH: usize = 15;

/// Whether a file that begins so is a Perfetto trace: its first packet's tag is a line break too, but text has no control characters.
pub(crate) fn is_perfetto(beginning: &[u8]) -> bool {
    let textual = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\t' | b' '..=b'~');
    beginning.first() == Some(&PACKET) && !beginning.iter().take(64).all(textual)
}

/// Reads a trace and returns its events as text, in order of time.
///
/// # Errors
/// [`TraceError::Packet`] for what is no trace or too much of one, and for lost events.
pub(crate) fn text_of_perfetto(bytes: &[u8]) -> Result<String, TraceError> {
    let mut lines = Lines::default();
    lines.read(bytes, true)?;
    Ok(lines.sorted())
}

/// The events so far.
#[derive(Default)]
struct Lines {
    packet: u64,
    release: Option<String>,
    /// All lines, in order of the packets.
    text: String,
    /// Of each event its time, and where its line ends.
    order: Vec<(u64, usize)>,
    /// What runs on each CPU.
    current: BTreeMap<u32, (Pid, String)>,
}

impl Lines {
    fn wrong(&self, found: impl Into<String>, expected: &str) -> TraceError {
        TraceError::packet(self.packet, &found.into(), expected)
    }

    fn read(&mut self, mut bytes: &[u8], outermost: bool) -> Result<(), TraceError> {
        if bytes.len() > MOST_BYTES {
            return Err(self.wrong(format!("{} bytes", bytes.len()), "a trace of at most 256 MiB"));
        }
        while let Some((&tag, rest)) = bytes.split_first() {
            self.packet += 1;
            if tag != PACKET {
                return Err(self.wrong(format!("tag {tag:#04x}"), "tag 0x0a, of a packet (a Perfetto trace)"));
            }
            bytes = rest;
            let length =
                prost::encoding::decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
            let length = length.ok_or_else(|| self.wrong("a broken length", "the packet's length"))?;
            if length > LONGEST_PACKET {
                return Err(self.wrong(format!("{length} bytes"), "a packet of at most 8 MiB"));
            }
            let Some((packet, rest)) = bytes.split_at_checked(length) else {
                return Err(self.wrong(format!("{} bytes", bytes.len()), "as many bytes as the packet's length says"));
            };
            bytes = rest;
            let packet = TracePacket::decode(packet).map_err(|error| self.wrong(error.to_string(), "a TracePacket"))?;
            match packet.data {
                Some(Data::FtraceEvents(bundle)) => self.bundle(bundle)?,
                Some(Data::SystemInfo(system)) => {
                    self.release = system.utsname.and_then(|names| names.release).or(self.release.take());
                }
                Some(Data::CompressedPackets(packed)) if outermost => {
                    let mut unpacked = Vec::new();
                    let most = MOST_BYTES as u64 + 1;
                    let read = ZlibDecoder::new(&packed[..]).take(most).read_to_end(&mut unpacked);
                    read.map_err(|error| self.wrong(error.to_string(), "packets compressed by zlib"))?;
                    self.read(&unpacked, false)?;
                }
                Some(Data::CompressedPackets(_)) => {
                    return Err(self.wrong("compressed packets", "none within compressed packets"));
                }
                Some(Data::ProcessTree(_)) | None => {}
            }
        }
        Ok(())
    }

    fn bundle(&mut self, bundle: FtraceEventBundle) -> Result<(), TraceError> {
        let cpu = bundle.cpu.unwrap_or(0);
        if cpu >= MAX_CPUS {
            return Err(self.wrong(format!("CPU {cpu}"), &format!("a CPU below {MAX_CPUS}")));
        }
        if bundle.lost_events == Some(true) && !self.order.is_empty() {
            return Err(self.wrong("lost_events", "no lost events; record again with larger buffers"));
        }
        // Switches tell what runs, so the two lists go by time.
        let mut events = bundle.event;
        if let Some(compact) = &bundle.compact_sched {
            events.extend(self.switches(compact)?);
            events.extend(self.wakings(compact)?);
        }
        events.sort_by_key(|event| event.timestamp);
        for event in events {
            self.event(cpu, event)?;
        }
        Ok(())
    }

    /// The switches of compact events. What was switched out is what was switched in before.
    fn switches(&self, compact: &CompactSched) -> Result<Vec<FtraceEvent>, TraceError> {
        let length = compact.switch_timestamp.len();
        let lengths = [
            compact.switch_prev_state.len(),
            compact.switch_next_pid.len(),
            compact.switch_next_prio.len(),
            compact.switch_next_comm_index.len(),
        ];
        self.alike(length, &lengths)?;
        let mut time = 0u64;
        let one = |at: usize| {
            time = time.saturating_add(compact.switch_timestamp[at]);
            let switch = crate::proto::SchedSwitchFtraceEvent {
                prev_state: Some(compact.switch_prev_state[at]),
                next_comm: Some(self.interned(compact, compact.switch_next_comm_index[at])?),
                next_pid: Some(compact.switch_next_pid[at]),
                next_prio: Some(compact.switch_next_prio[at]),
                ..Default::default()
            };
            Ok(FtraceEvent { timestamp: Some(time), pid: None, event: Some(Ftrace::SchedSwitch(switch)) })
        };
        (0..length).map(one).collect()
    }

    fn wakings(&self, compact: &CompactSched) -> Result<Vec<FtraceEvent>, TraceError> {
        let length = compact.waking_timestamp.len();
        let lengths = [
            compact.waking_pid.len(),
            compact.waking_target_cpu.len(),
            compact.waking_prio.len(),
            compact.waking_comm_index.len(),
        ];
        self.alike(length, &lengths)?;
        let mut time = 0u64;
        let one = |at: usize| {
            time = time.saturating_add(compact.waking_timestamp[at]);
            let waking = SchedWakeupFtraceEvent {
                comm: Some(self.interned(compact, compact.waking_comm_index[at])?),
                pid: Some(compact.waking_pid[at]),
                prio: Some(compact.waking_prio[at]),
                success: None,
                target_cpu: Some(compact.waking_target_cpu[at]),
            };
            Ok(FtraceEvent { timestamp: Some(time), pid: None, event: Some(Ftrace::SchedWaking(waking)) })
        };
        (0..length).map(one).collect()
    }

    fn alike(&self, length: usize, lengths: &[usize]) -> Result<(), TraceError> {
        if lengths.iter().all(|other| *other == length) {
            return Ok(());
        }
        Err(self.wrong("columns of different lengths", "compact events with as many values in each column"))
    }

    fn interned(&self, compact: &CompactSched, index: u32) -> Result<String, TraceError> {
        let name = compact.intern_table.get(index as usize);
        name.map(|name| shorten(name)).ok_or_else(|| self.wrong(format!("name {index}"), "a name of the intern table"))
    }

    /// Writes an event's line; of other events than the scheduler's nothing.
    fn event(&mut self, cpu: u32, event: FtraceEvent) -> Result<(), TraceError> {
        let (Some(kind), Some(time)) = (event.event, event.timestamp) else { return Ok(()) };
        let (pid, name) = self.current.get(&cpu).cloned().unwrap_or((event.pid.unwrap_or(0), "<...>".to_owned()));
        let mut switched = None;
        let named = |name: Option<String>| shorten(name.as_deref().unwrap_or("<...>"));
        let woken = |task: SchedWakeupFtraceEvent| {
            let (pid, prio) = (task.pid.unwrap_or(0), task.prio.unwrap_or(120));
            format!("comm={} pid={pid} prio={prio} target_cpu={:03}", named(task.comm), task.target_cpu.unwrap_or(0))
        };
        let (what, text) = match kind {
            Ftrace::SchedSwitch(one) => {
                let known = one.prev_pid.is_some() || self.current.contains_key(&cpu);
                let next = (one.next_pid.unwrap_or(0), named(one.next_comm));
                let id = Pid::try_from(next.0).map_err(|_| self.wrong(format!("pid {}", next.0), "a pid"))?;
                switched = Some((id, next.1.clone()));
                if !known {
                    // Compact events do not say what ran before the first switch.
                    self.current.insert(cpu, (id, next.1));
                    return Ok(());
                }
                let previous = one.prev_pid.unwrap_or(i32::try_from(pid).unwrap_or(0));
                let previous_name = one.prev_comm.map_or_else(|| name.clone(), |name| shorten(&name));
                let text = format!(
                    "prev_comm={previous_name} prev_pid={previous} prev_prio={} prev_state={} ==> next_comm={} next_pid={} \
                     next_prio={}",
                    one.prev_prio.unwrap_or(120),
                    state(one.prev_state.unwrap_or(0)),
                    next.1,
                    next.0,
                    one.next_prio.unwrap_or(120)
                );
                ("sched_switch", text)
            }
            Ftrace::SchedWaking(task) => ("sched_waking", woken(task)),
            Ftrace::SchedWakeup(task) => ("sched_wakeup", woken(task)),
            Ftrace::SchedWakeupNew(task) => ("sched_wakeup_new", woken(task)),
            Ftrace::SchedMigrateTask(one) => {
                let (pid, prio) = (one.pid.unwrap_or(0), one.prio.unwrap_or(120));
                let (from, to) = (one.orig_cpu.unwrap_or(0), one.dest_cpu.unwrap_or(0));
                let text = format!("comm={} pid={pid} prio={prio} orig_cpu={from} dest_cpu={to}", named(one.comm));
                ("sched_migrate_task", text)
            }
            Ftrace::SchedProcessExit(one) => {
                let (pid, prio) = (one.pid.unwrap_or(0), one.prio.unwrap_or(120));
                ("sched_process_exit", format!("comm={} pid={pid} prio={prio}", named(one.comm)))
            }
            Ftrace::SchedProcessFork(one) => {
                let (parent, child) = (named(one.parent_comm), named(one.child_comm));
                let (by, pid) = (one.parent_pid.unwrap_or(0), one.child_pid.unwrap_or(0));
                ("sched_process_fork", format!("comm={parent} pid={by} child_comm={child} child_pid={pid}"))
            }
            Ftrace::Print(_) | Ftrace::TaskNewtask(_) | Ftrace::SchedProcessFree(_) => return Ok(()),
        };
        if self.order.len() as u64 >= MOST_EVENTS {
            return Err(self.wrong("more events", &format!("a recording of at most {MOST_EVENTS} events")));
        }
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{name} {pid} [{cpu:03}] {seconds}.{rest:09}: {what}: {text}");
        self.order.push((time, self.text.len()));
        if let Some(next) = switched {
            self.current.insert(cpu, next);
        }
        Ok(())
    }

    /// The lines in order of time; at equal times in order of the packets.
    fn sorted(self) -> String {
        let Self { order, text, release, .. } = self;
        let mut begin = 0;
        let mut lines: Vec<(u64, &str)> = Vec::with_capacity(order.len());
        for (time, end) in order {
            lines.push((time, &text[begin..end]));
            begin = end;
        }
        lines.sort_by_key(|(time, _)| *time);
        let mut sorted = String::with_capacity(text.len() + 64);
        if let Some(release) = release {
            let _ = writeln!(sorted, "# os release : {}", shorten_to(&release, 64));
        }
        sorted.extend(lines.into_iter().map(|(_, line)| line));
        sorted
    }
}

fn shorten(name: &str) -> String {
    shorten_to(name, NAME_LENGTH)
}

fn shorten_to(name: &str, length: usize) -> String {
    name.chars().take(length).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// `task_state_index` as a letter (`TASK_REPORT`, `include/linux/sched.h`); the bit above them all is a preemption.
fn state(bits: i64) -> char {
    const LETTERS: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];
    let at = (bits & 0xff).trailing_zeros() as usize;
    LETTERS.get(at).copied().unwrap_or('R')
}
