//! Wake-ups by timers on flat queues.

use std::hint::select_unpredictable;

use schedlab_model::{CpuId, TaskId};

use crate::balance::WakeKind;
use crate::balance::state::{Balance, TaskList};
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Life, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::queue_load::attach_at_once;
use crate::fair::pelt::rounding::Sums;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Rq;

/// A sleeper that is to wake, and the CPU that was selected for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    task: TaskId,
    cpu: CpuId,
}

impl Wakeup {
    /// The CPU that was chosen.
    #[inline(always)]
    pub const fn cpu(self) -> CpuId {
        self.cpu
    }

    #[inline(always)]
    pub(super) const fn task(self) -> TaskId {
        self.task
    }

    #[cfg(test)]
    pub(super) const fn of(task: TaskId, cpu: CpuId) -> Self {
        Self { task, cpu }
    }
}

/// Has the CPU load a cache line of a record, where it knows such an instruction.
#[inline(always)]
fn prefetch<T>(table: &[T], number: usize, line: usize) {
    let address = table.as_ptr().wrapping_add(number).cast::<i8>().wrapping_add(64 * line);
    // SAFETY: `_mm_prefetch` needs SSE, which every x86-64 has. It reads no memory as far as the program can tell, and faults at no address
    // (Intel SDM, PREFETCHh), so that the address, made by `wrapping_add`, need not be within the table.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl Sched<Ours> {
    /// Has what a wake-up of the task touches come into the cache while something else is done: it slept, and others pushed that out. Nothing
    /// changes, and there need not be such a task.
    #[inline(always)]
    pub fn prefetch(&self, task: TaskId) {
        prefetch(&self.tasks, task.index(), 0);
        // All cache lines but the second.
        prefetch(&self.entities, task.index(), 0);
        prefetch(&self.entities, task.index(), 2);
        prefetch(&self.entities, task.index(), 3);
    }

    /// [`Sched::select_task_rq`] of a sleeper that an interrupt on its last CPU wakes: it stays there if that CPU idles.
    ///
    /// With the waker's CPU and the last one the same there is nothing to choose between (`wake_affine`), and so whether both wake many
    /// others (`wake_wide`), or from how far around (the loop over domains), does not matter. 5.10 asks on the way whether it would.
    #[inline(always)]
    pub fn flat_select<const EEVDF: bool>(&mut self, task: TaskId) -> Wakeup {
        let previous = self.tasks[task.index()].cpu;
        Wakeup { task, cpu: self.flat_select_from::<EEVDF>(task, previous) }
    }

    /// [`Sched::select_task_rq`] for a sleeper whose last CPU is known.
    #[inline(always)]
    fn flat_select_from<const EEVDF: bool>(&mut self, task: TaskId, previous: CpuId) -> CpuId {
        if !EEVDF && !self.rules.scans_idle_cpus_once {
            return self.select_task_rq(task, previous, WakeKind::Wakeup { sync: false });
        }
        self.balance.sync_wakeup = None;
        let rq = known!(self.rqs[previous.index()]);
        let idles = rq.curr == TaskId::IDLE && rq.nr_running == 0;
        // An idle CPU has no delayed tasks.
        if EEVDF && !idles && known!(self.entities[known!(self.tasks[task.index()]).se.index()]).sched_delayed {
            return previous;
        }
        // record_wakee, for the interrupts of an idle CPU or for the interrupted task. Balancing knows both, as a CPU was once chosen for
        // them.
        debug_assert_eq!(self.balance.jiffy.0, self.jiffies(previous));
        let Self { rqs, tasks, balance, .. } = self;
        let rq = known!(mut rqs[previous.index()]);
        let (now, second, curr) = (balance.jiffy.0, balance.hz, rq.curr);
        debug_assert_eq!(idles, self.idle_cpus.contains(previous.index()));
        if curr == TaskId::IDLE {
            rq.balance.wakes.record(task, now, second);
        } else {
            known!(mut tasks[curr.index()]).balance.wakes.record(task, now, second);
        }
        if idles { previous } else { self.flat_select_sibling(task, previous) }
    }

    /// [`Sched::select_idle_sibling`] of a task whose last CPU is busy, and is the one that was chosen, without threads of cores and limits of cost
    /// (SIS_PROP): the order of idle CPUs follows from the bits of both sets at once, and how many were looked at from the numbers
    /// of CPUs, which are without gaps. No task is SCHED_IDLE, and all may run anywhere.
    #[inline(always)]
    fn flat_select_sibling(&mut self, task: TaskId, previous: CpuId) -> CpuId {
        let features = &self.rules.tunables.features;
        let Balance { domains, looked_at, .. } = &mut self.balance;
        let place = &domains.cpus[previous.index()];
        let (span, weight) = (place.plain_llc, place.llc_size);
        let Some(idle) = self.idle_cpus.only_word().filter(|_| span != 0 && !features.sis_prop) else {
            return self.flat_select_anyhow(task, previous);
        };
        let mut limit = u32::MAX;
        if features.sis_util
            && let Some(shared) = place.shared
        {
            limit = domains.shared[shared as usize].nr_idle_scan.saturating_add(1);
        }
        // The outcome is as good as random, so nothing here is a branch. The CPU itself is busy, and so not among them.
        let free = span & idle;
        let recent = std::mem::replace(&mut known!(mut self.tasks[task.index()]).balance.recent_used_cpu, previous);
        let recent_idles = free >> recent.0 & 1 == 1;
        // From the next CPU on, around, to the CPU itself: 64 places away is itself too.
        let distance = free.rotate_right(previous.0).trailing_zeros();
        let first = (previous.0 + distance) & 63;
        let looked = select_unpredictable(first > previous.0, distance, weight + first - previous.0);
        *looked_at += select_unpredictable(recent_idles || limit == 1, 0, u64::from(looked.min(limit)));
        let found = select_unpredictable(looked < limit, CpuId(first), previous);
        select_unpredictable(recent_idles, recent, found)
    }

    /// The same on any machine.
    #[inline(never)]
    fn flat_select_anyhow(&mut self, task: TaskId, previous: CpuId) -> CpuId {
        self.select_idle_sibling(task, previous, previous, previous).0
    }

    /// [`Sched::try_to_wake_up`] of a sleeper; and, where the CPU idles and reschedules `at_once`, [`Sched::schedule`], which switches to
    /// the task: true then. The CPU gets its clocks, those of the machine ([`Sched::set_machine_clock`]).
    ///
    /// Alone on its queue it need not be put into the timeline to be taken out again, and is the one that is picked. `IDLES`: the CPU is known to
    /// idle, with no task on its queue.
    #[inline(always)]
    pub fn flat_wake<const EEVDF: bool, const IDLES: bool>(&mut self, wakeup: Wakeup, at_once: bool) -> bool {
        debug_assert_eq!(EEVDF, self.rules.eevdf);
        assert!(self.owns(wakeup), "a wake-up of another machine");
        if self.has_groups() {
            self.group_wake_apart::<EEVDF>(wakeup);
            return false;
        }
        let Wakeup { task, cpu } = wakeup;
        if EEVDF && known!(self.entities[task.index()]).sched_delayed {
            self.flat_wake_delayed(task, cpu);
            return false;
        }
        let migrated = self.flat_begin_wake::<EEVDF>(task, cpu);
        self.flat_wake_idle::<EEVDF, IDLES>(task, cpu, migrated, at_once).unwrap_or_else(|| {
            self.flat_wake_busy_after_all(task, cpu, migrated);
            false
        })
    }

    /// Whether there are such a task and such a CPU: a wake-up may be handed to another machine than the one that made it.
    #[inline(always)]
    pub(super) fn owns(&self, wakeup: Wakeup) -> bool {
        wakeup.task.index() < self.tasks.len() && wakeup.cpu.index() < self.rqs.len()
    }

    /// [`Sched::flat_wake`] of a delayed task.
    #[inline(never)]
    fn flat_wake_delayed(&mut self, task: TaskId, cpu: CpuId) {
        self.rqs[cpu.index()].set_clocks_at(self.balance.now, self.pelt_origin);
        let woken = self.try_to_wake_up(task, cpu);
        debug_assert!(woken, "a task that sleeps");
    }

    /// [`Sched::flat_wake`] of a task that is to wait: mostly the CPU is busy.
    #[inline(never)]
    pub fn flat_wake_later<const EEVDF: bool>(&mut self, wakeup: Wakeup) {
        assert!(self.owns(wakeup), "a wake-up of another machine");
        if self.has_groups() {
            return self.group_wake::<EEVDF>(wakeup);
        }
        let Wakeup { task, cpu } = wakeup;
        if EEVDF && known!(self.entities[task.index()]).sched_delayed {
            return self.flat_wake_delayed(task, cpu);
        }
        let migrated = self.flat_begin_wake::<EEVDF>(task, cpu);
        let rq = known!(mut self.rqs[cpu.index()]);
        if rq.curr == TaskId::IDLE && rq.nr_running == 0 {
            return self.flat_wake_idle_later::<EEVDF>(task, cpu, migrated);
        }
        rq.set_clocks_at(self.balance.now, self.pelt_origin);
        if EEVDF {
            self.flat_wake_busy_eevdf(task, cpu, migrated);
        } else {
            self.flat_wake_busy(task, cpu, migrated);
        }
    }

    /// [`Sched::flat_wake_later`] on a CPU without tasks.
    #[cold]
    fn flat_wake_idle_later<const EEVDF: bool>(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let runs = self.flat_wake_idle::<EEVDF, true>(task, cpu, migrated, false);
        debug_assert_eq!(runs, Some(false), "the CPU is to schedule first");
    }

    /// [`Sched::flat_wake_later`] of a task whose CPU was thought to be idle.
    #[cold]
    fn flat_wake_busy_after_all(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        if self.rules.eevdf {
            self.flat_wake_busy_eevdf(task, cpu, migrated);
        } else {
            self.flat_wake_busy(task, cpu, migrated);
        }
    }

    /// What a wake-up begins with: whether the task comes from another CPU.
    #[inline(always)]
    fn flat_begin_wake<const EEVDF: bool>(&mut self, task: TaskId, cpu: CpuId) -> bool {
        let record = known!(mut self.tasks[task.index()]);
        (record.life, record.beside) = (Life::Runnable, [TaskId::IDLE; 2]);
        let migrated = record.cpu != cpu;
        if migrated {
            let from = std::mem::replace(&mut record.cpu, cpu);
            self.flat_migrate::<EEVDF>(EntityId(task.0), from, cpu);
        }
        migrated
    }

    /// [`Sched::flat_wake`] on a busy CPU under CFS: `enqueue_entity`, and `check_preempt_wakeup` against the current task.
    #[inline(always)]
    fn flat_wake_busy(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let se = EntityId(task.0);
        let Self { rules, rqs, tasks, entities, cfs_rqs, balance, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cpu.index()]));
        rq.cfs_tasks.add(tasks, task);
        if let Some(curr) = queue.curr {
            queue.charge(known!(mut entities[curr.index()]), rq.clock_task, rules);
        }
        let entity = known!(mut entities[se.index()]);
        let weight = entity.load.scaled;
        queue.attach_woken::<false>(entity, rq.clock_pelt, rules);
        if migrated {
            entity.vruntime = entity.vruntime.plus(queue.min_vruntime.0);
        }
        rules.place_woken(entity, queue.min_vruntime, rq.clock_task);
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        let (placed, slice) = (entity.vruntime, entity.slice);
        entity.sequence = queue.timeline.insert(placed, placed, slice, se);
        balance.overload |= rq.count_woken::<false>(queue, weight, balance.jiffy.0, rules);
        let features = &rules.tunables.features;
        let Some(curr) = queue.curr else {
            // Another task woke just before, and the CPU is about to schedule.
            (rq.need_resched, rq.lazily) = (true, false);
            return;
        };
        let scale = rules.nominates_buddies(queue.nr_running);
        if features.next_buddy && scale {
            queue.next = Some(se);
        }
        if rq.need_resched || !features.wakeup_preemption {
            return;
        }
        let running = known!(entities[curr.index()]).vruntime;
        let margin = rules.wakeup_preempt_entity(running, known!(mut entities[se.index()]));
        if margin.is_some_and(|margin| margin > 0) {
            (rq.need_resched, rq.lazily) = (true, false);
            queue.next = Some(se);
            if features.last_buddy && scale && known!(entities[curr.index()]).on_rq {
                queue.last = Some(curr);
            }
        }
    }

    /// [`Sched::flat_wake`] on a CPU without tasks: all that is touched is looked up once. None, and nothing done but clocks set, if it has
    /// any.
    #[inline(always)]
    fn flat_wake_idle<const EEVDF: bool, const IDLES: bool>(
        &mut self,
        task: TaskId,
        cpu: CpuId,
        migrated: bool,
        at_once: bool,
    ) -> Option<bool> {
        let se = EntityId(task.0);
        let Self { rules, rqs, entities, cfs_rqs, dl_entities, balance, timers, idle_cpus, pelt_origin, .. } = self;
        let rq = known!(mut rqs[cpu.index()]);
        rq.set_clocks_at(balance.now, *pelt_origin);
        let idles = rq.curr == TaskId::IDLE && rq.nr_running == 0;
        debug_assert!(idles || !IDLES);
        if !IDLES && !idles {
            return None;
        }
        if EEVDF && rules.has_fair_server() && !dl_entities[cpu.index()].end_idle(rq, rules) {
            return self.flat_wake_first(task, cpu, migrated, at_once);
        }
        let (queue, entity) = (known!(mut cfs_rqs[cpu.index()]), known!(mut entities[se.index()]));
        rq.cfs_tasks = TaskList::alone(task);
        queue.attach_woken_alone::<EEVDF>(entity, rq.clock_pelt, rules);
        if !EEVDF {
            if migrated {
                entity.vruntime = entity.vruntime.plus(queue.min_vruntime.0);
            }
            rules.place_woken(entity, queue.min_vruntime, rq.clock_task);
        } else {
            debug_assert!(!entity.rel_deadline, "that is for those who move while they are queued");
            // V is where the queue stands, and no lag counts.
            entity.vruntime = queue.zero_vruntime;
            rules.place_deadline(entity, false);
        }
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        queue.load.add(entity.load.scaled);
        (queue.nr_running, queue.h_nr_running, rq.nr_running) = (1, 1, 1);
        idle_cpus.remove(cpu.index());
        // From 7.0 on the end of idling comes with the switch.
        if !EEVDF || !rules.avg_idle_at_end_of_idle {
            rq.balance.end_idle(rq.clock, balance.jiffy.0);
        }
        let due = || rq.dl.first().is_some() || timers.first().is_some_and(|(expires, _)| expires <= rq.clock);
        debug_assert!(EEVDF || !due(), "there are fair servers and their timers alone");
        // Where it is charged for idle time, that is done as the CPU schedules.
        let server = EEVDF && (due() || rules.server_charged_for_idle);
        if !at_once || server {
            (rq.need_resched, rq.lazily) = (true, false);
            self.timeline_insert(CfsRqId(cpu.0), se);
            return Some(false);
        }
        // The idle time was taken off the fair server's runtime when it started.
        (rq.curr, rq.need_resched, rq.lazily) = (task, false, false);
        // set_next_entity of an entity that is not in the timeline, and whose averages are up to date; with 6.12's set_protect_slice.
        debug_assert!(![queue.next, queue.last, queue.skip].contains(&Some(se)), "a sleeper is no buddy");
        queue.curr = Some(se);
        entity.begin_turn(rq.clock_task);
        if EEVDF {
            let slice = entity.slice;
            rules.set_protect_slice(entity, || slice);
        }
        Some(true)
    }

    /// `put_prev_task_idle` from 7.0 on: the fair server is charged for idle time, and that joins its average.
    pub(super) fn end_idle_by_switch(&mut self, cpu: CpuId) {
        self.update_curr_idle(cpu);
        if self.rules.avg_idle_at_end_of_idle {
            self.update_avg_idle(cpu);
        }
    }

    /// [`Sched::flat_wake_idle`] on a CPU whose fair server is not started: it is started now, and the rest is as if it had been.
    #[cold]
    fn flat_wake_first(&mut self, task: TaskId, cpu: CpuId, migrated: bool, at_once: bool) -> Option<bool> {
        self.first_fair_task(cpu);
        self.flat_wake_idle::<true, true>(task, cpu, migrated, at_once)
    }

    /// [`Sched::set_task_cpu`]: a sleeper's load leaves its queue when that next looks, and its virtual time becomes relative.
    #[inline(always)]
    fn flat_migrate<const EEVDF: bool>(&mut self, se: EntityId, from: CpuId, to: CpuId) {
        let (entity, queue) = (known!(mut self.entities[se.index()]), known!(mut self.cfs_rqs[from.index()]));
        if !EEVDF {
            entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
        }
        // remove_entity_load_avg
        if entity.leave_account_asleep(&mut queue.pelt) {
            let idle = known!(self.rqs[from.index()]).curr == TaskId::IDLE;
            if idle {
                self.migrate_se_pelt_lag(se);
            }
        }
        let entity = known!(mut self.entities[se.index()]);
        entity.pelt.avg.last_update_time = 0;
        entity.cfs_rq = CfsRqId(to.0);
    }
}

impl Rq {
    /// A task of this weight woke beside others: it is counted, and idle time ends. Whether the CPU has its second task (`add_nr_running`).
    #[inline(always)]
    pub(super) fn count_woken<const EEVDF: bool>(
        &mut self,
        queue: &mut CfsRq,
        weight: u64,
        now: u64,
        rules: &Rules,
    ) -> bool {
        queue.load.add(weight);
        queue.nr_running += 1;
        queue.h_nr_running += 1;
        self.nr_running += 1;
        if self.balance.idle_stamp.is_some() && !(EEVDF && rules.avg_idle_at_end_of_idle) {
            self.balance.end_idle(self.clock, now);
        }
        self.nr_running == 2
    }

    /// A task is queued no longer (`account_entity_dequeue`, `sub_nr_running`).
    #[inline(always)]
    pub(super) fn count_left(&mut self, queue: &mut CfsRq, entity: &mut Entity) {
        entity.on_rq = false;
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        queue.h_nr_running -= 1;
        self.nr_running -= 1;
    }
}

impl CfsRq {
    /// `update_curr` under CFS of the entity that runs on the queue, and is queued there.
    #[inline(always)]
    pub(super) fn charge(&mut self, running: &mut Entity, now: u64, rules: &Rules) {
        if running.update_se(now, rules).is_some() {
            self.update_min_vruntime(Some(running.vruntime));
        }
    }

    /// `util_est_enqueue`, and `update_load_avg` with DO_ATTACH, of a task that slept until now, and so neither ran nor could have.
    #[inline(always)]
    pub(super) fn attach_woken<const EEVDF: bool>(&mut self, entity: &mut Entity, clock_pelt: u64, rules: &Rules) {
        let now = self.pelt.flat_clock(clock_pelt);
        let attached = self.age_woken(entity, now);
        self.update_load_avg(now, Sums::of(rules));
        if !attached {
            // All series under CFS add in the same way.
            let sums = if EEVDF { Sums::of(rules) } else { Sums::Followed };
            attach_at_once(&mut self.pelt, &mut entity.pelt.avg, entity.load.down_of_tasks(), sums);
        }
    }

    /// [`CfsRq::attach_woken`] on a queue without tasks, which slept as well.
    #[inline(always)]
    fn attach_woken_alone<const EEVDF: bool>(&mut self, entity: &mut Entity, clock_pelt: u64, rules: &Rules) {
        debug_assert_eq!(self.load.scaled, 0);
        let now = self.pelt.flat_clock(clock_pelt);
        let attached = self.age_woken(entity, now);
        self.pelt.take_out(Sums::of(rules));
        if self.pelt.avg.age(now) {
            self.pelt.avg.update_avg(1);
        }
        if !attached {
            // All series under CFS add in the same way.
            let sums = if EEVDF { Sums::of(rules) } else { Sums::Followed };
            attach_at_once(&mut self.pelt, &mut entity.pelt.avg, entity.load.down_of_tasks(), sums);
        }
    }

    /// A sleeper's own averages; whether it is on the queue's account.
    #[inline(always)]
    fn age_woken(&mut self, entity: &mut Entity, now: u64) -> bool {
        let own = &mut entity.pelt;
        // The estimate follows once a period has ended.
        self.pelt.util_est += own.util_est.value() as u32;
        if own.avg.last_update_time == 0 {
            return false;
        }
        if own.avg.age(now) {
            own.avg.update_avg(entity.load.down_of_tasks());
            own.util_est.changed();
        }
        true
    }
}

impl Rules {
    /// [`Sched::place_entity`] of a sleeper that is not SCHED_IDLE.
    #[inline(always)]
    pub(super) fn place_woken(&self, entity: &mut Entity, min_vruntime: Vruntime, now: u64) {
        let start = min_vruntime.minus(self.sleeper_credit(false));
        entity.vruntime = self.place_no_earlier(entity, start, false, now);
    }
}
