//! Drives the rules through the longer steps: wake-ups, forks, schedules, changes of weight.

use schedlab_model::{TaskId, TaskState};
use schedlab_sched::Vruntime;
use schedlab_trace::{Pid, RecordState, TaskRef};

use crate::level::Level;
use crate::read::cursor::{Placement, Runtime, SetView};
use crate::read::flags::sleeping_state;
use crate::read::step::{Check, Coming, Look, Picks};
use crate::reconstruction::{CPU, Replayer};

impl Replayer<'_> {
    pub(crate) fn wake(
        &mut self,
        pid: Pid,
        coming: Coming,
        runtime: Option<Runtime>,
        placement: Option<Placement>,
        check: Option<Check>,
    ) {
        self.advance(runtime);
        let task = self.sleeper(pid, placement);
        if self.report.level == Level::L1 && !self.is_fair(task) {
            // The fair class queues it all the same.
            return self.lose_track();
        }
        let entity = self.sched.entity(task);
        let coming = match coming {
            Coming::Awake if entity.sched_delayed => Coming::Delayed,
            Coming::Awake if !entity.on_rq => Coming::Woken,
            Coming::Awake => {
                // ttwu_runnable: it never left.
                return if let Some(check) = check {
                    self.check(task, check, runtime)
                };
            }
            known => known,
        };
        if (entity.on_rq, entity.sched_delayed) != (coming == Coming::Delayed, coming == Coming::Delayed) {
            return self.lose_track();
        }
        if let Some(placement) = placement {
            self.compare_sleeper(task, coming, placement);
        }
        // A charge may ask for a schedule too, and without probes only one of both shows.
        let told = self.report.level == Level::L1 || !self.eevdf();
        self.sched.decider.expect(check.map_or(Some(false), |check| check.resched.filter(|_| told)));
        let queue = self.sched.cfs_rq(CPU);
        let (base, nominated) = (queue.min_vruntime.0, queue.next);
        self.base_guessed = self.base_guessed.filter(|guess| *guess == base && !self.eevdf());
        let unplaced = self.unplaced.remove(&task) || self.base_guessed.is_some();
        if coming == Coming::New {
            self.sched.wake_up_new_task(task, CPU);
        } else {
            if unplaced {
                self.sched.decider.initial_place = self.sight.placed.get(&pid).copied().map(Vruntime);
            }
            self.sched.try_to_wake_up(task, CPU);
            self.sched.decider.initial_place = None;
        }
        if unplaced {
            self.report.decisions.placement.unverifiable += 1;
        } else if coming != Coming::Delayed || placement.is_some() {
            let queue = self.sched.cfs_rq(CPU);
            let naive = if self.eevdf() { queue.zero_vruntime } else { queue.min_vruntime };
            self.placed.insert(task, naive.0);
            self.placed_at.insert(task, self.sched.entity(task).vruntime.0);
        }
        self.compare_charge(runtime);
        if let Some(placement) = placement {
            self.compare_placement_queue(placement);
        }
        if let Some(check) = check {
            if self.learns_batch(task, check) {
                self.sched.cfs_rq_mut(CPU).next = nominated;
                return;
            }
            self.score_wakeup(check);
        }
    }

    /// A woken task of which it is not told whether it is SCHED_BATCH should have preempted and did not: it is. That one wake-up proves
    /// nothing.
    fn learns_batch(&mut self, task: TaskId, check: Check) -> bool {
        let told = check.need_resched || check.resched != Some(false) || self.sched.decider.preempt != Some(true);
        if told || !self.policy_untold.remove(&task) {
            return false;
        }
        self.sched.assume_batch(task, true);
        self.report.decisions.wakeup.unverifiable += 1;
        true
    }

    /// Whether a task that is still queued preempts.
    pub(crate) fn check(&mut self, woken: TaskId, check: Check, runtime: Option<Runtime>) {
        self.sched.decider.expect(check.resched);
        self.sched.wakeup_preempt(CPU, woken, check.flags & self.flags.fork != 0);
        self.compare_charge(runtime);
        self.score_wakeup(check);
    }

    /// `do_sched_yield`.
    pub(crate) fn yield_now(&mut self) {
        self.yielding = None;
        self.sched.sched_yield(CPU);
    }

    /// CFS places a child as it is made, before the event that tells of it; EEVDF only as it is first queued.
    pub(crate) fn fork(
        &mut self,
        parent: Option<Pid>,
        child: Pid,
        runtime: Option<Runtime>,
        placement: Option<Placement>,
    ) {
        if self.tasks.of_pid(child).is_some() {
            return;
        }
        self.advance(runtime);
        let parent = parent.map_or(Some(self.sched.curr(CPU)), |parent| self.task_of(parent));
        let Some(parent) = parent.filter(|parent| *parent != TaskId::IDLE) else { return self.lose_track() };
        let task = self.sched.sched_fork(parent, false);
        self.bind(child, task);
        self.compare_charge(runtime);
        if let Some(placement) = placement {
            self.compare_placement_queue(placement);
            if !self.settings.tunables.child_runs_first {
                // The child's is its parent's until it is placed.
                let ours = self.sched.entity(parent).vruntime.0;
                self.compare_vruntime(ours, placement.vruntime);
            }
        }
    }

    /// A schedule that came now or comes later, without a switch now: it came if our rules pick the running task again. That is no
    /// comparison, and the pick stays open.
    pub(crate) fn may_pick_again(&mut self) {
        let running = self.sched.curr(CPU);
        let mut ours = self.sched.clone();
        ours.decider.expect_nothing();
        if running == TaskId::IDLE || ours.schedule(CPU, TaskState::Running).next != running {
            return;
        }
        self.sched.decider.expect_nothing();
        self.sched.schedule(CPU, TaskState::Running);
        self.report.decisions.pick.unverifiable += 1;
    }

    pub(crate) fn schedule(
        &mut self,
        dequeued: Option<Pid>,
        runtime: Option<Runtime>,
        recorded: &Picks,
        switch: Option<(&TaskRef, RecordState, &TaskRef)>,
    ) {
        self.advance(runtime);
        let previous = self.sched.curr(CPU);
        if previous != TaskId::IDLE && self.yielding == Some(self.pid(previous)) {
            self.yield_now();
        }
        // A task of a higher class shows only in the switch that it leaves; a fair one shows its dequeueing, and one that a
        // signal kept awake has none though its state says asleep.
        let leaves = if self.is_fair(previous) {
            dequeued.is_some()
        } else {
            previous != TaskId::IDLE && switch.is_some_and(|(_, state, _)| state != RecordState::Running)
        };
        let dead = switch.is_some_and(|(_, state, _)| matches!(state, RecordState::Dead(_)));
        let slept = leaves.then(|| sleeping_state(switch.map(|(_, state, _)| state)));
        let state = slept.unwrap_or(TaskState::Running);
        if dequeued.is_some_and(|pid| self.task_of(pid) != Some(previous)) {
            return self.lose_track();
        }
        let buddies = self.buddies(previous, leaves);
        let queue = self.queue();
        let picks = match recorded {
            Picks::Looks(looks, set) => {
                let Some(picks) = self.recorded_picks(looks, *set, previous, leaves) else { return self.lose_track() };
                self.sched.decider.expect_picks(picks.clone());
                picks
            }
            Picks::Outcome => {
                let outcome = match switch {
                    Some((_, _, next)) => self.task_of(next.pid).unwrap_or(TaskId::IDLE),
                    None => previous,
                };
                if outcome != TaskId::IDLE && !self.sched.entity(outcome).on_rq {
                    return self.lose_track();
                }
                if self.is_fair(outcome) {
                    self.sched.decider.expect_outcome(outcome);
                } else {
                    self.sched.decider.expect_nothing();
                }
                vec![outcome]
            }
        };
        let scheduled = self.sched.schedule(CPU, state);
        let ours = self.sched.decider.picks.last().map_or(scheduled.next, |(_, ours)| *ours);
        self.note_pick(scheduled.next, ours, state);
        self.compare_charge(runtime);
        match recorded {
            Picks::Looks(looks, _) => {
                if let Some(look) = looks.last() {
                    self.compare_look(look, buddies, scheduled.previous, scheduled.next);
                }
                self.score_picks(&picks, &queue);
            }
            Picks::Outcome => self.score_outcome(picks[0], &queue),
        }
        self.resched_before = false;
        if scheduled.next != previous {
            self.slice_unknown = None;
            self.running_unseen &= self.eevdf();
        }
        if let Picks::Looks(_, set) = recorded {
            self.compare_set(*set);
        }
        if let Some((_, _, next)) = switch
            && self.task_of(next.pid).unwrap_or(TaskId::IDLE) != scheduled.next
        {
            self.lose_track();
        }
        if dead && leaves {
            let pid = self.pid(previous);
            self.reader_gone |= self.reader == Some(pid);
            self.tasks.forget(pid);
        }
    }

    /// Who the kernel picked at each look; `None` if one of them cannot be picked in our state.
    fn recorded_picks(
        &self,
        looks: &[Look],
        set: Option<SetView>,
        previous: TaskId,
        leaves: bool,
    ) -> Option<Vec<TaskId>> {
        let mut gone: Vec<TaskId> = Vec::new();
        let mut picks = Vec::with_capacity(looks.len());
        for look in looks {
            let task = match (look.delayed, set) {
                (Some(pid), _) => self.task_of(pid)?,
                (None, Some(set)) => self.task_of(set.pid)?,
                (None, None) => previous,
            };
            // A task that has just gone to sleep may only be picked for its delayed dequeue.
            let sleeps = leaves && task == previous && look.delayed.is_none();
            if task == TaskId::IDLE || sleeps || gone.contains(&task) || !self.sched.entity(task).on_rq {
                return None;
            }
            gone.extend(look.delayed.map(|_| task));
            picks.push(task);
        }
        Some(picks)
    }
}
