//! Tasks that one system call wakes, with no preemption from the first wake-up to the last.
//!
//! A write that ends the poll of forty readers wakes forty tasks. Each of them may mark the waker for rescheduling, and the waker goes on: there
//! is no preemption point before the system call returns. A recording shows that: `need_resched` is set when one task is woken, and is still
//! set when the same waker wakes the next one, while it would be clear had the waker been through `schedule` in between.

use std::collections::HashMap;

use schedlab_trace::{Flags, Pid};

use crate::activity::Activity;

/// What a CPU's events show of the wake-ups of the task on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    /// The last waker, and the pid of the task it woke.
    last: Option<(u32, Pid)>,
    /// Whether the waker has been marked for rescheduling ever since.
    marked: bool,
}

impl Pending {
    /// An event of this CPU, before anything else is made of it.
    pub(crate) fn event(&mut self, flags: Flags) {
        self.marked &= flags.wants_resched();
    }

    /// `sched_wakeup`: the task is in its queue, and may have marked the waker.
    pub(crate) fn queued(&mut self, woken: Pid, flags: Flags) {
        self.marked |= self.last.is_some_and(|(_, last)| last == woken) && flags.wants_resched();
    }

    /// `waker` wakes a task; returns whether that is in the same system call as its last wake-up.
    pub(crate) fn wakes(&mut self, waker: u32, woken: Pid, flags: Flags) -> bool {
        let joins = self.marked && self.last.is_some_and(|(last, _)| last == waker);
        self.last = Some((waker, woken));
        self.marked = flags.wants_resched();
        joins
    }
}

/// The groups of tasks that were woken so, by number, in the order of their wake-ups.
#[derive(Debug, Clone, Default)]
pub(crate) struct WakeGroups(Vec<Vec<u32>>);

impl WakeGroups {
    /// The tasks of a group.
    pub(crate) fn of(&self, group: u32) -> &[u32] {
        &self.0[group as usize]
    }

    /// What a waker did that woke `task` too, after what it `woke` before.
    pub(crate) fn add(&mut self, woke: Activity, task: u32) -> Activity {
        match woke {
            Activity::WakeAll(group) => {
                self.0[group as usize].push(task);
                woke
            }
            Activity::Wake(first) => {
                self.0.push(vec![first, task]);
                Activity::WakeAll(self.0.len() as u32 - 1)
            }
            other => other,
        }
    }

    /// What is to be put down for each group where only some tasks are there: none, one wake-up, or the group. Equal groups have one number.
    pub(crate) fn settle(&mut self, there: &[bool]) -> Vec<Option<Activity>> {
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let groups = self.0.iter_mut().enumerate();
        let settled = groups.map(|(number, group)| {
            group.retain(|task| there[*task as usize]);
            match group[..] {
                [] => None,
                [one] => Some(Activity::Wake(one)),
                _ => Some(Activity::WakeAll(*known.entry(group.clone()).or_insert(number as u32))),
            }
        });
        settled.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(need_resched: bool) -> Flags {
        Flags { need_resched, ..Flags::default() }
    }

    #[test]
    fn a_waker_that_stays_marked_is_in_one_system_call() {
        let mut pending = Pending::default();
        let mut wakes = |waker, woken, before, after| {
            pending.event(marked(before));
            let joins = pending.wakes(waker, woken, marked(before));
            pending.event(marked(after));
            pending.queued(woken, marked(after));
            joins
        };
        // The first wake-up marks none, the second marks the waker: the third and the fourth are in the second's call.
        assert!(!wakes(7, 1, false, false));
        assert!(!wakes(7, 2, false, true));
        assert!(wakes(7, 3, true, true));
        assert!(wakes(7, 4, true, true));
        // It has been through schedule() since, or another task wakes.
        assert!(!wakes(7, 5, false, true));
        assert!(!wakes(8, 6, true, true));
    }

    #[test]
    fn a_tick_that_marks_the_waker_joins_nothing() {
        let mut pending = Pending::default();
        assert!(!pending.wakes(7, 1, marked(false)));
        pending.queued(1, marked(false));
        // An interrupt's wake-up of task 9 marks it later.
        pending.queued(9, marked(true));
        pending.event(marked(true));
        assert!(!pending.wakes(7, 2, marked(true)));
    }

    #[test]
    fn groups_have_the_tasks_that_are_there() {
        let mut groups = WakeGroups::default();
        for tasks in [[0, 1, 2], [0, 3, 2], [3, 4, 1], [3, 4, 3]] {
            let first = groups.add(Activity::Wake(tasks[0]), tasks[1]);
            groups.add(first, tasks[2]);
        }
        // Tasks 3 and 4 are none of the workload; what the second and the first are without them differs.
        let settled = groups.settle(&[true, true, true, false, false]);
        let expected = [Some(Activity::WakeAll(0)), Some(Activity::WakeAll(1)), Some(Activity::Wake(1)), None];
        assert_eq!(settled, expected);
        assert_eq!((groups.of(0), groups.of(1)), (&[0, 1, 2][..], &[0, 2][..]));
    }
}
