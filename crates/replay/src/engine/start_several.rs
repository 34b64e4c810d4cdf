//! The state in which a recording begins: each task's, and each CPU's queue.
//!
//! The recorder looks at one task after another while the other CPUs go on. What is recorded of a task before it was looked at is passed
//! over; after that it goes by the rules like everything else.

use schedlab_model::{Attributes, CpuId, TaskId, TaskState, Time};
use schedlab_sched::pelt::SchedAvg;
use schedlab_sched::{DomainPast, GroupId, Past};
use schedlab_trace::{Pid, Record};

use super::Engine;
use super::start::attributes_of;

/// `INITIAL_JIFFIES`: the count of ticks begins 300 s before it wraps at 32 bits.
const SECONDS_TO_WRAP: u64 = 300;

/// What `k_snapq` calls a domain's `last_balance`, `balance_interval`, `nr_balance_failed` and `max_newidle_lb_cost`, from the smallest up.
pub(super) const DOMAINS: [[&str; 4]; 2] = [["lb", "bi", "bf", "cost"], ["lb1", "bi1", "bf1", "cost1"]];

impl<'a> Engine<'a> {
    /// The recorder runs, above all other tasks, while it takes their snapshots.
    pub(super) fn begin_beside_others(&mut self, first: &Record) {
        let cpu = CpuId(first.cpu);
        let clock = first.number("c").unwrap_or(1).saturating_sub(1);
        for at in 0..self.cpus.len() {
            let clocks = schedlab_sched::Clocks::all(Time::from_nanos(if at == cpu.index() { clock } else { 1 }));
            self.cpus[at].clocks = clocks;
            self.sched.set_clocks(CpuId(at as u32), clocks);
        }
        if first.pid != 0 {
            self.recorder = Some(self.run_recorder(first.pid, cpu));
        }
    }

    /// A part of a task's snapshot: of the task, of its past or of its queue. They follow each other, in any order.
    pub(super) fn snap(&mut self, record: &'a Record) {
        let Some(pid) = record.number("pid").map(|pid| pid as Pid).filter(|pid| *pid != 0) else { return };
        let part = match &*record.event {
            "k_snap" => 0,
            "k_snapw" => 1,
            "k_snapq" => 2,
            _ => return,
        };
        let told = self.told.entry(pid).or_default();
        told[part] = Some(record);
        let [Some(task), Some(past), Some(queue)] = *told else { return };
        self.told.remove(&pid);
        let cpu = CpuId(queue.number("cpu").unwrap_or(0).min(self.cpus.len() as u64 - 1) as u32);
        self.see_clocks(cpu, queue);
        match self.task_of(pid) {
            None => self.snap_task(pid, cpu, [task, past, queue]),
            Some(known) if !self.begun => self.snap_again(known, cpu, [task, past, queue]),
            Some(_) => {}
        }
        if !self.begun {
            self.snap_queue(cpu, queue);
            self.note_base(cpu, task);
        }
    }

    fn see_clocks(&mut self, cpu: CpuId, record: &Record) {
        let later = |known: Time, key: &str| known.max(Time::from_nanos(record.number(key).unwrap_or(0)));
        let clocks = &mut self.cpus[cpu.index()].clocks;
        (clocks.clock, clocks.clock_task) = (later(clocks.clock, "c"), later(clocks.clock_task, "ct"));
        clocks.clock_pelt = clocks.clock_task;
        self.sched.set_clocks(cpu, *clocks);
    }

    fn snap_task(&mut self, pid: Pid, cpu: CpuId, [record, past, queue]: [&Record; 3]) {
        let affinity = self.settings.affinities.get(&pid).cloned().unwrap_or_default();
        let task = self.add(pid, &Attributes { affinity, ..attributes_of(record) }, GroupId::ROOT);
        self.report.first_sights.snapshot += 1;
        self.set_entity(task, record, record);
        self.sched.assume_asleep(task, cpu);
        self.sched.assume_past(task, self.past(past));
        self.expect_util(task, past);
        let runs = queue.number("cur") == Some(u64::from(pid));
        if record.number("onrq") != Some(0) {
            self.unordered.insert(task);
            self.settle(task, cpu, runs);
        } else if runs {
            // It has left, and the CPU looks for work.
            self.cpus[cpu.index()].searches = true;
            self.sched.assume_not_idle(cpu);
        }
        // Queueing it made it older.
        self.sched.assume_load(task, averages(past));
    }

    /// The second look at a task: what it did since the first may hang on tasks that were not told of yet.
    fn snap_again(&mut self, task: TaskId, cpu: CpuId, [record, past, queue]: [&Record; 3]) {
        let queued = record.number("onrq") != Some(0);
        let runs = queue.number("cur") == Some(u64::from(self.pid(task)));
        if !self.is_fair(task) || self.sched.curr(cpu) == task && !(runs && queued) {
            return;
        }
        if self.sched.curr(cpu) == task {
            self.set_entity(task, record, record);
        } else {
            if self.sched.entity(task).on_rq {
                self.sched.put_aside(task);
            }
            self.sched.assume_asleep(task, cpu);
            self.set_entity(task, record, record);
            self.newborn.remove(&task);
            self.expect_util(task, past);
            if queued {
                self.unordered.insert(task);
                self.settle(task, cpu, runs);
            }
        }
        self.sched.assume_load(task, averages(past));
        self.sched.assume_past(task, self.past(past));
        self.guessed.remove(&task);
        self.placed.remove(&task);
    }

    /// `INITIAL_JIFFIES`.
    pub(super) fn first_jiffies(&self) -> u64 {
        (1 << 32) - u64::from(self.settings.hz) * SECONDS_TO_WRAP
    }

    /// What is expected of the task as it is queued. Recordings of before this was probed tell how it was when it was last looked at.
    fn expect_util(&mut self, task: TaskId, record: &Record) {
        let number = |key: &str| record.number(key);
        let estimate = number("ue").or_else(|| number("ua")).unwrap_or(0);
        self.sched.assume_util_est(task, estimate, number("uq").unwrap_or(0));
    }

    fn past(&self, record: &Record) -> Past {
        let number = |key: &str| record.number(key).unwrap_or(0);
        let first = self.first_jiffies();
        Past {
            flips: number("wfl") as u32,
            decayed: number("wfd").saturating_sub(first),
            last: self.task_of(number("lw") as Pid),
            recent: CpuId(number("rcu").min(self.cpus.len() as u64 - 1) as u32),
        }
    }

    /// The queue as it is now.
    fn snap_queue(&mut self, cpu: CpuId, record: &Record) {
        if let Some(address) = record.number("cfs") {
            self.groups.queues.insert(address, self.sched.root_queue(cpu));
        }
        let number = |key: &str| record.number(key).unwrap_or(0);
        let removed = (number("rnr") as u32, number("rla"), number("rua"), number("rra"));
        self.sched.assume_queue_load(cpu, averages(record), removed);
        let since = record.number("is").filter(|since| *since != 0);
        self.sched.assume_idle_time(cpu, number("ai"), since, number("mc"));
        if let Some(scan) = record.number("nis") {
            self.sched.assume_idle_scan(cpu, scan as u32);
        }
        if let Some(expected) = record.number("ue") {
            self.sched.assume_queue_util_est(cpu, expected as u32);
        }
        if record.number("wfl").is_some() {
            self.sched.assume_idle_past(cpu, self.past(record));
        }
        self.snap_domains(cpu, record);
    }

    /// How the CPU's two smallest domains were balanced until now, and the number of ticks.
    fn snap_domains(&mut self, cpu: CpuId, record: &Record) {
        let (first, number) = (self.first_jiffies(), |key: &str| record.number(key));
        for (level, [last, interval, failed, cost]) in DOMAINS.into_iter().enumerate() {
            if let (Some(last), Some(interval)) = (number(last).filter(|last| *last != 0), number(interval)) {
                let last_balance = last.saturating_sub(first);
                let (failed, cost) = (number(failed).unwrap_or(0) as u32, number(cost).unwrap_or(0));
                self.sched.assume_domain(cpu, level, DomainPast { last_balance, interval, failed, cost });
            }
        }
        if let Some(next) = number("nb") {
            self.sched.assume_next_balance(cpu, next.saturating_sub(first));
        }
        // Recordings of before this was probed: a tick more or less than the time of day shows.
        let then = self.time.as_nanos() / self.tick_time();
        let now = number("j").and_then(|now| now.checked_sub(first));
        self.jiffies = Some((now.unwrap_or(then), then));
    }

    /// Queues the task if it was queued, and lets it run if it ran.
    fn settle(&mut self, task: TaskId, cpu: CpuId, runs: bool) {
        let entity = self.sched.entity(task).clone();
        if !self.is_fair(task) {
            self.unordered.remove(&task);
            self.sched.decider.expect_nothing();
            self.sched.try_to_wake_up(task, cpu);
        } else {
            self.sched.assume_queued(task, cpu);
        }
        if runs && self.sched.curr(cpu) == TaskId::IDLE {
            self.unordered.remove(&task);
            self.sched.decider.expect_picks([task]);
            if self.sched.schedule(cpu, TaskState::Running).next != task {
                return self.lose_track(cpu, "another task runs than was told");
            }
            let own = self.sched.entity_mut(task);
            (own.exec_start, own.prev_sum_exec_runtime) = (entity.exec_start, entity.prev_sum_exec_runtime);
            (own.vlag, own.vprot) = (entity.vlag, entity.vprot);
        }
    }
}

/// `struct sched_avg`, of a task or a queue.
pub(super) fn averages(record: &Record) -> SchedAvg {
    let number = |key: &str| record.number(key).unwrap_or(0);
    SchedAvg {
        last_update_time: number("lu"),
        load_sum: number("ls"),
        runnable_sum: number("rs"),
        util_sum: number("us") as u32,
        period_contrib: number("pc") as u32,
        load_avg: number("la"),
        runnable_avg: number("ra"),
        util_avg: number("ua"),
    }
}
