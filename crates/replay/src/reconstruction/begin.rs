//! The state in which a recording begins, and tasks that appear later.

use schedlab_model::{Attributes, Policy, TaskId, TaskState};
use schedlab_sched::Vruntime;
use schedlab_trace::Pid;

use crate::read::cursor::{Placement, PlacementClass};
use crate::read::step::FIRST_FAIR_PRIORITY;
use crate::reconstruction::first_sight::{self, Queued, Running};
use crate::reconstruction::{CPU, Replayer};

impl Replayer<'_> {
    /// Queues what was queued and runs what ran.
    pub(crate) fn begin(&mut self) {
        self.set_clocks();
        let snapshot = self.settings.snapshot.as_ref().filter(|_| self.settings.snapshot_is_older);
        let told = snapshot.and_then(|snapshot| snapshot.queues.first()).and_then(|queue| queue.min_vruntime);
        let told = self.sight.base.or(told);
        let base = told.or(self.sight.guess).unwrap_or(0);
        self.base_guessed = told.is_none().then_some(base);
        let queue = self.sched.cfs_rq_mut(CPU);
        (queue.min_vruntime, queue.zero_vruntime) = (Vruntime(base), Vruntime(base));
        let running = self.sight.running;
        if running != 0 {
            let (queued, known) = self.running_at_first(base);
            let task = match self.sight.priorities.get(&running) {
                // That of the recorder.
                Some(0) => self.begin_recorder(running),
                _ => self.add(running),
            };
            self.begin_runnable(task, queued);
            self.sched.decider.expect_picks([task]);
            self.sched.schedule(CPU, TaskState::Running);
            if self.is_fair(task) {
                self.running_unseen = !known;
                self.slice_unknown = Some(task);
            }
        }
        for queued in &self.sight.waiting {
            let task = self.add(queued.pid);
            self.begin_runnable(task, *queued);
        }
        // The queue may count from elsewhere than the kernel's; moving that changes nothing but the numbers shown.
        self.sched.cfs_rq_mut(CPU).count_from(Vruntime(base));
        if let Some((next, last)) = self.sight.buddies {
            // Buddies of the first pick that were queued before the recording; later ones arise by rule.
            let known = |pid| self.tasks.of_pid(pid).map(|task| self.sched.task(task).se);
            let (next, last) = (known(next), known(last));
            let queue = self.sched.cfs_rq_mut(CPU);
            (queue.next, queue.last) = (next, last);
        }
    }

    /// What the running task has, and whether that is all that decisions need to know.
    ///
    /// CFS shows it with the first charge, for which it stays unseen until then. EEVDF shows it when it is next placed or picked:
    /// its virtual time was less by what it was charged until then. A request that began meanwhile hides the deadline before, of
    /// which only so much is known that it was met when the new one began.
    fn running_at_first(&self, base: u64) -> (Queued, bool) {
        let pid = self.sight.running;
        let Some(Running { vruntime, deadline, charged }) = self.sight.running_seen else {
            return (Queued { pid, vruntime: base, deadline: base }, false);
        };
        let first = vruntime.wrapping_sub(charged);
        let began = deadline.wrapping_sub(self.settings.tunables.base_slice.as_nanos());
        let renewed = (began.wrapping_sub(first) as i64) > 0;
        (Queued { pid, vruntime: first, deadline: if renewed { began } else { deadline } }, !renewed)
    }

    /// A task that is queued when the recording begins.
    fn begin_runnable(&mut self, task: TaskId, queued: Queued) {
        self.report.first_sights.recording += 1;
        let eevdf = self.eevdf();
        // Queueing a new task makes its virtual time (CFS) or its deadline (EEVDF) absolute.
        let base = self.sched.cfs_rq(CPU).min_vruntime.0;
        let entity = self.sched.entity_mut(task);
        entity.vruntime = Vruntime(queued.vruntime.wrapping_sub(base));
        entity.deadline = Vruntime(queued.deadline.wrapping_sub(queued.vruntime));
        entity.rel_deadline = eevdf;
        self.sched.decider.expect_preempt(false);
        self.sched.decider.initial_place = Some(Vruntime(queued.vruntime));
        self.sched.wake_up_new_task(task, CPU);
        self.sched.decider.initial_place = None;
    }

    pub(crate) fn add(&mut self, pid: Pid) -> TaskId {
        let priority = self.sight.priorities.get(&pid).copied().unwrap_or(120);
        let task = self.sched.new_task(&attributes_of(priority));
        self.bind(pid, task);
        task
    }

    pub(crate) fn bind(&mut self, pid: Pid, task: TaskId) {
        self.tasks.bind(pid, task, self.sched.task(task).se);
        self.report.tasks += 1;
    }

    /// A task that sleeps, known or first seen now.
    pub(crate) fn sleeper(&mut self, pid: Pid, seen: Option<Placement>) -> TaskId {
        if let Some(task) = self.tasks.of_pid(pid) {
            return task;
        }
        let task = self.add(pid);
        let entity = self.sched.entity_mut(task);
        if let Some(placement) = seen {
            entity.vruntime = Vruntime(placement.vruntime);
            if let PlacementClass::Eevdf { deadline, lag, relative } = placement.class {
                (entity.deadline, entity.vlag, entity.rel_deadline) = (Vruntime(deadline), lag, relative);
            }
        }
        let snapshot = self.settings.snapshot.as_ref();
        let known = first_sight::from_snapshot(snapshot, self.reader_gone, pid);
        match known {
            Some(vruntime) => {
                let entity = self.sched.entity_mut(task);
                entity.vruntime = Vruntime(vruntime);
                self.report.first_sights.snapshot += 1;
            }
            None => self.report.first_sights.recording += 1,
        }
        self.sched.assume_asleep(task, CPU);
        if known.is_none() && seen.is_none() {
            self.unplaced.insert(task);
        }
        task
    }
}

/// The policy and nice level of a kernel priority. The fair policies look alike in it; they are taken for SCHED_OTHER.
fn attributes_of(priority: i32) -> Attributes {
    if priority >= FIRST_FAIR_PRIORITY {
        let nice = i8::try_from(priority.saturating_sub(120)).unwrap_or(0).clamp(-20, 19);
        return Attributes { nice, ..Attributes::default() };
    }
    // Stop and deadline tasks stand above every real-time priority; the highest of these is the nearest.
    let priority = u8::try_from(99 - priority.clamp(0, 98)).unwrap_or(99);
    Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }
}
