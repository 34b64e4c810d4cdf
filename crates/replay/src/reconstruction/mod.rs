//! Replay of recordings of one CPU that do not show the state and the clocks: tracepoints alone (L0), with placements (L0k), and probes without
//! clocks, which recordings of others have.
//!
//! [`engine`](crate::engine) takes what probes tell: each task's state before, the clock of each step, which task was charged. Here that is
//! reconstructed: the clock from what was charged, a task's state from where it is first seen, a decision from what follows it (the flag of
//! the next record, a switch that does not come). So other things stay open than there: which step a record means depends on our own state,
//! and what was not seen yet is no miss. Records, cuts of L1, task map, decider and report are the engine's.

mod attribute_changes;
mod begin;
mod compare;
pub(crate) mod first_sight;
mod sequences;
pub(crate) mod start;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{CpuId, TaskId, TaskState, Time};
use schedlab_sched::{Clocks, EntityId, Sched, Vruntime};
use schedlab_trace::{Context, Pid, QueueClocks, Record, RecordKind};

use crate::level::Level;
use crate::queue_order;
use crate::read::cursor::Runtime;
use crate::read::flags::FlagBits;
use crate::read::recording::{Charge, Recording};
use crate::read::step::{Asked, Picks, Step};
use crate::reconstruction::first_sight::FirstSight;
use crate::reconstruction::start::Start;
use crate::recorded_decider::RecordedDecider;
use crate::report::Report;
use crate::schedules::Picked;
use crate::settings::Settings;
use crate::task_map::TaskMap;

/// The one CPU.
pub(crate) const CPU: CpuId = CpuId(0);

/// Our side of a replay.
pub(crate) struct Replayer<'a> {
    pub(crate) sched: Sched<RecordedDecider>,
    pub(crate) settings: &'a Settings,
    pub(crate) sight: &'a FirstSight,
    pub(crate) flags: FlagBits,
    pub(crate) tasks: TaskMap,
    /// Whether something of the task that runs as the recording begins is still to be seen for the first time.
    pub(crate) running_unseen: bool,
    /// The task whose slice began before the recording (CFS).
    pub(crate) slice_unknown: Option<TaskId>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    pub(crate) placed: BTreeMap<TaskId, u64>,
    /// The queue's `min_vruntime`, as long as it is only guessed (CFS without probes): it is right once it has moved.
    pub(crate) base_guessed: Option<u64>,
    /// Where these came in by our rules.
    pub(crate) placed_at: BTreeMap<TaskId, u64>,
    /// Tasks asleep of whose virtual time nothing is known: where they come in is taken from their first charge.
    pub(crate) unplaced: BTreeSet<TaskId>,
    pub(crate) reader: Option<Pid>,
    pub(crate) reader_gone: bool,
    /// The task that entered `sched_yield(2)` and has not yielded yet.
    pub(crate) yielding: Option<Pid>,
    /// By the calling task, what it asked for and is not done yet.
    pub(crate) asked: BTreeMap<Pid, Asked>,
    /// Tasks of which it is not told whether they are SCHED_OTHER or SCHED_BATCH.
    pub(crate) policy_untold: BTreeSet<TaskId>,
    /// Whether the running task was about to be rescheduled when the recording began.
    pub(crate) resched_before: bool,
    /// The queue's clock and its task clock.
    clock: (u64, u64),
    /// Whether the recording shows the clocks.
    sees_clocks: bool,
    /// What is recorded of charges and was not compared yet.
    pub(crate) charges: &'a [Charge],
    /// The line up to which charges were compared.
    pub(crate) compared_to: u64,
    line: u64,
    time: Time,
    recorded: &'a [Record],
    pub(crate) report: Report,
}

impl<'a> Replayer<'a> {
    /// Builds the state in which the recording begins.
    pub(crate) fn new(settings: &'a Settings, sight: &'a FirstSight, recording: &'a Recording, report: Report) -> Self {
        let mut replayer = Self {
            sched: Sched::new(settings.rules(), 1, RecordedDecider::default()),
            settings,
            sight,
            flags: settings.flags(),
            tasks: TaskMap::default(),
            running_unseen: false,
            slice_unknown: None,
            placed: BTreeMap::new(),
            placed_at: BTreeMap::new(),
            base_guessed: None,
            unplaced: BTreeSet::new(),
            reader: first_sight::reader_of(settings.snapshot.as_ref()),
            reader_gone: settings.snapshot_is_older,
            yielding: None,
            asked: BTreeMap::new(),
            policy_untold: BTreeSet::new(),
            resched_before: sight.need_resched,
            clock: (1, 1),
            sees_clocks: false,
            charges: &recording.charges,
            compared_to: 0,
            line: 0,
            time: Time::ZERO,
            recorded: &[],
            report,
        };
        replayer.sched.expect_slices();
        match Start::of(recording, settings.rule_set().eevdf) {
            Some(start) => replayer.begin_from(&start),
            None => replayer.begin(),
        }
        if settings.reasons {
            replayer.sched.decider.ask_for_reasons();
        }
        replayer
    }

    pub(crate) fn eevdf(&self) -> bool {
        self.sched.rules().eevdf
    }

    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        self.tasks.pid(task)
    }

    pub(crate) fn task_of(&self, pid: Pid) -> Option<TaskId> {
        self.tasks.of_pid(pid)
    }

    pub(crate) fn task_of_entity(&self, entity: EntityId) -> Option<TaskId> {
        self.tasks.of_entity(entity)
    }

    pub(crate) fn is_fair(&self, task: TaskId) -> bool {
        queue_order::is_fair(&self.sched, task)
    }

    pub(crate) fn set_clocks(&mut self) {
        let (clock, clock_task) = (Time::from_nanos(self.clock.0), Time::from_nanos(self.clock.1));
        self.sched.set_clocks(CPU, Clocks { clock, clock_task, clock_pelt: clock_task });
    }

    /// The clocks of the coming step are recorded.
    pub(crate) fn see_clocks(&mut self, clocks: QueueClocks) {
        self.sees_clocks = true;
        // A clock never goes back, whatever a recording says.
        self.clock.1 = clocks.task.max(self.clock.1);
        self.clock.0 = clocks.clock.unwrap_or(clocks.task).max(self.clock.0);
    }

    /// Brings the clock to where the kernel's stood: the running task's start of charge plus what was charged.
    pub(crate) fn advance(&mut self, runtime: Option<Runtime>) {
        let running = self.sched.curr(CPU);
        if let Some(runtime) = runtime
            && running != TaskId::IDLE
            && self.pid(running) == runtime.pid
        {
            match runtime.vruntime {
                // First sight of the task that runs as the recording begins: its time up to now is in the value.
                Some(vruntime) if self.running_unseen => {
                    self.running_unseen = false;
                    self.sched.entity_mut(running).vruntime = Vruntime(vruntime);
                }
                _ if self.sees_clocks => {}
                _ => {
                    let now = self.sched.entity(running).exec_start.wrapping_add(runtime.runtime);
                    self.clock = (now, now);
                }
            }
        }
        self.set_clocks();
    }

    /// The report gets the reasons of the step's decisions.
    pub(crate) fn keep_reasons(&mut self) {
        let reasons = self.sched.decider.take_reasons();
        self.report.keep_reasons(self.time, reasons, |task| self.tasks.pid(task));
    }

    /// Takes one step, which is recorded so.
    pub(crate) fn step(&mut self, recorded: &'a [Record], step: Step<'a>) {
        let Some(record) = recorded.first() else { return };
        (self.line, self.time, self.recorded) = (record.line, record.time, recorded);
        match step {
            Step::Nothing => return,
            Step::PickAgain => return self.schedule(None, None, &Picks::Outcome, None),
            Step::MayPickAgain => return self.may_pick_again(),
            _ => {}
        }
        self.sees_clocks = false;
        if let Some(clocks) = recorded.iter().find_map(|record| record.clocks) {
            self.see_clocks(clocks);
        }
        self.note_need_resched(record);
        self.compare_charged(recorded);
        match step {
            Step::Nothing | Step::PickAgain | Step::MayPickAgain => {}
            Step::Unexplained => {
                self.report.unexplained += 1;
                let queue = self.queue();
                self.differ("sequence", "none known", "as recorded", &queue);
            }
            Step::Yield => self.yielding = Some(record.pid),
            Step::YieldNow { runtime } => {
                self.advance(runtime);
                self.yield_now();
                self.compare_charge(runtime);
            }
            Step::UpdateCurr { runtime } => {
                self.advance(Some(runtime));
                if self.yielding == Some(runtime.pid) && record.flags.context == Context::Task {
                    self.yield_now();
                    self.compare_charge(Some(runtime));
                } else {
                    self.charge(Some(runtime));
                    self.do_asked(runtime.pid, record.flags.context);
                }
            }
            Step::Tick { runtime, resched, ends } => {
                self.advance(runtime);
                self.sched.decider.expect(resched);
                self.sched.sched_tick(CPU);
                self.compare_charge(runtime);
                if let Some(resched) = resched {
                    self.score_tick(resched);
                }
                if ends && self.is_fair(self.sched.curr(CPU)) {
                    self.sched.assume_need_resched(CPU, true);
                }
            }
            Step::Wake { pid, coming, runtime, placement, check } => self.wake(pid, coming, runtime, placement, check),
            Step::WakeHigher { task } => {
                self.advance(None);
                let task = self.sleeper(task.pid, None);
                self.sched.decider.expect_preempt(false);
                self.sched.try_to_wake_up(task, CPU);
            }
            Step::Check { check, runtime } => {
                self.advance(runtime);
                let Some(woken) = self.task_of(check.woken) else { return self.lose_track() };
                self.check(woken, check, runtime);
            }
            Step::Fork { parent, child, runtime, placement } => self.fork(parent, child, runtime, placement),
            Step::Schedule { dequeued, runtime, picks, switch } => {
                let runtime = self.charge_change_before(runtime, switch.map(|(previous, ..)| previous));
                self.schedule(dequeued, runtime, &picks, switch);
            }
            Step::Change { pid, what, runtime, set, check, resched } => {
                self.advance(runtime);
                self.charge(runtime);
                self.change(pid, what, set, check, resched);
            }
            Step::WaitInactive { pid, runtime } => {
                self.advance(runtime);
                let Some(task) = self.task_of(pid) else { return self.lose_track() };
                self.sched.decider.expect_nothing();
                if !self.sched.wait_task_inactive(task) {
                    return self.lose_track();
                }
                self.compare_charge(runtime);
            }
            Step::Ask(asked) => self.ask(asked),
            Step::Asked => self.sched.assume_need_resched(CPU, true),
        }
    }

    /// The flag that the record carries, which tells what was decided before it.
    fn note_need_resched(&mut self, record: &Record) {
        match record.kind {
            // The switch comes after the flag is cleared.
            RecordKind::Switch { .. } => {}
            // An interrupt may come between reading the flag and writing the event.
            _ if !record.flags.interrupts_off => {}
            // Why it was set before the recording is not told; the first schedule clears it.
            _ => {
                let running = self.sched.curr(CPU);
                let wants = record.flags.wants_resched();
                // Higher classes pick the running task again without a trace; without probes any class does if no task was charged.
                let hidden = self.report.level != Level::L1 || !self.is_fair(running);
                if self.sched.need_resched(CPU) && !wants && !self.resched_before && running != TaskId::IDLE && hidden {
                    self.schedule(None, None, &Picks::Outcome, None);
                }
                if self.resched_before {
                    self.resched_before = record.flags.wants_resched();
                } else {
                    self.compare_need_resched(record.flags);
                }
            }
        }
    }

    /// A schedule: notes the task that runs now, and the one that would run by our rules.
    pub(crate) fn note_pick(&mut self, kernels: TaskId, ours: TaskId, state: TaskState) {
        let (time, line) = self.recorded.last().map_or((self.time, self.line), |last| (last.time, last.line));
        let (ours, kernels) = (self.pid(ours), self.pid(kernels));
        self.report.schedules.pick(Picked { time, cpu: CPU, line, ours, kernels, state });
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    pub(crate) fn lose_track(&mut self) {
        self.report.resynchronisations += 1;
        let queue = self.queue();
        self.differ("state", "not so", "as recorded", &queue);
    }

    pub(crate) fn differ(&mut self, what: &'static str, ours: impl ToString, kernels: impl ToString, queue: &[String]) {
        let (at, eevdf) = ((self.line, self.time), self.eevdf());
        let line = |record: &Record| format!("line {}: {:?}", record.line, record.kind);
        self.report.add_difference(at, what, eevdf, (ours, kernels), || queue.to_vec(), self.recorded.iter().map(line));
    }

    /// Placements whose task was not picked again before the recording ended stay open.
    pub(crate) fn end(mut self) -> Report {
        self.report.decisions.placement.unverifiable += self.placed.len() as u64;
        self.report
    }
}
