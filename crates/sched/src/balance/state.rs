//! What placement and balancing remember: of each CPU, of each task, and of the machine.

use schedlab_model::{CpuId, TaskId};

use crate::balance::domains::Domains;
use crate::bitmap::Bitmap;
use crate::decider::Decider;
use crate::entity::TaskStruct;
use crate::fair::pelt::SchedAvg;
use crate::machine::Sched;

/// A task was taken to another CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The task.
    pub task: TaskId,
    /// From where.
    pub from: CpuId,
    /// To where.
    pub to: CpuId,
}

/// Which tasks a task, or a CPU's interrupts while it idles, wakes (`wakee_flips` and its kin of `struct task_struct`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wakes {
    pub(crate) flips: u32,
    /// `wakee_flip_decay_ts`, in ticks.
    pub(crate) decayed: u64,
    pub(crate) last: TaskId,
}

impl Wakes {
    const NONE: Self = Self { flips: 0, decayed: 0, last: TaskId::IDLE };

    /// `record_wakee`: in the tick `now`, with so many ticks a `second`.
    #[inline]
    pub(crate) fn record(&mut self, task: TaskId, now: u64, second: u64) {
        if now > self.decayed + second {
            self.flips >>= 1;
            self.decayed = now;
        }
        if self.last != task {
            self.last = task;
            self.flips += 1;
        }
    }
}

/// Of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskMemory {
    pub(crate) wakes: Wakes,
    /// `recent_used_cpu`.
    pub(crate) recent_used_cpu: CpuId,
}

impl TaskMemory {
    /// Of a task that nothing is remembered of yet.
    pub(crate) const NEW: Self = Self { wakes: Wakes::NONE, recent_used_cpu: CpuId(0) };
}

/// What a CPU's lowest domain says as the CPU runs out of work, kept at hand: it changes as the CPU balances, and not in between
/// ([`Sched::note_newidle`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newidle {
    /// It has to idle for so long on average that looking for work is worth it, in nanoseconds.
    pub(crate) least: u64,
    /// When it balances at the latest if it idles, in ticks.
    pub(crate) due: u64,
}

impl Newidle {
    /// Of a CPU without domains.
    pub(crate) const NEVER: Self = Self { least: u64::MAX, due: u64::MAX };
}

/// Of a CPU's run queue, where balancing is modelled, what every tick and wake-up touches in the first cache line. Clocks in nanoseconds, `next_` and `last_` in ticks.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct CpuState {
    pub(crate) next_balance: u64,
    /// `idle_stamp`: since when it idles.
    pub(crate) idle_stamp: Option<u64>,
    pub(crate) avg_idle: u64,
    /// Which tasks interrupts wake while it idles.
    pub(crate) wakes: Wakes,
    /// `push_cpu`, while `active_balance` is set.
    pub(crate) push_cpu: Option<CpuId>,
    /// What its lowest domain says each time it runs out of work.
    pub(crate) newidle: Newidle,
    /// `nohz_tick_stopped`.
    pub(crate) tick_stopped: bool,
    pub(crate) has_blocked_load: bool,
    pub(crate) max_idle_balance_cost: u64,
    pub(crate) wake_stamp: u64,
    pub(crate) wake_avg_idle: u64,
    pub(crate) last_blocked_update: u64,
    /// `cpu_capacity`: what real-time and deadline tasks leave of 1024.
    pub(crate) capacity: u64,
    /// `distribute_cpu_mask_prev`.
    pub(crate) distributed: u32,
    /// `avg_rt`, `avg_dl`: the time that real-time and deadline tasks take.
    pub(crate) avg_rt: SchedAvg,
    pub(crate) avg_dl: SchedAvg,
}

/// `nohz`: what is known of CPUs whose ticks are stopped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nohz {
    pub(crate) idle_cpus: Bitmap,
    pub(crate) next_balance: u64,
    pub(crate) has_blocked: bool,
    pub(crate) next_blocked: u64,
    pub(crate) needs_update: bool,
}

/// `rq->cfs_tasks`: the first and the last of a CPU's queued fair tasks, the one that came or ran last in front. Which are beside one another
/// is in the tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskList([TaskId; 2]);

const NO_TASK: TaskId = TaskId::IDLE;

impl TaskList {
    pub(crate) const EMPTY: Self = Self([NO_TASK; 2]);

    #[inline]
    pub(crate) fn add(&mut self, tasks: &mut [TaskStruct], task: TaskId) {
        let second = std::mem::replace(&mut self.0[0], task);
        if second == NO_TASK {
            self.0[1] = task;
        } else {
            tasks[second.index()].beside[0] = task;
        }
        tasks[task.index()].beside = [NO_TASK, second];
    }

    /// The list of a task without others [`TaskStruct::beside`] it.
    #[inline]
    pub(crate) const fn alone(task: TaskId) -> Self {
        Self([task; 2])
    }

    #[inline]
    pub(crate) fn remove(&mut self, tasks: &mut [TaskStruct], task: TaskId) {
        let [before, after] = tasks[task.index()].beside;
        match before {
            NO_TASK => self.0[0] = after,
            before => tasks[before.index()].beside[1] = after,
        }
        match after {
            NO_TASK => self.0[1] = before,
            after => tasks[after.index()].beside[0] = before,
        }
    }

    #[inline(always)]
    pub(crate) fn move_to_front(&mut self, tasks: &mut [TaskStruct], task: TaskId) {
        let first = self.0[0];
        if first == task {
            return;
        }
        let [before, after] = tasks[task.index()].beside;
        // `NO_TASK` is an index beyond all tasks.
        if before.index().max(first.index()) >= tasks.len() {
            return self.take_in(tasks, task);
        }
        tasks[task.index()].beside = [NO_TASK, first];
        tasks[before.index()].beside[1] = after;
        match tasks.get_mut(after.index()) {
            None => self.0[1] = before,
            Some(after) => after.beside[0] = before,
        }
        tasks[first.index()].beside[0] = task;
        self.0[0] = task;
    }

    /// Moves a task that is not in the list to its front: in a recording that lacks events, a task may run on a CPU that it has left.
    #[cold]
    fn take_in(&mut self, tasks: &mut [TaskStruct], task: TaskId) {
        self.remove(tasks, task);
        self.add(tasks, task);
    }

    /// Empties the list.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0 = [NO_TASK; 2];
    }

    #[inline]
    pub(crate) fn last(self) -> Option<TaskId> {
        Some(self.0[1]).filter(|task| *task != NO_TASK)
    }
}

impl TaskStruct {
    /// The task before it in its CPU's list.
    pub(crate) fn before(&self) -> Option<TaskId> {
        Some(self.beside[0]).filter(|task| *task != NO_TASK)
    }
}

/// What is remembered of tasks.
impl<D: Decider> Sched<D> {
    /// A task is new, if nothing is remembered of it: it, and those before it, were last on `cpu` (`wake_up_new_task` sets `recent_used_cpu`).
    #[inline]
    pub(crate) fn remember_task(&mut self, task: TaskId, cpu: CpuId) {
        let (count, known) = (task.index() + 1, self.balance.remembered);
        if self.balance.on() && known < count {
            let state = TaskMemory { recent_used_cpu: cpu, ..TaskMemory::NEW };
            self.tasks[known..count].iter_mut().for_each(|task| task.balance = state);
            self.balance.remembered = count;
        }
    }

    /// A child is a copy of its parent (`dup_task_struct`): the parent's wake-ups count as the child's.
    pub(crate) fn remember_fork(&mut self, parent: TaskId, child: TaskId, cpu: CpuId) {
        if self.balance.on() {
            self.remember_task(parent, cpu);
            self.remember_task(child, cpu);
            self.tasks[child.index()].balance = self.tasks[parent.index()].balance;
        }
    }

    /// What is remembered of a task, if anything is.
    pub(crate) fn balance_of_task(&self, task: TaskId) -> Option<&TaskMemory> {
        self.tasks[..self.balance.remembered].get(task.index()).map(|task| &task.balance)
    }
}

/// The lists are kept where load is balanced.
impl<D: Decider> Sched<D> {
    pub(crate) fn cfs_tasks_add(&mut self, cpu: CpuId, task: TaskId) {
        if self.balance.on() {
            self.rqs[cpu.index()].cfs_tasks.add(&mut self.tasks, task);
        }
    }

    pub(crate) fn cfs_tasks_remove(&mut self, cpu: CpuId, task: TaskId) {
        if self.balance.on() {
            self.rqs[cpu.index()].cfs_tasks.remove(&mut self.tasks, task);
        }
    }

    pub(crate) fn cfs_tasks_move_to_front(&mut self, cpu: CpuId, task: TaskId) {
        if self.balance.on() {
            self.rqs[cpu.index()].cfs_tasks.move_to_front(&mut self.tasks, task);
        }
    }

    pub(crate) fn last_of_cfs_tasks(&self, cpu: CpuId) -> Option<TaskId> {
        self.rqs[cpu.index()].cfs_tasks.last()
    }

    /// What balancing remembers of a CPU, where it is modelled.
    #[inline]
    pub(crate) fn balance_of(&self, cpu: CpuId) -> Option<&CpuState> {
        if self.balance.on() { Some(&self.rqs[cpu.index()].balance) } else { None }
    }

    #[inline]
    pub(crate) fn balance_of_mut(&mut self, cpu: CpuId) -> Option<&mut CpuState> {
        if self.balance.on() { Some(&mut self.rqs[cpu.index()].balance) } else { None }
    }
}

/// Everything of balancing. Empty while it does not follow the kernel's rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Balance {
    on: bool,
    pub(crate) domains: Domains,
    /// Of so many tasks something is remembered, those of the lowest numbers.
    remembered: usize,
    pub(crate) nohz: Nohz,
    /// The CPUs that one balanced for last: memory that is used again.
    pub(crate) scanned: Bitmap,
    /// `rd->overload`: some CPU has more than one task.
    pub(crate) overload: bool,
    /// Some task is, or was, of the real-time or deadline class.
    pub(crate) other_classes: bool,
    /// What was moved since the driver last asked.
    pub(crate) migrations: Vec<Migration>,
    /// Room for what `detach_tasks` takes off.
    pub(crate) detached: Vec<TaskId>,
    /// CPUs on which something changed though nothing was moved there.
    pub(crate) touched: Vec<CpuId>,
    /// The time on every CPU, where the driver has one for all.
    pub(crate) now: u64,
    /// The tick that began last before that: which one it was, and when.
    pub(crate) jiffy: (u64, u64),
    /// A second, in ticks: rounded up (`msecs_to_jiffies`), and HZ.
    pub(crate) second: u64,
    pub(crate) hz: u64,
    /// `max_load_balance_interval`: HZ / 10 for each CPU but the one that started last.
    pub(crate) max_interval: u64,
    /// What looking at one CPU costs, in nanoseconds.
    pub(crate) search_cost: u64,
    /// CPUs looked at since the driver last asked.
    pub(crate) looked_at: u64,
    /// The task woken with the waker's sync hint (`WF_SYNC`), and whether its CPU was chosen (`WF_RQ_SELECTED`).
    pub(crate) sync_wakeup: Option<(TaskId, bool)>,
    /// Those before that.
    pub(crate) looked_at_in_all: u64,
    /// State of the draws of `sched_rng`.
    pub(crate) random: u64,
    /// What is balanced, and when, is recorded: the rules are asked, and do nothing by themselves.
    pub(crate) recorded: bool,
}

impl CpuState {
    /// Of a CPU that idles from the start.
    pub(crate) fn new(migration_cost: u64) -> Self {
        Self {
            next_balance: 0,
            idle_stamp: None,
            avg_idle: 2 * migration_cost,
            wake_stamp: 0,
            wake_avg_idle: migration_cost,
            max_idle_balance_cost: migration_cost,
            tick_stopped: true,
            has_blocked_load: false,
            last_blocked_update: 0,
            push_cpu: None,
            newidle: Newidle::NEVER,
            capacity: 1024,
            wakes: Wakes::NONE,
            distributed: 0,
            avg_rt: SchedAvg::default(),
            avg_dl: SchedAvg::default(),
        }
    }
}

impl Balance {
    pub(crate) fn new(domains: Domains, cpus: usize) -> Self {
        let idle_cpus = Bitmap::full(cpus);
        Self { domains, on: true, nohz: Nohz { idle_cpus, ..Nohz::default() }, ..Self::default() }
    }

    /// Whether placement and balancing follow the kernel's rules.
    #[inline]
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Whether the rules move tasks by themselves.
    #[inline]
    pub(crate) fn moves_tasks(&self) -> bool {
        self.on() && !self.recorded
    }

    /// `sched_rng`: the next draw.
    #[inline]
    pub(crate) fn draw(&mut self) -> u32 {
        // SplitMix64 (Steele, Lea and Flood 2014), as seeds of the xoshiro generators are drawn.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.random;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ (value >> 31)) >> 32) as u32
    }
}

/// `update_avg`: an average of which the past counts seven eighths.
#[inline]
pub(crate) fn update_avg(average: &mut u64, sample: u64) {
    let difference = sample.wrapping_sub(*average) as i64;
    *average = average.wrapping_add((difference / 8) as u64);
}
