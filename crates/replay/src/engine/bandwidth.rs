//! Timers: when they expire is recorded, and ours are made to then.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::{Class, GroupId, Timer};
use schedlab_trace::RecordKind;

use super::Engine;
use crate::read::section::{Entry, What};

impl<'a> Engine<'a> {
    pub(super) fn timer(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let Some(first) = section.first() else { return };
        let RecordKind::TimerEntry { function } = &first.record.kind else { return };
        let now = self.cpus[cpu.index()].clocks.clock.as_nanos();
        self.sched.decider.expect_nothing();
        match &**function {
            "sched_rt_period_timer" => self.sched.fire_timer(Timer::RtPeriod, now),
            "dl_task_timer" => self.fire_deadline(cpu, section, now),
            "inactive_task_timer" => self.fire_inactive(section, now),
            _ if is_group_timer(first) => {
                let Some(group) = self.group_of_timer(first) else { return };
                let refilled = self.sched.fire_bandwidth_timer(group, is_slack(first), now);
                self.advance(cpu, section);
                self.sched.let_go(refilled);
            }
            _ => {}
        }
        self.compare_after(cpu, section);
    }

    /// The timer of a group's bandwidth expires: the pool is refilled and handed out. Each queue that gets some is let go by itself. A queue
    /// whose task still runs is charged first, by its own CPU's clock.
    pub(super) fn refill(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(first) = step.first() else { return };
        let Some(group) = self.group_of_timer(first) else { return };
        for entry in step.iter().filter(|entry| entry.what == What::UpdateCurr) {
            let named = entry.record.number("cpu").map(|cpu| cpu as usize);
            if let Some(charged) = named.filter(|charged| *charged < self.cpus.len()) {
                self.advance(CpuId(charged as u32), std::slice::from_ref(entry));
            }
        }
        self.sched.decider.expect_nothing();
        let now = self.cpus[cpu.index()].clocks.clock.as_nanos();
        self.sched.fire_bandwidth_timer(group, is_slack(first), now);
    }

    /// `unthrottle_cfs_rq` of one queue, by the timer or by who sets the limit, on whichever CPU.
    pub(super) fn unthrottle(&mut self, step: &[Entry<'a>]) {
        let Some(first) = step.first().map(|entry| entry.record) else { return };
        let Some(queue) = first.number("cfs").and_then(|address| self.groups.queue(address)) else { return };
        let (cpu, group) = (self.sched.queue(queue).cpu, self.sched.queue(queue).group);
        // It tells of itself before the clock is read.
        self.advance(cpu, &step[1..]);
        self.compare_before(cpu, step);
        self.compare_throttled(cpu, self.sched.queue(queue).throttled, true);
        self.sched.decider.expect_nothing();
        if self.limits(first.pid, group) {
            self.sched.set_bandwidth_of_queue(group, cpu);
            self.limited(group, cpu);
        } else {
            if let Some(kernels) = first.signed("rr").filter(|_| self.compares()) {
                self.compare_budget(cpu, self.sched.queue(queue).runtime_remaining, kernels);
            }
            self.sched.let_go(vec![queue]);
        }
        self.compare_after(cpu, step);
    }

    /// The current task is dequeued as it returns to user space. When it returns is recorded; that its group is throttled follows from
    /// our own state.
    pub(super) fn throttle(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let running = self.sched.curr(cpu);
        let recorded = section.first().and_then(Entry::pid).and_then(|pid| self.task_of(pid));
        if recorded != Some(running) {
            return self.lose_track(cpu, "another task runs");
        }
        self.sched.decider.expect_nothing();
        let throttled = self.sched.exit_to_user(cpu);
        self.compare_throttled(cpu, throttled, true);
        if !throttled {
            return self.lose_track(cpu, "its group has runtime left");
        }
        self.compare_after(cpu, section);
    }

    fn fire_deadline(&mut self, cpu: CpuId, section: &[Entry<'a>], now: u64) {
        let Some(entry) = section.iter().find(|entry| entry.what == What::DlTimer) else { return };
        let of_server = entry.record.number("srv") == Some(1);
        let task = entry.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE && !of_server);
        let timer = if of_server {
            self.sched.fair_server_timer(cpu)
        } else {
            task.and_then(|task| self.sched.dl_timer_of(task))
        };
        // Its task may be gone.
        let Some(timer) = timer else { return };
        // dl_task_timer leaves one that left the class, or is not throttled, alone, before it reads the clock.
        let throttled = entry.record.number("thr").is_none_or(|flag| flag & 1 != 0);
        if task.is_some_and(|task| !throttled || self.sched.task(task).class != Class::Deadline) {
            return self.sched.fire_timer(timer, now);
        }
        // It may expire late, with interrupts off for long, but not before ours is due by the queue's clock; the kernel counts in
        // microseconds there.
        let due = self.sched.armed(timer);
        let told = section.iter().any(|entry| entry.record.clocks.is_some());
        if let Some(due) = due.filter(|due| !told && *due > now) {
            // Nothing shows the queue's clock then: it is no earlier than this.
            self.advance_to(cpu, self.cpus[cpu.index()].clocks.clock_task.as_nanos() + (due - now));
        }
        let now = self.cpus[cpu.index()].clocks.clock.as_nanos();
        if Some(timer) == self.sched.fair_server_timer(cpu)
            && due.is_some()
            && due == self.cpus[cpu.index()].server_timer
        {
            let deadline = |engine: &Self| engine.sched.fair_server_state(cpu).map(|state| state.deadline);
            let before = deadline(self);
            self.sched.fire_timer(timer, now);
            // Put off, it still counts from when it was armed.
            self.cpus[cpu.index()].server_timer = self.sched.armed(timer).filter(|_| deadline(self) == before);
            return;
        }
        let equal = self.report.state.timers.add(due.is_some_and(|due| due <= now + 1000));
        self.expect_equal(cpu, "timer", equal, due.map_or_else(|| "not armed".to_owned(), |due| due.to_string()), now);
        self.sched.fire_timer(timer, now);
    }

    fn fire_inactive(&mut self, section: &[Entry<'a>], now: u64) {
        let concerned = section.iter().find(|entry| entry.what == What::DlTimer).and_then(Entry::pid);
        let task = concerned.and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE);
        // That of a task which only sleeps bears on nothing that is followed here.
        if let Some(timer) = task.and_then(|task| self.sched.inactive_timer_of(task))
            && self.sched.armed(timer).is_some()
        {
            self.sched.fire_timer(timer, now);
        }
    }

    /// A timer lies within its group's structure.
    fn group_of_timer(&self, entry: &Entry<'a>) -> Option<GroupId> {
        /// `sizeof(struct task_group)` is less.
        const GROUP_SIZE: u64 = 0x400;
        let timer = entry.record.number("hrtimer")?;
        let (address, group) = self.groups.by_address.range(..timer).next_back()?;
        (timer - address < GROUP_SIZE).then_some(*group)
    }
}

fn is_group_timer(entry: &Entry<'_>) -> bool {
    matches!(&entry.record.kind, RecordKind::TimerEntry { function } if function.starts_with("sched_cfs_"))
}

fn is_slack(entry: &Entry<'_>) -> bool {
    matches!(&entry.record.kind, RecordKind::TimerEntry { function } if function.starts_with("sched_cfs_slack"))
}
