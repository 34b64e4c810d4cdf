//! From records to steps: which sequence of core.c a run of records stands for.
//!
//! On one CPU everything between `rq_lock` and `rq_unlock` is recorded without a break, so a step is a few adjacent records, and
//! a small grammar finds it. What each step looks like follows from where the probed functions are called in 6.1's
//! `kernel/sched/{core,fair}.c`.

use schedlab_trace::{Pid, Probe, Record, RecordKind, RecordState, TaskRef};

/// `DEQUEUE_SLEEP`, `DEQUEUE_SAVE`, `DEQUEUE_MOVE`.
const SLEEP: u32 = 0x1;
const SAVE: u32 = 0x2;
const MOVE: u32 = 0x4;
/// `ENQUEUE_WAKEUP`.
const WAKEUP: u32 = 0x1;

/// `sched_stat_runtime`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime {
    pub(crate) pid: Pid,
    pub(crate) runtime: u64,
    pub(crate) vruntime: Option<u64>,
}

/// `place_entity`'s arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) vruntime: u64,
    pub(crate) min_vruntime: u64,
}

/// `check_preempt_wakeup`'s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    pub(crate) woken: Pid,
    pub(crate) flags: u32,
    /// Whether the running task was about to be rescheduled already.
    pub(crate) need_resched: bool,
}

/// `pick_next_entity`'s view of the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickProbe {
    pub(crate) min_vruntime: u64,
    pub(crate) running: u32,
    pub(crate) weight: u64,
    pub(crate) next: Pid,
    pub(crate) last: Pid,
    pub(crate) skip: Pid,
}

/// `set_next_entity`'s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetProbe {
    pub(crate) pid: Pid,
    pub(crate) vruntime: u64,
    pub(crate) min_vruntime: u64,
}

/// One critical section.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// `task_tick_fair`.
    Tick { runtime: Option<Runtime>, resched: bool },
    /// `try_to_wake_up` or `wake_up_new_task` of a fair task.
    Wake {
        pid: Pid,
        new: bool,
        runtime: Option<Runtime>,
        placement: Option<Placement>,
        check: Option<Check>,
        resched: bool,
    },
    /// `try_to_wake_up` of a task of a higher class, which the fair class's probes do not show.
    WakeHigher { task: &'a TaskRef },
    /// `check_preempt_curr` alone: a wake-up of a task that was still queued.
    Check { check: Check, runtime: Option<Runtime>, resched: bool },
    /// `sched_fork`.
    Fork { child: Pid, runtime: Option<Runtime>, placement: Placement },
    /// `__schedule`.
    Schedule {
        dequeued: Option<Pid>,
        runtime: Option<Runtime>,
        pick: Option<PickProbe>,
        set: Option<SetProbe>,
        switch: Option<(&'a TaskRef, RecordState, &'a TaskRef)>,
    },
    /// `sched_move_task`.
    Move { pid: Pid, runtime: Option<Runtime>, set: Option<SetProbe> },
    /// `set_user_nice`, or a change of policy within the fair class.
    Reweight {
        pid: Pid,
        weight: u64,
        runtime: Option<Runtime>,
        set: Option<SetProbe>,
        check: Option<Check>,
        resched: bool,
    },
    /// `sched_yield(2)` was entered.
    Yield,
    /// `update_curr` from elsewhere, such as reading a CPU clock.
    UpdateCurr { runtime: Runtime },
    /// Nothing that concerns a queue.
    Nothing,
    /// A probe that no sequence explains.
    Unexplained,
}

/// Cuts the step that begins at `records[0]`; returns it with the number of its records, at least 1.
pub(crate) fn next_step(records: &[Record]) -> (Step<'_>, usize) {
    let mut cursor = Cursor { records, at: 0 };
    let step = cursor.step();
    (step, cursor.at.max(1))
}

struct Cursor<'a> {
    records: &'a [Record],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn step(&mut self) -> Step<'a> {
        let Some(record) = self.records.first() else { return Step::Nothing };
        match &record.kind {
            RecordKind::Probe(probe) => self.probe_step(*probe),
            RecordKind::StatRuntime { .. } => {
                let Some(runtime) = self.runtime() else { return Step::Unexplained };
                self.after_runtime(runtime)
            }
            RecordKind::Switch { .. } => self.schedule(None, None),
            RecordKind::Waking { task, .. } if task.priority < FIRST_FAIR_PRIORITY => {
                self.at = 1;
                self.resched();
                Step::WakeHigher { task }
            }
            RecordKind::Other { event, .. } if &**event == "sys_enter_sched_yield" => Step::Yield,
            _ => Step::Nothing,
        }
    }

    fn probe_step(&mut self, probe: Probe) -> Step<'a> {
        match probe {
            Probe::Tick { .. } => {
                self.at = 1;
                Step::Tick { runtime: self.runtime(), resched: self.resched() }
            }
            Probe::Enqueue { pid, flags } if flags & (SAVE | MOVE) == 0 => self.wake(pid, flags),
            Probe::Dequeue { pid, flags } if flags & SLEEP != 0 => {
                self.at = 1;
                let runtime = self.runtime();
                self.schedule(Some(pid), runtime)
            }
            Probe::Dequeue { pid, flags } if flags & SAVE != 0 => self.change(pid, flags),
            Probe::Pick { .. } => self.schedule(None, None),
            Probe::Place { initial: true, .. } => self.fork(None),
            Probe::WakeupPreempt { .. } => {
                let Some(check) = self.check() else { return Step::Unexplained };
                Step::Check { check, runtime: self.runtime(), resched: self.resched() }
            }
            Probe::Reweight { pid, weight } => {
                self.at = 1;
                Step::Reweight { pid, weight, runtime: None, set: None, check: None, resched: false }
            }
            _ => Step::Unexplained,
        }
    }

    /// What a lone `sched_stat_runtime` belongs to depends on what follows it.
    fn after_runtime(&mut self, runtime: Runtime) -> Step<'a> {
        match self.peek() {
            Some(RecordKind::Probe(Probe::Pick { .. }) | RecordKind::Switch { .. }) => {
                self.schedule(None, Some(runtime))
            }
            Some(RecordKind::Probe(Probe::Place { initial: true, .. })) => self.fork(Some(runtime)),
            _ => Step::UpdateCurr { runtime },
        }
    }

    fn wake(&mut self, pid: Pid, flags: u32) -> Step<'a> {
        self.at = 1;
        let runtime = self.runtime();
        let placement = self.placement(false).map(|(_, placement)| placement);
        // A new task is announced before preemption is looked at, a woken one after.
        if matches!(self.peek(), Some(RecordKind::WakeupNew { .. })) {
            self.at += 1;
        }
        let check = self.check();
        let runtime = runtime.or_else(|| self.runtime());
        Step::Wake { pid, new: flags & WAKEUP == 0, runtime, placement, check, resched: self.resched() }
    }

    fn fork(&mut self, runtime: Option<Runtime>) -> Step<'a> {
        match self.placement(true) {
            Some((child, placement)) => Step::Fork { child, runtime, placement },
            None => Step::Unexplained,
        }
    }

    fn schedule(&mut self, dequeued: Option<Pid>, runtime: Option<Runtime>) -> Step<'a> {
        let pick = self.pick();
        let set = self.set();
        let switch = match self.peek() {
            Some(RecordKind::Switch { previous, state, next }) => {
                self.at += 1;
                Some((previous, *state, next))
            }
            _ => None,
        };
        Step::Schedule { dequeued, runtime, pick, set, switch }
    }

    /// Dequeued, changed and queued again.
    fn change(&mut self, pid: Pid, flags: u32) -> Step<'a> {
        self.at = 1;
        let runtime = self.runtime();
        let weight = match self.peek() {
            Some(RecordKind::Probe(Probe::Reweight { weight, .. })) => {
                self.at += 1;
                Some(*weight)
            }
            _ => None,
        };
        match self.peek() {
            Some(RecordKind::Probe(Probe::Enqueue { pid: queued, .. })) if *queued == pid => self.at += 1,
            _ => return Step::Unexplained,
        }
        let set = self.set();
        match weight {
            Some(weight) => {
                let check = self.check();
                let runtime = runtime.or_else(|| self.runtime());
                Step::Reweight { pid, weight, runtime, set, check, resched: self.resched() }
            }
            None if flags & MOVE != 0 => {
                self.resched();
                Step::Move { pid, runtime, set }
            }
            None => Step::Unexplained,
        }
    }

    fn peek(&self) -> Option<&'a RecordKind> {
        self.records.get(self.at).map(|record| &record.kind)
    }

    fn runtime(&mut self) -> Option<Runtime> {
        let RecordKind::StatRuntime { pid, runtime, vruntime, .. } = self.peek()? else { return None };
        self.at += 1;
        Some(Runtime { pid: *pid, runtime: *runtime, vruntime: *vruntime })
    }

    fn resched(&mut self) -> bool {
        let found = matches!(self.peek(), Some(RecordKind::Probe(Probe::Resched)));
        self.at += usize::from(found);
        found
    }

    fn placement(&mut self, expected: bool) -> Option<(Pid, Placement)> {
        match *self.peek()? {
            RecordKind::Probe(Probe::Place { pid, vruntime, min_vruntime, initial }) if initial == expected => {
                self.at += 1;
                Some((pid, Placement { vruntime, min_vruntime }))
            }
            _ => None,
        }
    }

    fn check(&mut self) -> Option<Check> {
        /// `_TIF_NEED_RESCHED` (`arch/x86/include/asm/thread_info.h`).
        const NEED_RESCHED: u32 = 1 << 3;
        let RecordKind::Probe(Probe::WakeupPreempt { pid, flags, thread_flags, .. }) = *self.peek()? else {
            return None;
        };
        self.at += 1;
        Some(Check { woken: pid, flags, need_resched: thread_flags & NEED_RESCHED != 0 })
    }

    fn pick(&mut self) -> Option<PickProbe> {
        match *self.peek()? {
            RecordKind::Probe(Probe::Pick { min_vruntime, running, weight, next, last, skip, .. }) => {
                self.at += 1;
                Some(PickProbe { min_vruntime, running, weight, next, last, skip })
            }
            _ => None,
        }
    }

    fn set(&mut self) -> Option<SetProbe> {
        match *self.peek()? {
            RecordKind::Probe(Probe::SetNext { pid, vruntime, min_vruntime }) => {
                self.at += 1;
                Some(SetProbe { pid, vruntime, min_vruntime })
            }
            _ => None,
        }
    }
}

/// `MAX_RT_PRIO`: priorities below it are real-time, deadline and stop tasks.
pub(crate) const FIRST_FAIR_PRIORITY: i32 = 100;
