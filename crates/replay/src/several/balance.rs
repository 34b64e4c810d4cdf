//! Load averages that nobody's queueing brings up to date, and balancing.

use schedlab_model::CpuId;
use schedlab_trace::Context;

use super::Several;
use crate::classes::section::Entry;
use crate::settings::Tracked;

impl<'a> Several<'a> {
    /// `update_blocked_averages` of one CPU, by whomever.
    pub(super) fn averages(&mut self, step: &[Entry<'a>], by: usize) {
        let named = step.first().and_then(|entry| entry.record.number("cpu"));
        let cpu = CpuId(named.filter(|cpu| (*cpu as usize) < self.cpus.len()).unwrap_or(by as u64) as u32);
        self.advance(cpu, step);
        self.compare_before(cpu, step);
        self.sched.update_blocked_load(cpu);
        let context = step.first().map(|entry| entry.record.flags.context);
        let soft = matches!(context, Some(Context::SoftInterrupt | Context::HardInSoftInterrupt));
        // run_rebalance_domains goes on so for the CPU that runs it, and nohz_idle_balance for each that idles.
        if soft && (cpu.index() == by || self.sched.idle_cpu(cpu)) {
            self.sched.rebalance(cpu);
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
