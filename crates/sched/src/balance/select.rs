//! `select_task_rq` (`kernel/sched/core.c`) and `select_task_rq_fair` (`kernel/sched/fair.c`): the CPU for a waking or new task.

use schedlab_model::{AffineRule, CpuId, Reason, SelectRule, Target, TaskId, Topology};

use crate::balance::WakeKind;
use crate::balance::domains::{DomainFlags, Domains};
use crate::balance::state::{Balance, CpuState, Migration, TaskList, Wakes};
use crate::bitmap::Bitmap;
use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;

/// The CPU that was chosen, with the rule that decided and from where the search started.
#[derive(Debug, Clone, Copy)]
struct Selected {
    cpu: CpuId,
    by: SelectRule,
    target: Option<Target>,
}

impl Selected {
    const fn by(cpu: CpuId, by: SelectRule) -> Self {
        Self { cpu, by, target: None }
    }
}

/// All of a CPU (`SCHED_CAPACITY_SCALE`).
const CAPACITY: u64 = 1024;

impl<D: Decider> Sched<D> {
    /// From now on tasks are placed and load is balanced as the kernel does it on a machine of this topology; load averages are
    /// kept, as that asks for them. Without this, and on 2.6.24, whose balancing is not modelled, any idle CPU will do.
    ///
    /// Looking at one CPU costs `search_cost` nanoseconds, which bounds how far is looked. `seed` is that of the draws by which the
    /// kernel skips newly idle balancing (NI_RANDOM).
    pub fn set_topology(&mut self, topology: &Topology, search_cost: u64, seed: u64) {
        if !self.rules.models_balancing || self.rqs.len() == 1 {
            return;
        }
        let cpus = self.rqs.len();
        let domains = Domains::build(&self.rules, topology, &Bitmap::full(cpus), cpus as u32);
        self.balance = Balance::new(domains, cpus);
        let state = CpuState::new(self.rules.tunables.migration_cost.as_nanos());
        for rq in self.rqs.iter_mut() {
            (rq.balance, rq.cfs_tasks) = (state.clone(), TaskList::EMPTY);
        }
        (self.balance.search_cost, self.balance.random) = (search_cost, seed);
        self.set_intervals(cpus - 1);
        self.balance.other_classes = self.tasks.iter().any(|task| task.class < Class::Fair);
        for task in 0..self.tasks.len() {
            self.remember_task(TaskId(task as u32), self.tasks[task].cpu);
        }
        self.track_load();
    }

    /// CPUs went on or off line: domains are those of the ones that are left (`partition_sched_domains`). `starts` is the one that came.
    pub(crate) fn rebuild_domains(&mut self, starts: Option<CpuId>) {
        if !self.balance.on() {
            return;
        }
        let cpus = self.rqs.len();
        let mut active = Bitmap::full(cpus);
        if let Some(offline) = &self.offline {
            active.subtract(offline);
        }
        let balance = &mut self.balance;
        let mut domains = Domains::build(&self.rules, &balance.domains.topology, &active, cpus as u32);
        let now = balance.now / self.rules.tick;
        for cpu in active.iter() {
            domains.cpus[cpu]
                .levels
                .iter_mut()
                .for_each(|domain| (domain.last_balance, domain.last_decay) = (now, now));
            if let Some(shared) = domains.cpus[cpu].shared.filter(|_| !self.rqs[cpu].balance.tick_stopped) {
                domains.shared[shared as usize].nr_busy_cpus += 1;
            }
        }
        balance.domains = domains;
        let others = self.balance.domains.active.count() as usize - usize::from(starts.is_some());
        self.set_intervals(others);
    }

    /// Times in ticks that are asked for often. `update_max_interval` counts the CPUs that are on line as one starts (`sched_rq_cpu_starting`), which
    /// is none of them yet, or as one is gone; a machine's first CPU keeps what that was before, HZ / 10.
    fn set_intervals(&mut self, counted: usize) {
        let (second, hz) = (self.rules.jiffies_of(1000), 1_000_000_000 / self.rules.tick);
        let balance = &mut self.balance;
        (balance.second, balance.hz, balance.max_interval) = (second, hz, (hz * counted.max(1) as u64 / 10).max(1));
        for cpu in 0..self.rqs.len() {
            self.note_newidle(CpuId(cpu as u32));
        }
    }

    /// Whether placement and balancing follow the kernel's rules ([`Sched::set_topology`]).
    #[inline]
    pub fn balances(&self) -> bool {
        self.balance.on()
    }

    /// The time on all CPUs, for drivers whose CPUs share one clock: the rules read it where the kernel updates a queue's clock
    /// during a sequence (`update_rq_clock` while load is balanced).
    #[inline]
    pub fn set_machine_clock(&mut self, now: schedlab_model::Time) {
        let (now, tick) = (now.as_nanos(), self.rules.tick);
        self.balance.now = now;
        let (number, began) = &mut self.balance.jiffy;
        // Mostly the time has hardly moved, and need not be divided.
        if now.wrapping_sub(*began) >= tick {
            *number = self.rules.in_ticks.quotient(now);
            *began = *number * tick;
        }
    }

    /// [`Sched::set_machine_clock`] for a time in the same jiffy as the time set last.
    #[inline(always)]
    pub fn set_machine_clock_within_jiffy(&mut self, now: schedlab_model::Time) {
        debug_assert!(now.as_nanos().wrapping_sub(self.balance.jiffy.1) < self.rules.tick);
        self.balance.now = now.as_nanos();
    }

    /// When the jiffy ends of the time that was set last.
    pub fn next_jiffy(&self) -> schedlab_model::Time {
        schedlab_model::Time::from_nanos(self.balance.jiffy.1.saturating_add(self.rules.tick))
    }

    /// `update_rq_clock` within a sequence that began on another queue.
    pub(crate) fn update_rq_clock(&mut self, cpu: CpuId) {
        if self.balance.recorded {
            return;
        }
        let (rq, now) = (&mut self.rqs[cpu.index()], self.balance.now);
        (rq.clock, rq.clock_task) = (rq.clock.max(now), rq.clock_task.max(now));
        rq.clock_pelt = rq.clock_pelt.max(now + self.pelt_origin);
    }

    /// `jiffies`, by a CPU's clock.
    #[inline]
    pub(crate) fn jiffies(&self, cpu: CpuId) -> u64 {
        let (clock, (number, began)) = (self.rqs[cpu.index()].clock.max(self.balance.now), self.balance.jiffy);
        if clock.wrapping_sub(began) < self.rules.tick { number } else { clock / self.rules.tick }
    }

    /// What was moved since this was last asked, in order, by whatever the rules did: the driver brings its own books up to date.
    pub fn take_migrations(&mut self) -> Vec<Migration> {
        std::mem::take(&mut self.balance.migrations)
    }

    /// The same into a vector that is emptied first, whose memory is used for what is moved next.
    #[inline]
    pub fn take_migrations_into(&mut self, moves: &mut Vec<Migration>) {
        moves.clear();
        std::mem::swap(&mut self.balance.migrations, moves);
    }

    /// Whether [`Sched::take_migrations`] would give anything.
    #[inline]
    pub fn has_migrations(&self) -> bool {
        !self.balance.migrations.is_empty()
    }

    /// CPUs that were told to schedule, or whose running task was charged, in sequences that began on other CPUs, since this was
    /// last asked.
    pub fn take_touched(&mut self) -> Vec<CpuId> {
        std::mem::take(&mut self.balance.touched)
    }

    /// Whether [`Sched::take_touched`] would give anything.
    #[inline]
    pub fn has_touched(&self) -> bool {
        !self.balance.touched.is_empty()
    }

    /// How many CPUs were looked at since this was last asked, in searches for idle CPUs and for work.
    pub fn take_looked_at(&mut self) -> u64 {
        let looked_at = std::mem::take(&mut self.balance.looked_at);
        self.balance.looked_at_in_all += looked_at;
        looked_at
    }

    /// `select_task_rq`: the CPU for a waking or new task. Queues nothing: give the chosen queue its clocks, then wake the task there.
    pub fn select_task_rq(&mut self, task: TaskId, waker_cpu: CpuId, why: WakeKind) -> CpuId {
        self.select_task_rq_from(task, self.tasks[task.index()].cpu, waker_cpu, why)
    }

    /// [`Sched::select_task_rq`] for a task that is to be woken as if it had run on `previous` (`wake_cpu`): work queues ask for that.
    pub fn select_task_rq_from(&mut self, task: TaskId, previous: CpuId, waker_cpu: CpuId, why: WakeKind) -> CpuId {
        self.mend_affinity(task);
        let record = &self.tasks[task.index()];
        let class = record.class;
        let choice = self.rqs.len() > 1 && record.affinity.as_ref().is_none_or(|allowed| allowed.count() > 1);
        let delayed = self.entities[record.se.index()].sched_delayed;
        let sync = why == WakeKind::Wakeup { sync: true };
        self.balance.sync_wakeup = sync.then_some((task, choice && !delayed));
        if delayed {
            // It is queued still; ttwu_runnable wakes it there.
            let chosen = record.cpu;
            self.explain_select(task, previous, waker_cpu, Selected::by(chosen, SelectRule::StillQueued));
            return chosen;
        }
        let ours = if self.rqs.len() == 1 {
            Selected::by(previous, SelectRule::OnlyOne)
        } else if !self.balance.on() || class == Class::Custom {
            Selected::by(self.select_simply(task, waker_cpu, why), SelectRule::NotModelled)
        } else {
            self.remember_task(task, previous);
            if why == WakeKind::Fork {
                self.tasks[task.index()].balance.recent_used_cpu = previous;
            }
            let allowed = self.tasks[task.index()].affinity.as_ref();
            let chosen = match allowed {
                // cpumask_any
                Some(allowed) if allowed.count() == 1 => {
                    let only = CpuId(allowed.first().unwrap_or(previous.index()) as u32);
                    Selected::by(only, SelectRule::OnlyOne)
                }
                _ if class == Class::Fair => self.select_task_rq_fair(task, previous, waker_cpu, why),
                _ if class == Class::Rt => {
                    Selected::by(self.select_task_rq_rt(task, waker_cpu, why), SelectRule::OtherClass)
                }
                _ => Selected::by(self.select_task_rq_dl(task, waker_cpu, why), SelectRule::OtherClass),
            };
            if self.tasks[task.index()].may_run_on(chosen.cpu) && self.is_online(chosen.cpu) {
                chosen
            } else {
                Selected::by(self.select_fallback_rq(task), SelectRule::Fallback)
            }
        };
        self.explain_select(task, previous, waker_cpu, ours);
        self.decider.select_cpu(task, ours.cpu)
    }

    #[inline(always)]
    fn explain_select(&mut self, task: TaskId, previous: CpuId, waker_cpu: CpuId, selected: Selected) {
        let Selected { cpu: chosen, by, target } = selected;
        self.explain(waker_cpu, move |_| Reason::Select { task, previous, chosen, target, by });
    }

    /// `select_task_rq_fair` (`kernel/sched/fair.c`): a waking task comes in near its previous CPU or its waker's, whichever `wake_affine`
    /// chooses, on an idle CPU that shares that one's cache ([`Sched::select_idle_sibling`]); a forked one, or one that executes another
    /// program, on the idlest CPU of the largest domain that balances then. Why a CPU is selected is told by wake-up flags since
    /// 3aef1551e942 (5.11).
    fn select_task_rq_fair(&mut self, task: TaskId, previous: CpuId, cpu: CpuId, why: WakeKind) -> Selected {
        let (flag, sync, wakes) = match why {
            WakeKind::Fork => (DomainFlags::BALANCE_FORK, false, false),
            WakeKind::Exec => (DomainFlags::BALANCE_EXEC, false, false),
            WakeKind::Wakeup { sync } => (DomainFlags(0), sync, true),
        };
        let mut wants_affine = false;
        if wakes {
            self.record_wakee(task, cpu);
            wants_affine = !self.wake_wide(task, cpu) && self.tasks[task.index()].may_run_on(cpu);
        }
        let far = if wants_affine { AffineRule::NoCommonDomain } else { AffineRule::NotAffine };
        let mut target = Target { cpu: previous, by: far };
        let mut slow = None;
        for level in 0..self.balance.domains.cpus[cpu.index()].levels.len() {
            let shape = &self.balance.domains.cpus[cpu.index()].levels[level].shape;
            if wants_affine && shape.flags.has(DomainFlags::WAKE_AFFINE) && shape.span.contains(previous.index()) {
                let imbalance_pct = shape.imbalance_pct;
                target.by = AffineRule::Same;
                if cpu != previous {
                    target = self.wake_affine(imbalance_pct, task, cpu, previous, sync);
                }
                slow = None;
                break;
            }
            if !wakes && shape.flags.has(flag) {
                slow = Some(level);
            } else if !wants_affine {
                break;
            }
        }
        if let Some(level) = slow {
            let chosen = self.sched_balance_find_dst_cpu(level, task, cpu, previous, flag);
            let by = if chosen == cpu { SelectRule::NoIdlerGroup } else { SelectRule::Idlest };
            return Selected::by(chosen, by);
        }
        if !wakes {
            return Selected::by(target.cpu, SelectRule::NoIdlerGroup);
        }
        let (chosen, by) = self.select_idle_sibling(task, previous, target.cpu, cpu);
        let current = self.rqs[cpu.index()].curr;
        if wants_affine && !self.rules.recent_cpu_is_previous && current != TaskId::IDLE {
            self.remember_task(current, cpu);
            self.tasks[current.index()].balance.recent_used_cpu = cpu;
        }
        let selected = Selected { cpu: chosen, by, target: Some(target) };
        if self.rules.tunables.features.vcpu_pack { self.pack(task, selected, cpu) } else { selected }
    }

    /// VCPU_PACK: the waker's CPU in place of an idle one, if the task has room there.
    fn pack(&self, task: TaskId, selected: Selected, this: CpuId) -> Selected {
        let rouses = selected.cpu != this && self.available_idle_cpu(selected.cpu);
        let packs = rouses && self.has_room(task, this);
        if packs { Selected { cpu: this, by: SelectRule::Packed, ..selected } } else { selected }
    }

    /// At most one task runs on the CPU, and with the woken one it uses less than two thirds of it (`vcpu_pack_room`).
    fn has_room(&self, task: TaskId, cpu: CpuId) -> bool {
        let record = &self.tasks[task.index()];
        // A sleeper is counted among those of the CPU that it ran on last.
        let own = if record.cpu == cpu { 0 } else { self.entity_avg(record.se).util_avg };
        let used = self.root_avg(cpu).util_avg + own;
        self.nr_awake(cpu) <= 1 && 3 * used < 2 * CAPACITY && record.may_run_on(cpu)
    }

    /// How many others a task woke lately, the past halved once a second (`wakee_flips`); none where balancing is not modelled.
    pub fn wakee_flips(&self, task: TaskId) -> Option<u32> {
        self.balance_of_task(task).map(|state| state.wakes.flips)
    }

    /// The record of wake-ups of the waker: the current task, or the CPU's interrupts while it idles.
    fn waker(&mut self, cpu: CpuId) -> &mut Wakes {
        match self.rqs[cpu.index()].curr {
            TaskId::IDLE => &mut self.rqs[cpu.index()].balance.wakes,
            current => {
                self.remember_task(current, cpu);
                &mut self.tasks[current.index()].balance.wakes
            }
        }
    }

    /// `record_wakee`: how often the waker wakes another task than last time, the past halved once a second.
    pub(crate) fn record_wakee(&mut self, task: TaskId, cpu: CpuId) {
        let (now, second) = (self.jiffies(cpu), self.balance.hz);
        self.waker(cpu).record(task, now, second);
    }

    /// `wake_wide`: waker and wakee both wake so many others that they are better spread than kept close.
    fn wake_wide(&mut self, task: TaskId, cpu: CpuId) -> bool {
        let (waker, wakee) = (self.waker(cpu).flips, self.tasks[task.index()].balance.wakes.flips);
        let factor = self.balance.domains.cpus[cpu.index()].llc_size;
        let (master, slave) = (waker.max(wakee), waker.min(wakee));
        slave >= factor && master >= slave.saturating_mul(factor)
    }

    /// `available_idle_cpu`.
    #[inline]
    pub(crate) fn available_idle_cpu(&self, cpu: CpuId) -> bool {
        self.idle_cpus.contains(cpu.index())
    }

    /// `sched_idle_cpu`: only SCHED_IDLE tasks are there.
    #[inline]
    pub(crate) fn sched_idle_cpu(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.index()];
        rq.nr_running > 0 && rq.nr_running == self.cfs_rqs[rq.cfs.index()].idle_h_nr_running
    }

    /// `choose_idle_cpu` (7.2): as good as idle for the task. Before, SCHED_IDLE tasks were no worse off beside their like.
    #[inline]
    pub(crate) fn choose_idle_cpu(&self, cpu: CpuId, task: TaskId) -> bool {
        self.available_idle_cpu(cpu)
            || (self.sched_idle_cpu(cpu)
                && (!self.rules.idle_tasks_avoid_their_like || !self.tasks[task.index()].has_idle_policy()))
    }

    /// `wake_affine`: the waker's CPU or the last one.
    fn wake_affine(&self, imbalance_pct: u64, task: TaskId, this: CpuId, previous: CpuId, sync: bool) -> Target {
        let features = &self.rules.tunables.features;
        if features.wa_idle
            && let Some(target) = self.wake_affine_idle(this, previous, sync)
        {
            return target;
        }
        let has_less_load = features.wa_weight && self.wake_affine_weight(imbalance_pct, task, this, previous, sync);
        let (cpu, by) = if has_less_load { (this, AffineRule::LessLoad) } else { (previous, AffineRule::NoLessLoad) };
        Target { cpu, by }
    }

    /// `wake_affine_idle`: by who idles now, or is about to.
    fn wake_affine_idle(&self, this: CpuId, previous: CpuId, sync: bool) -> Option<Target> {
        let previous_idles = self.available_idle_cpu(previous);
        let (cpu, by) = if self.available_idle_cpu(this) && self.balance.domains.share_cache(this, previous) {
            if previous_idles { (previous, AffineRule::BothIdle) } else { (this, AffineRule::WakerIdle) }
        } else if sync && self.nr_awake(this) == 1 {
            (this, AffineRule::Sync)
        } else if previous_idles {
            (previous, AffineRule::PreviousIdle)
        } else {
            return None;
        };
        Some(Target { cpu, by })
    }

    /// `nr_running` without delayed tasks.
    pub fn nr_awake(&self, cpu: CpuId) -> u32 {
        // cfs_h_nr_delayed
        self.rqs[cpu.index()].nr_running.wrapping_sub(self.cfs_rq(cpu).h_nr_delayed)
    }

    /// `wake_affine_weight`: whether the waker's CPU has less load: by averages, each as the other CPU's capacity allows, with a bias for the last one.
    fn wake_affine_weight(&self, imbalance_pct: u64, task: TaskId, this: CpuId, previous: CpuId, sync: bool) -> bool {
        let mut this_load = self.cpu_load(this) as i64;
        if sync {
            let current = self.rqs[this.index()].curr;
            let load = if current == TaskId::IDLE { 0 } else { self.task_h_load(current) as i64 };
            if load > this_load {
                return true;
            }
            this_load -= load;
        }
        let task_load = self.task_h_load(task) as i64;
        let mut previous_load = self.cpu_load(previous) as i64 - task_load;
        this_load += task_load;
        if self.rules.tunables.features.wa_bias {
            this_load *= 100;
            previous_load = previous_load.wrapping_mul(100 + (imbalance_pct as i64 - 100) / 2);
        }
        this_load = this_load.wrapping_mul(self.rqs[previous.index()].balance.capacity as i64);
        previous_load = previous_load.wrapping_mul(self.rqs[this.index()].balance.capacity as i64);
        if sync {
            previous_load += 1;
        }
        this_load < previous_load
    }
}
