//! The machine that a workload runs on: its CPUs, and what operations cost on them.

use serde::{Deserialize, Serialize};

use crate::{Attributes, Devices, ModelError, Speed, Step, Task, Time, Topology, Workload};

/// The most CPUs a simulated machine may have.
pub const MAX_CPUS: u32 = 4096;

/// CPUs and costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// How many CPUs, all alike.
    pub cpus: u32,
    /// Which of them share cores, caches and nodes.
    #[serde(default, skip_serializing_if = "Topology::is_default")]
    pub topology: Topology,
    /// How fast they work, by what else is busy.
    #[serde(default, skip_serializing_if = "Speed::is_default")]
    pub speed: Speed,
    /// What operations cost.
    #[serde(default)]
    pub costs: Costs,
    /// What its memory and its disk take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Devices,
    /// CPUs that go off line and come back (`/sys/devices/system/cpu/cpuN/online`), in the order in which that happens. All are on
    /// line at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<CpuChange>,
    /// Where a task that is marked for rescheduling while it is in the kernel is switched out.
    #[serde(default, skip_serializing_if = "Preempt::is_full")]
    pub preempt: Preempt,
    /// What else runs there: kernel threads, other people's work. Every workload that has no background of its own is simulated beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Box<Workload>>,
}

/// A kernel's preemption model (`sched_dynamic_mode`), as far as it makes a difference to accesses of files; lazy preemption is a rule of releases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    /// A task ends its access of a file, or sleeps within it, first.
    None,
    /// It is switched out at once: accesses of files offer that at many points under voluntary preemption, too (`might_resched`).
    #[default]
    Full,
}

impl Preempt {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde has it")]
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

fn is_default(devices: &Devices) -> bool {
    *devices == Devices::default()
}

/// A CPU goes off line, or comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuChange {
    /// When, since the start of the run.
    pub at: Time,
    /// Which.
    pub cpu: u32,
    /// Whether it is on line from then on.
    pub online: bool,
}

impl Machine {
    /// A machine of `cpus` CPUs that stay on line.
    pub fn new(cpus: u32, costs: Costs) -> Self {
        let (topology, speed, devices) = (Topology::default(), Speed::default(), Devices::SMALL_SERVER);
        Self { cpus, topology, speed, costs, devices, changes: Vec::new(), preempt: Preempt::Full, background: None }
    }

    /// The workload as it runs here: beside this machine's background, where it has none of its own, beside the kernel threads that
    /// complete its writes and hand accesses and flushes to the disk, where [`Devices::completion`] and the like say that such threads do, and
    /// beside RCU's, where [`Costs::grace_period`] says what that takes.
    ///
    /// # Errors
    /// [`Workload::beside`]'s.
    pub fn with_background(&self, workload: Workload) -> Result<Workload, ModelError> {
        let writes = if self.devices.completion > Time::ZERO { workload.most_writes_under_way() } else { 0 };
        let converts = self.devices.first_writeback > Time::ZERO && workload.writes_synchronously();
        // What runs beside a recorded workload was recorded with it.
        let frees = self.costs.grace_period > Time::ZERO && !workload.has_background();
        let dispatches = self.devices.dispatch > Time::ZERO && workload.accesses_the_disk();
        let hands_flushes = self.devices.flush_latency.min(self.devices.flush_dispatch) > Time::ZERO;
        let flushes = hands_flushes && workload.flushes();
        let workload = match self.background.as_deref().filter(|_| !workload.has_background()) {
            Some(background) => workload.beside(background, self.cpus)?,
            None => workload,
        };
        if writes == 0 && !converts && !frees && !dispatches && !flushes {
            return Ok(workload);
        }
        workload.beside(&self.kernel_threads(writes, [converts, frees, dispatches, flushes]), self.cpus)
    }

    /// Workers of each CPU (`kworker`, of a workqueue that is bound to it), as many as writes that may be under way: the kernel makes
    /// further ones as soon as all sleep. Beside them the one of a workqueue that is not (`ext4-rsv-conversion`, one work at a time), where
    /// there is one, RCU's thread, where that is simulated, and those of each CPU that hand accesses and flushes to the disk (`kblockd`, a
    /// workqueue of high priority).
    fn kernel_threads(&self, writes: u32, [converts, frees, dispatches, flushes]: [bool; 4]) -> Workload {
        let thread = |name: String, instances: u32, affinity: Vec<u32>, step: Step| Task {
            name,
            instances,
            attributes: Some(Attributes { affinity, ..Attributes::default() }),
            asleep: true,
            background: true,
            steps: vec![Step::Forever(vec![step])],
            ..Task::default()
        };
        let bound = |cpu: u32| thread(format!("kworker/{cpu}:dio"), writes, vec![cpu], Step::CompleteWrite);
        let mut tasks: Vec<_> = if writes > 0 { (0..self.cpus).map(bound).collect() } else { Vec::new() };
        if converts {
            tasks.push(thread("kworker/u:ext4".to_owned(), 1, Vec::new(), Step::EndWriteback));
        }
        if frees {
            tasks.push(thread("rcu_gp".to_owned(), 1, Vec::new(), Step::GracePeriod));
        }
        for (step, hands) in [(Step::Dispatch, dispatches), (Step::DispatchFlush, flushes)] {
            let of = |cpu: u32| {
                let mut task = thread(format!("kworker/{cpu}H:kblockd"), 1, vec![cpu], step.clone());
                task.attributes = task.attributes.map(|attributes| Attributes { nice: -20, ..attributes });
                task
            };
            tasks.extend((0..if hands { self.cpus } else { 0 }).map(of));
        }
        Workload { name: "kernel threads".to_owned(), tasks, ..Workload::default() }
    }

    /// One on which only the work itself takes time.
    pub fn ideal(cpus: u32) -> Self {
        Self::new(cpus, Costs::ideal())
    }

    /// Checks the number of CPUs, their topology and speed, and that those that go off line and come back can.
    ///
    /// # Errors
    /// [`ModelError::Machine`] outside 1 to [`MAX_CPUS`]; for changes out of order, of a CPU that does not exist or is in that state
    /// already, and for the last CPU going off line.
    pub fn validate(&self) -> Result<(), ModelError> {
        if !(1..=MAX_CPUS).contains(&self.cpus) {
            return Err(ModelError::Machine(format!("cpus = {} is out of range; allowed: 1 to {MAX_CPUS}", self.cpus)));
        }
        self.topology.validate(self.cpus)?;
        self.speed.validate(self.cpus, &self.topology)?;
        let mut online = vec![true; self.cpus as usize];
        let mut now = Time::ZERO;
        for CpuChange { at, cpu, online: becomes } in &self.changes {
            let wrong = |why: String| Err(ModelError::Machine(format!("changes: CPU {cpu} at {at}: {why}")));
            let state = if *becomes { "on line" } else { "off line" };
            if *at < now {
                return wrong(format!("it comes after a change at {now}; write them in their order"));
            }
            now = *at;
            match online.get_mut(*cpu as usize) {
                None => return wrong(format!("there are only CPUs 0 to {}", self.cpus - 1)),
                Some(is) if is == becomes => return wrong(format!("it is {state} already")),
                Some(is) => *is = *becomes,
            }
            if !online.contains(&true) {
                return wrong("the last CPU cannot go off line".to_owned());
            }
        }
        Ok(())
    }
}

/// What each operation costs in CPU time, beyond the work a task was told to do.
///
/// Every field has a physical meaning and can be measured alone (`schedlab calibrate`); none is fitted to a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// One context switch between two tasks of one CPU, billed to the incoming task.
    pub switch: Time,
    /// One pass of the scheduler that finds no other task to run: before a switch where a task is marked for rescheduling, and after
    /// a wake-up on an idle CPU, billed to the task that is switched out.
    pub schedule: Time,
    /// Of `schedule`, what the pass of a CPU that leaves idle does not take: it has no task to charge and to put back
    /// (`update_curr`, `put_prev_task`).
    pub put_prev: Time,
    /// Further time of a switch per other task whose working set competes for the CPU's caches, at most `cache_refill_limit` in all. A task
    /// from another core finds none of its data there and pays the limit.
    pub cache_refill: Time,
    /// The most that `cache_refill` adds to one switch.
    pub cache_refill_limit: Time,
    /// Further time of a switch to a task that last ran under another last-level cache.
    pub cache_refill_llc: Time,
    /// Waking a task of the same CPU, billed to the waker; the woken task runs after that.
    pub wakeup: Time,
    /// Further time of that where a fair task runs on that CPU and the woken one may preempt it, which is then found out
    /// (`check_preempt_wakeup_fair`): not of `SCHED_BATCH` and `SCHED_IDLE`.
    pub wakeup_preempt: Time,
    /// Further time of a fair task's wake-up by another task where it may run on several CPUs, of which one is chosen (`select_task_rq_fair`).
    pub wakeup_select: Time,
    /// What a delayed dequeue (EEVDF) saves of a sleep and the wake-up that ends it: the sleeping task is neither dequeued nor enqueued
    /// again.
    pub lingering: Time,
    /// Further time to wake a task of another CPU, billed to the waker.
    pub wakeup_remote: Time,
    /// Further time of that where that CPU is busy and has switched tasks since this one last woke a task there: what its run queue is made of has to
    /// come from there, and its lock is taken in turns.
    pub wakeup_far: Time,
    /// Further time of a switch on a CPU where another one has woken a task since the last switch, for the same reason.
    pub schedule_far: Time,
    /// Sending an interrupt to another CPU that runs a task, billed to the sender: each wake-up there that preempts that task. Among
    /// virtual CPUs the hypervisor's part is in it.
    pub ipi: Time,
    /// Sending an interrupt to an idle CPU, billed to the sender: each wake-up there.
    pub ipi_idle: Time,
    /// Further time of that where the CPU's hypervisor has given it away: where it has idled for [`Costs::POLLED`] or longer, or did so the time before.
    pub ipi_halted: Time,
    /// Taking such an interrupt on a CPU that runs a task, billed to that task.
    pub ipi_taken: Time,
    /// From the waker's interrupt, or a timer's, until an idle CPU looks at it.
    pub idle_exit: Time,
    /// Further time of that where the CPU's hypervisor has given it away, after the waker's `ipi_halted`.
    pub halt_exit: Time,
    /// Further time of that for each millisecond for which the CPU has idled beyond [`Costs::POLLED`], up to [`Costs::DEEPEST`]: it, and its caches, are
    /// used for other things meanwhile.
    pub halt_deeper: Time,
    /// Of the way out of idle, up to the switch, what a kernel charges to the task that another CPU woke: the queue's clock stands from the
    /// wake-up on (`wakeup_preempt`, `rq_clock_skip_update`).
    pub idle_charged: Time,
    /// Further time from the interrupt that ends an idle period of [`Costs::POLLED`] or longer to the switch: the tick starts again
    /// (`tick_nohz_idle_exit`), and caches are cold. Of a timer's it is a part of `timer_taken`.
    pub idle_switch: Time,
    /// Further time from such an interrupt to the switch where the CPU had idled for a tick or longer: it had stopped its tick.
    /// It contains [`Costs::SETTINGS`] settings of the clock device, less `next_timer` for each that other timers of the CPU make unnecessary.
    pub tick_restart: Time,
    /// One timer interrupt, billed to the running task.
    pub tick: Time,
    /// What a hypervisor takes from a CPU at a time, again and again, for its own tick: so much later comes a task that is woken on an idle CPU just then.
    pub steal: Time,
    /// From one of these times to the next.
    pub steal_period: Time,
    /// Entering and leaving the kernel once.
    pub system_call: Time,
    /// Writing an empty message to a pipe, beyond the system call.
    pub pipe_write: Time,
    /// Reading an empty message from a pipe, beyond the system call.
    pub pipe_read: Time,
    /// Writing an empty message to a stream socket, beyond the system call.
    pub socket_write: Time,
    /// Reading an empty message from a stream socket, beyond the system call.
    pub socket_read: Time,
    /// Further time of a message that finds a pipe empty and leaves it empty, in writing and reading it: a page of its own, and waiters that
    /// are looked for at both ends.
    pub pipe_empty: Time,
    /// Further time of a call on a pipe that another CPU has used last: it has to get what the pipe is made of from there.
    pub pipe_far: Time,
    /// Further time of writing a message to a pipe from which another CPU has read last, and of reading one that another CPU has written.
    pub pipe_far_message: Time,
    /// The same as `pipe_far` of a stream socket.
    pub socket_far: Time,
    /// Further time of writing a message to a stream socket from which another CPU has read last: memory comes from where that one has given it back.
    pub socket_far_write: Time,
    /// Further time of reading a message that another CPU has written, and of giving its memory back.
    pub socket_far_read: Time,
    /// Further time of a call on a file in a process of several threads, which share their files: counting a reference to it (`fdget`).
    pub file_reference: Time,
    /// Copying 1024 bytes into or out of the kernel.
    pub copy_per_kib: Time,
    /// Further time of that where another CPU has read or written what was there.
    pub copy_far_per_kib: Time,
    /// Further time of writing 1024 bytes to a stream socket: memory for them (`sock_alloc_send_pskb`), which the kernel clears where it is built to. In
    /// files without it, it is a part of `copy_per_kib`.
    pub skb_per_kib: Time,
    /// Further time of writing to a stream socket while as many messages as a slab holds are on their way: memory comes from a slab other than
    /// the CPU's own (`___slab_alloc`).
    pub slab: Time,
    /// Further time of reading from it then: memory goes back to such a slab (`__slab_free`). In files without it, it is a part of `slab`.
    pub slab_free: Time,
    /// A fresh page of memory for messages on their way: taking it from the kernel, which clears it where it is built to.
    pub page: Time,
    /// Giving such a page back, billed to the reader. In files without it, it is a part of `page`.
    pub page_free: Time,
    /// Going to sleep in a read, write or poll and coming back, beyond the switch.
    pub block: Time,
    /// Further time of going to sleep where it is a timer that ends the sleep: setting that up (`hrtimer_start_range_ns`).
    pub sleep_timer: Time,
    /// Further time of that where no other timer of the CPU expires earlier, so that its clock device is set (`hrtimer_reprogram`).
    pub next_timer: Time,
    /// Further time of a wake-up by a timer's interrupt, where the interrupted task continues: entering it and returning from it.
    pub interrupt: Time,
    /// Further time of such a wake-up where no interrupted task continues, because the CPU was idle or the woken task preempts; billed to
    /// the woken task, whose run queue's clock is not updated between the wake-up and the switch (`rq_clock_skip_update`). In files without
    /// it, it is a part of `sleep_timer`.
    pub timer_taken: Time,
    /// Of `timer_taken`, what lies between the wake-up and the switch: the interrupt sets the clock device for the next timer before it
    /// ends (`hrtimer_interrupt`, `tick_program_event`).
    pub timer_switch: Time,
    /// Waking a task that waits for a futex, beyond the system call and the wake-up itself.
    pub futex_wake: Time,
    /// Waiting for a futex, beyond the system call and going to sleep.
    pub futex_wait: Time,
    /// Looking at the clock, as tasks do that measure time.
    pub clock: Time,
    /// Moving a queued task to another CPU, billed to the CPU that takes it.
    pub migration: Time,
    /// Looking at one CPU's queue while looking for work or for an idle CPU, billed to the task it is found for. Newly idle balancing and
    /// searches for idle CPUs are bounded by what they cost.
    pub balance: Time,
    /// What newly idle balancing has cost at most in a CPU's lowest domain as a run begins (`max_newidle_lb_cost`), charged to no task: CPUs
    /// that idle for less on average do not look for work as they run out of it.
    pub newidle: Time,
    /// From one operation of a task to the next: what the runner needs to find the next one.
    pub operation: Time,
    /// Further time of an operation that computes for [`Costs::CLOCKED`] or longer, the first since its task came to its CPU: the runner reads
    /// clocks, to compute for just so long. At least 1 ns where it does.
    pub compute: Time,
    /// Making a connection to a port, billed to the client, all system calls included (as in the following ones). In files without
    /// `tcp_client_closes`, ending it is a part of this.
    pub tcp_connect: Time,
    /// Taking a connection, billed to the server. In files without `tcp_server_closes`, ending it is a part of this.
    pub tcp_accept: Time,
    /// Writing an empty message to a connection; zero for the cost of any stream socket.
    pub tcp_write: Time,
    /// Reading an empty message from a connection; zero for the cost of any stream socket.
    pub tcp_read: Time,
    /// Of `tcp_connect`, what remains of the call after it has woken a server: on the loopback interface packets arrive within the call.
    pub tcp_connect_tail: Time,
    /// Of `tcp_write`, what remains of the call after it has woken the reader.
    pub tcp_write_tail: Time,
    /// Ending a connection before the server does, billed to the client.
    pub tcp_client_closes: Time,
    /// Ending a connection that the server has ended, billed to the client.
    pub tcp_client_closes_last: Time,
    /// Ending a connection before the client does, billed to the server.
    pub tcp_server_closes: Time,
    /// Ending a connection that the client has ended, billed to the server.
    pub tcp_server_closes_last: Time,
    /// Creating a process, billed to the parent, with the pages that it has to copy because of that.
    pub fork_process: Time,
    /// Creating a thread, billed to the parent.
    pub fork_thread: Time,
    /// What a new process takes before its first operation, touching memory for the first time; billed to it.
    pub start_process: Time,
    /// What a new thread takes before its first operation; billed to it.
    pub start_thread: Time,
    /// What a process that was there before takes from the start signal to its first operation, touching memory for the first time. Threads
    /// find their process's memory touched.
    pub begin_process: Time,
    /// Ending a process, billed to it.
    pub exit_process: Time,
    /// Ending a thread, billed to it.
    pub exit_thread: Time,
    /// Collecting an ended child, billed to the parent.
    pub reap: Time,
    /// CPU time of RCU's kernel thread (`rcu_gp_kthread`) each time that it begins or ends a grace period; without it no such thread is simulated.
    pub grace_period: Time,
    /// Names of the costs above that could not be measured. They are zero, and a run that would charge one says so in its notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Costs {
    /// A task that computes for less reads no clock, which would take longer: [`Costs::compute`] is charged from here on.
    pub const CLOCKED: Time = Time::from_nanos(1_000);

    /// For so long a hypervisor polls before it gives a halted CPU away (KVM's `halt_poll_ns`): [`Costs::halt_exit`] and [`Costs::idle_switch`] are
    /// charged where a CPU idled for longer.
    pub const POLLED: Time = Time::from_micros(200);

    /// A CPU that has idled for longer is taken to come back as late.
    pub const DEEPEST: Time = Time::from_millis(10);

    /// How often a CPU that leaves idle sets its clock device to start its tick again (`tick_nohz_restart`), at most.
    pub const SETTINGS: u64 = 2;

    /// All zero: only the work itself takes time.
    pub fn ideal() -> Self {
        Self::default()
    }

    /// Whole jiffies a callback, as the tuning paper's simulator charges: LinSched calls a task's callback once a tick,
    /// and one callback writes a message, reads one, or finds none and sleeps. So each of these takes 1 ms and nothing else takes time.
    pub fn linsched() -> Self {
        let jiffy = Time::from_millis(1);
        Self {
            pipe_write: jiffy,
            pipe_read: jiffy,
            socket_write: jiffy,
            socket_read: jiffy,
            block: jiffy,
            ..Self::ideal()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_cpus_are_possible_or_refused() {
        let change = |at, cpu, online| CpuChange { at: Time::from_millis(at), cpu, online };
        let refused = |changes: &[CpuChange]| {
            let machine = Machine { changes: changes.to_vec(), ..Machine::ideal(2) };
            machine.validate().map_err(|error| error.to_string())
        };
        assert_eq!(refused(&[change(1, 1, false), change(1, 1, true), change(2, 0, false)]), Ok(()));
        for (changes, said) in [
            (vec![change(1, 2, false)], "CPU 2 at 1ms: there are only CPUs 0 to 1"),
            (vec![change(1, 0, true)], "on line already"),
            (vec![change(2, 0, false), change(1, 0, true)], "in their order"),
            (vec![change(1, 0, false), change(1, 1, false)], "the last CPU cannot"),
        ] {
            let error = refused(&changes).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
