//! From events to what is drawn: which task ran on each CPU, and what each task did when.

use schedlab_model::{Candidate, CpuId, Decision, Event, EventKind, PickClass, Reason, TaskId, TaskState};

use crate::collect::Pick;
use crate::message::Message;

/// A stretch of time in which a task does one thing. Between its segments it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) state: State,
    pub(crate) cpu: u16,
}

/// What a task does in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Running = 0,
    Waiting = 1,
    /// It could run but for its group's limit, or that of real-time tasks.
    Throttled = 2,
}

/// A stretch of time in which a task runs on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) task: u32,
}

/// While a group may not run on a CPU; as group 0 the real-time tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) group: u32,
    pub(crate) cpu: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wakeup {
    time: u64,
    task: u32,
    waker: u32,
    from: u16,
    to: u16,
}

/// A task's change of CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Migration {
    time: u64,
    task: u32,
    from: u16,
    to: u16,
}

/// Everything that is drawn of a run.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) end: u64,
    /// Of each CPU, in order.
    pub(crate) cpus: Vec<Vec<Slice>>,
    /// Of each task, in order.
    pub(crate) tasks: Vec<Vec<Segment>>,
    births: Vec<u64>,
    deaths: Vec<u64>,
    wakeups: Vec<Wakeup>,
    migrations: Vec<Migration>,
    throttles: Vec<Throttle>,
}

/// What a task is doing, since when and where.
#[derive(Debug, Clone, Copy)]
enum Now {
    Asleep,
    In(State, u64, u16),
    Dead,
}

const NEVER: u64 = u64::MAX;

impl Timeline {
    /// The timeline of a run that ended at `end` nanoseconds.
    pub(crate) fn of(events: &[Event], tasks: usize, cpus: usize, end: u64) -> Self {
        let mut timeline = Self {
            end,
            cpus: vec![Vec::new(); cpus],
            tasks: vec![Vec::new(); tasks],
            births: vec![NEVER; tasks],
            deaths: vec![NEVER; tasks],
            ..Self::default()
        };
        let mut now = vec![Now::Asleep; tasks];
        for event in events {
            timeline.take(event, &mut now);
        }
        for task in 0..tasks {
            timeline.leave(task, end, &mut now, Now::Dead);
        }
        timeline
    }

    /// The task's present segment ends, another state begins.
    fn leave(&mut self, task: usize, time: u64, now: &mut [Now], next: Now) {
        let Some(slot) = now.get_mut(task) else { return };
        if let Now::In(state, start, cpu) = *slot {
            if time > start {
                self.tasks[task].push(Segment { start, end: time, state, cpu });
            }
            if state == State::Running && time > start {
                let slice = Slice { start, end: time, task: task as u32 };
                if let Some(slices) = self.cpus.get_mut(usize::from(cpu)) {
                    slices.push(slice);
                }
            }
        }
        *slot = next;
    }

    fn take(&mut self, event: &Event, now: &mut [Now]) {
        let (time, cpu) = (event.time.as_nanos(), event.cpu.0 as u16);
        match event.kind {
            EventKind::Fork { child, .. } => {
                if let Some(birth) = self.births.get_mut(child.index()) {
                    *birth = time;
                }
            }
            EventKind::Waking { task, waker, target } => {
                self.wakeups.push(Wakeup { time, task: task.0, waker: waker.0, from: cpu, to: target.0 as u16 });
                self.wake(task, time, target, now);
            }
            EventKind::WakeupNew { task, target } => {
                if let Some(birth) = self.births.get_mut(task.index()) {
                    *birth = (*birth).min(time);
                }
                self.wake(task, time, target, now);
            }
            EventKind::Switch { previous, state, next } => {
                if previous != TaskId::IDLE {
                    let goes_on = match state {
                        TaskState::Running => Now::In(State::Waiting, time, cpu),
                        TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => Now::Asleep,
                        TaskState::Dead => Now::Dead,
                    };
                    self.leave(previous.index(), time, now, goes_on);
                    if state == TaskState::Dead
                        && let Some(death) = self.deaths.get_mut(previous.index())
                    {
                        *death = time;
                    }
                }
                if next != TaskId::IDLE {
                    self.leave(next.index(), time, now, Now::In(State::Running, time, cpu));
                }
            }
            EventKind::Migrate { task, from, to } => {
                self.migrations.push(Migration { time, task: task.0, from: from.0 as u16, to: to.0 as u16 });
                if let Some(Now::In(State::Waiting, _, cpu)) = now.get_mut(task.index()) {
                    *cpu = to.0 as u16;
                }
            }
            EventKind::Exit { .. } | EventKind::Mark { .. } => {}
        }
    }

    fn wake(&self, task: TaskId, time: u64, target: CpuId, now: &mut [Now]) {
        if let Some(slot) = now.get_mut(task.index())
            && matches!(slot, Now::Asleep)
        {
            *slot = Now::In(State::Waiting, time, target.0 as u16);
        }
    }

    /// Marks as throttled what tasks wait while their group, or one above it, may not run on their CPU. `groups` are those of each
    /// task, numbered as the decisions number them.
    pub(crate) fn throttle(&mut self, decisions: &[Decision], groups: &[Vec<u32>]) {
        let mut open: Vec<Throttle> = Vec::new();
        for decision in decisions {
            let (time, cpu) = (decision.time.as_nanos(), decision.cpu.0);
            match decision.reason {
                Reason::Throttle { group, .. } => {
                    open.push(Throttle { group, cpu, start: time, end: self.end });
                }
                Reason::Unthrottle { group, .. } => {
                    let found = open.iter().position(|throttle| (throttle.group, throttle.cpu) == (group, cpu));
                    if let Some(place) = found {
                        self.throttles.push(Throttle { end: time, ..open.swap_remove(place) });
                    }
                }
                _ => {}
            }
        }
        self.throttles.append(&mut open);
        self.throttles.sort_by_key(|throttle| throttle.start);
        for (segments, groups) in self.tasks.iter_mut().zip(groups).filter(|(_, groups)| !groups.is_empty()) {
            let mut spans: Vec<&Throttle> = self.throttles.iter().filter(|one| groups.contains(&one.group)).collect();
            spans.sort_by_key(|throttle| throttle.start);
            *segments = segments.iter().flat_map(|segment| cut(*segment, &spans)).collect();
        }
    }

    /// Marks as throttled what real-time tasks wait while their class may not run on their CPU (`rt_throttled`): from a pick of a lower
    /// class, though a real-time task waits there, to the next pick of the class.
    pub(crate) fn throttle_realtime(&mut self, picks: &[Pick], realtime: &[bool]) {
        let mut next = vec![0; self.tasks.len()];
        let mut last: Vec<Option<PickClass>> = vec![None; self.tasks.len()];
        let mut since: Vec<Option<u64>> = vec![None; self.cpus.len()];
        let mut spans: Vec<Throttle> = Vec::new();
        for pick in picks {
            if let Some(slot) = last.get_mut(pick.task.index()) {
                *slot = Some(pick.class);
            }
            let Some(open) = since.get_mut(pick.cpu as usize) else { continue };
            match pick.class {
                PickClass::Realtime(_) => {
                    let begun = open.take();
                    spans.extend(begun.map(|start| Throttle { group: 0, cpu: pick.cpu, start, end: pick.time }));
                }
                PickClass::Fair | PickClass::Custom | PickClass::Idle if open.is_none() => {
                    let waits = |task: usize| {
                        let segments = &self.tasks[task];
                        next[task] += segments[next[task]..].partition_point(|one| one.end <= pick.time);
                        // A task that wakes at this moment may have come after the pick; one that stops running has not.
                        let ran = next[task].checked_sub(1).and_then(|before| segments.get(before));
                        let stopped = ran.is_some_and(|one| one.end == pick.time && one.state == State::Running);
                        segments.get(next[task]).is_some_and(|one| {
                            one.state == State::Waiting
                                && u32::from(one.cpu) == pick.cpu
                                && (one.start < pick.time || (one.start == pick.time && stopped))
                        })
                    };
                    let in_class = |task: &usize| realtime[*task] && last[*task].is_none_or(is_realtime);
                    if (0..realtime.len()).filter(in_class).any(waits) {
                        *open = Some(pick.time);
                    }
                }
                _ => {}
            }
        }
        let left = (0_u32..).zip(since);
        spans.extend(left.filter_map(|(cpu, open)| Some(Throttle { group: 0, cpu, start: open?, end: self.end })));
        spans.sort_by_key(|span| span.start);
        let all: Vec<&Throttle> = spans.iter().collect();
        for (segments, _) in self.tasks.iter_mut().zip(realtime).filter(|(_, realtime)| **realtime) {
            *segments = segments.iter().flat_map(|segment| cut(*segment, &all)).collect();
        }
        self.throttles.extend(spans);
        self.throttles.sort_by_key(|throttle| throttle.start);
    }

    /// Adds the arrays to a message.
    pub(crate) fn write(&self, message: &mut Message) {
        write_lanes(message, "slice", &self.cpus, |slice| (slice.start, slice.end));
        message.u32s("slice_task", &self.cpus.iter().flatten().map(|slice| slice.task).collect::<Vec<_>>());
        write_lanes(message, "segment", &self.tasks, |segment| (segment.start, segment.end));
        message
            .u8s("segment_state", &self.tasks.iter().flatten().map(|segment| segment.state as u8).collect::<Vec<_>>());
        message.u16s("segment_cpu", &self.tasks.iter().flatten().map(|segment| segment.cpu).collect::<Vec<_>>());
        message.f64s("birth", &self.births.iter().map(|time| time_of(*time)).collect::<Vec<_>>());
        message.f64s("death", &self.deaths.iter().map(|time| time_of(*time)).collect::<Vec<_>>());
        let all = &self.wakeups;
        message.f64s("wakeup_time", &all.iter().map(|one| one.time as f64).collect::<Vec<_>>());
        message.u32s("wakeup_task", &all.iter().map(|one| one.task).collect::<Vec<_>>());
        message.u32s("wakeup_waker", &all.iter().map(|one| one.waker).collect::<Vec<_>>());
        message.u16s("wakeup_from", &all.iter().map(|one| one.from).collect::<Vec<_>>());
        message.u16s("wakeup_to", &all.iter().map(|one| one.to).collect::<Vec<_>>());
        let all = &self.migrations;
        message.f64s("migration_time", &all.iter().map(|one| one.time as f64).collect::<Vec<_>>());
        message.u32s("migration_task", &all.iter().map(|one| one.task).collect::<Vec<_>>());
        message.u16s("migration_from", &all.iter().map(|one| one.from).collect::<Vec<_>>());
        message.u16s("migration_to", &all.iter().map(|one| one.to).collect::<Vec<_>>());
        let all = &self.throttles;
        message.f64s("throttle_start", &all.iter().map(|one| one.start as f64).collect::<Vec<_>>());
        message.f64s("throttle_end", &all.iter().map(|one| one.end as f64).collect::<Vec<_>>());
        message.u32s("throttle_group", &all.iter().map(|one| one.group).collect::<Vec<_>>());
        message.u32s("throttle_cpu", &all.iter().map(|one| one.cpu).collect::<Vec<_>>());
    }
}

const fn is_realtime(class: PickClass) -> bool {
    matches!(class, PickClass::Realtime(_))
}

/// A time that may never have come, which is written as infinity.
fn time_of(time: u64) -> f64 {
    if time == NEVER { f64::INFINITY } else { time as f64 }
}

/// What a group's throttling makes of a segment.
fn cut(segment: Segment, spans: &[&Throttle]) -> Vec<Segment> {
    if segment.state != State::Waiting {
        return vec![segment];
    }
    let mut parts = Vec::new();
    let mut at = segment.start;
    let until = spans.partition_point(|span| span.start < segment.end);
    for span in &spans[..until] {
        let (start, end) = (span.start.max(at), span.end.min(segment.end));
        if span.cpu != u32::from(segment.cpu) || start >= end {
            continue;
        }
        if start > at {
            parts.push(Segment { start: at, end: start, ..segment });
        }
        parts.push(Segment { start, end, state: State::Throttled, ..segment });
        at = end;
    }
    if at < segment.end {
        parts.push(Segment { start: at, ..segment });
    }
    parts
}

/// The spans of all lanes one after the other, and where each lane's begin.
fn write_lanes<T>(message: &mut Message, name: &str, lanes: &[Vec<T>], span: impl Fn(&T) -> (u64, u64)) {
    let mut offsets = vec![0_u32];
    for lane in lanes {
        offsets.push(offsets.last().copied().unwrap_or(0) + lane.len() as u32);
    }
    message.u32s(&format!("{name}_offset"), &offsets);
    message.f64s(&format!("{name}_start"), &lanes.iter().flatten().map(|one| span(one).0 as f64).collect::<Vec<_>>());
    message.f64s(&format!("{name}_end"), &lanes.iter().flatten().map(|one| span(one).1 as f64).collect::<Vec<_>>());
}

/// Which task a decision is about, [`TaskId::IDLE`] where it is about none.
pub(crate) fn subject(reason: &Reason) -> TaskId {
    let of = |candidate: Candidate| match candidate {
        Candidate::Task(task) => task,
        Candidate::Group(_) => TaskId::IDLE,
    };
    match reason {
        Reason::Pick { task, .. } | Reason::Select { task, .. } => *task,
        Reason::WakeupPreempt { woken, .. } => *woken,
        Reason::Turn { current, .. } => of(*current),
        Reason::Place { entity, .. } => of(*entity),
        Reason::Newidle { .. } | Reason::Balance { .. } | Reason::Throttle { .. } | Reason::Unthrottle { .. } => {
            TaskId::IDLE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Time;

    fn event(time: u64, kind: EventKind) -> Event {
        Event { time: Time::from_nanos(time), cpu: CpuId(0), kind }
    }

    fn switch(time: u64, previous: TaskId, state: TaskState, next: TaskId) -> Event {
        event(time, EventKind::Switch { previous, state, next })
    }

    const IDLE: TaskId = TaskId::IDLE;
    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    /// A runs from 0; B comes at 10, waits until A sleeps at 30, and runs to its end at 50.
    fn events() -> Vec<Event> {
        vec![
            event(0, EventKind::Fork { parent: IDLE, child: A }),
            event(0, EventKind::WakeupNew { task: A, target: CpuId(0) }),
            switch(0, IDLE, TaskState::Running, A),
            event(10, EventKind::Fork { parent: A, child: B }),
            event(10, EventKind::WakeupNew { task: B, target: CpuId(0) }),
            switch(30, A, TaskState::Interruptible, B),
            event(50, EventKind::Exit { task: B }),
            switch(50, B, TaskState::Dead, IDLE),
        ]
    }

    #[test]
    fn each_task_runs_waits_and_sleeps_as_the_events_say() {
        let timeline = Timeline::of(&events(), 2, 1, 60);
        let run = |start, end| Segment { start, end, state: State::Running, cpu: 0 };
        let wait = Segment { start: 10, end: 30, state: State::Waiting, cpu: 0 };
        assert_eq!(timeline.tasks, [vec![run(0, 30)], vec![wait, run(30, 50)]]);
        let slice = |start, end, task| Slice { start, end, task };
        assert_eq!(timeline.cpus, [vec![slice(0, 30, 0), slice(30, 50, 1)]]);
        assert_eq!((timeline.births, timeline.deaths), (vec![0, 10], vec![NEVER, 50]));
    }

    #[test]
    fn what_a_real_time_task_waits_behind_a_lower_class_is_throttled() {
        // A is of the real-time class: throttled at 30, when B of the fair class is picked, until it is picked again at 50.
        let events = [
            event(0, EventKind::WakeupNew { task: A, target: CpuId(0) }),
            event(0, EventKind::WakeupNew { task: B, target: CpuId(0) }),
            switch(0, IDLE, TaskState::Running, A),
            switch(30, A, TaskState::Running, B),
            switch(50, B, TaskState::Running, A),
        ];
        let pick = |time, task, class| Pick { time, cpu: 0, task, class };
        let realtime = PickClass::Realtime(50);
        let picks = [pick(0, A, realtime), pick(30, B, PickClass::Fair), pick(50, A, realtime)];
        let mut timeline = Timeline::of(&events, 2, 1, 60);
        timeline.throttle_realtime(&picks, &[true, false]);
        let states: Vec<_> = timeline.tasks[0].iter().map(|one| (one.start, one.end, one.state)).collect();
        assert_eq!(states, [(0, 30, State::Running), (30, 50, State::Throttled), (50, 60, State::Running)]);
        // B waits as any task does.
        assert!(timeline.tasks[1].iter().all(|one| one.state != State::Throttled));
    }

    #[test]
    fn what_waits_while_its_group_is_throttled_is_throttled() {
        let mut timeline = Timeline::of(&events(), 2, 1, 60);
        let at = |time, reason| Decision { time: Time::from_nanos(time), cpu: CpuId(0), reason };
        let decisions = [
            at(15, Reason::Throttle { group: 1, until_refill: 5 }),
            at(20, Reason::Unthrottle { group: 1, after: 5 }),
            at(55, Reason::Throttle { group: 1, until_refill: 5 }),
        ];
        timeline.throttle(&decisions, &[vec![], vec![1]]);
        let states: Vec<_> = timeline.tasks[1].iter().map(|one| (one.start, one.end, one.state)).collect();
        let expected =
            [(10, 15, State::Waiting), (15, 20, State::Throttled), (20, 30, State::Waiting), (30, 50, State::Running)];
        assert_eq!(states, expected);
        assert_eq!(timeline.throttles.last().map(|one| (one.start, one.end)), Some((55, 60)));
    }
}
