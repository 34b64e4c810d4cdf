//! The steps of a recording of several CPUs, and what each stands for.

use std::collections::BTreeSet;

use schedlab_model::{CpuId, TaskId};
use schedlab_trace::Record;

use super::Engine;
use crate::ReplayError;
use crate::level::Level;
use crate::read::section::{Entry, What};
use crate::read::step_order::steps_in_order;
use crate::read::steps::{Act, Step, queue_of};
use crate::read::streams::streams_of;
use crate::report::Report;
use crate::settings::Settings;
use crate::watch::{Watch, Watched};

/// Whether a recording is of several CPUs.
pub(crate) fn concerns(records: &[Record]) -> bool {
    records.iter().any(|record| record.cpu != 0)
}

/// Replays a recording of several CPUs from where it first tells of a task's state.
pub(crate) fn replay(records: &[Record], settings: &Settings, watch: Watch<'_>) -> Result<Report, ReplayError> {
    let unsupported = |what: String, why| Err(ReplayError::Unsupported { what, why });
    let Some(from) = records.iter().position(|record| &*record.event == "k_snapq") else {
        let first = records.iter().find(|record| record.cpu != 0).map_or(0, |record| record.line);
        let why = "those of several CPUs can be if they are of level L1 and tell of each CPU's queue before (k_snapq)";
        return unsupported(format!("line {first}, an event of another CPU"), why);
    };
    if let Some(level) = settings.level.filter(|level| *level != Level::L1) {
        return unsupported(format!("level {level} of several CPUs"), "those of several CPUs can be at level L1");
    }
    let grouped = |record: &&Record| &*record.event == "k_snap1" && record.number("se").is_some_and(|se| se != 0);
    if let Some(record) = records.iter().find(grouped) {
        let what = format!("line {}, a task in a group before the recording", record.line);
        return unsupported(what, "on several CPUs groups can be that the recorded command makes itself");
    }
    let records = &records[from..];
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Err(ReplayError::Empty) };
    let seen = records.iter().map(|record| record.cpu).max().unwrap_or(0) + 1;
    let cpus = settings.cpus.max(seen);
    let streams = streams_of(records, cpus);
    let mut report = Report::of(first, last, Level::L1, records.len(), settings);
    report.notes.extend(higher_classes(records));
    let mut engine = Engine::new(settings, settings.rules(), cpus, report);
    engine.begin_beside_others(first);
    if settings.reasons {
        engine.sched.decider.ask_for_reasons();
    }
    engine.groups.shows_charges = records.iter().any(|record| &*record.event == "k_acct");
    let steps = steps_in_order(&streams);
    engine.locked = locked(&streams, &steps);
    for step in steps {
        engine.step(step, &streams[step.by]);
        engine.keep_reasons(step.act == Act::Snap);
        watch(&Watched::of(&engine.sched));
    }
    Ok(engine.end())
}

/// A note on the tasks of higher classes, of which the recorder is none: where they run is the recording's, when is not compared.
fn higher_classes(records: &[Record]) -> Option<String> {
    let recorder = records.first().map(|first| u64::from(first.pid));
    let tasks: BTreeSet<u64> = records
        .iter()
        .filter(|record| matches!(&*record.event, "k_rtenq" | "k_dlenq"))
        .filter_map(|record| record.number("pid").filter(|pid| *pid != 0 && Some(*pid) != recorder))
        .collect();
    let named = tasks.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let limit = "on several CPUs the decisions of these classes are not compared, on one they are";
    (!tasks.is_empty()).then(|| format!("real-time or deadline tasks ran (pid {named}): {limit}"))
}

/// When each CPU's queue is locked: the first and the last line of each step, in order.
fn locked(streams: &[Vec<Entry<'_>>], steps: &[Step]) -> Vec<Vec<(u64, u64)>> {
    let mut locked = vec![Vec::new(); streams.len()];
    for step in steps.iter().filter(|step| step.act.locks()) {
        let entries = &streams[step.by][step.from..step.to];
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            locked[queue_of(entries, step.by, streams.len())].push((first.record.line, last.record.line));
        }
    }
    locked.iter_mut().for_each(|steps| steps.sort_unstable());
    locked
}

impl<'a> Engine<'a> {
    /// The CPU whose queue a step is about: the one a probe names, or else the one that recorded it.
    pub(super) fn cpu_of(&self, step: &[Entry<'a>], by: usize) -> CpuId {
        CpuId(queue_of(step, by, self.cpus.len()) as u32)
    }

    fn step(&mut self, Step { act, by, from, to, .. }: Step, stream: &'a [Entry<'a>]) {
        let (step, ahead) = (&stream[from..to], &stream[to..]);
        let Some(first) = step.first() else { return };
        if act == Act::Timer {
            return self.enter_timer(CpuId(by as u32), first.record);
        }
        self.begin_step(by, step, ahead);
        self.look();
        if let Some(last) = step.last().filter(|_| act.locks()) {
            let queue = queue_of(step, by, self.cpus.len());
            self.cpus[queue].until = (last.record.line, by);
        }
        let (cpu, own) = (self.cpu_of(step, by), CpuId(by as u32));
        self.settle_limits(step);
        self.expect_weights(cpu, step);
        let late = self.put_off(step, stream[..from].last());
        let before = self.before_charge(step);
        match act {
            Act::Nothing | Act::Timer => {}
            Act::Mark => {
                self.begun |= first.record.text.contains("schedlab: begin");
                self.moment(&first.record.text);
            }
            Act::Snap => self.snap(first.record),
            Act::Waking { remote } => self.waking(first, remote),
            Act::Select { chosen, remote } => self.select(first.record, by, chosen, remote),
            Act::Migrate => self.migrate(step),
            Act::LeaveTime { from, read } => self.leave_time(step, from, read),
            Act::LeaveLoad => self.leave_load(step),
            Act::Activate => self.activate(cpu, step),
            Act::WakeRunning => self.wake_running(cpu, step),
            Act::Wakeup => self.wakeup_alone(cpu, step),
            Act::Detach => self.detach(cpu, step),
            Act::Change => {
                self.advance(cpu, step);
                self.change(cpu, first.pid().unwrap_or(0), step);
            }
            Act::Leave => self.leave(own, step),
            Act::Schedule => self.schedule(own, step),
            Act::Tick => {
                self.advance(own, step);
                self.tick(own, step);
            }
            Act::Due => self.due(first.record),
            Act::Averages => self.averages(step, by),
            Act::ForkPlaced => {
                self.advance(own, step);
                self.fork_placed(own, step);
            }
            Act::Fork { parent, child } => self.fork(own, parent, child),
            Act::Exit => {
                self.exiting.insert(first.record.pid);
            }
            Act::Yield => {
                self.yielding.insert(first.record.pid);
            }
            Act::Charge => self.charge(cpu, step),
            Act::Online => self.online(cpu, step),
            Act::MakeGroup => {
                self.make_group(first.record);
            }
            Act::Shares => self.set_shares_alone(cpu, step),
            Act::SharesOfQueue => self.set_shares_of_queue(cpu, step),
            Act::Quota => self.set_quota_beside_others(own, step),
            Act::Refill => self.refill(own, step),
            Act::Unthrottle => self.unthrottle(step),
            Act::Throttle => {
                self.advance(own, step);
                self.throttle(own, step);
            }
            Act::Resched => {
                let cpu = first.record.number("cpu").unwrap_or(by as u64);
                if cpu < self.cpus.len() as u64 {
                    let cpu = CpuId(cpu as u32);
                    self.sched.assume_need_resched(cpu, true);
                }
            }
        }
        self.compare_weights(cpu);
        self.note_charge(before);
        self.catch_up(late);
    }

    /// `update_curr` from elsewhere, such as reading a CPU clock, or as the first part of `sched_yield`.
    fn charge(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        if let Some(entry) = step.iter().find(|entry| entry.what == What::Parameters) {
            return self.set_parameters(cpu, entry);
        }
        self.advance(cpu, step);
        if self.sched.curr(cpu) == TaskId::IDLE || !super::start::has(step, What::UpdateCurr) {
            return;
        }
        self.compare_before(cpu, step);
        if self.yields_now(step) {
            self.sched.sched_yield(cpu);
        } else {
            self.sched.update_curr(cpu);
        }
    }
}
