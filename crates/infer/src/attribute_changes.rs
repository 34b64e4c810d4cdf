//! Changes of tasks during a recording: priorities, policies, slices and groups.

use schedlab_model::{Change, Policy, Time};
use schedlab_trace::{Pid, Record};

use crate::activity::Activity;
use crate::call;
use crate::observer::Observer;
use crate::task_table::group_path;
use crate::task_trace::{State, policy_of};

impl Observer {
    /// A task is switched in or out with this priority.
    pub(crate) fn prioritise(&mut self, task: u32, priority: i32) {
        let trace = &mut self.traces[task as usize];
        trace.first_priority.get_or_insert(priority);
        let before = trace.priority.replace(priority);
        if self.begin.is_none() || trace.boosted || before.is_none_or(|before| before == priority) {
            return;
        }
        let (guess, nice) = policy_of(priority);
        let policy = match (trace.asked.take(), guess) {
            (Some(Policy::Rr(_)), Policy::Fifo(priority)) => Policy::Rr(priority),
            (Some(asked @ (Policy::Batch | Policy::Idle)), _) => asked,
            _ => guess,
        };
        // A fair task that stays fair keeps its policy.
        let stays = before.is_some_and(|before| before >= 100) && priority >= 100;
        let policy = (!stays).then_some(policy);
        let nice = (priority >= 100).then_some(nice);
        self.changes_itself(task, Change { policy, nice, ..Change::default() });
    }

    fn changes_itself(&mut self, task: u32, change: Change) {
        if self.begin.is_none() || change == Change::default() {
            return;
        }
        let index = match self.changes.iter().rposition(|known| *known == change) {
            Some(index) => index,
            None => {
                self.changes.push(change);
                self.changes.len() - 1
            }
        };
        let log = &mut self.traces[task as usize].log;
        log.owes(self.costs.set);
        log.did(Activity::Set(index as u32));
        self.activities += 2;
        self.counts.changes += 1;
    }

    pub(crate) fn change_what_others_asked(&mut self, task: u32) {
        for change in std::mem::take(&mut self.traces[task as usize].changes) {
            self.changes_itself(task, change);
        }
    }

    /// `k_param`: the task's new parameters.
    pub(crate) fn parameters(
        &mut self,
        now: u64,
        pid: Pid,
        policy: u32,
        static_priority: i32,
        rt_priority: u32,
        slice: Option<u64>,
    ) {
        let Some(task) = self.number_of(pid) else { return };
        let nice = (static_priority - 120).clamp(-20, 19) as i8;
        let priority = rt_priority.clamp(1, 99) as u8;
        let (policy, seen) = match policy {
            1 => (Policy::Fifo(priority), 99 - i32::from(priority)),
            2 => (Policy::Rr(priority), 99 - i32::from(priority)),
            3 => (Policy::Batch, static_priority),
            5 => (Policy::Idle, static_priority),
            0 => (Policy::Other, static_priority),
            _ => return,
        };
        let change = Change {
            policy: Some(policy),
            nice: (seen >= 100).then_some(nice),
            slice: slice.map(Time::from_nanos),
            ..Change::default()
        };
        let trace = &mut self.traces[task as usize];
        if trace.priority.is_none() {
            // It shows what a child begins with: its parent's parameters.
            return;
        }
        trace.priority = Some(seen);
        match trace.state {
            State::Running => {
                trace.charge(now, self.costs.tick, self.period);
                self.changes_itself(task, change);
            }
            _ => trace.changes.push(change),
        }
    }

    pub(crate) fn other(&mut self, now: u64, event: &str, record: &Record) {
        if event.starts_with("sys_e")
            && let Ok(Some(task)) = self.pid(record.pid, &record.name)
        {
            self.traces[task as usize].call = call::entered(event);
        }
        match event {
            "sched_pi_setprio" => {
                let (Some(pid), Some(old), Some(new)) =
                    (record.number("pid"), record.signed("oldprio"), record.signed("newprio"))
                else {
                    return;
                };
                if let Some(task) = u32::try_from(pid).ok().and_then(|pid| self.number_of(pid)) {
                    self.traces[task as usize].boosted = new < old;
                }
            }
            "sys_enter_sched_setscheduler" => {
                let (Some(pid), Some(policy)) = (argument(&record.text, "pid"), argument(&record.text, "policy"))
                else {
                    return;
                };
                let pid = if pid == 0 { record.pid } else { pid as Pid };
                if let Some(task) = self.number_of(pid) {
                    self.traces[task as usize].asked = match policy & 0x3fff_ffff {
                        2 => Some(Policy::Rr(1)),
                        3 => Some(Policy::Batch),
                        5 => Some(Policy::Idle),
                        _ => None,
                    };
                }
            }
            "cgroup_mkdir" => {
                if let (Some(id), Some(path)) = (record.number("id"), record.word("path")) {
                    self.group_paths.insert(id, path.to_owned());
                }
            }
            "cgroup_attach_task" => {
                let (Some(pid), Some(path)) = (record.number("pid"), record.word("dst_path")) else { return };
                let Some(task) = u32::try_from(pid).ok().and_then(|pid| self.number_of(pid)) else { return };
                let change = Change { taskgroup: Some(path.to_owned()), ..Change::default() };
                let trace = &mut self.traces[task as usize];
                if self.begin.is_none() {
                    trace.group = Some(group_path(path)).filter(|path| path != "/");
                } else if pid == u64::from(record.pid) && trace.state == State::Running {
                    trace.charge(now, self.costs.tick, self.period);
                    self.changes_itself(task, change);
                } else {
                    trace.changes.push(change);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn group_of(&self, record: &Record, key: &str) -> Option<String> {
        self.group_paths.get(&record.number(key)?).cloned()
    }
}

/// An argument of a system call as its entry prints it: `pid: 0x7f, policy: 0x1`.
fn argument(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("{key}: "))?;
    let word = rest.split([',', ' ', ')']).next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
