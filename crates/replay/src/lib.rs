//! Feeds a real kernel's recorded events to the rules and compares decision by decision.
//!
//! The recording (tracepoints and `k_*` kprobes of one CPU or several, as `trace-cmd report -t -l` prints them) is cut into critical
//! sections; each drives the sequence of `core.c` that it stands for, with the recorded clock. Where the rules decide, ours is
//! compared with the kernel's, and then the kernel's stands, so that one miss does not count a thousand times. Beyond the first
//! sight of a task no state is ever copied from the recording: virtual times must come out equal by themselves.
//!
//! ```
//! use schedlab_replay::{Settings, replay};
//! use schedlab_trace::Reader;
//! let text = "\
//! cpus=1
//!  cat-7 0d.h2. 15.100331428: k_tick: (f) pid=7
//!  cat-7 0d.h2. 15.100336105: sched_stat_runtime: comm=cat pid=7 runtime=366712 [ns] vruntime=7691237601 [ns]
//! ";
//! let report = replay(Reader::new(text.as_bytes()), &Settings::defaults("6.1".parse()?)?)?;
//! // One task alone: nothing to decide, and so nothing proved.
//! assert_eq!(report.decisions.tick.compared, 0);
//! assert!(!report.is_exact());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bare;
mod engine;
mod error;
mod invariants;
mod level;
mod queue_order;
mod read;
mod reconstruction;
mod recorded_decider;
mod report;
mod rule;
mod schedules;
mod settings;
mod task_map;
mod waiting;
mod wakeups;
mod watch;

use std::io::BufRead;
use std::path::Path;

use schedlab_model::{Release, RuleSet, Series};
use schedlab_trace::{Probe, Reader, Record, RecordKind, Snapshot, TraceError, open, open_bytes, read_text};

pub use error::ReplayError;
pub use invariants::{Checked, check_invariants, check_invariants_of_file};
pub use level::Level;
pub use report::{Agreement, Closeness, Decisions, Deviation, Difference, FirstSights, Move, Report, Score, State};
pub use schedules::Schedules;
pub use settings::{Averages, Settings, Tracked};
pub use waiting::{Attributed, attribute_file};
pub use wakeups::{RecordedRun, Waits, wakeup_latency, wakeup_latency_of_file};
pub use watch::{Watch, Watched};

use bare::complete_wakeups;
use read::l0::Traced;
use read::l1;
use read::recording::{Recording, hold_yields};
use reconstruction::Replayer;
use reconstruction::first_sight::FirstSight;

/// Replays a recording, such as a [`Reader`](schedlab_trace::Reader) gives.
///
/// # Errors
/// [`ReplayError::Trace`] for a line that cannot be read, [`ReplayError::Empty`] for a recording without events,
/// [`ReplayError::Unsupported`] for one of several CPUs that is not of level L1, does not tell of each CPU's queue before it begins, or has a
/// task in a group by then.
pub fn replay(
    recording: impl IntoIterator<Item = Result<Record, TraceError>>,
    settings: &Settings,
) -> Result<Report, ReplayError> {
    replay_watched(recording, settings, &mut |_| {})
}

/// The same, with `watch` shown our machine after each step of the recording.
///
/// # Errors
/// As [`replay`].
pub fn replay_watched(
    recording: impl IntoIterator<Item = Result<Record, TraceError>>,
    settings: &Settings,
    watch: Watch<'_>,
) -> Result<Report, ReplayError> {
    let records: Vec<Record> = recording.into_iter().collect::<Result<_, _>>()?;
    let mut names = Schedules::default();
    names.name(&records);
    let mut report = replay_records(records, settings, watch)?;
    report.schedules.name_as(names);
    Ok(report)
}

fn replay_records(records: Vec<Record>, settings: &Settings, watch: Watch<'_>) -> Result<Report, ReplayError> {
    if engine::of_several_cpus(&records) {
        return engine::replay_several_cpus(&records, settings, watch);
    }
    if settings.level.is_none_or(|level| level == Level::L1) && engine::tells_of_states(&records) {
        return engine::replay_one_cpu(&hold_yields(records), settings, watch);
    }
    let recording = Recording::sort(records, settings.level, &settings.rule_set());
    let records = &recording.records;
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Err(ReplayError::Empty) };
    let report = Report::of(first, last, Level::of(records), records.len(), settings);
    let sight = FirstSight::of(records, settings.rule_set());
    let level = report.level;
    let mut replayer = Replayer::new(settings, &sight, &recording, report);
    let mut at = 0;
    let mut traced = (level != Level::L1).then(|| Traced::new(records, settings.flags()));
    while at < records.len() {
        let (step, length) = match &mut traced {
            Some(traced) => traced.next(at),
            None => l1::next_step(&records[at..], settings.flags()),
        };
        let end = (at + length).min(records.len());
        // A step that only the coming record tells of comes before it.
        replayer.step(&records[at..end.max(at + 1)], step);
        replayer.keep_reasons();
        watch(&Watched::of(&replayer.sched));
        at = end;
    }
    Ok(replayer.end())
}

/// How a file is replayed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// A copy of the recorded kernel's `sched/debug`.
    pub snapshot: Option<&'a Path>,
    /// The kernel that was recorded, where the recording does not say it.
    pub release: Option<Release>,
    /// Up to which level to read the recording; all that it tells if none.
    pub level: Option<Level>,
    /// Whether the report is to have each decision of ours with its reason.
    pub reasons: bool,
}

/// Replays a file, gzipped or plain.
///
/// The kernel's settings come from the head of an own recording (`schedlab record`), or from `snapshot`, a copy of its `sched/debug`;
/// otherwise they are the defaults of `release` on one CPU: without one those of 6.1, if the recording's probes are CFS's.
///
/// # Errors
/// As [`replay`]; [`ReplayError::Settings`] also if what is given is of different series or fair classes, or if nothing says which kernel
/// was recorded or its series is unknown and `release` does not ask for the nearest; [`ReplayError::Trace`] also if a file cannot be read.
pub fn replay_file(trace: &Path, options: &Options<'_>) -> Result<Report, ReplayError> {
    replay_file_watched(trace, options, &mut |_| {})
}

/// The same, with `watch` shown our machine after each step of the recording.
///
/// # Errors
/// As [`replay_file`].
pub fn replay_file_watched(trace: &Path, options: &Options<'_>, watch: Watch<'_>) -> Result<Report, ReplayError> {
    let snapshot = read_snapshot(options)?;
    replay_reader(open(trace)?, snapshot, options, watch)
}

/// Replays a recording that is in memory, gzipped or plain, and returns its records beside the comparison.
///
/// # Errors
/// As [`replay_file`].
pub fn replay_bytes(trace: Vec<u8>, options: &Options<'_>) -> Result<(Report, Vec<Record>), ReplayError> {
    let records = open_bytes(trace.clone()).collect::<Result<Vec<_>, _>>()?;
    Ok((replay_reader(open_bytes(trace), read_snapshot(options)?, options, &mut |_| {})?, records))
}

/// The copy of `sched/debug` that the options name.
fn read_snapshot(options: &Options<'_>) -> Result<Option<Snapshot>, ReplayError> {
    options.snapshot.map(|path| Ok(read_text(path)?.parse()?)).transpose()
}

fn replay_reader<R: BufRead>(
    mut reader: Reader<R>,
    snapshot: Option<Snapshot>,
    options: &Options<'_>,
    watch: Watch<'_>,
) -> Result<Report, ReplayError> {
    let Options { release, level, reasons, .. } = *options;
    let mut records = Vec::new();
    for record in &mut reader {
        records.push(record?);
    }
    let records = complete_wakeups(records);
    let limits = reader.limits();
    let unnamed = reader.head().is_none() && snapshot.is_none() && reader.release().is_none();
    let mut settings = settings_of(&reader, &records, snapshot, release)?;
    let found = settings.release;
    if release.is_none() && found.known_series().is_none() {
        let series = found.series();
        let why = format!(
            "the recording is of kernel {found}, whose rules are not known: ask for those of {series} (--kernel '{found}')"
        );
        return Err(ReplayError::Settings(why));
    }
    if let Some(asked) = release
        && asked.series() != settings.release.series()
    {
        return Err(ReplayError::Settings(format!("the recording is of kernel {found}, not of {asked}")));
    }
    if let Some(eevdf) = probes_eevdf(&records)
        && eevdf != RuleSet::of(found).eevdf
    {
        let class = |eevdf| if eevdf { "EEVDF" } else { "CFS" };
        let (probes, rules) = (class(eevdf), class(!eevdf));
        let why = format!("the recording's probes are of {probes}, but kernel {found} has {rules}");
        return Err(ReplayError::Settings(why));
    }
    (settings.level, settings.reasons) = (level, reasons);
    let mut report = replay_watched(records.into_iter().map(Ok), &settings, watch)?;
    report.notes.extend(limits.into_iter().map(str::to_owned));
    if unnamed && release.is_none() {
        report.notes.push(format!(
            "the recording does not say its kernel, whose probes are of CFS: the rules of {found} stand in"
        ));
    }
    Ok(report)
}

/// How the recorded kernel was set, as the recording, a snapshot or else its release's defaults say.
fn settings_of<R: BufRead>(
    reader: &Reader<R>,
    records: &[Record],
    snapshot: Option<Snapshot>,
    asked: Option<Release>,
) -> Result<Settings, ReplayError> {
    let named = || {
        let said = reader
            .release()
            .map(|said| Release::or_nearest(said).map_err(|error| ReplayError::Settings(format!("{error}"))));
        said.or(asked.map(Ok)).unwrap_or_else(|| default_release(records))
    };
    match (reader.head(), snapshot) {
        (Some(head), None) => Settings::from_head(head),
        (_, Some(snapshot)) => Settings::from_snapshot(snapshot),
        (None, None) => Settings::defaults(named()?),
    }
}

/// The release of a recording that does not say it: 6.1, if its probes are CFS's.
fn default_release(records: &[Record]) -> Result<Release, ReplayError> {
    match probes_eevdf(records) {
        Some(false) => Ok(Series::LAST_CFS.newest_known()),
        Some(true) => Err(ReplayError::Settings(
            "the recording does not say its kernel, and its probes are of EEVDF: name it (--kernel 6.12, say)"
                .to_owned(),
        )),
        None if records.is_empty() => Err(ReplayError::Empty),
        None => {
            Err(ReplayError::Settings("the recording does not say its kernel: name it (--kernel 6.1, say)".to_owned()))
        }
    }
}

/// Whether the recorded kernel's fair class is EEVDF rather than CFS, as far as a probe tells.
fn probes_eevdf(records: &[Record]) -> Option<bool> {
    records.iter().find_map(|record| match record.kind {
        RecordKind::Probe(Probe::Place { .. } | Probe::Pick { .. } | Probe::SetNext { .. }) => Some(false),
        RecordKind::Probe(
            Probe::PlaceEevdf { .. }
            | Probe::PickEevdf { .. }
            | Probe::SetNextEevdf { .. }
            | Probe::SetTask { deadline: Some(_), .. }
            | Probe::RequeueDelayed { .. },
        ) => Some(true),
        _ => None,
    })
}
