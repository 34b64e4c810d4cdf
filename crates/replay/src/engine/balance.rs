//! Load averages that are updated outside of enqueues and dequeues, and load balancing.

use schedlab_model::{CpuId, TaskId, Time};
use schedlab_sched::{Clocks, DequeueFlags, DomainPast, Sched};
use schedlab_trace::{Context, Record, RecordKind};

use super::Engine;
use super::start_several::DOMAINS;
use crate::read::flags::{SAVE, SLEEP, is_soft};
use crate::read::section::{Entry, What};
use crate::recorded_decider::RecordedDecider;
use crate::settings::Tracked;

impl<'a> Engine<'a> {
    /// `sched_balance_update_blocked_averages` of one CPU, by whomever.
    pub(super) fn averages(&mut self, step: &[Entry<'a>], by: usize) {
        let ahead = self.ahead;
        let named = step.first().and_then(|entry| entry.record.number("cpu"));
        let cpu = CpuId(named.filter(|cpu| (*cpu as usize) < self.cpus.len()).unwrap_or(by as u64) as u32);
        self.advance(cpu, step);
        self.compare_before(cpu, step);
        self.sched.update_blocked_load(cpu);
        let context = step.first().map(|entry| entry.record.flags.context);
        let due = self.due.take().filter(|due| due.cpu == cpu);
        // run_rebalance_domains goes on so for the CPU that runs it, and nohz_idle_balance for each that idles.
        let ticks = context.is_some_and(is_soft) && (cpu.index() == by || self.sched.idle_cpu(cpu));
        if !ticks && (cpu.index() != by || !self.cpus[by].searches || context != Some(Context::Task)) {
            return;
        }
        let idle = due.map_or_else(|| self.sched.idle_cpu(cpu), |due| due.idle || cpu.index() != by);
        let ahead = if ticks { until_it_ends(ahead) } else { until_it_switches(ahead) };
        let (taken, pushed) = (self.taken(cpu, ahead), if ticks { pushed_from(ahead, by) } else { None });
        let until = ahead.first().map_or(self.line, |next| next.record.line);
        let jiffies = due.map(|due| due.jiffies);
        let mut ask = Ask { cpu, newly: !ticks, idle, jiffies, taken, pushed, until, before: None };
        ask.before = taken.map(|(task, from)| self.pull_at_start(&ask, ahead, task, from));
        if taken.is_some() || pushed.is_some() {
            // It reads the queues' state when it takes the task, which may be long after it began.
            self.cpus[by].asks.push(ask);
        } else {
            self.ask(ask);
        }
    }

    /// `detach_task`, or `move_queued_task`'s first part.
    pub(super) fn detach(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(first) = step.first() else { return };
        let Some(task) = first.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        self.advance(cpu, step);
        self.ask_now(self.by);
        self.compare_before(cpu, step);
        if !self.sched.entity(task).on_rq || self.sched.task_cpu(task) != cpu || self.sched.curr(cpu) == task {
            return self.lose_track(cpu, "taken off a queue that it is not on");
        }
        let to = step.iter().find_map(|entry| match entry.record.kind {
            RecordKind::Migrate { to, .. } if (to as usize) < self.cpus.len() => Some(CpuId(to)),
            _ => None,
        });
        if let Some(to) = to
            && cpu.index() == self.by
            && self.stoppers.contains(&self.sched.curr(cpu))
        {
            self.pushed(cpu, task, to);
        }
        self.sched.decider.expect_nothing();
        match to {
            Some(to) => {
                self.sched.detach_task(task, to);
                self.detached.insert(task);
                self.placed.remove(&task);
            }
            // A delayed task is dequeued for good.
            None => {
                self.sched.dequeue_task(cpu, task, DequeueFlags(first.flags()));
            }
        }
    }

    /// The CPU `by` takes a task, or has one pushed: by now it has read the queues.
    pub(super) fn ask_now(&mut self, by: usize) {
        if !self.cpus[by].asks.is_empty() {
            let ask = self.cpus[by].asks.remove(0);
            self.ask(ask);
        }
    }

    /// The task that our rules would take in the state at which the CPU begins to look, at the clock at which the kernel takes `task`.
    fn pull_at_start(&self, ask: &Ask, ahead: &[Entry<'a>], task: TaskId, from: CpuId) -> Option<(TaskId, CpuId)> {
        let mut sched = self.sched.clone();
        let leaves = |entry: &&Entry<'a>| matches!(entry.what, What::Dequeue(_)) && entry.pid() == Some(self.pid(task));
        if let Some(shown) = ahead.iter().find(leaves).and_then(|entry| entry.record.clocks) {
            let task = Time::from_nanos(shown.task);
            let clock = shown.clock.map_or(task, Time::from_nanos);
            sched.set_clocks(from, Clocks { clock, clock_task: task, clock_pelt: task });
            sched.set_machine_clock(clock);
        }
        look_for_work(&mut sched, ask);
        sched.decider.pulls.iter().find_map(|pull| pull.ours)
    }

    /// Which task our rules would take, and which they would have pushed.
    fn ask(&mut self, ask: Ask) {
        look_for_work(&mut self.sched, &ask);
        let open = self.score_pull(&ask);
        let ours = self.take_pushes(ask.cpu);
        if !ask.newly {
            self.score_push(&ask, ours, open);
        }
    }

    /// The CPU from which our rules would have had a task pushed to `cpu`. None is left waiting for its stopper, except where the kernel's is.
    fn take_pushes(&mut self, cpu: CpuId) -> Option<CpuId> {
        let all = (0..self.cpus.len() as u32).map(CpuId);
        let mut ours = None;
        for from in all.filter(|from| !self.pushing.contains(from)) {
            if self.sched.take_push(from) == Some(cpu) {
                ours = Some(from);
            }
        }
        ours
    }

    /// Which task the kernel takes to `cpu` in these records, and from where: off one queue, and accounted to the other.
    fn taken(&self, cpu: CpuId, ahead: &[Entry<'a>]) -> Option<(TaskId, CpuId)> {
        ahead.iter().enumerate().find_map(|(at, entry)| {
            let What::Dequeue(_) = entry.what else { return None };
            let task = entry.pid().filter(|_| entry.flags() & (SLEEP | SAVE) == 0).and_then(|pid| self.task_of(pid))?;
            // With groups every level that it leaves is recorded before that.
            let moved = ahead[at + 1..].iter().find(|entry| !entry.is_part());
            match moved?.record.kind {
                RecordKind::Migrate { from, to, .. } if to == cpu.0 && (from as usize) < self.cpus.len() => {
                    Some((task, CpuId(from)))
                }
                _ => None,
            }
        })
    }

    /// What a CPU that is about to be balanced shows of when it was before.
    pub(super) fn due(&mut self, record: &Record) {
        let number = |key: &str| record.number(key);
        let first = self.first_jiffies();
        let cpu = number("cpu").filter(|cpu| *cpu < self.cpus.len() as u64).map(|cpu| CpuId(cpu as u32));
        let (Some(cpu), Some(jiffies)) = (cpu, number("j")) else { return };
        let (jiffies, idle) = (jiffies.saturating_sub(first), number("ib") == Some(1));
        self.due = Some(Due { cpu, jiffies, idle });
        if !self.begun {
            return;
        }
        let (next, domains) = self.sched.balancing_of(cpu);
        let mut own = vec![next];
        let mut told = vec![number("nb").map_or(next, |next| next.saturating_sub(first))];
        for (level, ([last, interval, failed, _], domain)) in DOMAINS.into_iter().zip(domains).enumerate() {
            let (Some(last), Some(interval), Some(failed)) = (number(last), number(interval), number(failed)) else {
                continue;
            };
            own.extend([domain.last_balance, domain.interval, u64::from(domain.failed)]);
            let last_balance = last.saturating_sub(first);
            told.extend([last_balance, interval, failed]);
            // How it went stands.
            self.sched.assume_domain(
                cpu,
                level,
                DomainPast { last_balance, interval, failed: failed as u32, cost: domain.cost },
            );
        }
        self.sched.assume_next_balance(cpu, told[0]);
        let equal = own == told;
        self.report.state.balancing.add(equal);
        if !equal {
            self.differ(cpu, "balancing", format!("{own:?}"), format!("{told:?} at {jiffies}"));
        }
    }

    /// Whether a CPU that balanced on a tick has another CPU's stopper push the task that runs there.
    fn score_push(&mut self, ask: &Ask, ours: Option<CpuId>, open: bool) {
        let (cpu, kernels) = (ask.cpu, ask.pushed);
        if let Some(from) = kernels {
            // Until its stopper has run there is no other (`active_balance`).
            self.sched.assume_push(from, cpu);
            self.pushing.insert(from);
        }
        if !self.begun || kernels.is_none() && ours.is_none() {
            return;
        }
        if open {
            self.report.decisions.push.unverifiable += 1;
            return;
        }
        self.report.decisions.push.add(ours == kernels, kernels.is_none());
        if ours != kernels {
            let name = |from: Option<CpuId>| from.map_or("no task".to_owned(), |from| format!("from {}", from.0));
            let ours = format!("{} to {} ({})", name(ours), cpu.0, self.loads().join("; "));
            self.differ(cpu, "push", ours, name(kernels));
        }
    }

    /// The stopper of `cpu` ran.
    pub(super) fn stopped(&mut self, cpu: CpuId) {
        if self.pushing.remove(&cpu) {
            self.sched.take_push(cpu);
        }
    }

    /// Which task the stopper pushed from `cpu`, and where to.
    pub(super) fn pushed(&mut self, cpu: CpuId, task: TaskId, to: CpuId) {
        self.stopped(cpu);
        let ours = self.sched.active_load_balance_task(cpu, to);
        if !self.begun {
            return;
        }
        self.report.decisions.push.add(ours == Some(task), false);
        if ours != Some(task) {
            let name = |task: Option<TaskId>| task.map_or("no task".to_owned(), |task| self.pid(task).to_string());
            self.differ(cpu, "push", name(ours), name(Some(task)));
        }
    }

    /// Whether that is open.
    fn score_pull(&mut self, ask: &Ask) -> bool {
        let (cpu, kernels, newly) = (ask.cpu, ask.taken, ask.newly);
        let pulls = std::mem::take(&mut self.sched.decider.pulls);
        let ours = pulls.iter().find_map(|pull| pull.ours);
        let waits = pulls.iter().any(|pull| pull.waits);
        // Another CPU that is changing one of the two queues may or may not have done so yet when this one reads it.
        let (line, by) = (self.line, self.by);
        let busy = |queue: CpuId| {
            let (until, other) = self.cpus[queue.index()].until;
            other != by && until > line
        };
        let mut open = busy(cpu);
        if kernels.is_none() && ask.pushed.is_none() {
            // When it looked is between two of its records.
            let others = (0..self.cpus.len() as u32).map(CpuId).filter(|other| *other != cpu);
            let mut crowded = others.filter(|other| self.sched.nr_running(*other) > 1);
            open |= crowded.any(|other| self.changes(other, line, ask.until));
        }
        // It looked at some time in between: what it read may have changed before it took a task.
        open |= ask.before.is_some_and(|before| before != ours);
        for (task, from) in [ours, kernels].into_iter().flatten() {
            open |= self.guessed.contains(&task) || busy(from);
        }
        if newly && kernels.is_none() {
            // Chance may have kept it from looking (NI_RANDOM), or what larger domains cost; neither is told.
            let lowest = pulls.first().is_some_and(|pull| pull.ours.is_some());
            open |= self.settings.tunables.features.ni_random || ours.is_some() && !lowest;
        }
        if !self.begun || !waits && kernels.is_none() && ours.is_none() {
            return open;
        }
        let decisions = &mut self.report.decisions;
        let score = if newly { &mut decisions.newidle } else { &mut decisions.balance };
        if open {
            score.unverifiable += 1;
            return true;
        }
        score.add(ours == kernels, kernels.is_none());
        if ours != kernels {
            let name = |pull: Option<(TaskId, CpuId)>| match pull {
                Some((task, from)) => format!("{} from {}", self.pid(task), from.0),
                None => "no task".to_owned(),
            };
            let what = if newly { "newidle" } else { "balance" };
            let (ours, kernels) = (format!("{} to {} ({})", name(ours), cpu.0, self.loads().join("; ")), name(kernels));
            self.differ(cpu, what, ours, kernels);
        }
        open
    }

    /// Whether a queue is locked some time between these lines.
    fn changes(&self, queue: CpuId, from: u64, until: u64) -> bool {
        let steps = &self.locked[queue.index()];
        let begun = steps.partition_point(|(first, _)| *first < until);
        begun.checked_sub(1).is_some_and(|last| steps[last].1 > from)
    }

    /// A mark of the recorder around a look at all load averages.
    pub(super) fn moment(&mut self, text: &str) {
        let Some(name) = text.split_once("schedlab: averages ").map(|(_, name)| name.trim()) else { return };
        let (name, over) = name.strip_suffix(" end").map_or((name, false), |name| (name, true));
        let Some((_, shown)) = self.settings.averages.iter().find(|(known, _)| *known == name) else { return };
        if !over {
            self.looked = Some((shown, vec![None; shown.len()]));
            self.look();
            return;
        }
        let Some((shown, ours)) = self.looked.take() else { return };
        for (shown, ours) in shown.iter().zip(ours) {
            for (kernels, ours) in shown.values.into_iter().zip(ours.into_iter().flatten()) {
                if !self.report.state.pelt_shown.add(ours, kernels) {
                    self.differ(CpuId(0), "averages shown", format!("{:?}: {ours}", shown.of), kernels);
                }
            }
        }
    }

    /// While the recorder looks at one after another: each was seen at some moment of that, and ours counts where it came nearest.
    pub(super) fn look(&mut self) {
        let Some((shown, mut nearest)) = self.looked.take() else { return };
        for (shown, nearest) in shown.iter().zip(&mut nearest) {
            let Some(ours) = self.averages_of(shown.of) else { continue };
            let nearest = nearest.get_or_insert(ours);
            for ((nearest, ours), kernels) in nearest.iter_mut().zip(ours).zip(shown.values) {
                if ours.abs_diff(kernels) < nearest.abs_diff(kernels) {
                    *nearest = ours;
                }
            }
        }
        self.looked = Some((shown, nearest));
    }

    fn averages_of(&self, of: Tracked) -> Option<[u64; 3]> {
        let avg = match of {
            Tracked::Task(pid) => {
                let task = self.task_of(pid).filter(|task| self.is_fair(*task) && self.verifiable(*task))?;
                self.sched.load_of(task)
            }
            Tracked::Cpu(cpu) if (cpu as usize) < self.cpus.len() => self.sched.load_of_cpu(CpuId(cpu)),
            Tracked::Cpu(_) => None,
        }?;
        Some([avg.load_avg, avg.runnable_avg, avg.util_avg])
    }
}

/// A CPU looks at others for a task to take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    cpu: CpuId,
    /// It is about to idle; else it is balanced on a tick.
    newly: bool,
    idle: bool,
    jiffies: Option<u64>,
    /// Which task the kernel took, and from where.
    taken: Option<(TaskId, CpuId)>,
    /// Which task our rules would have taken as it began to look, if the kernel took one.
    before: Option<Option<(TaskId, CpuId)>>,
    /// The CPU from which it had a task pushed.
    pushed: Option<CpuId>,
    /// The line of its next record.
    until: u64,
}

fn look_for_work(sched: &mut Sched<RecordedDecider>, ask: &Ask) {
    if let Some(jiffies) = ask.jiffies {
        sched.assume_jiffies(jiffies);
    }
    sched.decider.expect_pull(ask.taken.map(|(_, from)| from));
    if ask.newly {
        sched.search_for_work(ask.cpu);
    } else {
        sched.rebalance(ask.cpu, ask.idle);
    }
}

/// A CPU that is about to be balanced on a tick.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    cpu: CpuId,
    /// Ticks from `INITIAL_JIFFIES` on.
    jiffies: u64,
    /// `idle_balance`: it idled at its tick.
    idle: bool,
}

/// The CPU whose stopper is woken in these records of `by`; its own is for something else.
fn pushed_from(ahead: &[Entry<'_>], by: usize) -> Option<CpuId> {
    ahead.iter().find_map(|entry| match &entry.record.kind {
        RecordKind::Waking { task, target } if task.priority == 0 && *target as usize != by => Some(CpuId(*target)),
        _ => None,
    })
}

/// The interrupt's records that are left, up to where it comes to another CPU, or to the same one again.
fn until_it_ends<'b, 'a>(ahead: &'b [Entry<'a>]) -> &'b [Entry<'a>] {
    let ends = |entry: &Entry<'a>| !is_soft(entry.record.flags.context) || &*entry.record.event == "k_balance";
    &ahead[..ahead.iter().position(ends).unwrap_or(ahead.len())]
}

/// The records up to the switch to another task.
fn until_it_switches<'b, 'a>(ahead: &'b [Entry<'a>]) -> &'b [Entry<'a>] {
    &ahead[..ahead.iter().position(|entry| entry.what == What::Switch).unwrap_or(ahead.len())]
}

#[cfg(test)]
mod tests {
    use schedlab_model::Attributes;
    use schedlab_sched::GroupId;
    use schedlab_trace::Reader;

    use super::*;
    use crate::level::Level;
    use crate::report::Report;
    use crate::settings::Settings;

    const CPU0: CpuId = CpuId(0);
    const CPU1: CpuId = CpuId(1);

    fn settings() -> Settings {
        let mut settings = Settings::defaults("6.1".parse().expect("a release")).expect("known");
        settings.topology = "smt=1".parse().expect("a topology");
        settings
    }

    /// Two tasks on CPU 0, one of which runs there; the other has waited for at least `migration_cost`, so that CPU 1 takes it, as the kernel does.
    fn two_tasks(settings: &Settings) -> (Engine<'_>, [TaskId; 2]) {
        let text = "cpus=2\n n-1     1d..2. 1.000000000: k_lacfs: cfs=0x1cc0 now=1 cpu=1 la=0 ra=0 ua=0 c=1 ct=1\n";
        let first = Reader::new(text.as_bytes()).next().expect("a line").expect("a record");
        let report = Report::of(&first, &first, Level::L1, 1, settings);
        let mut engine = Engine::new(settings, settings.rules(), 2, report);
        let tasks = [10, 11].map(|pid| engine.add(pid, &Attributes::default(), GroupId::ROOT));
        for task in tasks {
            engine.sched.assume_asleep(task, CPU0);
            engine.sched.decider.expect_nothing();
            engine.sched.try_to_wake_up(task, CPU0);
        }
        engine.sched.decider.expect_picks([tasks[0]]);
        engine.sched.schedule(CPU0, schedlab_model::TaskState::Running);
        engine.cpus[0].clocks = Clocks::all(Time::from_nanos(1_000_000_000));
        engine.sched.set_clocks(CPU0, engine.cpus[0].clocks);
        engine.locked = vec![Vec::new(); 2];
        engine.begun = true;
        (engine, tasks)
    }

    /// CPU 1 is about to idle, and takes that task.
    fn ask(taken: Option<(TaskId, CpuId)>) -> Ask {
        Ask { cpu: CPU1, newly: true, idle: false, jiffies: None, taken, before: None, pushed: None, until: 9 }
    }

    /// A CPU reads the others' queues before it takes a task, without their locks. Where our rules take one task in the state at which it
    /// began to look and another one in the state at which it took, the recording does not say which state it read, and the pull is not
    /// compared.
    #[test]
    fn a_pull_is_not_compared_where_its_task_changed_meanwhile() {
        let settings = settings();
        let (mut engine, tasks) = two_tasks(&settings);
        let taken = Some((tasks[1], CPU0));
        let ask = ask(taken);
        assert_eq!(engine.pull_at_start(&ask, &[], tasks[1], CPU0), taken);
        for (before, [compared, equal, open]) in [(Some(taken), [1, 1, 0]), (Some(None), [1, 1, 1])] {
            engine.ask(Ask { before, ..ask });
            let score = engine.report.decisions.newidle;
            assert_eq!([score.compared, score.equal, score.unverifiable], [compared, equal, open], "{before:?}");
        }
    }

    /// After many attempts in vain a CPU that is about to idle has the running task pushed by our rules. The kernel did not, so that no stopper
    /// waits on the busy CPU, for which its task would be put back.
    #[test]
    fn a_push_that_only_our_rules_want_does_not_wait() {
        let settings = settings();
        let (mut engine, _) = two_tasks(&settings);
        let (_, domains) = engine.sched.balancing_of(CPU1);
        engine.sched.assume_domain(CPU1, 0, DomainPast { failed: 99, ..domains[0] });
        let nothing = ask(None);
        let mut left_alone = engine.sched.clone();
        look_for_work(&mut left_alone, &nothing);
        assert_eq!(left_alone.take_push(CPU0), Some(CPU1));
        engine.ask(nothing);
        assert_eq!(engine.sched.take_push(CPU0), None);
    }
}
