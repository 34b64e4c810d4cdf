//! Picks and switches of the fair class that CFS and EEVDF share, level by level.

use schedlab_model::{CpuId, TaskId};

use crate::class::DequeueFlags;
use crate::decider::{Decider, Pick};
use crate::entity::{CfsRqId, EntityId};
use crate::fair::load::Action;
use crate::machine::Sched;

/// Where the way down through groups ended.
enum Descent {
    Task(TaskId),
    /// A group was throttled, or a delayed one left, on the way: the pick starts anew.
    Anew,
    /// No entity can be picked, as where a recording that is no kernel's queued what cannot be.
    Nothing,
}

impl<D: Decider> Sched<D> {
    /// `put_prev_task_fair`.
    pub(crate) fn put_prev_task_fair(&mut self, task: TaskId) {
        if self.rules.single_timeline {
            return self.put_prev_in_timeline(task, None);
        }
        let mut level = Some(self.tasks[task.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            level = entity.parent;
            self.put_prev_entity(entity.cfs_rq, se);
        }
    }

    /// `put_prev_entity`.
    fn put_prev_entity(&mut self, cfs: CfsRqId, se: EntityId) {
        if self.entities[se.index()].on_rq {
            self.update_curr_cfs(cfs);
        }
        if !self.rules.throttles_when_charged {
            self.check_cfs_rq_runtime(cfs);
        }
        if self.entities[se.index()].on_rq {
            self.timeline_insert(cfs, se);
            self.update_load_avg(cfs, se, Action::default());
        }
        self.cfs_rqs[cfs.index()].curr = None;
    }

    /// `set_next_task_fair`, for the first time since it was picked or not.
    #[inline]
    pub(crate) fn set_next_task_fair(&mut self, task: TaskId, first: bool) {
        if self.rules.single_timeline {
            return self.set_next_in_timeline(task, first);
        }
        let mut level = Some(self.tasks[task.index()].se);
        let mut throttled = false;
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let cfs = entity.cfs_rq;
            level = entity.parent;
            self.set_next_entity(cfs, se, first);
            throttled |= self.account_cfs_rq_runtime(cfs, 0);
        }
        if throttled {
            self.setup_throttle_work(task);
        }
    }

    /// `set_next_entity`.
    pub(crate) fn set_next_entity(&mut self, cfs: CfsRqId, se: EntityId, first: bool) {
        let rq = &self.rqs[self.cfs_rqs[cfs.index()].cpu.index()];
        let now = if self.rules.task_clock { rq.clock_task } else { rq.clock };
        self.clear_buddies(cfs, se);
        if self.entities[se.index()].on_rq {
            self.timeline_remove(cfs, se);
            self.update_load_avg(cfs, se, Action::UPDATE);
            if self.rules.eevdf && (first || !self.rules.protects_picks) {
                self.set_protect_slice(cfs, se);
            }
        }
        self.cfs_rqs[cfs.index()].curr = Some(se);
        self.entities[se.index()].begin_turn(now);
    }

    /// `simple` of `pick_next_task_fair`, before 6.12: a pick that comes upon a group of the previous task which has used up its quota begins
    /// anew without that task, so that all levels change hands.
    pub(crate) fn hands_over_all_levels(&self, previous: TaskId) -> bool {
        let queue = self.entities[self.tasks[previous.index()].se.index()].cfs_rq;
        !self.rules.picks_before_put && self.throttled_hierarchy(queue)
    }

    /// The end of `pick_next_task_fair`: from one fair task to another, only the levels below their common queue change hands, so
    /// that a group's slice goes on as its tasks take turns.
    pub(crate) fn put_prev_set_next_fair(&mut self, previous: TaskId, next: TaskId) {
        if self.rules.single_timeline {
            self.put_prev_in_timeline(previous, Some(next));
            return self.set_next_in_timeline(next, true);
        }
        // From 7.0 on set_next_task_fair does this too, on the levels without a running entity.
        let accounts = self.rules.throttles_when_charged;
        let mut throttled = false;
        let (mut pse, mut se) = (self.tasks[previous.index()].se, self.tasks[next.index()].se);
        loop {
            let (before, after) = (&self.entities[pse.index()], &self.entities[se.index()]);
            let (old, new) = (before.cfs_rq, after.cfs_rq);
            let (puts, sets) = (after.depth <= before.depth, after.depth >= before.depth);
            let (above_old, above_new) = (before.parent, after.parent);
            if puts {
                self.put_prev_entity(old, pse);
            }
            if sets {
                self.set_next_entity(new, se, true);
                throttled |= accounts && self.account_cfs_rq_runtime(new, 0);
            }
            if old == new {
                break;
            }
            if puts {
                pse = above_old.unwrap_or(pse);
            }
            if sets {
                se = above_new.unwrap_or(se);
            }
        }
        if throttled {
            self.setup_throttle_work(next);
        }
    }

    /// `pick_task_fair`: the task that should run; only the current task is charged, and nothing else changes.
    ///
    /// The running task takes part while it is runnable (`pick_next_task_fair` with `prev` of the fair class).
    pub(crate) fn pick_task_fair(&mut self, cpu: CpuId) -> Option<TaskId> {
        let root = self.rqs[cpu.index()].cfs;
        loop {
            if self.cfs_rqs[root.index()].nr_in_timeline(&self.rules) == 0 {
                return None;
            }
            let ours = match self.descend(root) {
                Descent::Task(task) => task,
                Descent::Anew => continue,
                Descent::Nothing => return None,
            };
            let candidates = self.cfs_rqs[root.index()].h_nr_running;
            let naive = self.leftmost(root).map_or(ours, |se| self.entities[se.index()].task);
            let delayed = self.entities[self.tasks[ours.index()].se.index()].sched_delayed;
            self.explain_pick(cpu, ours, candidates, delayed);
            let taken = self.decider.pick(Pick { cpu, candidates, naive, delayed }, ours);
            let se = self.tasks[taken.index()].se;
            if !self.entities[se.index()].sched_delayed {
                return Some(taken);
            }
            // A delayed entity has become eligible: now it leaves, and the pick starts anew.
            self.dequeue_delayed(cpu, taken);
        }
    }

    /// From the root queue down through groups to the task that should run.
    fn descend(&mut self, root: CfsRqId) -> Descent {
        let mut cfs = root;
        let mut throttled = false;
        loop {
            let curr = self.cfs_rqs[cfs.index()].curr.filter(|curr| self.entities[curr.index()].on_rq);
            if let Some(curr) = curr {
                // With a single timeline (7.3) its level is another one, and the first pick the only one.
                self.update_curr_cfs(self.entities[curr.index()].cfs_rq);
            }
            // CFS checks only queues with a running entity.
            let looks = self.rules.eevdf || self.cfs_rqs[cfs.index()].curr.is_some();
            if looks && !self.rules.throttles_when_charged && self.check_cfs_rq_runtime(cfs) {
                if !self.rules.throttles_tasks {
                    return Descent::Anew;
                }
                throttled = true;
            }
            let picked = if self.rules.eevdf {
                self.cfs_rqs[cfs.index()].pick_next_eevdf(&self.entities, &self.rules)
            } else {
                self.pick_next_entity(cfs, curr)
            };
            let Some(picked) = picked else { return Descent::Nothing };
            self.explain_level(cfs, picked);
            let se = picked.se;
            let entity = &self.entities[se.index()];
            match entity.my_q {
                Some(_) if entity.sched_delayed => {
                    self.dequeue_entities(se, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED), 0);
                    return Descent::Anew;
                }
                Some(group) => cfs = group,
                None => {
                    let task = entity.task;
                    if throttled {
                        self.setup_throttle_work(task);
                    }
                    return Descent::Task(task);
                }
            }
        }
    }

    /// The first of the timeline and the running entity, the naive rule's choice.
    fn leftmost(&self, cfs: CfsRqId) -> Option<EntityId> {
        let queue = &self.cfs_rqs[cfs.index()];
        let curr = queue.curr.filter(|curr| self.entities[curr.index()].on_rq);
        match (queue.timeline.first(), curr) {
            (Some(first), Some(curr)) if self.key(curr).before(self.key(first)) => Some(curr),
            (Some(first), _) => Some(first),
            (None, curr) => curr,
        }
    }
}
