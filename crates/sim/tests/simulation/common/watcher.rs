//! Follows the events of a run and checks, from them alone, what must hold of every run.

use schedlab_model::{Event, EventKind, Machine, Outcome, TaskId, TaskState};

/// A task as the events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting,
    Running,
    Dead,
}

struct Task {
    state: State,
    cpu: usize,
    since: u64,
    born: u64,
    died: u64,
    run: u64,
    wait: u64,
    sleep: u64,
    wakeups: u64,
    migrations: u64,
}

/// Follows `events` and compares what they add up to with `outcome`.
///
/// `allowed` says whether a task may run on a CPU. Checked:
/// - times do not go back; a switch takes off the task that ran there and brings one that waited there; so exactly one task a CPU;
/// - only sleepers wake, only waiting or waking tasks migrate, and a task runs only where it may;
/// - no CPU idles for longer than `patience` nanoseconds, if that is given, while a task waits that may run there; on its node, unless it
///   is none at all, for the kernel's balancing lets small differences of nodes be;
/// - run + wait + sleep of every task is its life, to the nanosecond, and equals the outcome's;
/// - busy and idle time of every CPU add up to the elapsed time.
pub fn check(
    events: &[Event],
    outcome: &Outcome,
    machine: &Machine,
    patience: Option<u64>,
    allowed: impl Fn(usize, usize) -> bool,
) -> Result<(), String> {
    let cpus = machine.cpus as usize;
    let (current, busy, idle_beside) = (vec![None; cpus], vec![0; cpus], vec![None; cpus]);
    let node = |cpu| if patience == Some(0) { 0 } else { machine.topology.node_of(cpu, machine.cpus) };
    let nodes = (0..machine.cpus).map(node).collect();
    let mut watcher = Watcher { tasks: Vec::new(), current, busy, nodes, idle_beside, now: 0, allowed };
    for event in events {
        let time = event.time.as_nanos();
        if time < watcher.now {
            return Err(format!("time went back from {} to {time}", watcher.now));
        }
        if time > watcher.now
            && let Some(patience) = patience
        {
            watcher.work_conserved(time, patience)?;
        }
        watcher.now = time;
        watcher.follow(event).map_err(|why| format!("{event:?}: {why}"))?;
    }
    watcher.compare(outcome, way(machine), out_of_idle(machine), in_idle(machine))
}

/// What the kernel charges the next task for at one of a task's switches, in or out, at most: between the last look at the queue's clock and the
/// switch come no more than a tick, and an interrupt and a call of 20 us, all of it in turns where CPUs have such.
fn way(machine: &Machine) -> u64 {
    let turns = if machine.speed.turns { u64::from(machine.cpus) } else { 1 };
    turns * (machine.costs.tick.as_nanos() + 20_000)
}

/// What a kernel charges a task for before an idle CPU switches to it, at most: what follows the wake-up there, in turns where CPUs have such.
fn out_of_idle(machine: &Machine) -> u64 {
    let turns = if machine.speed.turns { u64::from(machine.cpus) } else { 1 };
    let costs = &machine.costs;
    turns * (costs.idle_charged + costs.idle_switch + costs.tick_restart + costs.timer_switch).as_nanos()
}

/// What lies between a wake-up and the switch on an idle CPU, at most, beyond [`way`].
fn in_idle(machine: &Machine) -> u64 {
    let turns = if machine.speed.turns { u64::from(machine.cpus) } else { 1 };
    let costs = &machine.costs;
    let sent = costs.wakeup + costs.wakeup_remote + costs.ipi + costs.ipi_idle + costs.ipi_halted;
    out_of_idle(machine) + turns * (sent + costs.idle_exit + costs.halt_exit + costs.schedule).as_nanos()
}

struct Watcher<F> {
    tasks: Vec<Task>,
    current: Vec<Option<usize>>,
    busy: Vec<u64>,
    /// By CPU: which node it belongs to.
    nodes: Vec<u32>,
    /// By CPU: since when it idles while some task waits that may run there.
    idle_beside: Vec<Option<u64>>,
    now: u64,
    allowed: F,
}

impl<F: Fn(usize, usize) -> bool> Watcher<F> {
    /// Between this instant and `next` nothing happens.
    fn work_conserved(&mut self, next: u64, patience: u64) -> Result<(), String> {
        for cpu in 0..self.current.len() {
            let waits = |(number, task): &(usize, &Task)| {
                task.state == State::Waiting && self.nodes[task.cpu] == self.nodes[cpu] && (self.allowed)(*number, cpu)
            };
            let waiting = self.tasks.iter().enumerate().find(waits).filter(|_| self.current[cpu].is_none());
            let Some((task, _)) = waiting else {
                self.idle_beside[cpu] = None;
                continue;
            };
            let since = *self.idle_beside[cpu].get_or_insert(self.now);
            if next - since > patience {
                return Err(format!("from {since} to {next} CPU {cpu} idles while task {task} or others wait"));
            }
        }
        Ok(())
    }

    fn enter(&mut self, task: usize, state: State) {
        let now = self.now;
        let task = &mut self.tasks[task];
        let passed = now - task.since;
        match task.state {
            State::Asleep => task.sleep += passed,
            State::Waiting => task.wait += passed,
            State::Running => task.run += passed,
            State::Dead => {}
        }
        (task.state, task.since) = (state, now);
    }

    fn follow(&mut self, event: &Event) -> Result<(), String> {
        let cpu = event.cpu.index();
        match event.kind {
            EventKind::Fork { child, .. } => {
                if child.index() != self.tasks.len() {
                    return Err("tasks are not numbered in the order of their creation".into());
                }
                self.tasks.push(Task {
                    state: State::Asleep,
                    cpu: usize::MAX,
                    since: self.now,
                    born: self.now,
                    died: 0,
                    run: 0,
                    wait: 0,
                    sleep: 0,
                    wakeups: 0,
                    migrations: 0,
                });
            }
            EventKind::Waking { task, target, .. } | EventKind::WakeupNew { task, target } => {
                if self.tasks[task.index()].state != State::Asleep {
                    return Err("it was not asleep".into());
                }
                if matches!(event.kind, EventKind::Waking { .. }) {
                    self.tasks[task.index()].wakeups += 1;
                    if self.tasks[task.index()].cpu != target.index() {
                        return Err("it changes its CPU without a migration".into());
                    }
                }
                self.tasks[task.index()].cpu = target.index();
                if !(self.allowed)(task.index(), target.index()) {
                    return Err("it may not run there".into());
                }
                self.enter(task.index(), State::Waiting);
            }
            EventKind::Migrate { task, from, to } => {
                let record = &mut self.tasks[task.index()];
                if record.state == State::Running || record.cpu != from.index() || from == to {
                    return Err("it does not wait or sleep there".into());
                }
                record.cpu = to.index();
                record.migrations += 1;
                if !(self.allowed)(task.index(), to.index()) {
                    return Err("it may not run there".into());
                }
            }
            EventKind::Switch { previous, state, next } => self.switch(cpu, previous, state, next)?,
            EventKind::Exit { task } | EventKind::Mark { task, .. } => {
                if self.current[cpu] != Some(task.index()) {
                    return Err("it does not run there".into());
                }
            }
        }
        Ok(())
    }

    fn switch(&mut self, cpu: usize, previous: TaskId, state: TaskState, next: TaskId) -> Result<(), String> {
        let named = |task: TaskId| (task != TaskId::IDLE).then_some(task.index());
        if self.current[cpu] != named(previous) || previous == next {
            return Err(format!("{:?} runs there", self.current[cpu]));
        }
        if let Some(previous) = named(previous) {
            self.busy[cpu] += self.now - self.tasks[previous].since;
            self.enter(
                previous,
                match state {
                    TaskState::Running => State::Waiting,
                    TaskState::Dead => State::Dead,
                    TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => State::Asleep,
                },
            );
            self.tasks[previous].died = self.now;
        }
        self.current[cpu] = named(next);
        if let Some(next) = named(next) {
            if self.tasks[next].state != State::Waiting || self.tasks[next].cpu != cpu {
                return Err("the next task does not wait there".into());
            }
            self.enter(next, State::Running);
        }
        Ok(())
    }

    fn compare(&self, outcome: &Outcome, way: u64, out_of_idle: u64, idle: u64) -> Result<(), String> {
        let mut faults = Vec::new();
        let mut equal = |what: String, events: u64, outcome: u64| {
            if events != outcome {
                faults.push(format!("{what}: events say {events}, the outcome {outcome}"));
            }
        };
        equal("tasks".into(), self.tasks.len() as u64, outcome.tasks.len() as u64);
        equal("elapsed".into(), self.now, outcome.elapsed_ns);
        for (cpu, (seen, told)) in self.busy.iter().zip(&outcome.cpu_busy_ns).enumerate() {
            equal(format!("busy time of CPU {cpu}"), *seen, *told);
        }
        let total: u64 = outcome.tasks.iter().map(|task| task.run_ns).sum();
        let busy: u64 = outcome.cpu_busy_ns.iter().sum();
        let most = busy + out_of_idle * outcome.tasks.iter().map(|task| task.delays).sum::<u64>();
        equal("busy time in all".into(), total.clamp(busy, most), total);
        for (seen, told) in self.tasks.iter().zip(&outcome.tasks) {
            let life = seen.died - seen.born;
            let most = 2 * way * told.delays;
            let charged = if seen.run.abs_diff(told.run_ns) <= most { seen.run } else { told.run_ns };
            // A delay is no waiting while the queue's clock stands: a pass of the scheduler, and all of a CPU's way out of idle.
            let uncounted = most + idle * told.delays;
            let waited = told.wait_ns.clamp(seen.wait.saturating_sub(uncounted), seen.wait + most);
            for (what, events, counted) in [
                ("run", seen.run, charged),
                ("wait", waited, told.wait_ns),
                ("delay", seen.wait, told.delay_ns),
                ("sleep", seen.sleep, told.sleep_ns),
                ("life", life, told.life_ns),
                ("run + delay + sleep", life, charged + told.delay_ns + told.sleep_ns),
                ("user + system", told.run_ns, told.user_ns + told.system_ns),
                ("wake-ups", seen.wakeups, told.wakeups),
                ("migrations", seen.migrations, told.migrations),
            ] {
                equal(format!("{what} of {}", told.name), events, counted);
            }
        }
        if let Some(task) = self.tasks.iter().position(|task| task.state != State::Dead) {
            faults.push(format!("task {task} has not ended"));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
    }
}
