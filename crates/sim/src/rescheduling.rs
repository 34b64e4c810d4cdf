//! Rescheduling latency: what lies between a wake-up, or another reason to reschedule, and the switch.
//!
//! A task that marked itself for rescheduling in a system call leaves that first (`exit_to_user_mode_loop`); an interrupt is handled first
//! (`irqentry_exit`); another CPU's notification takes time to arrive; and the scheduler itself takes a pass. All of it is charged to the
//! task that is current meanwhile.

use schedlab_model::{Costs, CpuId, EventSink, Policy, TaskState, Time};
use schedlab_program::Op;
use schedlab_sched::{Class, Clocks};

use crate::engine::{Engine, task_id};
use crate::event_queue::NEVER;
use crate::sync::WAKING;
use crate::task::Stage;
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// The cost of having another CPU look at its queue after a task was put on that: an interrupt, if the CPU idles or has to switch and
    /// was not notified yet (`resched_curr`).
    pub(crate) fn ipi_to(&self, cpu: u32) -> u64 {
        let record = &self.arena.cpus[cpu as usize];
        let told = record.resched_at != NEVER || record.leaving;
        if told {
            0
        } else if record.current == NONE {
            self.prices.ipi_idle(record.halted(self.now).is_some())
        } else if self.must_switch(cpu) {
            self.prices.ipi()
        } else {
            0
        }
    }

    /// How long a CPU takes to leave idle for another CPU's notification, up to the scheduler's pass.
    pub(crate) fn way_out_of_idle(&mut self, cpu: u32) -> u64 {
        if self.arena.cpus[cpu as usize].current != NONE {
            return 0;
        }
        self.idle_exit(cpu) + self.end_of_idle(cpu)
    }

    /// From an interrupt until an idle CPU looks at it.
    #[inline]
    pub(crate) fn idle_exit(&self, cpu: u32) -> u64 {
        self.prices.idle_exit(self.arena.cpus[cpu as usize].halted(self.now))
    }

    /// What lies between the interrupt that an idle CPU takes and the scheduler's pass (`tick_nohz_idle_exit`), by how long it idled. One that
    /// idled through the time of a tick had stopped it, and sees to the time that has passed since (`tick_nohz_update_jiffies`).
    #[inline]
    pub(crate) fn end_of_idle(&mut self, cpu: u32) -> u64 {
        let record = &self.arena.cpus[cpu as usize];
        if record.current != NONE {
            return 0;
        }
        let since = record.idle_since;
        let restart = if since < self.ticks.last(self.now) { self.prices.tick_restart() } else { 0 };
        let saved = if restart > 0 { (Costs::SETTINGS - self.tick_settings(cpu)) * self.prices.next_timer } else { 0 };
        self.prices.idle_switch(self.now, since) + restart.saturating_sub(saved)
    }

    /// How often a CPU that leaves idle sets its clock device to start its tick again (`tick_nohz_restart`). Cancelling the stopped tick's timer
    /// sets it if no other timer of the CPU is pending, since that was the next one; starting the tick sets it if that is before all others.
    fn tick_settings(&mut self, cpu: u32) -> u64 {
        if !self.arena.cpus[cpu as usize].tick_stopped {
            return 0;
        }
        let tick = self.tick_after_now();
        match self.arena.expiries.first(cpu, self.now) {
            None => Costs::SETTINGS,
            Some(first) => u64::from(tick <= first),
        }
    }

    /// What of its timer's interrupt lies between a task's wake-up and the switch to it.
    #[inline]
    pub(crate) fn timer_switch(&self, task: u32) -> u64 {
        if self.prices.timer_switch > 0 && self.is_timed(task) { self.prices.timer_switch } else { 0 }
    }

    /// Whether the task sleeps, or slept last, until a timer expires.
    #[inline]
    fn is_timed(&self, task: u32) -> bool {
        let record = &self.arena.tasks[task as usize];
        !record.background && matches!(record.op, Op::Sleep(_) | Op::Delay(_) | Op::Timer { .. })
    }

    /// The task is about to be woken: if its dequeue is delayed, its sleep and its next switch in cost less. The task has gone to sleep
    /// already, and the waker waits for the whole wake-up, so that it is the switch in that is shorter.
    #[inline]
    pub(crate) fn note_delayed_dequeue(&mut self, task: u32) {
        if self.prices.lingering > 0 {
            self.arena.tasks[task as usize].was_delayed = self.sched.entity(task_id(task)).sched_delayed;
        }
    }

    /// What a delayed dequeue that has shortened the pass with which the task went to sleep saves of its wake-up.
    #[inline]
    pub(crate) fn delayed_dequeue_wakeup(&self, task: u32) -> u64 {
        let record = &self.arena.tasks[task as usize];
        if record.was_delayed && record.pass_shortened { self.prices.delayed_dequeue_wakeup } else { 0 }
    }

    /// Whether the CPU's current task, which is marked for rescheduling, goes on in the kernel: with `preempt=none` until it sleeps or leaves that, and
    /// marked lazily until a tick at most (`irqentry_exit_cond_resched`). Of tasks those are taken to be in the kernel that access files. A kernel thread
    /// that is not preempted lazily ends its present work, after which it offers that (`cond_resched` in `process_one_work`).
    #[inline]
    pub(crate) fn goes_on_in_kernel(&self, cpu: u32) -> bool {
        if self.holds_wait_queue(cpu) {
            return true;
        }
        let lazy = self.sched.rules().lazy;
        let goes_on = if lazy { !self.sched.must_resched(CpuId(cpu)) } else { self.prices.ends_accesses };
        goes_on && self.prices.sleeps_within_calls && self.is_in_kernel(cpu, lazy)
    }

    /// Whether the CPU's current task has others of a wait queue to wake, whose lock it holds until then (`__wake_up_common_lock`).
    fn holds_wait_queue(&self, cpu: u32) -> bool {
        let current = self.arena.cpus[cpu as usize].current;
        current != NONE && {
            let task = &self.arena.tasks[current as usize];
            task.moved >= WAKING && matches!(task.op, Op::OpenLatch(_) | Op::PostAll(_))
        }
    }

    fn is_in_kernel(&self, cpu: u32, lazy: bool) -> bool {
        let current = self.arena.cpus[cpu as usize].current;
        if current == NONE {
            return false;
        }
        let task = &self.arena.tasks[current as usize];
        match task.op {
            Op::File(_) => task.stage != Stage::Fetch,
            Op::CompleteWrite => lazy || task.stage == Stage::Act || task.moved != 0,
            Op::EndWriteback | Op::Dispatch | Op::DispatchFlush => lazy || task.stage == Stage::Act,
            Op::Broadcast(_) | Op::Barrier(_) => task.moved == WAKING,
            _ => false,
        }
    }

    /// Tells an idle CPU to schedule: another one has yet to work for `sent` before it notifies this one, which then takes `exit` to leave idle.
    pub(crate) fn rouse(&mut self, cpu: u32, sent: u64, exit: u64) {
        self.idle -= 1;
        self.arena.cpus[cpu as usize].idle_until = self.now;
        self.notify_cpu(cpu, sent, exit + self.prices.idle_schedule);
        self.refresh(cpu);
    }

    /// Tells a busy CPU, which knows of it `late`, to schedule if the rules say so; that pass is a part of its task's time.
    /// [`Engine::refresh`] is done.
    pub(crate) fn summon(&mut self, cpu: u32, late: u64) {
        self.summon_by(cpu, late, false);
    }

    /// [`Engine::summon`], by another CPU's interrupt or not: taking that is a part of the current task's time, too.
    pub(crate) fn summon_by(&mut self, cpu: u32, late: u64, interrupted: bool) {
        let record = &self.arena.cpus[cpu as usize];
        if !record.leaving && record.resched_at == NEVER && self.must_switch(cpu) {
            let pass = self.prices.schedule + if interrupted { self.prices.ipi_taken() } else { 0 };
            let way = self.takes(cpu, late + pass);
            if way > 0 {
                let record = &mut self.arena.cpus[cpu as usize];
                record.interrupted(self.now, self.now + way, pass);
                (record.leaving, record.resched_at) = (true, self.now + way);
            }
        }
        self.refresh(cpu);
    }

    /// An interrupt takes time from the CPU's current task, and it may have set `need_resched`: the CPU reschedules after it.
    /// [`Engine::refresh`] is done.
    pub(crate) fn interrupted(&mut self, cpu: u32, cost: u64) {
        self.catch_up(cpu);
        let takes = self.takes(cpu, cost);
        let record = &mut self.arena.cpus[cpu as usize];
        let mut until = self.now + takes;
        if record.leaving && record.resched_at != NEVER {
            record.resched_at += takes;
            until = record.resched_at;
        }
        record.interrupted(self.now, until, cost);
        self.summon(cpu, cost);
    }

    /// What a timer's interrupt that has woken the task costs the current task of its CPU beyond the wake-up: all of it where that task goes
    /// on, or what comes before the switch to the woken one.
    #[inline]
    pub(crate) fn rest_of_interrupt(&self, task: u32, cpu: u32) -> u64 {
        let here = self.arena.tasks[task as usize].cpu == cpu;
        let before = if here && !self.interrupted_goes_on(cpu) { self.timer_switch(task) } else { 0 };
        self.interrupt_alone(cpu) + before
    }

    /// The cost of an interrupt that has woken a task and after which the interrupted task goes on.
    #[inline]
    pub(crate) fn interrupt_alone(&self, cpu: u32) -> u64 {
        if self.interrupted_goes_on(cpu) { self.prices.interrupt } else { 0 }
    }

    /// [`Engine::interrupt_alone`] of the disk's interrupt.
    #[inline]
    pub(crate) fn disk_interrupt_alone(&self, cpu: u32) -> u64 {
        if self.interrupted_goes_on(cpu) { self.prices.disk_interrupt } else { 0 }
    }

    #[inline]
    fn interrupted_goes_on(&self, cpu: u32) -> bool {
        self.arena.cpus[cpu as usize].current != NONE
            && (!self.sched.need_resched(CpuId(cpu)) || self.goes_on_in_kernel(cpu))
    }

    /// Bills what comes after the switch of the interrupt of the timer that ended a task's sleep to that task, where it was woken on the
    /// interrupted CPU and no current task continues there.
    #[inline]
    pub(crate) fn bill_timer(&mut self, task: u32, cpu: u32) {
        if self.prices.timer_taken == 0 || self.interrupted_goes_on(cpu) || !self.is_timed(task) {
            return;
        }
        let idle = &self.arena.cpus[cpu as usize];
        let left = if idle.current == NONE { self.prices.idle_switch(self.now, idle.idle_since) } else { 0 };
        let cost = self.prices.timer_taken.saturating_sub(self.prices.timer_switch + left);
        let record = &mut self.arena.tasks[task as usize];
        if record.cpu == cpu {
            record.debt += cost;
        }
    }

    /// The current task's own system call has set `need_resched`: the task first leaves the call, and the scheduler picks the next task.
    /// False where neither takes time.
    pub(crate) fn leaves_the_kernel(&mut self, cpu: u32) -> bool {
        let task = &mut self.arena.tasks[self.arena.cpus[cpu as usize].current as usize];
        let exits = matches!(task.stage, Stage::Notify | Stage::Die) && self.sched.rules().lazy;
        if !exits && !matches!(task.stage, Stage::Fetch | Stage::Retry) {
            return false;
        }
        // What an exit takes was measured with the pass that is a part of it.
        let pass = if exits { 0 } else { self.prices.schedule };
        let way = std::mem::take(&mut task.debt) + pass;
        if way == 0 {
            return false;
        }
        let record = &mut self.arena.cpus[cpu as usize];
        (record.end, record.leaving, record.clocked) = (self.now, true, false);
        record.bill(way);
        true
    }

    /// What a wake-up on `target` takes the CPU besides that wakes, another one.
    pub(crate) fn wakeup_elsewhere(&mut self, target: u32, cpu: u32) -> u64 {
        let record = &mut self.arena.cpus[target as usize];
        let used_by = std::mem::replace(&mut record.queue_used_by, cpu);
        let far = if record.current == NONE { 0 } else { self.prices.wakeup_far(used_by, cpu) };
        self.prices.wakeup_remote() + far + self.ipi_to(target)
    }

    /// What finding out takes whether a task that was woken on a CPU preempts its current one (`check_preempt_wakeup_fair`): a batch or idle task
    /// never does, and of an idle one that is known at once.
    #[inline]
    pub(crate) fn wakeup_preempt(&self, task: u32, cpu: u32) -> u64 {
        let (price, current) = (self.prices.wakeup_preempt, self.arena.cpus[cpu as usize].current);
        if price == 0 || current == NONE {
            return 0;
        }
        let current = self.sched.task(task_id(current)).policy;
        let compared = matches!(current, Policy::Other | Policy::Batch);
        if compared && self.sched.task(task_id(task)).policy == Policy::Other { price } else { 0 }
    }

    /// What choosing a CPU takes a task that wakes another one, which may run on several (`select_task_rq_fair`). An interrupt mostly finds the
    /// CPU idle that the task was on last, and looks no further.
    #[inline]
    pub(crate) fn wakeup_select(&self, task: u32, waker: u32) -> u64 {
        if self.prices.wakeup_select == 0 || waker == NONE {
            return 0;
        }
        let woken = self.sched.task(task_id(task));
        if woken.class == Class::Fair && !woken.is_bound() { self.prices.wakeup_select } else { 0 }
    }

    /// A task was woken on a CPU: if its current task is to be rescheduled for that, its queue's clock is not read until the switch.
    #[inline]
    pub(crate) fn hold_clock(&mut self, cpu: u32) {
        let record = &mut self.arena.cpus[cpu as usize];
        if record.current != NONE && self.sched.must_resched(CpuId(cpu)) {
            record.clock_held = self.now;
        }
    }

    /// A task was woken on a CPU, which takes `exit` to leave idle, if it does: its queue's clock is not read until the switch
    /// ([`Costs::idle_charged`]). A timer's task was woken once the CPU had left idle for its interrupt, `taken_here`.
    #[inline]
    pub(crate) fn charge_way_out(&mut self, cpu: u32, exit: u64, taken_here: bool) {
        let record = &mut self.arena.cpus[cpu as usize];
        if record.current == NONE && record.idle_charge == 0 {
            let halted = record.halted(self.now);
            record.idle_charge = if taken_here { exit } else { self.prices.idle_charged(exit, halted) };
        }
    }

    /// When the clock of an idle CPU's queue was read last, as it schedules; none if it is as it does so.
    #[inline]
    pub(crate) fn clock_in_idle(&self, cpu: u32) -> Option<Time> {
        let charge = self.arena.cpus[cpu as usize].idle_charge;
        if charge == 0 {
            return None;
        }
        let read = self.now.saturating_sub(self.takes(cpu, charge));
        Some(Time::from_nanos(read).max(self.sched.clock(CpuId(cpu))))
    }

    /// [`Engine::touch`] for a pass of the scheduler that ends now, as the current task is switched out in `state`. The queue's clock is
    /// read as the pass begins (`update_rq_clock` in `__schedule`): the rules charge the pass to the next task.
    ///
    /// A CPU of several that is about to idle is taken to read it at the end: it reads it again as it looks for work on the others' queues.
    ///
    /// Where a wake-up has marked the current task, the clock is not read again (`rq_clock_skip_update` in `check_preempt_curr`, later
    /// `wakeup_preempt`): the rules charge all since the wake-up to the next task.
    pub(crate) fn begin_pass(&mut self, cpu: u32, state: TaskState) {
        let in_idle = self.clock_in_idle(cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        let held = std::mem::replace(&mut record.clock_held, NEVER);
        record.idle_charge = 0;
        let held = match record.current {
            NONE => in_idle,
            _ if held == NEVER => None,
            _ => Some(Time::from_nanos(held).max(self.sched.clock(CpuId(cpu)))),
        };
        if let Some(clock) = held {
            self.catch_up(cpu);
            let record = &mut self.arena.cpus[cpu as usize];
            record.acting_tick = record.next_tick;
            return self.sched.set_clocks(CpuId(cpu), Clocks::all(clock));
        }
        if !self.charges_the_next(cpu) {
            return self.touch(cpu);
        }
        let dequeue = if self.dequeues(cpu) { self.prices.dequeue } else { 0 };
        self.catch_up(cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        record.acting_tick = record.next_tick;
        let pass = match state {
            TaskState::Running if record.current == NONE => self.prices.idle_schedule,
            TaskState::Running if record.leaving => self.prices.schedule,
            TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => {
                self.prices.pass_to_sleep + dequeue
            }
            _ => 0,
        };
        let began = Time::from_nanos(self.now.saturating_sub(pass)).max(self.sched.clock(CpuId(cpu)));
        self.sched.set_clocks(CpuId(cpu), Clocks::all(began));
    }

    /// Whether the CPU's pass is a part of the next task's time: on one CPU, and where another task waits for the current one's.
    #[inline(always)]
    pub(crate) fn charges_the_next(&self, cpu: u32) -> bool {
        let record = &self.arena.cpus[cpu as usize];
        self.arena.cpus.len() == 1 || record.current != NONE && self.sched.nr_awake(CpuId(cpu)) > 1
    }

    /// Whether an idle CPU has to leave idle before it takes a sleeper's timer; the timer is then put off until it has. Where a task was
    /// woken on its way to sleep, the CPU finds that before it idles.
    #[inline]
    pub(crate) fn comes_late(&mut self, task: u32, cpu: u32) -> bool {
        let record = &mut self.arena.cpus[cpu as usize];
        let idles = record.current == NONE && record.resched_at == NEVER;
        let recalled = self.arena.tasks[task as usize].recalled;
        if !idles || recalled || record.awake_at == self.now {
            return false;
        }
        let exit = self.takes(cpu, self.idle_exit(cpu));
        if exit == 0 {
            return false;
        }
        let record = &mut self.arena.cpus[cpu as usize];
        if record.awake_at < self.now {
            record.awake_at = self.now + exit;
        }
        self.arena.timers.push(self.now, record.awake_at - self.now, task);
        true
    }

    /// Whether a background task's timer is deferrable and waits on (`run_timer_base`, `kernel/time/timer.c`): ticks of a busy CPU look at such timers,
    /// and so does the interrupt of another timer that ends an idle CPU's sleep.
    pub(crate) fn is_deferred(&mut self, task: u32, cpu: u32) -> bool {
        let record = &self.arena.tasks[task as usize];
        if !record.background || !matches!(record.op, Op::Sleep(_)) {
            return false;
        }
        let template = self.arena.identities[task as usize].template;
        let record = &mut self.arena.cpus[cpu as usize];
        let idles = record.current == NONE;
        if !self.program.template(template).deferrable {
            if idles {
                record.timer_in_idle = self.now;
            }
            return false;
        }
        let looked_at = !idles || record.timer_in_idle.saturating_add(self.period) > self.now;
        if looked_at && self.ticks.last(self.now) + self.prices.tick == self.now {
            return false;
        }
        let ahead = self.tick_after_now() - self.now + self.prices.tick;
        self.set_timer(task, ahead);
        true
    }
}
