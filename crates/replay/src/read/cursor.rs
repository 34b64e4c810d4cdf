//! What single records show, under one name for CFS and EEVDF, and taking them one by one.

use schedlab_model::{Attributes, Policy, Time};
use schedlab_trace::{Pid, Probe, Record, RecordKind};

use crate::read::flags::{FlagBits, MOVE, SAVE};

/// `sched_stat_runtime`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime {
    pub(crate) pid: Pid,
    pub(crate) runtime: u64,
    pub(crate) vruntime: Option<u64>,
}

/// What `place_entity` was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) vruntime: u64,
    pub(crate) class: PlacementClass,
}

/// What is the class's own of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlacementClass {
    Cfs { min_vruntime: u64 },
    Eevdf { deadline: u64, lag: i64, relative: bool },
}

/// What `pick_next_entity` or `pick_eevdf` saw of its queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueView {
    pub(crate) running: u32,
    pub(crate) next: Pid,
    pub(crate) class: QueueClass,
}

/// What is the class's own of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueClass {
    Cfs { min_vruntime: u64, weight: u64, last: Pid, skip: Pid },
    Eevdf { zero: u64, average: i64, load: u64 },
}

/// What `set_next_entity` was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetView {
    pub(crate) pid: Pid,
    pub(crate) vruntime: u64,
    pub(crate) class: SetClass,
}

/// What is the class's own of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SetClass {
    Cfs { min_vruntime: u64 },
    Eevdf { deadline: u64, slice: u64 },
}

/// A place in the records. Each method takes the next record if it is of its kind.
pub(crate) struct Cursor<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) at: usize,
    pub(crate) flags: FlagBits,
}

impl<'a> Cursor<'a> {
    pub(crate) fn peek(&self) -> Option<&'a RecordKind> {
        self.records.get(self.at).map(|record| &record.kind)
    }

    /// Takes the next record if `read` makes something of the probe it is.
    fn probe<T>(&mut self, read: impl FnOnce(Probe) -> Option<T>) -> Option<T> {
        let RecordKind::Probe(probe) = self.peek()? else { return None };
        let found = read(*probe)?;
        self.at += 1;
        Some(found)
    }

    pub(crate) fn runtime(&mut self) -> Option<Runtime> {
        let RecordKind::StatRuntime { pid, runtime, vruntime, .. } = self.peek()? else { return None };
        self.at += 1;
        Some(Runtime { pid: *pid, runtime: *runtime, vruntime: *vruntime })
    }

    /// Passes over the `sched_stat_runtime` of a task that is put back just before another is set.
    pub(crate) fn runtime_before_set(&mut self) {
        if let [charged, set, ..] = &self.records[self.at..]
            && matches!(charged.kind, RecordKind::StatRuntime { .. })
            && matches!(
                set.kind,
                RecordKind::Probe(Probe::SetNext { .. } | Probe::SetNextEevdf { .. } | Probe::SetTask { .. })
            )
        {
            self.at += 1;
        }
    }

    pub(crate) fn resched(&mut self) -> bool {
        self.probe(|probe| matches!(probe, Probe::Resched { .. }).then_some(())).is_some()
    }

    /// `pick_next_task_fair`, `pick_task_fair`.
    pub(crate) fn pick_task(&mut self) -> bool {
        self.probe(|probe| (probe == Probe::PickTask).then_some(())).is_some()
    }

    /// `sched_stat_runtime` of the running task, charged as the fair class picks, with the rescheduling that it may ask for.
    pub(crate) fn runtime_before_pick(&mut self) -> Option<Runtime> {
        let at = self.at;
        let runtime = self.runtime()?;
        self.resched();
        if matches!(self.peek(), Some(RecordKind::Probe(Probe::Pick { .. } | Probe::PickEevdf { .. }))) {
            return Some(runtime);
        }
        self.at = at;
        None
    }

    /// `resched_curr` as the fair class asks for it: lazily, where there is such a thing.
    pub(crate) fn resched_fair(&mut self) -> bool {
        let (lazy, urgent) = (self.flags.lazy, self.flags.need_resched);
        let asks = |flag: Option<u32>| !lazy || flag.is_none_or(|flag| flag != urgent);
        self.probe(|probe| matches!(probe, Probe::Resched { flag } if asks(flag)).then_some(())).is_some()
    }

    /// `dequeue_task_fair` for a change.
    pub(crate) fn dequeue(&mut self, task: Pid) -> bool {
        self.probe(|probe| matches!(probe, Probe::Dequeue { pid, .. } if pid == task).then_some(())).is_some()
    }

    /// `enqueue_task_fair` after a change.
    pub(crate) fn enqueue_again(&mut self, task: Pid) -> bool {
        let again = |flags: u32| flags & (SAVE | MOVE) != 0;
        let found =
            |probe| matches!(probe, Probe::Enqueue { pid, flags, .. } if pid == task && again(flags)).then_some(());
        self.probe(found).is_some()
    }

    /// `set_load_weight`.
    pub(crate) fn parameters(&mut self, task: Pid) -> Option<Attributes> {
        self.probe(|probe| match probe {
            Probe::Parameters { pid, policy, static_priority, rt_priority, slice } if pid == task => {
                let rt_priority = i32::try_from(rt_priority).unwrap_or(0);
                let (policy, nice) = (policy_of(policy, rt_priority), nice_of(static_priority));
                Some(Attributes { policy, nice, slice: slice.map(Time::from_nanos), ..Attributes::default() })
            }
            _ => None,
        })
    }

    /// `dequeue_entities` under `dequeue_task_fair` (EEVDF).
    pub(crate) fn dequeue_entities(&mut self, task: Pid) {
        self.probe(|probe| matches!(probe, Probe::DequeueEntities { pid, .. } if pid == task).then_some(()));
    }

    /// `dequeue_entities` with `DEQUEUE_DELAYED`, within a pick (EEVDF).
    pub(crate) fn dequeue_delayed(&mut self) -> Option<Pid> {
        let delayed = self.flags.delayed;
        self.probe(|probe| match probe {
            Probe::DequeueEntities { pid, flags } if flags & delayed != 0 => Some(pid),
            _ => None,
        })
    }

    /// `requeue_delayed_entity` (EEVDF).
    pub(crate) fn requeue_delayed(&mut self, task: Pid) {
        self.probe(|probe| matches!(probe, Probe::RequeueDelayed { pid } if pid == task).then_some(()));
    }

    pub(crate) fn reweight(&mut self) -> Option<u64> {
        self.probe(|probe| if let Probe::Reweight { weight, .. } = probe { Some(weight) } else { None })
    }

    /// `place_entity` of a task that is queued now.
    pub(crate) fn placement(&mut self, task: Pid) -> Option<Placement> {
        self.probe(|probe| match probe {
            Probe::Place { pid, vruntime, min_vruntime, initial: false } if pid == task => {
                Some(Placement { vruntime, class: PlacementClass::Cfs { min_vruntime } })
            }
            Probe::PlaceEevdf { pid, vruntime, deadline, vlag, relative_deadline, .. } if pid == task => {
                let class = PlacementClass::Eevdf { deadline, lag: vlag, relative: relative_deadline };
                Some(Placement { vruntime, class })
            }
            _ => None,
        })
    }

    /// `place_entity` of a child that is being forked (CFS).
    pub(crate) fn initial_placement(&mut self) -> Option<(Pid, Placement)> {
        self.probe(|probe| match probe {
            Probe::Place { pid, vruntime, min_vruntime, initial: true } => {
                Some((pid, Placement { vruntime, class: PlacementClass::Cfs { min_vruntime } }))
            }
            _ => None,
        })
    }

    /// The woken task, the `WF_*` flags, and whether need_resched was set.
    pub(crate) fn wakeup_preempt(&mut self) -> Option<(Pid, u32, bool)> {
        let need_resched = 1 << self.flags.need_resched;
        self.probe(|probe| match probe {
            Probe::WakeupPreempt { pid, flags, thread_flags, .. } => {
                Some((pid, flags, thread_flags & need_resched != 0))
            }
            _ => None,
        })
    }

    /// `pick_eevdf`.
    pub(crate) fn eevdf(&mut self) -> Option<QueueView> {
        self.probe(|probe| match probe {
            Probe::PickEevdf { zero_vruntime, avg_vruntime, avg_load, running, next, .. } => {
                let class = QueueClass::Eevdf { zero: zero_vruntime, average: avg_vruntime, load: avg_load };
                Some(QueueView { running, next, class })
            }
            _ => None,
        })
    }

    /// `pick_next_entity` or `pick_eevdf`.
    pub(crate) fn pick(&mut self) -> Option<QueueView> {
        let cfs = self.probe(|probe| match probe {
            Probe::Pick { min_vruntime, running, weight, next, last, skip, .. } => {
                Some(QueueView { running, next, class: QueueClass::Cfs { min_vruntime, weight, last, skip } })
            }
            _ => None,
        });
        cfs.or_else(|| self.eevdf())
    }

    pub(crate) fn set(&mut self) -> Option<SetView> {
        self.probe(|probe| match probe {
            Probe::SetNext { pid, vruntime, min_vruntime } => {
                Some(SetView { pid, vruntime, class: SetClass::Cfs { min_vruntime } })
            }
            Probe::SetNextEevdf { pid, vruntime, deadline, slice, .. } => {
                Some(SetView { pid, vruntime, class: SetClass::Eevdf { deadline, slice } })
            }
            Probe::SetTask { pid, vruntime, deadline: Some(deadline), slice: Some(slice), .. } => {
                Some(SetView { pid, vruntime, class: SetClass::Eevdf { deadline, slice } })
            }
            _ => None,
        })
    }
}

/// A policy by the kernel's number (`include/uapi/linux/sched.h`); one that is not known counts as SCHED_OTHER.
pub(crate) fn policy_of(number: u32, rt_priority: i32) -> Policy {
    let priority = u8::try_from(rt_priority.clamp(1, 99)).unwrap_or(1);
    match number {
        1 => Policy::Fifo(priority),
        2 => Policy::Rr(priority),
        3 => Policy::Batch,
        5 => Policy::Idle,
        _ => Policy::Other,
    }
}

/// The nice level of a `static_prio`.
pub(crate) fn nice_of(static_priority: i32) -> i8 {
    i8::try_from(static_priority.saturating_sub(120).clamp(-20, 19)).unwrap_or(0)
}
