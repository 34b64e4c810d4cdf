//! Processes: which tasks are threads of one, and weights that follow their number.
//!
//! A change of the number shows at once in the weights of tasks that are made then; each of the others is re-weighted in a critical
//! section of its own queue ([`Sched::reweight_task`]), as a kernel would under one queue's lock after the other's:
//!
//! ```
//! # use schedlab_model::{Attributes, CpuId, Scheduler, TaskId, Time};
//! # use schedlab_sched::{Clocks, Ours, Rules, Sched};
//! # let mut scheduler = Scheduler::new("6.1".parse()?);
//! scheduler.weights = "pfs".parse()?;
//! let mut sched = Sched::new(Rules::new(&scheduler, 1)?, 1, Ours::default());
//! # let now = Clocks::all(Time::from_millis(1));
//! # sched.set_clocks(CpuId(0), now);
//! let first = sched.new_task(&Attributes::default());
//! # sched.wake_up_new_task(first, CpuId(0));
//! let second = sched.sched_fork(first, true);
//! let mut thread = sched.first_thread(first);
//! while let Some(task) = thread {
//!     sched.set_clocks(sched.task_cpu(task), now);
//!     sched.reweight_task(task);
//!     thread = sched.next_thread(task);
//! }
//! // Two threads share what one task of nice 0 would weigh.
//! assert_eq!(sched.entity(first).load.scaled, 512 << 10);
//! assert_eq!(sched.entity(second).load.scaled, 512 << 10);
//! # Ok::<(), schedlab_model::ModelError>(())
//! ```

use schedlab_model::{Attributes, CpuId, Policy, TaskId};

use crate::class::Class;
use crate::decider::Decider;
use crate::entity::Life;
use crate::fair::thread_fairness::{factor_fixed, weigh};
use crate::fair::weight::{Weight, weight_of_nice};
use crate::machine::Sched;

const NO_TASK: TaskId = TaskId::IDLE;

/// `struct signal_struct`, as far as weights go.
#[derive(Debug, Clone)]
struct Process {
    /// `nr_threads`: threads that have not ended.
    threads: u32,
    first: TaskId,
    last: TaskId,
}

/// A task's place among its process's threads.
#[derive(Debug, Clone)]
struct Thread {
    process: u32,
    previous: TaskId,
    next: TaskId,
}

/// Every process, and which tasks are its threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes {
    processes: Vec<Process>,
    /// By task.
    threads: Vec<Thread>,
}

impl Processes {
    /// Tasks are added in the order of their ids: the next one, to the process of `of` or to a new one.
    pub(crate) fn add(&mut self, of: Option<TaskId>) {
        let task = TaskId(self.threads.len() as u32);
        let process = match of {
            Some(other) => self.threads[other.index()].process,
            None => {
                self.processes.push(Process { threads: 0, first: NO_TASK, last: NO_TASK });
                self.processes.len() as u32 - 1
            }
        };
        let record = &mut self.processes[process as usize];
        record.threads += 1;
        let previous = std::mem::replace(&mut record.last, task);
        match previous {
            NO_TASK => record.first = task,
            previous => self.threads[previous.index()].next = task,
        }
        self.threads.push(Thread { process, previous, next: NO_TASK });
    }

    /// A task ended (`__exit_signal`).
    pub(crate) fn remove(&mut self, task: TaskId) {
        let Thread { process, previous, next } = self.threads[task.index()];
        let record = &mut self.processes[process as usize];
        record.threads -= 1;
        match previous {
            NO_TASK => record.first = next,
            previous => self.threads[previous.index()].next = next,
        }
        match next {
            NO_TASK => record.last = previous,
            next => self.threads[next.index()].previous = previous,
        }
    }

    fn of(&self, task: TaskId) -> &Process {
        &self.processes[self.threads[task.index()].process as usize]
    }
}

impl<D: Decider> Sched<D> {
    /// A first task, as [`Sched::new_task`], that is one more thread of the process of `of`.
    pub fn new_thread(&mut self, of: TaskId, attributes: &Attributes) -> TaskId {
        let task = self.add_task(CpuId(0), Some(of));
        self.apply_attributes(task, attributes);
        task
    }

    /// How many threads of the task's process have not ended, whether the task has or not (`signal->nr_threads`).
    pub fn nr_threads(&self, task: TaskId) -> u32 {
        self.processes.of(task).threads
    }

    /// The first of them, in the order in which they were made.
    pub fn first_thread(&self, task: TaskId) -> Option<TaskId> {
        Some(self.processes.of(task).first).filter(|first| *first != NO_TASK)
    }

    /// The one after `task`, which is one of them (`next_thread`).
    pub fn next_thread(&self, task: TaskId) -> Option<TaskId> {
        Some(self.processes.threads[task.index()].next).filter(|next| *next != NO_TASK)
    }

    /// Gives a task the weight that it should have by now. Its queue must have its clocks.
    ///
    /// Does nothing where weights do not follow the number of threads, or the weight is right already.
    pub fn reweight_task(&mut self, task: TaskId) {
        if self.rules.weights.is_none() {
            return;
        }
        let record = &self.tasks[task.index()];
        let se = record.se;
        let weight = self.weight_of(task, record.policy, record.nice);
        if self.entities[se.index()].weight == weight.scaled {
            return;
        }
        if record.class == Class::Fair {
            self.reweight_task_fair(task, weight);
        } else {
            // It counts once the task is fair again.
            self.set_load_weight(se, weight);
        }
    }

    /// CPUs went on or off line: the weights of every task that has not ended follow. All queues must have their clocks.
    ///
    /// Where tasks go from a CPU that went off line is the driver's affair.
    pub fn set_online_cpus(&mut self, online: u32) {
        self.online_cpus = online;
        if self.rules.weights.is_none() {
            return;
        }
        for task in (0..self.tasks.len() as u32).map(TaskId) {
            if self.tasks[task.index()].life != Life::Dead {
                self.reweight_task(task);
            }
        }
    }

    /// `set_load_weight`, times the factor that the number of threads gives. SCHED_IDLE has one weight for any number of threads.
    pub(crate) fn weight_of(&self, task: TaskId, policy: Policy, nice: i8) -> Weight {
        let base = weight_of_nice(&self.rules, policy, nice);
        if self.rules.weights.is_none() || policy == Policy::Idle {
            return base;
        }
        let factor = factor_fixed(self.rules.weights, self.nr_threads(task), self.online_cpus);
        weigh(&self.rules, base, factor)
    }
}
