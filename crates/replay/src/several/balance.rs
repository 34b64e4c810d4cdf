//! Load averages that nobody's queueing brings up to date, and balancing.

use schedlab_model::{CpuId, TaskId};
use schedlab_trace::{Context, RecordKind};

use super::Several;
use crate::classes::section::{Entry, What};
use crate::flags::{SAVE, SLEEP};
use crate::settings::Tracked;

impl<'a> Several<'a> {
    /// `update_blocked_averages` of one CPU, by whomever.
    pub(super) fn averages(&mut self, step: &[Entry<'a>], by: usize, ahead: &[Entry<'a>]) {
        let named = step.first().and_then(|entry| entry.record.number("cpu"));
        let cpu = CpuId(named.filter(|cpu| (*cpu as usize) < self.cpus.len()).unwrap_or(by as u64) as u32);
        self.advance(cpu, step);
        self.compare_before(cpu, step);
        self.sched.update_blocked_load(cpu);
        let context = step.first().map(|entry| entry.record.flags.context);
        let soft = matches!(context, Some(Context::SoftInterrupt | Context::HardInSoftInterrupt));
        // run_rebalance_domains goes on so for the CPU that runs it, and nohz_idle_balance for each that idles.
        if soft && (cpu.index() == by || self.sched.idle_cpu(cpu)) {
            let taken = self.taken(cpu, until_it_ends(ahead));
            self.sched.decider.expect_pull(taken.map(|(_, from)| from));
            self.sched.rebalance(cpu);
            self.score_pull(cpu, taken, false);
        } else if cpu.index() == by && self.cpus[by].searches && context == Some(Context::Task) {
            let taken = self.taken(cpu, until_it_switches(ahead));
            self.sched.decider.expect_pull(taken.map(|(_, from)| from));
            self.sched.search_for_work(cpu);
            self.score_pull(cpu, taken, true);
        }
    }

    /// Whom the kernel takes to `cpu` in these records, and from where: off one queue, and accounted to the other.
    fn taken(&self, cpu: CpuId, ahead: &[Entry<'a>]) -> Option<(TaskId, CpuId)> {
        ahead.iter().enumerate().find_map(|(at, entry)| {
            let What::Dequeue(_) = entry.what else { return None };
            let task = entry.pid().filter(|_| entry.flags() & (SLEEP | SAVE) == 0).and_then(|pid| self.task_of(pid))?;
            let moved = ahead[at..].iter().take(LONGEST_DETACHMENT).find_map(|entry| match entry.record.kind {
                RecordKind::Migrate { from, to, .. } => Some((from, to)),
                _ => None,
            });
            moved.filter(|(_, to)| *to == cpu.0).map(|(from, _)| (task, CpuId(from)))
        })
    }

    fn score_pull(&mut self, cpu: CpuId, kernels: Option<(TaskId, CpuId)>, newly: bool) {
        let pulls = std::mem::take(&mut self.sched.decider.pulls);
        let ours = pulls.iter().find_map(|pull| pull.ours);
        let waits = pulls.iter().any(|pull| pull.waits);
        if !self.begun || !waits && kernels.is_none() && ours.is_none() {
            return;
        }
        let decisions = &mut self.report.decisions;
        let score = if newly { &mut decisions.newidle } else { &mut decisions.balance };
        // Who is in the midst of something on one of both queues may or may not have done yet what this looks at.
        let (line, by) = (self.line, self.by);
        let busy = |queue: CpuId| {
            let (until, other) = self.cpus[queue.index()].until;
            other != by && until > line
        };
        let mut open = busy(cpu);
        for (task, from) in [ours, kernels].into_iter().flatten() {
            open |= self.guessed.contains(&task) || busy(from);
        }
        if newly && kernels.is_none() {
            // Chance may have kept it from looking (NI_RANDOM), or what larger domains cost; neither is told.
            let lowest = pulls.first().is_some_and(|pull| pull.ours.is_some());
            open |= self.settings.tunables.features.ni_random || ours.is_some() && !lowest;
        }
        if open {
            score.unverifiable += 1;
            return;
        }
        score.add(ours == kernels, kernels.is_none());
        if ours != kernels {
            let name = |pull: Option<(TaskId, CpuId)>| match pull {
                Some((task, from)) => format!("{} from {}", self.pid(task), from.0),
                None => "nobody".to_owned(),
            };
            let what = if newly { "newidle" } else { "balance" };
            let (ours, kernels) = (format!("{} to {} ({})", name(ours), cpu.0, self.loads().join("; ")), name(kernels));
            self.differ(cpu, what, ours, kernels);
        }
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
            Tracked::Cpu(cpu) => self.sched.load_of_cpu(CpuId(cpu)),
        }?;
        Some([avg.load_avg, avg.runnable_avg, avg.util_avg])
    }
}

/// Records from one that takes a task off to the one that tells where it goes.
const LONGEST_DETACHMENT: usize = 12;

/// The interrupt's records that are left.
fn until_it_ends<'b, 'a>(ahead: &'b [Entry<'a>]) -> &'b [Entry<'a>] {
    let soft = |context| matches!(context, Context::SoftInterrupt | Context::HardInSoftInterrupt);
    &ahead[..ahead.iter().position(|entry| !soft(entry.record.flags.context)).unwrap_or(ahead.len())]
}

/// The records up to where somebody else runs.
fn until_it_switches<'b, 'a>(ahead: &'b [Entry<'a>]) -> &'b [Entry<'a>] {
    &ahead[..ahead.iter().position(|entry| entry.what == What::Switch).unwrap_or(ahead.len())]
}
