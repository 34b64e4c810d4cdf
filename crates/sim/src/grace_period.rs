//! RCU's grace periods, and the kernel thread that begins and ends them (`rcu_gp_kthread`, `kernel/rcu/tree.c`).
//!
//! Threads that are made, tasks and connections that end, and files that are closed leave memory to RCU (`call_rcu`), on the CPU where that happens. That CPU's next
//! tick asks for a grace period and wakes the thread (`rcu_core`, `rcu_accelerate_cbs`), which begins one and sleeps (`rcu_gp_init`). The next tick
//! of each CPU says that it was in no reader (`rcu_report_qs_rdp`); the last of them wakes the thread again, which ends the grace period and, where
//! memory was left meanwhile, begins the next one in the same run (`rcu_gp_cleanup`). The tick after that frees the memory (`rcu_do_batch`); to free
//! a task is to leave parts of it to RCU once more. An idle CPU has ticks as long as it has left memory (`rcu_needs_cpu`); of others the thread
//! itself finds that they idle, once its timer has expired (`rcu_gp_fqs`).
//!
//! Two things are taken as they nearly always are: a tick interrupts no reader, and a tick frees all there is to free.

use schedlab_model::{EventSink, TaskKind, TaskState};

use crate::engine::Engine;
use crate::task::Stage;
use crate::wait::NONE;

/// A thread's sleep of so many ticks ends in the second tick at the earliest (`calc_index`), with HZ up to 250; in the fourth from 500 on.
const TILL_FQS: u64 = 2;

/// What is left to RCU: memory, and a task, whose stack or credentials are left to RCU as it is freed.
pub(crate) const MEMORY: u8 = 1;
pub(crate) const TASK: u8 = 2;

/// A CPU's part (`rcu_data`).
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// What was left since the CPU looked last, if anything.
    left: u8,
    /// What waits for the end of a grace period, and of which; at most the one under way, or asked for, and the one after it.
    waits: [(u8, u64); 2],
    /// The last grace period that it knows of.
    noted: u64,
    /// It has not said yet that it was in no reader since the grace period began (`qsmask`).
    missing: bool,
}

/// All of them (`rcu_state`).
#[derive(Debug, Clone, Default)]
pub(crate) struct GracePeriods {
    /// The thread, for which the timer of the next tick is set; nothing is left to RCU without it.
    thread: Option<u32>,
    /// It sleeps, and was not woken.
    idles: bool,
    /// That timer is set.
    ticks: bool,
    /// Grace periods that are over, and whether one is under way; until which they were asked for.
    over: u64,
    under_way: bool,
    needed: u64,
    /// When the thread looks itself which CPUs idle.
    looks_at: u64,
    parts: Vec<Part>,
}

impl GracePeriods {
    /// The thread is there from the start, and idles.
    pub(crate) fn begin(&mut self, thread: u32, cpus: usize) {
        (self.thread, self.idles, self.parts) = (Some(thread), true, vec![Part::default(); cpus]);
    }

    /// `rcu_accelerate_cbs`: what the CPU has left since it looked last is freed after the first grace period that begins from now on.
    fn accelerate(&mut self, cpu: usize) {
        let after = self.over + 1 + u64::from(self.under_way);
        let part = &mut self.parts[cpu];
        let left = std::mem::take(&mut part.left);
        if left == 0 {
            return;
        }
        let free = usize::from(part.waits[0].0 > 0 && part.waits[0].1 != after);
        part.waits[free] = (left.max(part.waits[free].0), after);
        self.needed = self.needed.max(after);
    }

    /// `rcu_core`, in a CPU's tick: whether there is something for the thread to do.
    fn tick(&mut self, cpu: usize) -> bool {
        let current = self.over + u64::from(self.under_way);
        let part = &mut self.parts[cpu];
        if part.noted != current {
            // It says so in its next tick.
            part.noted = current;
            self.accelerate(cpu);
        } else if self.under_way {
            part.missing = false;
        }
        if !self.under_way {
            self.accelerate(cpu);
        }
        let (over, part) = (self.over, &mut self.parts[cpu]);
        for wait in &mut part.waits {
            if wait.0 > 0 && wait.1 <= over {
                part.left = part.left.max(wait.0 - 1);
                wait.0 = 0;
            }
        }
        part.waits.sort_unstable_by_key(|wait| if wait.0 > 0 { wait.1 } else { u64::MAX });
        self.is_due()
    }

    /// Whether the thread is to begin or to end one.
    fn is_due(&self) -> bool {
        if self.under_way { !self.parts.iter().any(|part| part.missing) } else { self.needed > self.over }
    }

    /// Whether a CPU has left memory that is not freed yet.
    fn has_left(&self, cpu: usize) -> bool {
        let part = &self.parts[cpu];
        part.left > 0 || part.waits[0].0 > 0
    }

    /// Whether a CPU that begins to idle keeps its tick (`rcu_needs_cpu`).
    pub(crate) fn keeps_tick(&self, cpu: usize) -> bool {
        self.thread.is_some() && self.has_left(cpu)
    }

    /// What the thread does in a run on a CPU: `rcu_gp_cleanup`, if that ends a grace period, and `rcu_gp_init`, if another one was asked for.
    fn run(&mut self, cpu: usize, online: impl Fn(usize) -> bool, looks_at: u64) {
        if self.under_way && self.is_due() {
            (self.over, self.under_way) = (self.over + 1, false);
            self.parts[cpu].noted = self.over;
            self.accelerate(cpu);
        }
        if !self.under_way && self.is_due() {
            self.under_way = true;
            self.looks_at = looks_at;
            for (cpu, part) in self.parts.iter_mut().enumerate() {
                part.missing = online(cpu);
            }
            self.parts[cpu].noted = self.over + 1;
            self.accelerate(cpu);
        }
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// `call_rcu`: memory is left to RCU on a CPU. Nothing where no thread of RCU's is simulated.
    #[inline]
    pub(crate) fn call_rcu(&mut self, cpu: u32, what: u8) {
        if self.arena.objects.grace_periods.thread.is_some() {
            let part = &mut self.arena.objects.grace_periods.parts[cpu as usize];
            part.left = part.left.max(what);
            self.set_rcu_tick();
        }
    }

    /// A task was made on a CPU (`copy_process`): mapping a thread's stack leaves memory to RCU, making a process does not.
    pub(crate) fn leave_mappings(&mut self, kind: TaskKind, cpu: u32) {
        if kind == TaskKind::Thread && self.prices.mappings_left_to_rcu {
            self.call_rcu(cpu, MEMORY);
        }
    }

    /// The tasks that are there from the start have just been made, by a runner that closes a file of its own before they begin.
    pub(crate) fn leave_start(&mut self, cpu: u32) {
        let threads = self.program.roots().any(|(template, _)| {
            let template = self.program.template(template);
            template.kind == TaskKind::Thread && !template.asleep
        });
        if self.prices.files_left_to_rcu || threads && self.prices.mappings_left_to_rcu {
            self.call_rcu(cpu, MEMORY);
        }
    }

    /// `release_task`, as a thread ends or a process is collected (`delayed_put_task_struct`): a process has credentials of its own.
    pub(crate) fn release_task(&mut self, kind: TaskKind, cpu: u32) {
        let once_more = kind == TaskKind::Process || self.prices.stack_left_to_rcu;
        self.call_rcu(cpu, if once_more { TASK } else { MEMORY });
    }

    /// Sees to it that something happens in the next tick's interrupt, before its CPU schedules: a tick that preempts a task, and wakes RCU's thread, ends
    /// with one switch. At the same instant a timer comes before a tick.
    fn set_rcu_tick(&mut self) {
        let ahead = self.tick_after_now() - self.now;
        let periods = &mut self.arena.objects.grace_periods;
        if let Some(thread) = periods.thread
            && !std::mem::replace(&mut periods.ticks, true)
        {
            self.arena.timers.push(self.now, ahead, thread);
        }
    }

    /// A timer expires: if it is RCU's, that is the soft interrupt of all CPUs' ticks (`RCU_SOFTIRQ`). Returns what is left to be billed.
    pub(crate) fn rcu_softirq(&mut self, timer: u32) -> Option<u64> {
        self.arena.objects.grace_periods.thread.filter(|thread| *thread == timer)?;
        self.arena.objects.grace_periods.ticks = false;
        for cpu in 0..self.arena.cpus.len() as u32 {
            let (record, periods) = (&self.arena.cpus[cpu as usize], &mut self.arena.objects.grace_periods);
            let idles = record.current == NONE;
            // What a CPU has left that went off line is another one's (`rcutree_migrate_callbacks`).
            if (!idles || periods.has_left(cpu as usize)) && periods.tick(cpu as usize) {
                self.wake_rcu(timer, self.online_cpu(cpu));
            }
        }
        let periods = &mut self.arena.objects.grace_periods;
        if periods.under_way && periods.looks_at <= self.now {
            // `rcu_gp_fqs`: CPUs that idle, or are off line, are in no reader.
            for (part, cpu) in periods.parts.iter_mut().zip(&self.arena.cpus) {
                part.missing &= cpu.current != NONE && cpu.online;
            }
            periods.looks_at = self.now + TILL_FQS * self.period;
            if periods.is_due() {
                let home = self.online_cpu(self.arena.tasks[timer as usize].cpu);
                self.wake_rcu(timer, home);
            }
        }
        let periods = &self.arena.objects.grace_periods;
        if periods.under_way
            || periods.needed > periods.over
            || (0..periods.parts.len()).any(|cpu| periods.has_left(cpu))
        {
            self.set_rcu_tick();
        }
        Some(0)
    }

    /// `rcu_gp_kthread_wake`, in an interrupt on a CPU, whose task pays for it.
    fn wake_rcu(&mut self, thread: u32, cpu: u32) {
        if std::mem::take(&mut self.arena.objects.grace_periods.idles) {
            let cost = self.wake(thread, cpu, NONE, false);
            if self.arena.cpus[cpu as usize].current != NONE {
                self.interrupted(cpu, cost);
            }
        }
    }

    /// The CPU time that the thread takes for its next run.
    pub(crate) fn plan_grace_period(&mut self, thread: u32) -> u64 {
        self.arena.tasks[thread as usize].slept = false;
        if self.arena.objects.grace_periods.is_due() { self.prices.grace_period } else { 0 }
    }

    /// The thread has begun or ended a grace period, and sleeps.
    pub(crate) fn run_grace_period(&mut self, thread: u32, cpu: u32) {
        let looks_at = self.ticks.last(self.now) + TILL_FQS * self.period;
        let (periods, cpus) = (&mut self.arena.objects.grace_periods, &self.arena.cpus);
        periods.run(cpu as usize, |cpu| cpus[cpu].online, looks_at);
        let record = &mut self.arena.tasks[thread as usize];
        record.stage = Stage::Retry;
        if !periods.is_due() {
            (periods.idles, record.slept) = (true, true);
            self.switch(cpu, TaskState::Interruptible);
        }
    }
}
