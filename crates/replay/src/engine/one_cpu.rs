//! The sections of a recording of one CPU, in which every class is probed, and what each stands for.

use schedlab_model::{CpuId, TaskId};
use schedlab_trace::Record;

use super::Engine;
use super::start::is_begin;
use crate::ReplayError;
use crate::level::Level;
use crate::read::section::{Entry, Kind, What, cut, read_at_first};
use crate::report::Report;
use crate::settings::Settings;
use crate::watch::{Watch, Watched};

/// The one CPU.
const CPU: CpuId = CpuId(0);

/// Whether a recording is of level L1 and tells each task's state before it.
pub(crate) fn concerns(records: &[Record]) -> bool {
    records.iter().any(is_snapshot) && records.iter().any(|record| &*record.event == "k_uc")
}

fn is_snapshot(record: &Record) -> bool {
    matches!(&*record.event, "k_snap" | "k_snaprt")
}

/// Replays `records` from where they first tell of a task's state.
pub(crate) fn replay(records: &[Record], settings: &Settings, watch: Watch<'_>) -> Result<Report, ReplayError> {
    let from = records.iter().position(is_snapshot).unwrap_or(0);
    let (Some(first), Some(last)) = (records.get(from), records.last()) else { return Err(ReplayError::Empty) };
    let report = Report::of(first, last, Level::L1, records.len() - from, settings);
    let entries: Vec<Entry<'_>> = records[from..].iter().map(Entry::of).collect();
    let mut engine = Engine::new(settings, settings.rules_of_classes(), 1, report);
    engine.begin_alone(&entries);
    if settings.reasons {
        engine.sched.decider.ask_for_reasons();
    }
    let mut at = 0;
    while at < entries.len() {
        let (kind, length) = cut(&entries[at..]);
        let end = (at + length).min(entries.len());
        engine.section(kind, &entries[at..end], &entries[end..]);
        engine.keep_reasons(matches!(kind, Kind::Snap | Kind::GroupSnap));
        watch(&Watched::of(&engine.sched));
        at = end;
    }
    Ok(engine.end())
}

impl<'a> Engine<'a> {
    fn section(&mut self, kind: Kind, section: &[Entry<'a>], ahead: &'a [Entry<'a>]) {
        let Some(first) = section.first() else { return };
        self.begin_step(CPU.index(), section, ahead);
        self.begun |= is_begin(first.record);
        self.enter_timer(CPU, first.record);
        if kind == Kind::Nothing {
            return;
        }
        if first.what != What::Switch
            && first.record.flags.interrupts_off
            && !matches!(kind, Kind::Snap | Kind::GroupSnap)
        {
            self.compare_need_resched(CPU, first.record);
        }
        self.advance(CPU, &section[..read_at_first(kind, section)]);
        match kind {
            Kind::Nothing => {}
            Kind::Snap => self.snap_alone(first.record),
            Kind::GroupSnap => self.group_snap(first.record),
            Kind::Yield => {
                self.yielding.insert(first.record.pid);
            }
            Kind::MakeGroup => {
                self.make_group(first.record);
            }
            Kind::Wake(pid) => self.wake(CPU, pid, section),
            Kind::New(pid) => self.wake_new(CPU, pid, section),
            Kind::ForkPlaced => self.fork_placed(CPU, section),
            Kind::Fork { parent, child } => self.fork(CPU, parent, child),
            Kind::Tick => self.tick(CPU, section),
            Kind::Schedule => self.schedule_alone(CPU, section),
            Kind::Change(pid) => self.change(CPU, pid, section),
            Kind::WaitInactive(pid) => self.wait_inactive(CPU, pid, section),
            Kind::Timer => self.timer(CPU, section),
            Kind::Shares => self.set_shares(CPU, section),
            Kind::SharesOfQueues => self.set_shares_of_queues(CPU, section),
            Kind::Quota => self.set_quota(CPU, section),
            Kind::QuotaOfQueue => self.set_quota_of_queue(CPU, section),
            Kind::Throttle => self.throttle(CPU, section),
            Kind::Charge => self.charge_alone(CPU, section),
        }
    }

    /// `update_curr` from elsewhere, such as reading a CPU clock, or as the first part of `sched_yield`.
    pub(super) fn charge_alone(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        if self.yields_now(section) {
            self.sched.sched_yield(cpu);
        } else if section.iter().all(|entry| entry.what == What::Resched) {
            // Our rules do not know why the kernel asks for it.
            self.sched.assume_need_resched(cpu, true);
            self.report.unexplained += 1;
        } else if self.cpus[cpu.index()].slice_ends {
            self.sched.hrtick(cpu);
        } else if self.sched.curr(cpu) != TaskId::IDLE || super::start::has(section, What::ServerCharge) {
            self.sched.update_curr(cpu);
        }
    }
}
