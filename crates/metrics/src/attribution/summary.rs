//! A summary of a run's waits: by task, by cause, and the longest of them one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Candidate, Event, EventKind, TaskId, Time};
use serde::Serialize;

use super::{Cause, Span, Wait, WaitKind, Waits};
use crate::nearest_rank;

/// How tasks and groups of a run are called.
pub struct Names<'a> {
    /// One task, or a group.
    pub one: &'a dyn Fn(Candidate) -> String,
    /// What tasks of a kind have in common: their name without a number.
    pub kind: &'a dyn Fn(TaskId) -> String,
}

/// Where the waiting time of a run went. All times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The percentile that was asked for.
    pub percentile: f64,
    /// Waiting time of all tasks.
    pub wait_ns: u64,
    /// The part of it for which no rule accounts.
    pub unknown_ns: u64,
    /// Each kind of task, the one that waited longest first.
    pub tasks: Vec<TaskWaits>,
    /// The longest waits of the selected tasks, the longest first.
    pub worst: Vec<WorstWait>,
}

/// The waits of one kind of task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskWaits {
    /// The kind's name.
    pub name: String,
    /// How many tasks of the kind waited.
    pub tasks: u64,
    /// How often they waited, all kinds of waits.
    pub waits: u64,
    /// Of those, from a wake-up on.
    pub wakeups: u64,
    /// How long they waited in total.
    pub wait_ns: u64,
    /// Of that, without a cause.
    pub unknown_ns: u64,
    /// What the percentiles are of: `woken` waits where there are any, else all.
    pub of: &'static str,
    /// The median of those waits.
    pub p50_ns: u64,
    /// Their percentile that was asked for, by nearest rank.
    pub percentile_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// How many of them are at least as long as that percentile.
    pub tail_waits: u64,
    /// The causes of those, the greatest first.
    pub tail: Vec<CauseShare>,
    /// The causes of all waits of the kind, the greatest first.
    pub causes: Vec<CauseShare>,
}

/// One cause's part of some waiting time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseShare {
    /// The cause.
    pub cause: Cause,
    /// The cause in words.
    pub text: String,
    /// Which kind of task ran meanwhile; of a quota whose it is.
    pub behind: Option<String>,
    /// How long.
    pub wait_ns: u64,
    /// The part of the waiting time in question, 0 to 1.
    pub share: f64,
    /// How often.
    pub spans: u64,
    /// By how much the rule decided, on average.
    pub margin_ns: u64,
    /// Whether that is virtual time.
    pub margin_is_virtual: bool,
}

/// One of the longest waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstWait {
    /// The task.
    pub task: String,
    /// The CPU on which it ended.
    pub cpu: u32,
    /// What it began with.
    pub kind: WaitKind,
    /// Whether the task ran at its end; else the run was over.
    pub ran: bool,
    /// When it began.
    pub began_ns: u64,
    /// How long it took.
    pub length_ns: u64,
    /// What it waited for, in order.
    pub spans: Vec<NamedSpan>,
    /// What ran around it, on every CPU.
    pub around: Vec<Around>,
}

/// A part of a wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedSpan {
    /// Its cause.
    pub cause: Cause,
    /// The cause in words.
    pub text: String,
    /// The task that ran meanwhile; of a quota the group.
    pub behind: Option<String>,
    /// When it began.
    pub began_ns: u64,
    /// How long it took.
    pub length_ns: u64,
    /// By how much the rule decided.
    pub margin_ns: u64,
    /// Whether that is virtual time.
    pub margin_is_virtual: bool,
}

/// A task on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Around {
    /// The CPU.
    pub cpu: u32,
    /// The task.
    pub task: String,
    /// From when.
    pub began_ns: u64,
    /// For how long.
    pub length_ns: u64,
}

/// The most stretches around a wait: what a figure can show.
const MOST_AROUND: usize = 400;

/// Sums over spans of one cause behind one kind of task.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    wait: u64,
    spans: u64,
    margin: u128,
}

/// Causes by their text and by what is behind them.
type Sums = BTreeMap<(String, Option<String>), (Cause, Sum)>;

/// Sums by the task behind, before anything has a name: there are many more spans than tasks and causes.
#[derive(Debug, Default)]
struct Unnamed(BTreeMap<TaskId, Vec<(Cause, Sum)>>);

impl Unnamed {
    fn add(&mut self, span: &Span) {
        let causes = self.0.entry(span.behind).or_default();
        let place = causes.iter().position(|(cause, _)| *cause == span.cause).unwrap_or_else(|| {
            causes.push((span.cause, Sum::default()));
            causes.len() - 1
        });
        let (_, sum) = &mut causes[place];
        sum.wait += span.length.as_nanos();
        sum.spans += 1;
        sum.margin += u128::from(span.margin);
    }

    fn named(self, names: &Names<'_>) -> Sums {
        let mut sums = Sums::new();
        for (task, causes) in self.0 {
            for (cause, part) in causes {
                let key = (cause.to_string(), behind(cause, task, names.kind, names));
                let (_, sum) = sums.entry(key).or_insert((cause, Sum::default()));
                sum.wait += part.wait;
                sum.spans += part.spans;
                sum.margin += part.margin;
            }
        }
        sums
    }
}

impl Summary {
    /// Summarises `waits`; `select` says of which tasks the worst are shown, `events` what ran around them.
    pub fn of(
        waits: &Waits,
        events: &[Event],
        names: &Names<'_>,
        select: &dyn Fn(TaskId) -> bool,
        percentile: f64,
        worst: usize,
    ) -> Self {
        let mut kinds: BTreeMap<String, Vec<&Wait>> = BTreeMap::new();
        let mut kind_of: BTreeMap<TaskId, String> = BTreeMap::new();
        for wait in waits.iter() {
            let kind = kind_of.entry(wait.task).or_insert_with(|| (names.kind)(wait.task));
            match kinds.get_mut(kind) {
                Some(list) => list.push(wait),
                None => {
                    kinds.insert(kind.clone(), vec![wait]);
                }
            }
        }
        let mut tasks: Vec<TaskWaits> = kinds
            .into_iter()
            .map(|(name, list)| {
                let tasks: BTreeSet<TaskId> = list.iter().map(|wait| wait.task).collect();
                of_kind(name, tasks.len() as u64, &list, waits, names, percentile)
            })
            .collect();
        tasks.sort_by(|one, other| other.wait_ns.cmp(&one.wait_ns).then_with(|| one.name.cmp(&other.name)));
        let mut longest: Vec<&Wait> = waits.iter().filter(|wait| select(wait.task)).collect();
        longest.sort_by_key(|wait| (Reverse(wait.length()), wait.began, wait.task));
        let worst = longest.into_iter().take(worst).map(|wait| worst_wait(wait, waits, events, names)).collect();
        Self {
            percentile,
            wait_ns: tasks.iter().map(|task| task.wait_ns).sum(),
            unknown_ns: tasks.iter().map(|task| task.unknown_ns).sum(),
            tasks,
            worst,
        }
    }
}

fn of_kind(name: String, tasks: u64, list: &[&Wait], waits: &Waits, names: &Names<'_>, percentile: f64) -> TaskWaits {
    let wakeups = list.iter().filter(|wait| wait.kind == WaitKind::Woken).count() as u64;
    let counts = |wait: &&&Wait| wait.ran && (wakeups == 0 || wait.kind == WaitKind::Woken);
    let mut lengths: Vec<u64> = list.iter().filter(counts).map(|wait| wait.length().as_nanos()).collect();
    lengths.sort_unstable();
    let rank = |percent: f64| nearest_rank(&lengths, percent);
    let percentile_ns = rank(percentile);
    let (mut all, mut tail, mut tail_waits) = (Unnamed::default(), Unnamed::default(), 0);
    for wait in list {
        let in_tail = counts(&wait) && wait.length().as_nanos() >= percentile_ns;
        tail_waits += u64::from(in_tail);
        for span in waits.spans(wait) {
            all.add(span);
            if in_tail {
                tail.add(span);
            }
        }
    }
    let (all, tail) = (all.named(names), tail.named(names));
    let wait_ns = list.iter().map(|wait| wait.length().as_nanos()).sum();
    let unknown = all.values().filter(|(cause, _)| *cause == Cause::Unknown).map(|(_, sum)| sum.wait).sum();
    TaskWaits {
        name,
        tasks,
        waits: list.len() as u64,
        wakeups,
        wait_ns,
        unknown_ns: unknown,
        of: if wakeups == 0 { "waits" } else { "wakeups" },
        p50_ns: rank(50.0),
        percentile_ns,
        max_ns: lengths.last().copied().unwrap_or(0),
        tail_waits,
        tail: shares(tail),
        causes: shares(all),
    }
}

fn behind(cause: Cause, task: TaskId, name: &dyn Fn(TaskId) -> String, names: &Names<'_>) -> Option<String> {
    match cause {
        Cause::Quota(group) => Some((names.one)(Candidate::Group(group))),
        _ if task == TaskId::IDLE => None,
        _ => Some(name(task)),
    }
}

fn shares(sums: Sums) -> Vec<CauseShare> {
    let total: u64 = sums.values().map(|(_, sum)| sum.wait).sum();
    let mut shares: Vec<CauseShare> = sums
        .into_iter()
        .map(|((text, behind), (cause, sum))| CauseShare {
            cause,
            text,
            behind,
            wait_ns: sum.wait,
            share: if total == 0 { 0.0 } else { sum.wait as f64 / total as f64 },
            spans: sum.spans,
            margin_ns: (sum.margin / u128::from(sum.spans.max(1))) as u64,
            margin_is_virtual: cause.is_virtual(),
        })
        .collect();
    shares.sort_by_key(|share| Reverse(share.wait_ns));
    shares
}

fn worst_wait(wait: &Wait, waits: &Waits, events: &[Event], names: &Names<'_>) -> WorstWait {
    let one = |task: TaskId| (names.one)(Candidate::Task(task));
    let mut at = wait.began;
    let spans = waits.spans(wait).iter().map(|span| {
        let began_ns = at.as_nanos();
        at += span.length;
        NamedSpan {
            cause: span.cause,
            text: span.cause.to_string(),
            behind: behind(span.cause, span.behind, &one, names),
            began_ns,
            length_ns: span.length.as_nanos(),
            margin_ns: span.margin,
            margin_is_virtual: span.cause.is_virtual(),
        }
    });
    WorstWait {
        task: one(wait.task),
        cpu: wait.cpu.0,
        kind: wait.kind,
        ran: wait.ran,
        began_ns: wait.began.as_nanos(),
        length_ns: wait.length().as_nanos(),
        spans: spans.collect(),
        around: around(wait, events, &one),
    }
}

/// What ran from a tenth of the wait's length before it to a tenth after it.
fn around(wait: &Wait, events: &[Event], one: &dyn Fn(TaskId) -> String) -> Vec<Around> {
    let room = Time::from_nanos((wait.length().as_nanos() / 10).max(1_000));
    let (from, to) = (wait.began.saturating_sub(room), wait.ended + room);
    let first = events.partition_point(|event| event.time < from);
    let mut running: BTreeMap<u32, (TaskId, Time)> = BTreeMap::new();
    // What ran before: the last switch of each CPU, looked for as far back as there are as many events again.
    for event in events[first.saturating_sub(4 * MOST_AROUND)..first].iter() {
        if let EventKind::Switch { next, .. } = event.kind {
            running.insert(event.cpu.0, (next, from));
        }
    }
    let mut found: Vec<(u32, TaskId, Time, Time)> = Vec::new();
    let mut tell = |cpu: u32, task: TaskId, began: Time, end: Time| {
        if task != TaskId::IDLE && end > began {
            found.push((cpu, task, began, end));
        }
    };
    for event in events[first..].iter().take_while(|event| event.time <= to) {
        if let EventKind::Switch { previous, next, .. } = event.kind {
            let (task, began) = running.insert(event.cpu.0, (next, event.time)).unwrap_or((previous, from));
            tell(event.cpu.0, task, began, event.time);
        }
    }
    running.into_iter().for_each(|(cpu, (task, began))| tell(cpu, task, began, to));
    // Of more than a figure can show the longest are kept, of equally long ones such as lie evenly (in van der Corput's order).
    let mut places: Vec<usize> = (0..found.len()).collect();
    places.sort_by_key(|&place| {
        let (_, _, began, end) = found[place];
        (std::cmp::Reverse(end.saturating_sub(began)), place.reverse_bits())
    });
    places.truncate(MOST_AROUND);
    places.sort_unstable();
    let named = places.into_iter().map(|place| found[place]).map(|(cpu, task, began, end)| Around {
        cpu,
        task: one(task),
        began_ns: began.as_nanos(),
        length_ns: end.saturating_sub(began).as_nanos(),
    });
    named.collect()
}
