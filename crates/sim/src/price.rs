//! What operations cost, in nanoseconds, from the machine's [`Costs`].

mod between;
mod devices;
mod memory;

use devices::access_in;
use memory::Far;
use schedlab_model::{Costs, Machine, ModelError, Preempt, RuleSet, TaskKind, Time};
use schedlab_sched::Divisor;

use crate::cpu::Cpu;
use crate::pace::between_turns;
use crate::task::Task;
use crate::unknown::{Unknown, named};
use crate::wait::NONE;

/// The most that anything may cost.
const DEAREST: Time = Time::from_millis(1_000_000);

/// The machine's costs as the engine adds them up.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    pub(crate) switch: u64,
    pub(crate) schedule: u64,
    /// The pass of the scheduler by which a CPU leaves idle.
    pub(crate) idle_schedule: u64,
    pub(crate) cache_refill: u64,
    pub(crate) cache_refill_limit: u64,
    pub(crate) cache_refill_llc: u64,
    /// By CPU: its core and its last-level cache.
    places: Vec<(u32, u32)>,
    /// No switch costs anything.
    pub(crate) free_switches: bool,
    pub(crate) wakeup: u64,
    pub(crate) wakeup_preempt: u64,
    /// Nothing on one CPU.
    pub(crate) wakeup_select: u64,
    pub(crate) lingering: u64,
    wakeup_remote: u64,
    wakeup_far: u64,
    pub(crate) schedule_far: u64,
    ipi: u64,
    ipi_idle: u64,
    ipi_halted: u64,
    ipi_taken: u64,
    idle_exit: u64,
    halt_exit: u64,
    halt_deeper: u64,
    steal: u64,
    steal_offset: u64,
    /// None where a hypervisor takes nothing.
    steal_period: Option<Divisor>,
    idle_charged: u64,
    idle_switch: u64,
    tick_restart: u64,
    /// Costs that were not measured, and how often the run would have charged them.
    unknown: Unknown,
    pub(crate) tick: u64,
    pub(crate) system_call: u64,
    /// A system call that writes to, or reads from, a pipe or a socket.
    write: [u64; 2],
    read: [u64; 2],
    pipe_empty: u64,
    pub(crate) file_reference: u64,
    far: [Far; 2],
    follows_messages: bool,
    copy_per_kib: u64,
    copy_far_per_kib: u64,
    skb_per_kib: u64,
    slab: u64,
    slab_free: u64,
    page: u64,
    page_free: u64,
    /// Going to sleep because something is missing, up to the last check whether it is there; and the pass of the scheduler after that,
    /// within which other CPUs can provide it. On one CPU there are no others, and the check comes last.
    pub(crate) block: u64,
    pub(crate) depart: u64,
    /// What of going to sleep is the scheduler's pass.
    pub(crate) pass_to_sleep: u64,
    /// What that pass takes besides where the task sleeps for a message: dequeuing it (`dequeue_task`).
    pub(crate) dequeue: u64,
    /// What a delayed dequeue saves of such a pass, and of the wake-up that ends the sleep: about a quarter. Counted by instructions in turns through a
    /// pipe, waking a delayed task is 0.7 us of 2.5 cheaper on 6.12, and 0.2 to 0.4 of 1.9 on 7.2.
    pub(crate) delayed_dequeue_pass: u64,
    pub(crate) delayed_dequeue_wakeup: u64,
    /// Sleeping until a timer expires: a system call, setting the timer, and going to sleep.
    pub(crate) sleep: u64,
    /// Further where no timer of the CPU expires earlier.
    pub(crate) next_timer: u64,
    pub(crate) interrupt: u64,
    pub(crate) timer_taken: u64,
    pub(crate) timer_switch: u64,
    /// A system call that wakes the tasks that wait for a futex, beyond the wake-up.
    pub(crate) futex_wake: u64,
    /// A system call that waits for a futex, and going to sleep in that.
    pub(crate) futex_wait: u64,
    pub(crate) clock: u64,
    /// A task that has to wait for a message sleeps within a system call, which it has begun. Where system calls cost nothing (LinSched's
    /// callbacks), looking for a message in vain and reading one are two operations.
    pub(crate) sleeps_within_calls: bool,
    migration: u64,
    pub(crate) balance: u64,
    pub(crate) operation: u64,
    compute: u64,
    /// A computing task reads the clock of its CPU time, which counts ticks and other interrupts. Where CPUs differ in speed, it does an
    /// amount of work instead.
    pub(crate) clocked: bool,
    pub(crate) tcp_connect: u64,
    pub(crate) tcp_accept: u64,
    pub(crate) tcp_write: u64,
    pub(crate) tcp_read: u64,
    /// Of connecting and writing, what is after the wake-up.
    pub(crate) tcp_connect_tail: u64,
    pub(crate) tcp_write_tail: u64,
    /// Ending a connection before the other side does, and after it.
    pub(crate) tcp_client_closes: [u64; 2],
    pub(crate) tcp_server_closes: [u64; 2],
    start: [u64; 2],
    begin_process: u64,
    fork: [u64; 2],
    exit: [u64; 2],
    pub(crate) reap: u64,
    /// A run of RCU's thread.
    pub(crate) grace_period: u64,
    memory_per_kib: u64,
    memory_chase: u64,
    /// Tasks that are marked for rescheduling end their accesses of files first.
    pub(crate) ends_accesses: bool,
    /// The CPU time that an access of the disk costs the task that asks for it.
    pub(crate) disk_access: u64,
    /// Whether a synchronous write checks the inode's table block once the inode is written (Linux 6.5 on).
    pub(crate) table_after_inode: bool,
    /// Whether a thread's stack is left to RCU as its other memory is freed (Linux 5.18 on), and what its mapping took (6.1 on).
    pub(crate) stack_left_to_rcu: bool,
    pub(crate) mappings_left_to_rcu: bool,
    /// Whether files that are closed are left to RCU (Linux 6.6 and before).
    pub(crate) files_left_to_rcu: bool,
    /// Whether first writes past the page cache hold the inode's lock as readers, side by side (Linux 6.3 on).
    pub(crate) shares_first_writes: bool,
    disk_latency: u64,
    disk_per_kib: u64,
    /// The CPU time that beginning a write past the page cache costs, and further where a block is written for the first time.
    pub(crate) begun_write: u64,
    pub(crate) first_write: u64,
    /// The CPU time of the kernel thread that completes a write, further for a block's first one, and for each access of the disk.
    pub(crate) completion: u64,
    pub(crate) first_completion: u64,
    pub(crate) completion_access: u64,
    /// The CPU time of the kernel thread that hands an access to the disk.
    dispatch: u64,
    /// The further CPU time of a block's first synchronous write, and that of the kernel thread that ends its writeback.
    pub(crate) first_sync_write: u64,
    pub(crate) first_writeback: u64,
    /// The CPU time that asking for a flush costs a task, and that of the kernel thread that hands it to the disk.
    pub(crate) flush: u64,
    pub(crate) flush_dispatch: u64,
    flush_latency: u64,
    pub(crate) disk_interrupt: u64,
    /// The CPU that takes all of the disk's interrupts.
    disk_cpu: Option<u32>,
    /// The CPU time that writing the inode's table block costs the task that does: a thread's, where that was measured, as that of any access.
    pub(crate) table_access: u64,
}

impl Prices {
    /// # Errors
    /// [`ModelError::Machine`] for a cost above [`DEAREST`], so that no sum of costs overflows.
    pub(crate) fn new(machine: &Machine, set: &RuleSet) -> Result<Self, ModelError> {
        let Machine { cpus, topology, costs, devices, .. } = machine;
        let cpus = *cpus;
        let of_devices = [
            ("devices.memory_per_kib", devices.memory_per_kib),
            ("devices.memory_chase", devices.memory_chase),
            ("devices.disk_access", devices.disk_access),
            ("devices.disk_latency", devices.disk_latency),
            ("devices.disk_per_kib", devices.disk_per_kib),
            ("devices.begun_write", devices.begun_write),
            ("devices.first_write", devices.first_write),
            ("devices.completion", devices.completion),
            ("devices.first_completion", devices.first_completion),
            ("devices.completion_access", devices.completion_access),
            ("devices.first_sync_write", devices.first_sync_write),
            ("devices.dispatch", devices.dispatch),
            ("devices.first_writeback", devices.first_writeback),
            ("devices.flush", devices.flush),
            ("devices.flush_dispatch", devices.flush_dispatch),
            ("devices.flush_latency", devices.flush_latency),
            ("devices.disk_interrupt", devices.disk_interrupt),
        ];
        if let Some((name, cost)) = of_devices.into_iter().find(|(_, cost)| *cost > DEAREST) {
            return Err(ModelError::Machine(format!("{name} = {cost} is out of range; allowed: 0ns to {DEAREST}")));
        }
        if let Some((name, cost)) = named(costs).into_iter().find(|(_, cost)| *cost > DEAREST) {
            return Err(ModelError::Machine(format!(
                "costs.{name} = {cost} is out of range; allowed: 0ns to {DEAREST}"
            )));
        }
        let call = |beyond: Time| costs.system_call.saturating_add(beyond).as_nanos();
        // Where connections were not measured, they cost as much as those of any stream socket.
        let connection = |own: Time, socket: Time| if own == Time::ZERO { call(socket) } else { own.as_nanos() };
        let tcp_write = connection(costs.tcp_write, costs.socket_write);
        let sleeps_within_calls = costs.system_call > Time::ZERO;
        let pass_to_sleep = if sleeps_within_calls { costs.schedule.min(costs.block) } else { Time::ZERO };
        let dequeue = dequeue_in_pass(costs, pass_to_sleep);
        let depart = if cpus > 1 { pass_to_sleep + dequeue } else { Time::ZERO };
        let (ipi, idle_exit) = if machine.speed.turns { between_turns(costs) } else { (costs.ipi, costs.idle_exit) };
        let delayed_dequeue_wakeup = (costs.lingering.as_nanos() / 4).min(costs.wakeup.as_nanos());
        let block = costs.block.saturating_sub(depart);
        // Measured CPU time contains what the simulator charges by itself: the switch back after the sleep for an access and, where a thread hands it
        // over, a preemption before that sleep (`Engine::write_block`).
        let preempted = if devices.dispatch > Time::ZERO { costs.switch + costs.schedule } else { Time::ZERO };
        let switched = costs.switch + preempted;
        let steals = costs.steal > Time::ZERO && costs.steal_period > Time::ZERO;
        let free = |costs: &[Time]| costs.iter().all(|cost| *cost == Time::ZERO);
        Ok(Self {
            places: (0..cpus).map(|cpu| (topology.core(cpu, cpus), topology.cache(cpu, cpus))).collect(),
            free_switches: free(&[
                costs.switch,
                costs.cache_refill.min(costs.cache_refill_limit),
                costs.cache_refill_llc,
                costs.schedule_far,
                // Which CPU used a run queue last is followed by switches.
                costs.wakeup_far,
            ]),
            switch: costs.switch.as_nanos(),
            schedule: costs.schedule.as_nanos(),
            idle_schedule: costs.schedule.saturating_sub(costs.put_prev).as_nanos(),
            cache_refill: costs.cache_refill.as_nanos(),
            cache_refill_limit: costs.cache_refill_limit.as_nanos(),
            cache_refill_llc: costs.cache_refill_llc.as_nanos(),
            wakeup: costs.wakeup.as_nanos(),
            wakeup_preempt: costs.wakeup_preempt.as_nanos(),
            wakeup_select: if cpus > 1 { costs.wakeup_select.as_nanos() } else { 0 },
            lingering: costs.lingering.as_nanos(),
            wakeup_remote: costs.wakeup_remote.as_nanos(),
            wakeup_far: costs.wakeup_far.as_nanos(),
            schedule_far: costs.schedule_far.as_nanos(),
            ipi: ipi.as_nanos(),
            ipi_idle: costs.ipi_idle.as_nanos(),
            ipi_halted: costs.ipi_halted.as_nanos(),
            ipi_taken: costs.ipi_taken.as_nanos(),
            unknown: Unknown::new(&costs.unknown)?,
            idle_exit: idle_exit.as_nanos(),
            halt_exit: costs.halt_exit.as_nanos(),
            halt_deeper: costs.halt_deeper.as_nanos(),
            steal: costs.steal.as_nanos(),
            steal_offset: costs.steal_period.as_nanos() / 2,
            steal_period: steals.then(|| Divisor::new(costs.steal_period.as_nanos())),
            idle_charged: costs.idle_charged.as_nanos(),
            idle_switch: costs.idle_switch.as_nanos(),
            tick_restart: costs.tick_restart.as_nanos(),
            tick: costs.tick.as_nanos(),
            system_call: costs.system_call.as_nanos(),
            write: [call(costs.socket_write), call(costs.pipe_write)],
            read: [call(costs.socket_read), call(costs.pipe_read)],
            pipe_empty: costs.pipe_empty.as_nanos(),
            file_reference: costs.file_reference.as_nanos(),
            far: [
                [costs.socket_far, costs.socket_far_write, costs.socket_far_read],
                [costs.pipe_far, costs.pipe_far_message, costs.pipe_far_message],
            ]
            .map(|[first, write, read]| Far {
                first: first.as_nanos(),
                write: write.as_nanos(),
                read: read.as_nanos(),
            }),
            follows_messages: !free(&[
                costs.pipe_far_message,
                costs.socket_far_write,
                costs.socket_far_read,
                costs.copy_far_per_kib,
            ]),
            copy_per_kib: costs.copy_per_kib.as_nanos(),
            copy_far_per_kib: costs.copy_far_per_kib.as_nanos(),
            skb_per_kib: costs.skb_per_kib.as_nanos(),
            slab: costs.slab.as_nanos(),
            slab_free: costs.slab_free.as_nanos(),
            page: costs.page.as_nanos(),
            page_free: costs.page_free.as_nanos(),
            block: block.as_nanos(),
            depart: depart.as_nanos(),
            pass_to_sleep: pass_to_sleep.as_nanos(),
            dequeue: dequeue.as_nanos(),
            delayed_dequeue_pass: costs.lingering.as_nanos() - delayed_dequeue_wakeup,
            delayed_dequeue_wakeup,
            sleep: call(costs.block.saturating_add(costs.sleep_timer)),
            next_timer: costs.next_timer.as_nanos(),
            interrupt: costs.interrupt.as_nanos(),
            timer_taken: costs.timer_taken.as_nanos(),
            timer_switch: costs.timer_switch.as_nanos(),
            futex_wake: call(costs.futex_wake),
            futex_wait: call(block.saturating_add(costs.futex_wait)),
            clock: costs.clock.as_nanos(),
            sleeps_within_calls,
            migration: costs.migration.as_nanos(),
            balance: costs.balance.as_nanos(),
            operation: costs.operation.as_nanos(),
            compute: costs.compute.as_nanos(),
            clocked: costs.compute > Time::ZERO,
            tcp_connect: costs.tcp_connect.as_nanos(),
            tcp_accept: costs.tcp_accept.as_nanos(),
            tcp_write,
            tcp_read: connection(costs.tcp_read, costs.socket_read),
            tcp_connect_tail: costs.tcp_connect_tail.min(costs.tcp_connect).as_nanos(),
            tcp_write_tail: costs.tcp_write_tail.as_nanos().min(tcp_write),
            tcp_client_closes: [costs.tcp_client_closes, costs.tcp_client_closes_last].map(Time::as_nanos),
            tcp_server_closes: [costs.tcp_server_closes, costs.tcp_server_closes_last].map(Time::as_nanos),
            start: [costs.start_process.as_nanos(), costs.start_thread.as_nanos()],
            begin_process: costs.begin_process.as_nanos(),
            fork: [costs.fork_process.as_nanos(), costs.fork_thread.as_nanos()],
            exit: [costs.exit_process.as_nanos(), costs.exit_thread.as_nanos()],
            reap: costs.reap.as_nanos(),
            grace_period: costs.grace_period.as_nanos(),
            memory_per_kib: devices.memory_per_kib.as_nanos(),
            memory_chase: devices.memory_chase.as_nanos(),
            ends_accesses: machine.preempt == Preempt::None,
            disk_access: devices.disk_access.as_nanos(),
            table_after_inode: set.table_after_inode,
            stack_left_to_rcu: set.stack_left_to_rcu,
            mappings_left_to_rcu: set.mappings_left_to_rcu,
            files_left_to_rcu: !set.files_typesafe,
            shares_first_writes: set.shares_first_writes,
            disk_latency: devices.disk_latency.as_nanos(),
            disk_per_kib: devices.disk_per_kib.as_nanos(),
            begun_write: access_in(devices.begun_write, costs.switch, devices),
            first_write: devices.first_write.as_nanos(),
            completion: devices.completion.as_nanos(),
            first_completion: devices.first_completion.as_nanos(),
            completion_access: devices.completion_access.saturating_sub(switched).as_nanos(),
            dispatch: devices.dispatch.as_nanos(),
            first_sync_write: devices.first_sync_write.as_nanos(),
            first_writeback: devices.first_writeback.as_nanos(),
            flush: devices.flush.as_nanos(),
            flush_dispatch: devices.flush_dispatch.as_nanos(),
            flush_latency: devices.flush_latency.as_nanos(),
            disk_interrupt: if devices.disk_interrupt == Time::ZERO { costs.interrupt } else { devices.disk_interrupt }
                .as_nanos(),
            disk_cpu: devices.disk_cpu.filter(|cpu| *cpu < cpus),
            table_access: access_in(devices.completion_access, switched, devices),
        })
    }

    /// Computing for so long by a clock, `first` since the task was switched in or not: if not it takes 1 ns to look at what the first one has read. So what the
    /// task owes comes before that look.
    #[inline]
    pub(crate) fn run(&self, time: u64, first: bool) -> u64 {
        let looks = if first { self.compute } else { self.compute.min(1) };
        time.saturating_add(looks)
    }

    /// Whether a task that computes for so long reads clocks to do so.
    #[inline]
    pub(crate) const fn is_clocked(&self, time: u64) -> bool {
        self.clocked && time >= Costs::CLOCKED.as_nanos()
    }

    /// How long before it sleeps a task has set the timer that it sleeps for: it goes to sleep after that (`do_nanosleep`).
    #[inline]
    pub(crate) fn armed(&self) -> u64 {
        if self.sleeps_within_calls { self.block + self.depart } else { 0 }
    }

    /// For how long after a switch its CPU takes no interrupts yet. There is no separate measurement of it: on 6.12 ticks are late that
    /// expire from 1.4 us before a switch is reported until 2.6 us after it, where a pass takes 2.3 and the rest of a switch 7.1. So it is
    /// taken to be as long as the pass before it, and no longer than the switch.
    #[inline]
    pub(crate) fn masked(&self) -> u64 {
        self.schedule.min(self.switch)
    }

    /// Whether none of what tasks that only compute and sleep bring about costs anything: ticks, wake-ups by timers, switches, looking at
    /// other CPUs, and the operations themselves.
    pub(crate) const fn are_free(&self) -> bool {
        let waking = self.wakeup
            | self.wakeup_remote
            | self.wakeup_far
            | self.ipi
            | self.ipi_idle
            | self.ipi_halted
            | self.ipi_taken
            | self.wakeup_preempt
            | self.wakeup_select
            | self.lingering
            | self.schedule;
        let idling = self.idle_exit
            | self.halt_exit
            | self.halt_deeper
            | self.idle_charged
            | self.idle_switch
            | self.tick_restart
            | self.tick
            | self.balance
            | self.migration;
        let timers = self.sleep | self.next_timer | self.interrupt | self.timer_taken | self.timer_switch;
        let operating = self.operation | self.compute;
        let costs = waking | idling | timers | operating;
        self.free_switches && costs == 0 && self.steal_period.is_none() && self.unknown.is_empty()
    }

    /// Whether nothing lies between a timer's expiry on an idle CPU and its switch to the task that the timer wakes.
    #[inline]
    pub(crate) const fn at_once(&self) -> bool {
        let sending = self.ipi_idle | self.ipi_halted;
        let idling = self.idle_exit
            | self.halt_exit
            | self.halt_deeper
            | self.idle_charged
            | self.idle_switch
            | self.tick_restart;
        let waking = self.wakeup | self.schedule | self.timer_taken | self.timer_switch;
        sending | idling | waking == 0 && self.steal_period.is_none() && self.unknown.is_empty()
    }

    /// What a reader of the run has to know of the costs: those that it needed and that were not measured, each with how often.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.unknown.notes()
    }

    /// Whether ending a connection is a part of its own, of connecting and accepting otherwise.
    pub(crate) const fn closes_connections(&self) -> bool {
        self.tcp_client_closes[0] | self.tcp_server_closes[0] != 0
    }

    /// Entering a write.
    #[inline]
    pub(crate) const fn write(&self, pipe: bool) -> u64 {
        self.write[pipe as usize]
    }

    /// Entering a read.
    #[inline]
    pub(crate) const fn read(&self, pipe: bool) -> u64 {
        self.read[pipe as usize]
    }

    /// Going to sleep in a call that takes `entry`: the way in, joining the waiters (`prepare_to_wait_event`), and the pass.
    #[inline]
    pub(crate) fn to_sleep(&self, entry: u64) -> u64 {
        if self.sleeps_within_calls { self.way_in(entry).saturating_add(self.block) } else { self.block }
    }

    /// What is left of it once its task was woken and is back (`finish_wait`, what it does with the message, and the way out).
    pub(crate) fn after_sleep(&self, entry: u64) -> u64 {
        entry - self.way_in(entry)
    }

    /// What of a call that takes `entry` comes before it sleeps. A socket's has taken no message from its queue by then (`unix_stream_read_generic`) and
    /// has done no more than a pipe's: on 6.1 a task waits 5.6 us while its waker goes to sleep for a socket, and 6.1 for a pipe.
    /// Half of it comes once the task is back.
    fn way_in(&self, entry: u64) -> u64 {
        let first = entry.min(self.read[1].max(self.write[1]));
        first - first / 2
    }

    pub(crate) const fn fork(&self, kind: TaskKind) -> u64 {
        self.fork[matches!(kind, TaskKind::Thread) as usize]
    }

    pub(crate) const fn start(&self, kind: TaskKind) -> u64 {
        self.start[matches!(kind, TaskKind::Thread) as usize]
    }

    pub(crate) const fn begin(&self, kind: TaskKind) -> u64 {
        if matches!(kind, TaskKind::Thread) { 0 } else { self.begin_process }
    }

    pub(crate) const fn exit(&self, kind: TaskKind) -> u64 {
        self.exit[matches!(kind, TaskKind::Thread) as usize]
    }

    /// The price of a switch to a task on `cpu` while there are `others` besides.
    ///
    /// Switches to others since it last ran on this core stand for the tasks among them; there are no more of those than are alive.
    /// A task that comes from another core, or ran nowhere yet, finds nothing of its own in this core's caches, and from beyond
    /// another last-level cache nothing in that either.
    #[inline]
    pub(crate) fn switch_on(&self, cpus: &[Cpu], task: &Task, cpu: u32, others: u32) -> u64 {
        if self.free_switches {
            return 0;
        }
        let since = |cpu: u32| (cpus[cpu as usize].switches - task.ran_at).min(u64::from(others));
        if task.ran_on == cpu {
            return self.switch(since(cpu));
        }
        if task.ran_on == NONE {
            return self.switch(u64::MAX);
        }
        let (from, to) = (self.places[task.ran_on as usize], self.places[cpu as usize]);
        let beyond = if from.1 == to.1 { 0 } else { self.cache_refill_llc };
        self.switch(if from.0 == to.0 { since(task.ran_on) } else { u64::MAX }).saturating_add(beyond)
    }

    /// A switch to a task after `others` switches to other tasks since it last ran there.
    #[inline]
    const fn switch(&self, others: u64) -> u64 {
        let refill = self.cache_refill.saturating_mul(others);
        let refill = if refill < self.cache_refill_limit { refill } else { self.cache_refill_limit };
        self.switch.saturating_add(refill)
    }
}

/// What of going to sleep in a call the scheduler's pass takes for the dequeue, once it has read its clock.
///
/// A turn through a pipe was counted by instructions. From entering a read that sleeps to that clock it takes 1.44 us on 5.10, 1.68 on 6.1, 1.65 on
/// 6.12 and 1.67 on 7.2: half of a read that finds its message, and about as long as entering and leaving the kernel takes. After the switch a task
/// that slept leaves its call 1.4 us later on 6.12, and 1.1 on 7.2, than one that was preempted leaves the kernel: the other half. The rest of going
/// to sleep lies between the clock and the switch, 3.3 to 4.6 us in all.
///
/// Where system calls cost nothing no task sleeps within one.
fn dequeue_in_pass(costs: &Costs, pass: Time) -> Time {
    if costs.system_call == Time::ZERO {
        Time::ZERO
    } else {
        costs.block.saturating_sub(pass).saturating_sub(costs.system_call)
    }
}
