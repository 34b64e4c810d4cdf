//! A recording of a real kernel, replayed: the kernel's schedule and ours.

use std::collections::BTreeMap;

use schedlab_metrics::Metrics;
use schedlab_model::{Candidate, CpuId, Decision, Event, EventKind, EventSink, RuleSet, TaskId, TaskState, Time};
use schedlab_replay::{Options, Report, replay_bytes};
use schedlab_trace::{Pid, Record, RecordKind};
use serde_json::{Value, json};

use crate::WebError;
use crate::message::Message;
use crate::request::{Recording, Window};
use crate::timeline::Timeline;
use crate::{explain as reasons, latency, run};

/// A replayed recording, its times counted from its first record.
struct Replayed {
    report: Report,
    records: Vec<Record>,
    /// The tasks' numbers by pid.
    numbers: BTreeMap<Pid, u32>,
    base: Time,
}

impl Replayed {
    fn of(recording: &Recording, explains: bool) -> Result<Self, WebError> {
        let release = recording.release.as_deref().map(str::parse).transpose()?;
        let options = Options { release, reasons: explains, ..Options::default() };
        let (report, records) = replay_bytes(recording.text.clone().into_bytes(), &options)?;
        let mut numbers: BTreeMap<Pid, u32> =
            report.schedules.picks().flat_map(|(_, _, _, kernels, ours)| [(kernels, 0), (ours, 0)]).collect();
        numbers.remove(&0);
        numbers.values_mut().zip(0..).for_each(|(slot, number)| *slot = number);
        let base = records.first().map_or(Time::ZERO, |record| record.time);
        Ok(Self { report, records, numbers, base })
    }

    fn task(&self, pid: Pid) -> TaskId {
        self.numbers.get(&pid).map_or(TaskId::IDLE, |number| TaskId(*number))
    }

    fn names(&self) -> Vec<String> {
        self.numbers.keys().map(|pid| self.report.name_of(Candidate::Task(TaskId(*pid)))).collect()
    }

    /// The recording's wake-ups, and the switches that the kernel made or our rules would have. After each pick ours goes on from the
    /// kernel's.
    fn events(&self, of_ours: bool) -> Vec<Event> {
        let at = |time: Time, cpu, kind| Event { time: time.saturating_sub(self.base), cpu, kind };
        let mut events: Vec<Event> = self
            .records
            .iter()
            .filter_map(|record| {
                let cpu = CpuId(record.cpu);
                let kind = match &record.kind {
                    RecordKind::Waking { task, target } => EventKind::Waking {
                        task: self.task(task.pid),
                        waker: self.task(record.pid),
                        target: CpuId(*target),
                    },
                    RecordKind::WakeupNew { task, target } => {
                        EventKind::WakeupNew { task: self.task(task.pid), target: CpuId(*target) }
                    }
                    RecordKind::Migrate { task, from, to } => {
                        EventKind::Migrate { task: self.task(task.pid), from: CpuId(*from), to: CpuId(*to) }
                    }
                    _ => return None,
                };
                Some(at(record.time, cpu, kind))
            })
            .collect();
        let mut running: BTreeMap<CpuId, (Pid, Pid)> = BTreeMap::new();
        for (time, cpu, state, kernels, ours) in self.report.schedules.picks() {
            let (last_kernels, last_ours) = running.insert(cpu, (kernels, ours)).unwrap_or((0, 0));
            let (previous, next) = if of_ours { (last_ours, ours) } else { (last_kernels, kernels) };
            if previous != next {
                // A task that only ours ran was preempted by what really happened.
                let state = if previous == last_kernels && previous != 0 { state } else { TaskState::Running };
                let kind = EventKind::Switch { previous: self.task(previous), state, next: self.task(next) };
                events.push(at(time, cpu, kind));
            }
        }
        events.sort_by_key(|event| event.time);
        events
    }
}

/// The kernel's schedule or ours, as a run's.
pub(crate) fn replay(recording: &Recording) -> Result<Message, WebError> {
    let replayed = Replayed::of(recording, false)?;
    let (events, names, report) = (replayed.events(recording.ours), replayed.names(), &replayed.report);
    let cpus = replayed.records.iter().map(|record| record.cpu).max().map_or(1, |last| last as usize + 1);
    let end = events.last().map_or(0, |event| event.time.as_nanos()).max(report.span_ns);
    let timeline = Timeline::of(&events, names.len(), cpus, end);
    let mut metrics = Metrics::default();
    events.iter().for_each(|event| metrics.event(*event));
    let tasks: Vec<Value> = names.iter().zip(0..).map(|(name, number)| {
        let found = metrics.task(TaskId(number), Time::from_nanos(end)).unwrap_or_default();
        json!({
            "name": name, "run_ns": found.run.as_nanos(), "wait_ns": found.wait.as_nanos(), "sleep_ns": found.sleep.as_nanos(),
            "migrations": found.migrations, "max_delay_ns": found.max_delay.as_nanos(),
        })
    }).collect();
    let (kinds, kind_of) = run::kinds(names.iter().map(String::as_str));
    let delays = latency::delays(timeline.tasks.iter().map(Vec::as_slice).zip(kind_of.iter().copied()), kinds.len());
    let differing = report.schedules.picks().filter(|(_, _, _, kernels, ours)| kernels != ours).count();
    let label = format!("{} {}", if recording.ours { "our rules of" } else { "recorded" }, report.release);
    let eevdf = RuleSet::of(report.release.parse()?).eevdf;
    let mut message = Message::new(json!({
        "label": label, "text_notes": [], "kinds": kinds, "delays": delays, "eevdf": eevdf, "event_count": events.len(),
        "outcome": {
            "workload": "a recording", "release": report.release, "cpus": cpus, "elapsed_ns": end, "turnaround_ns": end,
            "switches": metrics.switches(), "tasks": tasks, "groups": [], "notes": report.notes,
        },
        "replay": {"report": report, "exact": report.is_exact(), "differing": differing},
    }));
    run::draw(&mut message, &timeline, kinds.len(), &kind_of);
    run::write_standings(&mut message, &[]);
    Ok(message)
}

/// The decisions of our rules in the replay, within `window`.
pub(crate) fn explain(recording: &Recording, window: &Window) -> Result<Message, WebError> {
    let replayed = Replayed::of(recording, true)?;
    let inside = |time: u64| (window.from..=window.to).contains(&time);
    let shifted = replayed.report.reasons.iter().map(|one| {
        let time = one.time.saturating_sub(replayed.base);
        Decision { time, cpu: one.cpu, reason: one.reason.clone() }
    });
    let found: Vec<Decision> = shifted.filter(|one| inside(one.time.as_nanos())).take(window.limit + 1).collect();
    let more = found.len() > window.limit;
    let kept = &found[..found.len().min(window.limit)];
    let name = |candidate| replayed.report.name_of(candidate);
    Ok(reasons::tell(kept, window, more, &name, &|pid| replayed.task(pid.0)))
}
