//! Tasks that come: woken here or from elsewhere, forked; and the CPU that is chosen for them.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::WakeKind;
use schedlab_trace::{Pid, Record, RecordKind};

use super::Engine;
use super::start::{attributes_of, has};
use crate::queue_order::is_before_running;
use crate::read::section::{Entry, Of, What};

/// How the kernel answered whether a task that comes preempts.
struct Answer {
    /// Whether there was anything to decide.
    asked: bool,
    resched: bool,
}

/// The part of a wakeup preemption's records whose mark for rescheduling is its decision. A mark after a charge and before a pick (EEVDF) is for a
/// request that the charge found served. From 7.3 on (`charges`) a wake-up charges before it looks at the policy, and preempts an idle task before that.
fn decides<'s, 'a>(check: &'s [Entry<'a>], charges: bool) -> &'s [Entry<'a>] {
    let picked = check.iter().rposition(|entry| entry.what == What::Pick);
    let charged = check.iter().position(|entry| entry.what == What::UpdateCurr);
    match (picked, charged) {
        (Some(picked), _) => &check[picked..],
        (None, Some(charged)) if charges => &check[..charged],
        _ => check,
    }
}

impl<'a> Engine<'a> {
    pub(super) fn waking(&mut self, entry: &Entry<'a>, remote: bool) {
        let RecordKind::Waking { task, .. } = &entry.record.kind else { return };
        if task.priority == 0 && entry.record.flags.context != schedlab_trace::Context::Task {
            self.ask_now(self.by);
        }
        if task.priority == 0 && self.task_of(task.pid).is_none_or(|task| self.stoppers.contains(&task)) {
            return;
        }
        let Some(known) = self.task_of(task.pid).filter(|task| *task != TaskId::IDLE) else { return };
        // One that still runs, or has not left its queue, is not sent anywhere.
        let asleep = !self.sched.entity(known).on_rq;
        if remote && asleep {
            self.on_its_way(self.sched.task_cpu(known), known);
        }
    }

    fn on_its_way(&mut self, cpu: CpuId, task: TaskId) {
        self.leave_list(task);
        self.cpus[cpu.index()].pending.insert(task);
        self.sched.assume_not_idle(cpu);
    }

    fn leave_list(&mut self, task: TaskId) -> bool {
        self.cpus.iter_mut().fold(false, |was, cpu| cpu.pending.remove(&task) | was)
    }

    /// `select_task_rq_fair`: ours is asked, the kernel's stands.
    pub(super) fn select(&mut self, record: &Record, by: usize, chosen: Option<u32>, remote: bool) {
        let (Some(pid), Some(chosen)) = (record.number("pid"), chosen) else { return };
        let Some(task) = self.task_of(pid as Pid).filter(|task| *task != TaskId::IDLE) else { return };
        let known = |cpu: &u64| *cpu < self.cpus.len() as u64;
        if !known(&u64::from(chosen)) {
            return;
        }
        let previous = record.number("prev").filter(known).map_or(self.sched.task_cpu(task), |cpu| CpuId(cpu as u32));
        let why = self.kind_of(record);
        let waker = CpuId(by as u32);
        let ours = self.sched.select_task_rq_from(task, previous, waker, why);
        let kernels = CpuId(chosen);
        if remote && matches!(why, WakeKind::Wakeup { .. }) {
            self.on_its_way(kernels, task);
        }
        if !self.begun {
            return;
        }
        let score = match why {
            WakeKind::Wakeup { .. } => &mut self.report.decisions.select,
            _ => &mut self.report.decisions.select_new,
        };
        if self.guessed.contains(&task) {
            score.unverifiable += 1;
            return;
        }
        score.add(ours == kernels, previous == kernels);
        if ours != kernels {
            let ours = format!("{} ({why:?} by {} from {}; {})", ours.0, waker.0, previous.0, self.loads().join("; "));
            self.differ(waker, "select", ours, kernels.0);
        }
    }

    /// The running task of each CPU, how many tasks are there, and their load.
    pub(super) fn loads(&self) -> Vec<String> {
        let of = |cpu: CpuId| {
            let load = self.sched.load_of_cpu(cpu).map_or(0, |load| load.load_avg);
            let runs = self.pid(self.sched.curr(cpu));
            format!("{}: runs {runs}, {} there, load {load}", cpu.0, self.sched.nr_running(cpu))
        };
        (0..self.cpus.len() as u32).map(CpuId).map(of).collect()
    }

    /// Why a CPU is chosen, by the `WF_*` flags; 5.10 has them apart, as flags of domains.
    fn kind_of(&self, record: &Record) -> WakeKind {
        let flags = record.number("wf").unwrap_or(0);
        let (exec, fork, sync) = if self.sched.rules().wake_flags_select {
            (flags & 0x2 != 0, flags & 0x4 != 0, flags & 0x10 != 0)
        } else {
            const BALANCE_EXEC: u64 = 0x4;
            const BALANCE_FORK: u64 = 0x8;
            let domain = record.number("sd").unwrap_or(0);
            (domain & BALANCE_EXEC != 0, domain & BALANCE_FORK != 0, flags & 0x1 != 0)
        };
        match (exec, fork) {
            (true, _) => WakeKind::Exec,
            (_, true) => WakeKind::Fork,
            // An exiting task does not sleep to wait for an answer.
            _ => WakeKind::Wakeup { sync: sync && !self.exiting.contains(&record.pid) },
        }
    }

    /// A wake-up on one CPU, from where the task is about to be woken to where it is told to be awake.
    pub(super) fn wake(&mut self, cpu: CpuId, pid: Pid, section: &[Entry<'a>]) {
        let enqueue = section.iter().find(|entry| matches!(entry.what, What::Enqueue(_)) && entry.pid() == Some(pid));
        if enqueue.is_none() && self.is_stopper(pid, section) {
            self.wake_stopper(cpu, pid);
            return self.compare_after(cpu, section);
        }
        if enqueue.is_none() && !has(section, What::Check) {
            // A task that is about to sleep is woken and goes on, without an enqueue.
            return;
        }
        let Some(task) = self.known(pid, cpu, enqueue).filter(|task| *task != TaskId::IDLE) else { return };
        self.compare_before(cpu, section);
        let answer = self.answer(section, cpu, task);
        let runnable = self.sched.entity(task).on_rq && !self.sched.entity(task).sched_delayed;
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(cpu);
        if enqueue.is_none() {
            // ttwu_runnable: it never left.
            if !runnable {
                return self.lose_track(cpu, "woken as if it had not left the queue");
            }
            self.sched.wakeup_preempt(cpu, task, false);
        } else {
            if runnable || !self.sched.try_to_wake_up(task, cpu) {
                return self.lose_track(cpu, "woken, but it is awake");
            }
            self.waits(task);
            self.came(task);
        }
        self.score_wakeup(&answer, task, cpu, before);
        self.compare_looks_of_wakeup(cpu, section);
        self.compare_after(cpu, section);
    }

    /// `stop_sched_class`: above all priorities, and its probes are none.
    fn is_stopper(&self, pid: Pid, section: &[Entry<'a>]) -> bool {
        let known = self.task_of(pid);
        let highest =
            |entry: &Entry<'a>| matches!(&entry.record.kind, RecordKind::Waking { task, .. } if task.priority == 0);
        let asleep = known.is_none_or(|task| self.stoppers.contains(&task) && !self.sched.entity(task).on_rq);
        asleep && section.first().is_some_and(highest)
    }

    fn wake_stopper(&mut self, cpu: CpuId, pid: Pid) {
        let task = self.task_of(pid).unwrap_or_else(|| self.add_stopper(pid, cpu));
        if task == TaskId::IDLE {
            return;
        }
        if !self.sched.entity(task).on_rq {
            self.sched.decider.expect_nothing();
            self.sched.try_to_wake_up(task, cpu);
            self.waits(task);
        }
        self.sched.assume_need_resched(cpu, true);
    }

    /// A new task on one CPU.
    pub(super) fn wake_new(&mut self, cpu: CpuId, pid: Pid, section: &[Entry<'a>]) {
        let Some(task) = self.known(pid, cpu, section.first()).filter(|task| *task != TaskId::IDLE) else { return };
        self.compare_before(cpu, section);
        let answer = self.answer(section, cpu, task);
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(cpu);
        self.newborn.remove(&task);
        self.wake_up_new(cpu, task, section);
        self.waits(task);
        self.score_wakeup(&answer, task, cpu, before);
        self.compare_looks_of_wakeup(cpu, section);
        self.compare_after(cpu, section);
    }

    /// A new task is queued for the first time. Recordings of 6.18 and later have no record of a child that its parent's
    /// SCHED_FLAG_RESET_ON_FORK set back as it was made: its first enqueue tells its policy and nice level.
    fn wake_up_new(&mut self, cpu: CpuId, task: TaskId, step: &[Entry<'a>]) {
        let queued =
            step.iter().find(|entry| entry.what == What::Enqueue(Of::Fair) && entry.record.number("pol").is_some());
        if self.eevdf()
            && let Some(entry) = queued
        {
            let (shown, known) = (attributes_of(entry.record), self.sched.attributes(task));
            if (shown.policy, shown.nice) != (known.policy, known.nice) {
                self.sched.reset_on_fork(task, &shown);
            }
        }
        self.sched.wake_up_new_task(task, cpu);
        self.came(task);
    }

    /// A task is queued, as the last part of a wake-up or after it was brought from another CPU.
    pub(super) fn activate(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(first) = step.first() else { return };
        let Some(pid) = first.pid() else { return };
        let Some(task) = self.known(pid, cpu, Some(first)).filter(|task| *task != TaskId::IDLE) else { return };
        self.advance(cpu, step);
        self.leave_list(task);
        self.compare_before(cpu, step);
        let answer = self.answer(step, cpu, task);
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(cpu);
        self.settle_time(cpu, task, step);
        if self.detached.remove(&task) {
            self.sched.attach_task(cpu, task);
        } else if self.newborn.remove(&task) {
            self.wake_up_new(cpu, task, step);
        } else if self.sched.entity(task).on_rq && !self.sched.entity(task).sched_delayed {
            return self.lose_track(cpu, "queued, but it is on a queue");
        } else if self.sched.entity(task).sched_delayed {
            if !self.sched.try_to_wake_up(task, cpu) {
                return self.lose_track(cpu, "woken, but it is awake");
            }
            self.came(task);
        } else {
            if self.sched.task_cpu(task) != cpu {
                // 7.2 and real-time tasks do not show it.
                self.sched.migrate_waking(task, cpu);
                self.migrating.insert(task);
            }
            let migrated = self.migrating.remove(&task);
            if !self.sched.activate_waking(task, migrated) {
                return self.lose_track(cpu, "woken, but it is awake");
            }
            self.came(task);
        }
        self.score_wakeup(&answer, task, cpu, before);
        self.compare_after(cpu, step);
    }

    /// `ttwu_runnable`: it never left its queue.
    pub(super) fn wake_running(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(first) = step.first() else { return };
        let Some(task) = first.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        self.advance(cpu, step);
        if self.stoppers.contains(&task) {
            // From 7.2 on the fair class's preemption check sees it, too; its wake-up comes next.
            return;
        }
        if !self.sched.entity(task).on_rq || self.sched.task_cpu(task) != cpu {
            return self.lose_track(cpu, "woken as if it had not left the queue");
        }
        self.compare_before(cpu, step);
        let answer = self.answer(step, cpu, task);
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(cpu);
        self.sched.wakeup_preempt(cpu, task, false);
        self.score_wakeup(&answer, task, cpu, before);
    }

    /// A wake-up that no probe of the class shows: of the stop class.
    pub(super) fn wakeup_alone(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(RecordKind::Wakeup { task, .. }) = step.first().map(|entry| &entry.record.kind) else { return };
        let known = self.task_of(task.pid);
        if task.priority == 0 && known.is_none_or(|known| self.stoppers.contains(&known)) {
            self.wake_stopper(cpu, task.pid);
        }
    }

    /// It was placed; where, shows when it is next picked.
    fn came(&mut self, task: TaskId) {
        if !self.is_fair(task) {
            return;
        }
        if self.guessed.contains(&task) {
            self.report.decisions.placement.unverifiable += 1;
            return;
        }
        let queue = self.sched.queue(self.sched.entity(task).cfs_rq);
        let naive = if self.eevdf() { queue.zero_vruntime } else { queue.min_vruntime };
        self.placed.insert(task, naive.0);
    }

    fn answer(&self, step: &[Entry<'a>], cpu: CpuId, task: TaskId) -> Answer {
        let curr = self.sched.curr(cpu);
        if curr == TaskId::IDLE || curr == task {
            return Answer { asked: false, resched: has(step, What::Resched) };
        }
        let Some(at) = step.iter().position(|entry| entry.what == What::Check) else {
            // Other classes are not probed there: a higher one's task preempts, a real-time or deadline one may.
            let higher = self.alone() && !(self.is_fair(task) && self.is_fair(curr));
            let asked = higher && !self.sched.must_resched(cpu);
            return Answer { asked, resched: has(step, What::Resched) };
        };
        let set = step[at].record.number("tif").unwrap_or(0) >> self.flags.need_resched & 1 != 0;
        let picks = has(&step[at..], What::Pick);
        Answer {
            asked: !set || self.flags.wakes_though_marked && picks,
            resched: has(decides(&step[at..], self.flags.wakeups_charge), What::Resched),
        }
    }

    /// Whether one of two tasks, of which the second one runs, is a real-time or deadline task.
    fn is_of_higher_class(&self, task: TaskId, curr: TaskId) -> bool {
        [task, curr].into_iter().any(|task| task != TaskId::IDLE && !self.is_fair(task))
    }

    fn score_wakeup(&mut self, answer: &Answer, task: TaskId, cpu: CpuId, before: bool) {
        let curr = self.sched.curr(cpu);
        let fair = self.is_fair(task) && self.is_fair(curr);
        let open = before && !self.eevdf() || !fair || self.cpus[cpu.index()].searches;
        if !self.alone() && self.is_of_higher_class(task, curr) && !before {
            self.sched.assume_need_resched(cpu, answer.resched);
        }
        if !answer.asked || !self.compares() || open && !self.alone() {
            return;
        }
        let ours = match fair {
            true => self.sched.decider.preempt.unwrap_or(false),
            false => !before && self.sched.must_resched(cpu),
        };
        if !self.verifiable(task) || !self.verifiable(curr) {
            self.report.decisions.wakeup.unverifiable += 1;
            return;
        }
        // Naive: among fair tasks the one that is behind preempts; in other classes the woken task waits.
        let naive = fair && is_before_running(&self.sched, task, curr);
        self.report.decisions.wakeup.add(ours == answer.resched, naive == answer.resched);
        self.expect_equal(cpu, "wakeup", ours == answer.resched, ours, answer.resched);
        if !fair && !before && ours != answer.resched {
            self.sched.assume_need_resched(cpu, answer.resched);
        }
    }

    /// CFS places a child as it is made, before the event that tells of it; EEVDF only as it is first queued.
    pub(super) fn fork_placed(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        self.compare_before(cpu, step);
        let parent = self.sched.curr(cpu);
        if parent == TaskId::IDLE {
            return self.lose_track(cpu, "a child without a parent");
        }
        if let Some(entry) = step.iter().find(|entry| entry.what == What::Parameters) {
            self.is_set_back(cpu, parent, entry);
        }
        self.sched.decider.expect_nothing();
        let child = self.make_child(cpu, parent);
        self.cpus[cpu.index()].unborn = Some(child);
    }

    /// A child of `parent`, with what its making set it back to (SCHED_FLAG_RESET_ON_FORK).
    fn make_child(&mut self, cpu: CpuId, parent: TaskId) -> TaskId {
        match self.cpus[cpu.index()].reset_on_fork.take() {
            Some(attributes) => self.sched.sched_fork_reset(parent, &attributes),
            None => self.sched.sched_fork(parent, false),
        }
    }

    pub(super) fn fork(&mut self, cpu: CpuId, parent: Pid, child: Pid) {
        let unborn = self.cpus[cpu.index()].unborn.take();
        if self.tasks.of_pid(child).is_some() {
            return;
        }
        let Some(parent) = self.known(parent, cpu, None).filter(|parent| *parent != TaskId::IDLE) else { return };
        self.sched.decider.expect_nothing();
        let task = unborn.unwrap_or_else(|| self.make_child(cpu, parent));
        if self.guessed.contains(&parent) {
            self.guessed.insert(task);
        }
        self.bind(child, task);
        self.newborn.insert(task);
    }
}

#[cfg(test)]
mod tests {
    use schedlab_trace::Reader;

    use super::*;

    fn preempts(lines: &[&str], charges: bool) -> bool {
        let text = format!("cpus=1\n{}\n", lines.join("\n"));
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines");
        let check: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
        has(decides(&check, charges), What::Resched)
    }

    /// Of 7.3.4: the waking task is SCHED_BATCH, which does not preempt; the charge marks the CPU because the current task's request is served. An idle
    /// task is preempted before it is charged, and where a task is picked the last mark decides.
    #[test]
    fn a_mark_of_the_charge_decides_nothing() {
        const CHECK: &str =
            " n-414   0d.h4. 5.589948000: k_cpw: pid=415 wf=0x8 tif=0x80800 cpid=414 ct=805082053 c=805082053 cpu=0";
        const CHARGE: &str = " n-414   0d.h4. 5.589948000: k_uc: cfs=0x2880 cse=0x80 cmy=0x0 pid=414 vr=963615997 dl=964315997 xs=804195588 ct=805082053 cpu=0";
        const MARK: &str = " n-414   0d.h4. 5.589948000: k_resched: cpu=0 tif=5 cpid=414";
        const PICK: &str = " n-414   0dNh4. 5.589948000: k_eevdf: zv=963615997 av=0 al=1024 ss=0 nr=3 cpid=414 next=0 prot=1 cse=0x80 cfs=0x2880 ct=805082053";
        for (lines, charges, expected) in [
            (vec![CHECK, CHARGE, MARK], true, false),
            (vec![CHECK, MARK], true, true),
            (vec![CHECK, CHARGE, MARK, PICK], true, false),
            (vec![CHECK, CHARGE, MARK, PICK, MARK], true, true),
            (vec![CHECK, CHARGE, MARK], false, true),
        ] {
            assert_eq!(preempts(&lines, charges), expected, "{lines:?}");
        }
    }
}
