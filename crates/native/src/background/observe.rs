//! From the text of a trace to what ran: each thread's times on a CPU, and each interrupt's.

use std::collections::BTreeMap;

use serde::Serialize;

/// Idle tasks have this number on every CPU.
const IDLE: u32 = 0;

/// A thread that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Thread {
    /// What it was called last.
    pub(super) comm: String,
    /// Its priority as tracepoints have it: 120 for nice 0, below 100 for real-time.
    pub(super) prio: i32,
    /// CPU time from each wake-up to the sleep that followed, in nanoseconds.
    pub(super) runs: Vec<u64>,
    /// When each of these began, in nanoseconds.
    pub(super) began: Vec<u64>,
    /// The CPUs it ran on.
    pub(super) cpus: Vec<u32>,
}

/// An interrupt, software interrupt or timer: how often, and how long together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Interrupts {
    /// How many there were.
    pub count: u64,
    /// How long they took together, in nanoseconds.
    pub total_ns: u64,
}

/// What a trace shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// By process id.
    pub(super) threads: BTreeMap<u32, Thread>,
    /// By kind and name.
    pub(super) interrupts: BTreeMap<String, Interrupts>,
    /// Switches of which the one before them on their CPU was seen.
    pub(super) paired: u64,
    /// Switches away from a task of which it was not seen that it came: what it ran is not known.
    pub(super) unpaired: u64,
}

/// A CPU as far as it was followed.
#[derive(Default)]
struct Cpu {
    /// The task that came last, and when.
    current: Option<(u32, u64)>,
    /// Interrupts that have begun.
    open: BTreeMap<String, u64>,
}

/// Reads the trace. Tasks of the names `own` are left out.
pub(super) fn observe(text: &str, own: &[&str]) -> Observed {
    let mut found = Observed::default();
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    // What a task ran since it woke, and when that began.
    let mut parts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let Some((cpu, time, event, rest)) = parse(line) else { continue };
        let place = cpus.entry(cpu).or_default();
        match event {
            "sched_switch" => {
                let Some(switch) = Switch::of(rest) else { continue };
                let before = place.current.replace((switch.next, time));
                match before {
                    Some((task, came)) if task == switch.previous => {
                        found.paired += 1;
                        if task == IDLE || own.contains(&switch.comm) {
                            continue;
                        }
                        let part = parts.entry(task).or_insert((0, came));
                        part.0 += time.saturating_sub(came);
                        let thread = found.threads.entry(task).or_default();
                        (thread.comm, thread.prio) = (switch.comm.to_owned(), switch.prio);
                        if !thread.cpus.contains(&cpu) {
                            thread.cpus.push(cpu);
                        }
                        if !switch.preempted {
                            let (run, began) = parts.remove(&task).unwrap_or_default();
                            thread.runs.push(run);
                            thread.began.push(began);
                        }
                    }
                    Some(_) => {
                        found.unpaired += 1;
                        parts.remove(&switch.previous);
                    }
                    None => {}
                }
            }
            _ => {
                let Some((name, begins)) = interrupt(event, rest) else { continue };
                if begins {
                    place.open.insert(name, time);
                } else if let Some(began) = place.open.remove(&name) {
                    let one = found.interrupts.entry(name).or_default();
                    one.count += 1;
                    one.total_ns += time.saturating_sub(began);
                }
            }
        }
    }
    found
}

/// A line's CPU, time, event and fields.
fn parse(line: &str) -> Option<(u32, u64, &str, &str)> {
    //   kworker/0:1-123     [000] d..2.  1234.567890: sched_switch: prev_comm=…
    let (head, rest) = line.split_once(": ")?;
    let (event, fields) = rest.split_once(": ")?;
    let (before, time) = head.rsplit_once(' ')?;
    let (_, cpu) = before.rsplit_once('[')?;
    let (seconds, part) = time.split_once('.')?;
    let nanoseconds = format!("{part:0<9}").parse::<u64>().ok()?;
    let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    Some((cpu.split_once(']')?.0.parse().ok()?, time, event, fields))
}

/// What `sched_switch` says of the tasks.
struct Switch<'a> {
    comm: &'a str,
    previous: u32,
    prio: i32,
    preempted: bool,
    next: u32,
}

impl<'a> Switch<'a> {
    fn of(fields: &'a str) -> Option<Self> {
        let (left, right) = fields.split_once(" ==> ")?;
        let (comm, numbers) = left.strip_prefix("prev_comm=")?.rsplit_once(" prev_pid=")?;
        let (pid, numbers) = numbers.split_once(" prev_prio=")?;
        let (prio, state) = numbers.split_once(" prev_state=")?;
        let next = right.rsplit_once(" next_pid=")?.1.split(' ').next()?;
        Some(Self {
            comm,
            previous: pid.parse().ok()?,
            prio: prio.parse().ok()?,
            preempted: state.starts_with('R'),
            next: next.parse().ok()?,
        })
    }
}

/// The interrupt that an event begins (true) or ends.
fn interrupt(event: &str, fields: &str) -> Option<(String, bool)> {
    let value = |key: &str| fields.split([' ', ',']).find_map(|field| field.strip_prefix(key));
    let (kind, phase) = event.rsplit_once('_')?;
    let begins = match phase {
        "entry" => true,
        "exit" => false,
        _ => return None,
    };
    let name = match kind {
        "irq_handler" => format!("interrupt {}", value("irq=")?),
        "softirq" => format!("softirq {}", fields.split_once("[action=")?.1.trim_end_matches(']')),
        "local_timer" => "local timer".to_owned(),
        _ => return None,
    };
    Some((name, begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCHES: &str = "\
# tracer: nop
          load-9     [000] d..2.   10.000000: sched_switch: prev_comm=load prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=kworker/0:1 next_pid=5 next_prio=120
   kworker/0:1-5     [000] d..2.   10.000012: sched_switch: prev_comm=kworker/0:1 prev_pid=5 prev_prio=120 prev_state=R+ ==> next_comm=migration/0 next_pid=7 next_prio=0
   migration/0-7     [000] d..2.   10.000015: sched_switch: prev_comm=migration/0 prev_pid=7 prev_prio=0 prev_state=S ==> next_comm=kworker/0:1 next_pid=5 next_prio=120
   kworker/0:1-5     [000] d..2.   10.000020: sched_switch: prev_comm=kworker/0:1 prev_pid=5 prev_prio=120 prev_state=I ==> next_comm=load next_pid=9 next_prio=120
          load-9     [001] d..2.   10.000100: sched_switch: prev_comm=load prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
           odd-3     [001] d..2.   10.000200: sched_switch: prev_comm=od d prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

    #[test]
    fn a_run_goes_from_the_wake_up_to_the_sleep_however_often_it_is_preempted() {
        // kworker: 12 us until it is preempted, then 5 us until it sleeps; migration: 3 us. The switch away from 'od d' was not preceded
        // by one to it. First switches of a CPU have none before them.
        let found = observe(SWITCHES, &["load"]);
        assert_eq!(found.threads[&5].runs, [17_000]);
        assert_eq!((found.threads[&5].prio, &found.threads[&5].cpus[..]), (120, &[0][..]));
        assert_eq!((&found.threads[&7].runs[..], found.threads[&7].prio), (&[3_000][..], 0));
        assert_eq!(found.threads.len(), 2);
        assert_eq!((found.paired, found.unpaired), (3, 1));
    }

    #[test]
    fn interrupts_take_from_their_entry_to_their_exit() {
        let text = "\
   a-1 [000] d.h1.    1.000001: irq_handler_entry: irq=24 name=virtio0
   a-1 [000] d.h1.    1.000004: irq_handler_exit: irq=24 ret=handled
   a-1 [000] ..s1.    1.000004: softirq_entry: vec=1 [action=TIMER]
   a-1 [001] ..s1.    1.000005: softirq_exit: vec=1 [action=TIMER]
   a-1 [000] ..s1.    1.000006: softirq_exit: vec=1 [action=TIMER]
";
        let found = observe(text, &[]);
        // The exit on CPU 1 has no entry there.
        let all: Vec<_> = found.interrupts.iter().map(|(name, one)| (name.as_str(), one.count, one.total_ns)).collect();
        assert_eq!(all, [("interrupt 24", 1, 3_000), ("softirq TIMER", 1, 2_000)]);
    }

    #[test]
    fn lines_that_are_cut_or_strange_tell_nothing() {
        for text in ["", "x", "a-1 [000] d 1.0: sched_switch: prev_comm=", "a [x] 1.0: sched_switch: y", ": : "] {
            assert_eq!(observe(text, &[]), Observed::default(), "{text}");
        }
    }
}
