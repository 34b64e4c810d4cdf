//! From the engine's accounts to an [`Outcome`], and to the message of a deadlock.

use std::collections::BTreeMap;

use schedlab_model::{ChannelKind, EventSink, Latency, MetricSource, Outcome, Scheduler, TaskOutcome, TaskState, Time};
use schedlab_program::Op;

use crate::engine::Engine;
use crate::task::{Stage, State, Task};
use crate::wait::NONE;
use crate::{SimError, Summary};

/// How many waiting tasks a deadlock names.
const NAMED: usize = 5;

impl<S: EventSink> Engine<'_, S> {
    /// What the run cost so far, counted instead of timed: events, entries of queues that were compared or moved, CPUs looked at.
    pub(crate) fn cost(&self) -> u64 {
        self.events + self.arena.timers.operations() + self.sched.operations()
    }

    /// The run's time is over: the tasks that are left end where they are.
    pub(crate) fn end(&mut self) {
        self.now = self.end;
        for cpu in 0..self.arena.cpus.len() as u32 {
            let task = self.arena.cpus[cpu as usize].current;
            if task != NONE {
                // Skipped ticks took some of its time.
                self.catch_up_before(cpu, self.end);
                let record = &mut self.arena.cpus[cpu as usize];
                record.end = record.end.max(self.now);
                self.arena.tasks[task as usize].remaining = record.suspend(self.now);
                self.count_part(task as usize);
                self.leave(cpu, task, TaskState::Dead);
            }
        }
        for task in 0..self.arena.tasks.len() {
            if self.arena.tasks[task].state == State::Runnable {
                self.count_part(task);
            }
            let record = &mut self.arena.tasks[task];
            let account = &mut record.account;
            let since = self.now - account.since;
            match record.state {
                State::Dead | State::Running { .. } => continue,
                State::Runnable => account.delay += since,
                State::Asleep => account.sleep += since,
            }
            self.arena.identities[task].died = self.now;
            self.alive -= 1;
            self.awaited -= u32::from(!self.arena.tasks[task].background);
        }
    }

    /// The part of its computing that a task had done when it was cut short.
    fn count_part(&mut self, task: usize) {
        let record = &self.arena.tasks[task];
        if let (Op::Run(time) | Op::Busy(time), Stage::Act) = (record.op, record.stage) {
            let most = self.worked(task).saturating_sub(self.arena.tasks[task].account.user);
            self.arena.tasks[task].account.user += time.as_nanos().saturating_sub(record.remaining).min(most);
        }
    }

    /// What the run came to, in a few numbers.
    pub(crate) fn summary(&self) -> Summary {
        let turnaround = match (self.started, self.stopped) {
            (Some(started), Some(stopped)) => stopped - started,
            _ => self.now,
        };
        let own = self.arena.tasks.iter().filter(|task| !task.background);
        Summary {
            turnaround: Time::from_nanos(turnaround),
            elapsed: Time::from_nanos(self.now),
            switches: own.map(|task| task.account.voluntary + u64::from(task.account.involuntary)).sum(),
            messages: self.messages,
            bytes: self.bytes,
        }
    }

    /// What the run came to.
    pub(crate) fn outcome(&self, scheduler: &Scheduler) -> Outcome {
        let summary = self.summary();
        let turnaround = summary.turnaround.as_nanos();
        Outcome {
            workload: self.program.name().to_owned(),
            release: scheduler.label(),
            target: "sim".to_owned(),
            cpus: self.arena.cpus.len() as u32,
            seed: self.seed,
            turnaround_ns: turnaround,
            elapsed_ns: self.now,
            turnaround_jiffies: turnaround.div_ceil(self.period),
            cpu_busy_ns: self.arena.cpus.iter().map(|cpu| cpu.busy).collect(),
            switches: summary.switches,
            messages: self.messages,
            bytes: self.bytes,
            groups: self.group_outcomes(),
            latencies: self.latencies(),
            begun: None,
            disturbance: None,
            notes: scheduler.notes().into_iter().chain(self.prices.notes()).chain(self.background_note()).collect(),
            tasks: (0..self.arena.tasks.len()).map(|task| self.task_outcome(task)).collect(),
        }
    }

    /// That other work ran, and how much CPU time it took.
    fn background_note(&self) -> Option<String> {
        let others = self.arena.tasks.iter().filter(|task| task.background);
        let (count, run) = others.fold((0u64, 0u64), |(count, run), task| (count + 1, run + task.account.run));
        let capacity = u128::from(self.now) * self.arena.cpus.len() as u128;
        (count > 0).then(|| {
            let share = 100.0 * run as f64 / (capacity as f64).max(1.0);
            let tasks = if count == 1 { "1 background task".to_owned() } else { format!("{count} background tasks") };
            format!(
                "{tasks} took {} of CPU time, {share:.2} % of the machine's; no other figure of the run counts them",
                Time::from_nanos(run)
            )
        })
    }

    fn latencies(&self) -> BTreeMap<String, Latency> {
        let objects = &self.arena.objects;
        let watches = self.program.watches().iter().map(String::as_str).zip(objects.watches.iter().cloned());
        let wakeups = objects.semaphores.iter().map(|semaphore| semaphore.wakeups.clone());
        schedlab_model::latencies(watches, self.program.semaphores().iter().map(String::as_str).zip(wakeups))
    }

    fn task_outcome(&self, task: usize) -> TaskOutcome {
        let (account, identity) = (&self.arena.tasks[task].account, &self.arena.identities[task]);
        let user = self.user_time(task).min(account.charged());
        TaskOutcome {
            name: self.name(task),
            background: self.arena.tasks[task].background,
            source: MetricSource::Counters,
            life_ns: identity.died - identity.born,
            run_ns: account.charged(),
            user_ns: user,
            system_ns: account.charged() - user,
            wait_ns: account.waited(),
            sleep_ns: account.sleep,
            voluntary: account.voluntary,
            involuntary: u64::from(account.involuntary),
            migrations: u64::from(account.migrations),
            // Each sleep ends with one wake-up.
            wakeups: account.voluntary,
            delay_ns: account.delay,
            // It was switched in after its start, after each sleep and each time it was preempted.
            delays: 1 + account.voluntary + u64::from(account.involuntary),
            max_delay_ns: account.max_delay,
        }
    }

    /// Whether the workload's own tasks all sleep and none has a timer, in a run that ends by itself: no background task ever wakes them.
    pub(crate) fn awaits_nothing(&self) -> bool {
        let own = |task: u32| !self.arena.tasks[task as usize].background;
        let sleeps = |task: &Task| task.background || matches!(task.state, State::Asleep | State::Dead);
        self.end == u64::MAX
            && !self.writes_are_under_way()
            && !self.accesses_are_queued()
            && !self.arena.objects.writebacks.are_under_way()
            && !self.arena.objects.flushes.are_under_way()
            && self.arena.tasks.iter().all(sleeps)
            && !self.arena.timers.any(own)
    }

    /// Each of the workload's tasks that is left sleeps: who, on what, and since when all do.
    pub(crate) fn deadlock(&self) -> SimError {
        let own = |task: &usize| !self.arena.tasks[*task].background;
        let left = |task: &usize| own(task) && self.arena.tasks[*task].state != State::Dead;
        let sleepers: Vec<usize> = (0..self.arena.tasks.len()).filter(left).collect();
        let mut named: Vec<String> = sleepers.iter().take(NAMED).map(|task| self.waits(*task)).collect();
        if let more @ 1.. = sleepers.len().saturating_sub(NAMED) {
            named.push(format!("and {more} more tasks wait"));
        }
        let last = |task: usize| match self.arena.tasks[task].state {
            State::Dead => self.arena.identities[task].died,
            _ => self.arena.tasks[task].account.since,
        };
        let time = (0..self.arena.tasks.len()).filter(own).map(last).max();
        SimError::Deadlock { time: Time::from_nanos(time.unwrap_or(self.now)), waiting: named.join("; ") }
    }

    fn name(&self, task: usize) -> String {
        let identity = &self.arena.identities[task];
        self.program.task_name(identity.template, identity.instance)
    }

    /// What a task that waits for another's word, and not for a message, waits for.
    fn waits_for(&self, task: u32, op: Op) -> String {
        let program = self.program;
        let mutex = |mutex: u32| {
            let name = &program.mutexes()[mutex as usize];
            match self.arena.objects.mutexes[mutex as usize].owner {
                NONE => format!("for mutex '{name}'"),
                owner => format!("for mutex '{name}', which '{}' holds", self.name(owner as usize)),
            }
        };
        match op {
            Op::Lock(name) => mutex(name),
            Op::Wait { mutex: name, .. }
                if self.arena.objects.mutexes[name as usize].waiters.contains(task, &self.arena.links) =>
            {
                mutex(name)
            }
            Op::Wait { condition, .. } => {
                format!("for a signal of condition '{}'", program.conditions()[condition as usize])
            }
            Op::Barrier(barrier) => {
                let (rule, place) =
                    (&program.barriers()[barrier as usize], &self.arena.objects.barriers[barrier as usize]);
                format!("at barrier '{}', where {} of {} are", rule.name, place.arrived, rule.parties)
            }
            Op::Acquire(semaphore) => format!("for a post of semaphore '{}'", program.semaphores()[semaphore as usize]),
            Op::Accept { port, .. } => format!("for a request to port '{}'", program.ports()[port as usize]),
            Op::Request(request) => {
                let port = program.requests()[request as usize].port;
                format!("for a reply from port '{}'", program.ports()[port as usize])
            }
            _ => "to go on".to_owned(),
        }
    }

    fn waits(&self, task: usize) -> String {
        let record = &self.arena.tasks[task];
        let place = |channel: u32| {
            let kind = match self.program.channels()[channel as usize] {
                ChannelKind::Pipe => "pipe",
                ChannelKind::Socket => "socket",
            };
            format!("{kind} '{}'", self.program.channel_names()[channel as usize])
        };
        let what = match record.op {
            Op::Read { channel, bytes } => {
                format!("to read {} of {bytes} bytes from {}", bytes - record.moved, place(channel))
            }
            Op::Write { channel, bytes } => {
                format!("to write {} of {bytes} bytes to {}", bytes - record.moved, place(channel))
            }
            Op::AwaitLatch(latch) => format!("on latch '{}'", self.program.latch_names()[latch as usize]),
            Op::Join => format!("for '{}' to end", self.name(self.arena.identities[task].first_child as usize)),
            _ => self.waits_for(task as u32, record.op),
        };
        format!("task '{}' waits {what}", self.name(task))
    }
}
