//! The costs that the simulator charges itself, which are taken off the recorded CPU time.
//!
//! The rules are those of `crates/sim`: a switch is billed to the next task, a wake-up to the waker or to the task that a timer interrupts,
//! a tick to the current task, the post of a semaphore that a task waits for to the task that posts it, going to sleep to the sleeper, and
//! the scheduler's pass that preempts a task to the preempted task.

use schedlab_model::Costs;

/// The machine's costs in nanoseconds, as far as inferred steps meet them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostModel {
    switch: u64,
    cache_refill: u64,
    cache_refill_limit: u64,
    /// The pass of the scheduler in which a task loses its CPU.
    pub(crate) schedule: u64,
    pub(crate) wakeup: u64,
    /// On top of `wakeup` where the task that the timer interrupts goes on.
    pub(crate) interrupt: u64,
    /// Waking a task of another CPU, which was chosen because it idles: with the interrupt that notifies it.
    wakeup_remote: u64,
    pub(crate) tick: u64,
    /// A timer's sleep, with the interrupt that ends it.
    pub(crate) sleep: u64,
    /// How long before it sleeps a task has set its timer.
    pub(crate) armed: u64,
    /// Waiting for a semaphore.
    pub(crate) wait: u64,
    post: u64,
    pub(crate) fork: u64,
    pub(crate) exit: u64,
    pub(crate) set: u64,
    /// Each operation, beside what it costs by itself.
    pub(crate) operation: u64,
    /// Each that computes, beyond that.
    pub(crate) compute: u64,
    /// What a new task takes before its first.
    pub(crate) start: u64,
}

impl CostModel {
    pub(crate) fn new(costs: &Costs) -> Self {
        let call = costs.system_call.as_nanos();
        Self {
            switch: costs.switch.as_nanos(),
            cache_refill: costs.cache_refill.as_nanos(),
            schedule: costs.schedule.as_nanos(),
            cache_refill_limit: costs.cache_refill_limit.as_nanos(),
            wakeup: costs.wakeup.as_nanos(),
            interrupt: costs.interrupt.as_nanos(),
            wakeup_remote: costs.wakeup_remote.saturating_add(costs.ipi_idle).as_nanos(),
            tick: costs.tick.as_nanos(),
            sleep: [costs.system_call, costs.block, costs.sleep_timer, costs.timer_taken]
                .into_iter()
                .fold(0, |sum, part| part.as_nanos().saturating_add(sum)),
            armed: if call > 0 { costs.block.as_nanos() } else { 0 },
            wait: costs.system_call.saturating_add(costs.block).saturating_add(costs.futex_wait).as_nanos(),
            post: costs.system_call.saturating_add(costs.futex_wake).saturating_add(costs.clock).as_nanos(),
            fork: costs.fork_process.as_nanos(),
            exit: costs.exit_process.as_nanos(),
            set: call,
            operation: costs.operation.as_nanos(),
            compute: costs.compute.as_nanos(),
            start: costs.start_process.as_nanos(),
        }
    }

    /// A switch to a task that comes back after `others` switches to others; none if it was never there.
    pub(crate) fn switch(&self, others: Option<u64>) -> u64 {
        let refill = others.map_or(u64::MAX, |others| self.cache_refill.saturating_mul(others));
        self.switch.saturating_add(refill.min(self.cache_refill_limit))
    }

    /// The longest time from an interrupt that wakes a task to the switch, if the woken task preempts the interrupted one.
    pub(crate) const fn preemption(&self) -> u64 {
        self.wakeup.saturating_add(self.schedule).saturating_add(self.switch)
    }

    /// Waking one more task in the same system call.
    pub(crate) fn wake_more(&self, remote: bool) -> u64 {
        self.wakeup.saturating_add(if remote { self.wakeup_remote } else { 0 })
    }

    /// Waking a task by a semaphore, from one CPU to another or not.
    pub(crate) fn wake(&self, remote: bool) -> u64 {
        self.post.saturating_add(self.wake_more(remote))
    }
}
