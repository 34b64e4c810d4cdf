//! Wakeup preemption under EEVDF (`check_preempt_wakeup_fair`, `wakeup_preempt_fair` in 7.2).

use schedlab_model::{CpuId, Policy, Reason, TaskId, WakeupRule};

use crate::class::DequeueFlags;
use crate::decider::{Decider, Preemption};
use crate::entity::{CfsRqId, EntityId};
use crate::fair::rules::Picked;
use crate::machine::Sched;

/// What would be picked once a task has woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contest {
    picked: Option<Picked>,
    /// Whether the waking entity's slice is shorter than the current one's, which counts under PREEMPT_SHORT.
    shorter: bool,
}

impl Contest {
    /// Whether the waking entity would be picked.
    pub(crate) fn is_won_by(self, pse: EntityId) -> bool {
        self.picked.is_some_and(|picked| picked.se == pse)
    }
}

impl<D: Decider> Sched<D> {
    /// `wakeup_preempt_fair` (`kernel/sched/fair.c`; `check_preempt_wakeup_fair` in 6.12 and 6.18): a woken task preempts if it is what would be
    /// picked now; a shorter slice lifts the running one's protection (PREEMPT_SHORT). So since EEVDF came (147f3efaa241, 6.6); by deadlines
    /// and with the buddy since e837456fdca8 ([`RuleSet::wakeup_preempts_by_deadline`](schedlab_model::RuleSet)).
    #[doc(alias = "check_preempt_wakeup_fair")]
    #[doc(alias = "check_preempt_wakeup")]
    pub(crate) fn wakeup_preempt_fair(&mut self, cpu: CpuId, woken: TaskId, fork: bool) {
        let curr = self.rqs[cpu.index()].curr;
        if curr == woken {
            return;
        }
        let hint = self.balance.sync_wakeup.take().filter(|(task, _)| *task == woken).map(|(_, selected)| selected);
        let features = self.rules.tunables.features;
        let (se, pse) = (self.tasks[curr.index()].se, self.tasks[woken.index()].se);
        let throttled = match self.rules.throttles_tasks {
            true => self.tasks[woken.index()].throttled,
            false => self.throttled_hierarchy(self.entities[pse.index()].cfs_rq),
        };
        if throttled {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::Throttled);
        }
        let by_deadline = self.rules.wakeup_preempts_by_deadline;
        if features.next_buddy && !by_deadline && !fork && !self.entities[pse.index()].sched_delayed {
            self.set_next_buddy(pse);
        }
        if self.must_resched(cpu) && !(self.rules.wakes_though_marked && features.preempt_short) {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::AlreadyMarked);
        }
        if !features.wakeup_preemption {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::FeatureOff);
        }
        let (se, pse) = self.find_matching_se(se, pse);
        let idle = (self.se_is_idle(se), self.se_is_idle(pse));
        if self.rules.wakeups_limit_protection && idle != (true, false) {
            self.update_curr_fair(cpu);
            let by = match idle {
                (false, true) => Some(WakeupRule::WokenIsBatch),
                _ if self.tasks[woken.index()].policy != Policy::Other => Some(WakeupRule::WokenIsBatch),
                _ if self.entities[pse.index()].sched_delayed => Some(WakeupRule::NewOrDelayed),
                _ => None,
            };
            if let Some(by) = by {
                self.limit_protection(se);
                return self.explain_wakeup(cpu, woken, false, by);
            }
        }
        let ours = match idle {
            (true, false) => {
                self.cancel_protect_slice(se);
                if self.rules.preemption_clears_buddies && !self.rules.short_slice_is_buddy {
                    self.clear_buddies(self.entities[self.tasks[curr.index()].se.index()].cfs_rq, se);
                }
                self.explain_wakeup(cpu, woken, true, WakeupRule::CurrentIsIdle);
                true
            }
            (false, true) => return self.explain_wakeup(cpu, woken, false, WakeupRule::WokenIsBatch),
            _ if self.tasks[woken.index()].policy != Policy::Other => {
                return self.explain_wakeup(cpu, woken, false, WakeupRule::WokenIsBatch);
            }
            _ if self.rules.wakeup_preempts_by_deadline => {
                match self.becomes_first_by_deadline(cpu, woken, [se, pse], fork, hint) {
                    Some(ours) => ours,
                    None => return,
                }
            }
            _ => {
                let contest = self.becomes_first(se, pse);
                self.explain_contest(cpu, woken, [se, pse], contest);
                contest.is_won_by(pse)
            }
        };
        if self.decider.preempt(Preemption::Wakeup { cpu, woken }, ours) {
            self.resched_curr_lazy(cpu);
        }
    }

    /// The same from 6.18.33 on (`wakeup_preempt_fair` in 7.2); none where there is nothing to decide. A `hint` says that the waker is
    /// about to sleep, and whether the task might have run elsewhere.
    fn becomes_first_by_deadline(
        &mut self,
        cpu: CpuId,
        woken: TaskId,
        [se, pse]: [EntityId; 2],
        fork: bool,
        hint: Option<bool>,
    ) -> Option<bool> {
        let cfs = self.timeline_queue(se);
        if !self.rules.wakeups_limit_protection {
            self.update_curr_cfs(self.entities[se.index()].cfs_rq);
        }
        let features = self.rules.tunables.features;
        let shorter = features.preempt_short && self.entities[pse.index()].slice < self.entities[se.index()].slice;
        if !shorter {
            if fork || self.entities[pse.index()].sched_delayed {
                if self.rules.wakeups_limit_protection {
                    self.limit_protection(se);
                }
                self.explain_wakeup(cpu, woken, false, WakeupRule::NewOrDelayed);
                return None;
            }
            // set_preempt_buddy: an older buddy with an earlier deadline stays.
            let deadline = self.entities[pse.index()].deadline;
            let stays = self.cfs_rqs[cfs.index()]
                .next
                .is_some_and(|next| self.entities[next.index()].deadline.before(deadline));
            if features.next_buddy && !stays {
                self.set_next_buddy(pse);
                if let Some(selected) = hint {
                    let preempts = self.preempt_sync(cpu, se, pse, selected);
                    let by = if preempts { WakeupRule::SyncBuddy } else { WakeupRule::WaitsForWaker };
                    self.explain_wakeup(cpu, woken, preempts, by);
                    return preempts.then_some(true);
                }
            }
        }
        let contest = Contest { picked: self.pick_not_delayed(cpu, cfs, !shorter), shorter };
        self.explain_contest(cpu, woken, [se, pse], contest);
        let eligible = || self.rules.eligible_short_slice_preempts && shorter && self.entity_eligible(cfs, pse);
        let preempts = contest.is_won_by(pse) || eligible();
        if !preempts {
            self.limit_protection(se);
            return Some(false);
        }
        if shorter || self.rules.eligible_short_slice_preempts {
            self.cancel_protect_slice(se);
        }
        if shorter && self.rules.short_slice_is_buddy {
            self.set_short_buddy(cfs, pse);
        } else if shorter && self.rules.preemption_clears_buddies {
            self.clear_buddies(cfs, se);
        }
        Some(true)
    }

    /// The end of a wake-up that does not preempt: a shorter slice that came ends protection that much earlier.
    fn limit_protection(&mut self, se: EntityId) {
        if self.rules.tunables.features.run_to_parity {
            self.update_protect_slice(self.timeline_queue(se), se);
        }
    }

    /// `set_short_buddy` (8f97b627ff1c, 7.3).
    fn set_short_buddy(&mut self, cfs: CfsRqId, pse: EntityId) {
        let slice = |se: EntityId| self.entities[se.index()].slice;
        let shorter = self.cfs_rqs[cfs.index()].next.is_some_and(|next| slice(next) < slice(pse));
        if !shorter {
            self.set_next_buddy(pse);
        }
    }

    /// `preempt_sync`: whether a buddy with an earlier deadline preempts at once. The waker must have been charged `migration_cost` ago, or
    /// a quarter of it (`WF_RQ_SELECTED`). As it was charged just before, that is so only where this threshold is 0.
    fn preempt_sync(&self, cpu: CpuId, se: EntityId, pse: EntityId, selected: bool) -> bool {
        let cost = self.rules.tunables.migration_cost.as_nanos();
        let threshold = if selected { cost >> 2 } else { cost };
        let (running, woken) = (&self.entities[se.index()], &self.entities[pse.index()]);
        let since = (self.rqs[cpu.index()].clock_task.wrapping_sub(running.exec_start) as i64).max(0) as u64;
        woken.deadline.before(running.deadline) && since >= threshold
    }

    /// `pick_next_entity`, repeated while it picks a delayed entity, which it dequeues.
    fn pick_not_delayed(&mut self, cpu: CpuId, cfs: CfsRqId, protect: bool) -> Option<Picked> {
        loop {
            let best = self.pick_eevdf(cfs, protect)?;
            let entity = &self.entities[best.se.index()];
            if !entity.sched_delayed {
                return Some(best);
            }
            match entity.my_q {
                Some(_) => {
                    self.dequeue_entities(best.se, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED), 0);
                }
                None => self.dequeue_delayed(cpu, entity.task),
            }
        }
    }

    /// What would be picked now that `pse` woke beside `se`; a shorter slice lifts the protection of `se` (PREEMPT_SHORT), since 9de74a9850b9
    /// (6.17) only if it is what is picked then ([`RuleSet::shorter_slice_must_be_picked`](schedlab_model::RuleSet)).
    pub(crate) fn becomes_first(&mut self, se: EntityId, pse: EntityId) -> Contest {
        let cfs = self.timeline_queue(se);
        self.update_curr_cfs(self.entities[se.index()].cfs_rq);
        let shorter = self.rules.tunables.features.preempt_short
            && self.entities[pse.index()].slice < self.entities[se.index()].slice;
        if !self.rules.shorter_slice_must_be_picked {
            if shorter && self.do_preempt_short(cfs, se, pse) {
                self.cancel_protect_slice(se);
            }
            return Contest { picked: self.pick_eevdf(cfs, true), shorter };
        }
        let contest = Contest { picked: self.pick_eevdf(cfs, !shorter), shorter };
        if shorter && contest.is_won_by(pse) {
            self.cancel_protect_slice(se);
        } else if shorter && self.rules.protects_for_time && self.rules.tunables.features.run_to_parity {
            self.update_protect_slice(cfs, se);
        }
        contest
    }

    /// Tells why the waking entity preempts or not.
    fn explain_contest(&mut self, cpu: CpuId, woken: TaskId, [se, pse]: [EntityId; 2], contest: Contest) {
        let cfs = self.timeline_queue(se);
        self.explain(cpu, move |sched| {
            let lifts = contest.shorter && sched.rules.eligible_short_slice_preempts;
            let preempts = contest.is_won_by(pse) || (lifts && sched.entity_eligible(cfs, pse));
            let by = match contest.picked {
                _ if preempts && contest.shorter => WakeupRule::ShorterSlice,
                Some(picked) if !preempts => WakeupRule::NotPicked(sched.passed_over(cfs, picked, pse)),
                _ => WakeupRule::Picked,
            };
            Reason::WakeupPreempt { woken, current: sched.rqs[cpu.index()].curr, preempts, by }
        });
    }

    /// `do_preempt_short` (6.12), for a shorter slice: eligible, and due earlier or the running one is not eligible.
    fn do_preempt_short(&self, cfs: CfsRqId, se: EntityId, pse: EntityId) -> bool {
        let (deadline, woken) = (self.entities[se.index()].deadline, self.entities[pse.index()].deadline);
        self.entity_eligible(cfs, pse) && (woken.before(deadline) || !self.entity_eligible(cfs, se))
    }
}
