//! `kernel/sched/core.c`: its sequences under their names, so that neither the engine nor replay re-invents them.

use std::ops::Range;

use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState, Time};

use crate::balance::state::{Balance, TaskMemory};
use crate::bitmap::Bitmap;
use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::custom::Custom;
use crate::deadline::DlEntity;
use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId, Life, TaskStruct, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::group::{GroupId, TaskGroup};
use crate::fair::weight::weight_of_nice;
use crate::process::Processes;
use crate::rt_bandwidth::RtBandwidth;
use crate::rules::Rules;
use crate::runqueue::{Clocks, Rq};
use crate::table::Table;
use crate::timers::Timers;

/// What [`Sched::schedule`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// Who ran.
    pub previous: TaskId,
    /// Who runs now; [`TaskId::IDLE`] if nobody can. A driver may then balance ([`Sched::newly_idle_balance`]) and schedule again.
    pub next: TaskId,
}

/// A period of load tracking, 1024 times 1024 ns.
const PELT_ORIGIN: u64 = 1 << 20;

/// Every run queue and every task of one machine.
///
/// Drive it in critical sections, as the kernel holds a queue's lock: [`Sched::set_clocks`] of the queue first, then one sequence.
#[derive(Debug, Clone)]
pub struct Sched<D: Decider> {
    pub(crate) rules: Rules,
    pub(crate) rqs: Table<Rq>,
    pub(crate) tasks: Table<TaskStruct>,
    /// Which tasks are threads of one process.
    pub(crate) processes: Processes,
    /// The policy in the fair class's place, if there is one.
    pub(crate) custom: Option<Custom>,
    /// CPUs on line, for weights that follow their number.
    pub(crate) online_cpus: u32,
    /// Which CPUs are off line, once one was.
    pub(crate) offline: Option<Box<Bitmap>>,
    pub(crate) entities: Table<Entity>,
    pub(crate) cfs_rqs: Table<CfsRq>,
    pub(crate) dl_entities: Vec<DlEntity>,
    /// `dl_bw.total_bw`: the bandwidth promised, of all CPUs together.
    pub(crate) dl_total_bw: u64,
    pub(crate) rt_bandwidth: RtBandwidth,
    pub(crate) timers: Timers,
    /// Task groups, the root's first.
    pub(crate) groups: Vec<TaskGroup>,
    /// What the PELT clocks show beyond what they are set to.
    pub(crate) pelt_origin: u64,
    /// Load averages are kept, as something depends on them.
    pub(crate) tracks_load: bool,
    /// Placement and balancing.
    pub(crate) balance: Balance,
    /// CPUs on which nothing runs and nothing waits.
    pub(crate) idle_cpus: Bitmap,
    /// The decision point.
    pub decider: D,
}

impl<D: Decider> Sched<D> {
    /// A machine of `cpus` idle CPUs without tasks.
    pub fn new(rules: Rules, cpus: u32, decider: D) -> Self {
        let runtime = rules.rt_runtime().unwrap_or(0);
        let mut sched = Self {
            rqs: Table::with_capacity(cpus as usize),
            tasks: Table::with_capacity(0),
            processes: Processes::default(),
            custom: None,
            online_cpus: cpus,
            offline: None,
            entities: Table::with_capacity(0),
            cfs_rqs: Table::with_capacity(cpus as usize),
            dl_entities: Vec::new(),
            dl_total_bw: rules.fair_server_bw() * u64::from(cpus),
            rt_bandwidth: RtBandwidth::default(),
            timers: Timers::default(),
            groups: vec![TaskGroup::new(GroupId::ROOT, 0)],
            pelt_origin: 0,
            tracks_load: false,
            balance: Balance::default(),
            idle_cpus: Bitmap::full(cpus as usize),
            decider,
            rules,
        };
        for cpu in 0..cpus {
            sched.cfs_rqs.push(CfsRq::new(CpuId(cpu)));
            sched.rqs.push(Rq::new(CfsRqId(cpu)));
            sched.rqs[cpu as usize].rt.budget.runtime = runtime;
        }
        sched.init_fair_servers(cpus);
        sched
    }

    /// The rules in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Gives a run queue its clocks (`update_rq_clock`), at the start of a critical section. They never go back.
    #[inline]
    pub fn set_clocks(&mut self, cpu: CpuId, clocks: Clocks) {
        let rq = &mut self.rqs[cpu.index()];
        rq.clock = clocks.clock.as_nanos();
        rq.clock_task = clocks.clock_task.as_nanos();
        rq.clock_pelt = clocks.clock_pelt.as_nanos() + self.pelt_origin;
    }

    /// What a run queue's clock was set to last.
    pub fn clock(&self, cpu: CpuId) -> Time {
        Time::from_nanos(self.rqs[cpu.index()].clock)
    }

    /// Has the PELT clocks show a period at time 0, where a machine starts with its tasks: a task whose averages reach up to 0 counts as
    /// one on no queue's account, and no clock of a kernel that has tasks shows that.
    pub fn start_pelt_clocks(&mut self) {
        self.pelt_origin = PELT_ORIGIN;
    }

    /// A first task, without a parent, in a process of its own. Start it with [`Sched::wake_up_new_task`]; it comes in at its queue's `min_vruntime`.
    pub fn new_task(&mut self, attributes: &Attributes) -> TaskId {
        let task = self.add_task(CpuId(0), None);
        self.apply_attributes(task, attributes);
        self.init_entity_runnable_average(self.tasks[task.index()].se);
        task
    }

    /// Makes room for the records of so many more tasks. Returns the addresses of the room for their entities and for the tasks themselves: the
    /// rules make no system calls, and whoever drives may have the memory prepared.
    ///
    /// ```
    /// use schedlab_model::Scheduler;
    /// use schedlab_sched::{Ours, Rules, Sched};
    /// let mut sched = Sched::new(Rules::new(&Scheduler::new("6.1".parse()?), 1)?, 1, Ours);
    /// assert!(sched.reserve_tasks(1_000).iter().all(|room| room.start < room.end));
    /// # Ok::<(), schedlab_model::ModelError>(())
    /// ```
    pub fn reserve_tasks(&mut self, additional: usize) -> [Range<*const u8>; 2] {
        [self.entities.reserve(additional), self.tasks.reserve(additional)]
    }

    pub(crate) fn add_task(&mut self, cpu: CpuId, process: Option<TaskId>) -> TaskId {
        let task = TaskId(self.tasks.len() as u32);
        let se = EntityId(self.entities.len() as u32);
        let load = weight_of_nice(&self.rules, Policy::Other, 0);
        let slice = self.rules.tunables.base_slice.as_nanos();
        self.entities.push(Entity::new(load, slice, self.rqs[cpu.index()].cfs, task));
        self.tasks.push(TaskStruct {
            se,
            class: self.class_of(Policy::Other),
            policy: Policy::Other,
            nice: 0,
            cpu,
            group: GroupId::ROOT,
            life: Life::New,
            dl: None,
            forked: false,
            throttle_work: false,
            throttled: false,
            time_slice: self.rules.rr_ticks,
            beside: [TaskId::IDLE; 2],
            balance: TaskMemory::NEW,
            affinity: None,
        });
        self.processes.add(process);
        task
    }

    /// `sched_fork`: a child of `parent` that inherits its attributes, on its CPU for now. The parent's queue must have its clocks.
    ///
    /// With `same_process` it is a further thread of its parent's process; where weights follow their number, the other threads'
    /// are the driver's to bring up to date ([`Sched::reweight_task`]).
    /// Ask whether it may fork first ([`Sched::may_fork`]).
    pub fn sched_fork(&mut self, parent: TaskId, same_process: bool) -> TaskId {
        let (policy, nice, class, cpu, affinity, parent_se) = {
            let parent = &self.tasks[parent.index()];
            (parent.policy, parent.nice, parent.class, parent.cpu, parent.affinity.clone(), parent.se)
        };
        let child = self.add_task(cpu, same_process.then_some(parent));
        // Where a deadline task may fork at all (sched_reset_on_fork), its child is not one.
        let (policy, class) = if class == Class::Deadline { (Policy::Other, Class::Fair) } else { (policy, class) };
        let record = &mut self.tasks[child.index()];
        (record.policy, record.nice, record.class, record.affinity) = (policy, nice, class, affinity);
        record.forked = true;
        let se = record.se;
        let (load, slice, custom_slice) = {
            let entity = &self.entities[parent_se.index()];
            (entity.load, entity.slice, entity.custom_slice)
        };
        let load = if self.rules.weights.is_none() { load } else { self.weight_of(child, policy, nice) };
        let entity = &mut self.entities[se.index()];
        (entity.load, entity.slice, entity.custom_slice) = (load, slice, custom_slice);
        self.tasks[child.index()].group = self.tasks[parent.index()].group;
        self.remember_fork(parent, child, cpu);
        self.set_task_rq(child, cpu);
        self.init_entity_runnable_average(se);
        // 2.6.24 places a new task when it is first woken (task_new_fair).
        // EEVDF when it is first queued, from no lag.
        if class == Class::Fair && self.rules.places_on_fork {
            self.task_fork_fair(cpu, child);
        }
        child
    }

    /// `wake_up_new_task`: queues a new task on `cpu` (from [`Sched::select_task_rq`]) for the first time.
    pub fn wake_up_new_task(&mut self, task: TaskId, cpu: CpuId) {
        let record = &mut self.tasks[task.index()];
        record.life = Life::Runnable;
        let parent_cpu = record.cpu;
        record.cpu = cpu;
        let (class, se, forked) = (record.class, record.se, record.forked);
        self.set_task_rq(task, cpu);
        self.post_init_entity_util_avg(se, class);
        if class == Class::Fair && !self.rules.places_on_fork && !self.rules.eevdf {
            if forked {
                self.task_new_fair(cpu, task, parent_cpu);
            } else {
                // Without a parent it comes in where the queue stands.
                let cfs = self.entities[se.index()].cfs_rq;
                let standing = self.cfs_rqs[cfs.index()].min_vruntime;
                self.entities[se.index()].vruntime =
                    if self.rules.relative_vruntime { Vruntime::default() } else { standing };
                self.enqueue_task(cpu, task, EnqueueFlags::default());
            }
            self.account_enqueue(cpu);
        } else {
            self.activate_task(cpu, task, EnqueueFlags::NOCLOCK.and(EnqueueFlags::INITIAL));
        }
        self.wakeup_preempt(cpu, task, true);
        self.task_woken(cpu, task);
    }

    /// `try_to_wake_up`: wakes a sleeping task on `cpu` (from [`Sched::select_task_rq`]); false, and nothing done, if it was
    /// not asleep.
    pub fn try_to_wake_up(&mut self, task: TaskId, cpu: CpuId) -> bool {
        let record = &mut self.tasks[task.index()];
        if record.life != Life::Asleep {
            return false;
        }
        record.life = Life::Runnable;
        if self.entities[record.se.index()].sched_delayed {
            // ttwu_runnable: it never left its queue.
            let cpu = record.cpu;
            self.enqueue_task(cpu, task, EnqueueFlags::NOCLOCK.and(EnqueueFlags::DELAYED));
            if self.rqs[cpu.index()].curr != task {
                self.wakeup_preempt(cpu, task, false);
            }
            return true;
        }
        let migrated = record.cpu != cpu;
        if migrated {
            self.set_task_cpu(task, cpu);
        }
        self.ttwu_do_activate(task, cpu, migrated);
        true
    }

    /// `ttwu_do_activate`: queues a task that wakes on its CPU, which it came to just now or not.
    pub(crate) fn ttwu_do_activate(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let mut flags = EnqueueFlags::WAKEUP.and(EnqueueFlags::NOCLOCK);
        if migrated {
            flags = flags.and(EnqueueFlags::MIGRATED);
        }
        self.activate_task(cpu, task, flags);
        self.wakeup_preempt(cpu, task, false);
        self.task_woken(cpu, task);
        if !self.rules.avg_idle_at_end_of_idle {
            self.update_avg_idle(cpu);
        }
    }

    /// `activate_task`.
    pub(crate) fn activate_task(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        self.enqueue_task(cpu, task, flags);
        if self.tasks[task.index()].class.is_counted_by_core() {
            self.account_enqueue(cpu);
        }
    }

    /// A task more, see [`Class::is_counted_by_core`].
    pub(crate) fn account_enqueue(&mut self, cpu: CpuId) {
        self.add_nr_running(cpu, 1);
        // A throttled group's task leaves an idle CPU idle.
        if self.rqs[cpu.index()].nr_running > 0 {
            self.idle_cpus.remove(cpu.index());
        }
    }

    /// `add_nr_running`: as soon as a CPU has more than one task, CPUs that run out of work look for some (`rd->overload`).
    #[inline]
    pub(crate) fn add_nr_running(&mut self, cpu: CpuId, count: u32) {
        let rq = &mut self.rqs[cpu.index()];
        let before = rq.nr_running;
        rq.nr_running = before.wrapping_add(count);
        if before < 2 && rq.nr_running >= 2 {
            self.balance.overload = true;
        }
    }

    /// `sub_nr_running`. A throttled group's task was not counted: below zero until the queue's own account follows.
    pub(crate) fn account_dequeue(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        rq.nr_running = rq.nr_running.wrapping_sub(1);
    }

    /// `deactivate_task`.
    pub(crate) fn deactivate_task(&mut self, cpu: CpuId, task: TaskId, flags: DequeueFlags) {
        if self.dequeue_task(cpu, task, flags) && self.tasks[task.index()].class.is_counted_by_core() {
            self.account_dequeue(cpu);
        }
    }

    /// `TIF_NEED_RESCHED` of whoever runs on `cpu`.
    #[inline]
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].need_resched
    }

    /// `resched_curr`.
    #[inline]
    pub(crate) fn resched_curr(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        (rq.need_resched, rq.lazily) = (true, false);
    }

    /// `resched_curr_lazy` under PREEMPT_LAZY: whoever runs goes once it returns to user space, or with the next tick. Until then
    /// wake-ups are looked at as if nobody had asked.
    #[inline]
    pub(crate) fn resched_curr_lazy(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        rq.lazily = self.rules.lazy && (rq.lazily || !rq.need_resched) && rq.curr != TaskId::IDLE;
        rq.need_resched = true;
    }

    /// `test_tsk_need_resched`: whether whoever runs must go at once.
    #[inline]
    pub fn must_resched(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.index()];
        rq.need_resched && !rq.lazily
    }

    /// `__schedule`: whoever runs leaves in `state`, whoever should run comes.
    ///
    /// The previous task is taken off its queue unless it is still runnable. The next one's charge starts at the queue's clock.
    pub fn schedule(&mut self, cpu: CpuId, state: TaskState) -> Scheduled {
        self.hrtick_schedule_enter(cpu);
        let mut previous = self.rqs[cpu.index()].curr;
        let left = previous;
        self.block_task(cpu, previous, state);
        if self.balance_of(cpu).is_some_and(|state| state.push_cpu.is_some()) {
            // The stopper runs first, for whom whoever ran is put off.
            self.put_prev_task(cpu, previous);
            self.rqs[cpu.index()].curr = TaskId::IDLE;
            self.active_load_balance(cpu);
            previous = TaskId::IDLE;
        }
        if self.curr_class(cpu) <= Class::Rt && !self.rules.picks_before_put {
            // put_prev_task_balance comes before the pick, and may throttle. From 6.12 on the pick comes first.
            self.update_curr(cpu);
        }
        self.balance_classes(cpu, previous);
        let mut next = self.pick_next_task(cpu);
        if next == TaskId::IDLE && self.balance.on() && self.newidle_balance(cpu) {
            next = self.pick_next_task(cpu);
        }
        // The fair class leaves a task that goes on as it is, slice included. 2.6.24 puts it back and picks it anew.
        if next != previous || !self.rules.repick_keeps_slice {
            if self.has_groups() && self.fair(previous) && self.fair(next) {
                self.put_prev_set_next_fair(previous, next);
            } else {
                self.put_prev_task(cpu, previous);
                self.set_next_task(cpu, next);
            }
        }
        if !self.rules.buddies_cleared_when_set && self.fair(next) {
            // pick_next_entity clears the buddies of whoever it picks, on every level; from 5.14 on only set_next_entity does.
            let mut level = Some(self.tasks[next.index()].se);
            while let Some(se) = level {
                self.clear_buddies(self.entities[se.index()].cfs_rq, se);
                level = self.entities[se.index()].parent;
            }
        }
        self.hrtick_pick(cpu, previous, next);
        let rq = &mut self.rqs[cpu.index()];
        rq.curr = next;
        // Charging the previous task within the pick may have asked for what is being done.
        (rq.need_resched, rq.lazily) = (false, false);
        if next == TaskId::IDLE {
            self.idle_cpus.insert(cpu.index());
            self.nohz_balance_enter_idle(cpu);
        } else if self.tasks[next.index()].class == Class::Fair {
            self.cfs_tasks_move_to_front(cpu, next);
        }
        if state == TaskState::Dead && !self.balance.recorded {
            self.task_dead(left);
        }
        if next != previous {
            self.push_tasks(cpu);
        }
        self.hrtick_schedule_exit(cpu);
        Scheduled { previous: left, next }
    }

    fn fair(&self, task: TaskId) -> bool {
        task != TaskId::IDLE && self.tasks[task.index()].class == Class::Fair
    }

    /// `pick_next_task`: the highest class that has somebody decides.
    pub(crate) fn pick_next_task(&mut self, cpu: CpuId) -> TaskId {
        let rq = &self.rqs[cpu.index()];
        if let Some(stop) = rq.stop.filter(|stop| self.entity(*stop).on_rq) {
            return stop;
        }
        let all_fair = rq.nr_running == self.cfs_rqs[rq.cfs.index()].h_nr_running;
        if all_fair && self.rules.fair_pick_shortcut && self.curr_class(cpu) >= Class::Fair && self.custom.is_none() {
            // The short cut looks at no other class, nor at a server, which goes on if it was about to find nobody.
            return self.pick_task_fair(cpu).unwrap_or(TaskId::IDLE);
        }
        if let Some(task) = self.pick_task_dl(cpu).or_else(|| self.rqs[cpu.index()].rt.pick()) {
            return task;
        }
        self.pick_task_fair(cpu).or_else(|| self.pick_task_custom(cpu)).unwrap_or(TaskId::IDLE)
    }

    /// `scheduler_tick` (`sched_tick` from 6.10 on).
    pub fn sched_tick(&mut self, cpu: CpuId) {
        self.rqs[cpu.index()].lazily = false;
        self.task_tick(cpu);
        self.trigger_load_balance(cpu);
    }

    /// Entries of queues that were compared or moved so far, and CPUs that were looked at for placement and balancing.
    pub fn operations(&self) -> u64 {
        self.cfs_rqs.iter().map(|queue| queue.timeline.operations()).sum::<u64>()
            + self.balance.looked_at_in_all
            + self.balance.looked_at
    }

    /// Who runs on `cpu`.
    #[inline]
    pub fn curr(&self, cpu: CpuId) -> TaskId {
        self.rqs[cpu.index()].curr
    }

    /// Runnable tasks of `cpu`, the running one included (`rq->nr_running`).
    #[inline]
    pub fn nr_running(&self, cpu: CpuId) -> u32 {
        self.rqs[cpu.index()].nr_running
    }

    /// The CPU on whose queue the task is, or was last.
    #[inline]
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.tasks[task.index()].cpu
    }

    /// The task's record.
    pub fn task(&self, task: TaskId) -> &TaskStruct {
        &self.tasks[task.index()]
    }

    /// The task's entity.
    pub fn entity(&self, task: TaskId) -> &Entity {
        &self.entities[self.tasks[task.index()].se.index()]
    }

    /// The task's entity, to set the state that a recording starts from.
    pub fn entity_mut(&mut self, task: TaskId) -> &mut Entity {
        &mut self.entities[self.tasks[task.index()].se.index()]
    }

    /// The root fair queue of `cpu`.
    pub fn cfs_rq(&self, cpu: CpuId) -> &CfsRq {
        &self.cfs_rqs[self.rqs[cpu.index()].cfs.index()]
    }

    /// The root fair queue of `cpu`, to set the state that a recording starts from.
    pub fn cfs_rq_mut(&mut self, cpu: CpuId) -> &mut CfsRq {
        &mut self.cfs_rqs[self.rqs[cpu.index()].cfs.index()]
    }

    /// CPU time charged to the task so far, in nanoseconds (`se.sum_exec_runtime`).
    #[inline]
    pub fn sum_exec_runtime(&self, task: TaskId) -> u64 {
        self.entity(task).sum_exec_runtime
    }
}
