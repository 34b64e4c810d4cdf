//! Switches, wake-ups and pulls: where the engine drives the rules of `kernel/sched`.

use schedlab_model::{CpuId, EventKind, EventSink, Standing, TaskId, TaskState, Time};
use schedlab_program::Op;
use schedlab_sched::{Class, Migration, Ours, Sched, WakeKind};

use crate::SimError;
use crate::engine::{Engine, task_id};
use crate::event_queue::NEVER;
use crate::task::{Stage, State};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    fn settle_move(&mut self, Migration { task, from, to }: Migration, here: u32) {
        let on = if here == NONE { to.0 } else { here };
        self.emit(on, EventKind::Migrate { task, from, to });
        let record = &mut self.arena.tasks[task.index()];
        record.cpu = to.0;
        record.debt += self.prices.migration();
        record.account.migrations += 1;
        for cpu in [from.0, to.0].into_iter().filter(|cpu| *cpu != here) {
            self.settle(cpu);
        }
    }

    /// `try_to_wake_up` of a sleeper by `waker` (or an interrupt, [`NONE`]) on `cpu`; returns what that costs.
    pub(crate) fn wake(&mut self, task: u32, cpu: u32, waker: u32, sync: bool) -> u64 {
        if self.departs(task) {
            return self.recall(task);
        }
        if self.skips_beside_others {
            // The loads of the waker's CPU and of the task's last one are compared.
            self.catch_up(cpu);
            self.catch_up(self.arena.tasks[task as usize].cpu);
        }
        let target = self.sched.select_task_rq(task_id(task), CpuId(cpu), WakeKind::Wakeup { sync }).0;
        let record = &mut self.arena.tasks[task as usize];
        let previous = std::mem::replace(&mut record.cpu, target);
        record.state = State::Runnable;
        record.account.end_sleep(self.now);
        if previous != target {
            record.account.migrations += 1;
            // Its virtual time is relative to the queue it leaves, as that stands now.
            self.catch_up(previous);
            self.emit(cpu, EventKind::Migrate { task: task_id(task), from: CpuId(previous), to: CpuId(target) });
        }
        self.touch(target);
        self.note_delayed_dequeue(task);
        let woken = self.sched.try_to_wake_up(task_id(task), CpuId(target));
        debug_assert!(woken, "a task that sleeps here sleeps there");
        self.hold_clock(target);
        self.emit(cpu, EventKind::Waking { task: task_id(task), waker: task_id(waker), target: CpuId(target) });
        let remote = if target == cpu { 0 } else { self.wakeup_elsewhere(target, cpu) };
        let further = self.wakeup_select(task, waker) + self.wakeup_preempt(task, target) + remote;
        let cost = self.prices.wakeup - self.delayed_dequeue_wakeup(task) + further;
        // A CPU that takes the interrupt itself has left idle for that.
        let taken_here = waker == NONE && target == cpu;
        let exit =
            if taken_here { self.end_of_idle(target) + self.timer_switch(task) } else { self.way_out_of_idle(target) };
        self.queued(task, target, cpu, cost, exit);
        self.charge_way_out(target, exit, taken_here);
        self.settle_moves(cpu);
        cost + self.sched.take_looked_at().saturating_mul(self.prices.balance)
    }

    /// Follows up what the rules moved on their own: tasks that came to other queues, and CPUs that are to schedule for it. Of the
    /// CPU on which this happens, `here`, the caller writes down what it does next.
    #[inline]
    pub(crate) fn settle_moves(&mut self, here: u32) {
        if self.sched.has_migrations() || self.sched.has_touched() {
            self.settle_all_moves(here);
        }
    }

    fn settle_all_moves(&mut self, here: u32) {
        if self.sched.has_migrations() {
            let mut moves = std::mem::take(&mut self.moves);
            self.sched.take_migrations_into(&mut moves);
            moves.iter().for_each(|migration| self.settle_move(*migration, here));
            self.moves = moves;
        }
        if self.sched.has_touched() {
            for cpu in self.sched.take_touched() {
                if cpu.0 != here {
                    self.settle(cpu.0);
                }
            }
        }
    }

    /// A task was put on a CPU's queue: the CPU is told to schedule if it idles or the rules say so, and another, idle CPU
    /// where the task has to wait though that one could run it. Of the CPU on which this happens, `here`, the caller writes down
    /// what it does next; that has yet to work for `sent` before this one is notified, which takes `exit` to leave idle if it idles.
    pub(crate) fn queued(&mut self, task: u32, cpu: u32, here: u32, sent: u64, exit: u64) {
        let record = &self.arena.cpus[cpu as usize];
        if record.current != NONE {
            self.rouse_another(task);
            if cpu != here {
                self.summon_by(cpu, sent + exit, true);
            }
        } else if record.resched_at == NEVER {
            self.arena.cpus[cpu as usize].roused_at = self.now;
            self.rouse(cpu, if cpu == here { 0 } else { sent }, if cpu == here { sent + exit } else { exit });
        }
    }

    /// The task waits: the first idle CPU that may run it is notified to look for work.
    fn rouse_another(&mut self, task: u32) {
        // Where the kernel balances, ticks see to that.
        if self.idle == 0 || self.sched.balances() {
            return;
        }
        let free = |cpu: &u32| {
            let record = &self.arena.cpus[*cpu as usize];
            record.current == NONE
                && record.resched_at == NEVER
                && record.online
                && self.sched.task(task_id(task)).may_run_on(CpuId(*cpu))
        };
        if let Some(cpu) = (0..self.arena.cpus.len() as u32).find(free) {
            self.call(cpu);
        }
    }

    /// Up to `waiting` tasks wait, on any queues: as many idle CPUs that may run one are notified.
    pub(crate) fn rouse_others(&mut self, mut waiting: u32) {
        if self.sched.balances() {
            return;
        }
        for cpu in 0..self.arena.cpus.len() as u32 {
            if waiting == 0 || self.idle == 0 {
                return;
            }
            let record = &self.arena.cpus[cpu as usize];
            let free = record.current == NONE && record.resched_at == NEVER && record.online;
            if free && self.sched.newly_idle_balance(CpuId(cpu)).is_some() {
                self.call(cpu);
                waiting -= 1;
            }
        }
    }

    /// Notifies an idle CPU to look for work on other queues.
    fn call(&mut self, cpu: u32) {
        self.arena.cpus[cpu as usize].called = true;
        self.rouse(cpu, 0, self.idle_exit(cpu));
    }

    /// A CPU schedules because it was marked for rescheduling, or because of its tick.
    pub(crate) fn rescheduled(&mut self, cpu: u32) -> Result<(), SimError> {
        if self.sets_out(cpu) {
            return Ok(());
        }
        self.switch(cpu, TaskState::Running);
        self.operate(cpu, false)
    }

    /// `schedule`: the current task is switched out in `state`, and the next one in. The caller goes on with [`Engine::operate`].
    pub(crate) fn switch(&mut self, cpu: u32, state: TaskState) {
        let in_call = self.sleeps_in_call(cpu, state);
        let charged = self.arena.cpus[cpu as usize].idle_charge > 0;
        self.begin_pass(cpu, state);
        if self.skips_beside_others && self.sched.looks_at_others(CpuId(cpu), state) {
            self.look_at_all();
        }
        if state == TaskState::Running {
            self.sched.exit_to_user(CpuId(cpu));
        }
        if self.sched.takes_from_others()
            && let Some(task) = self.sched.wanted(CpuId(cpu), state)
        {
            let from = self.sched.task_cpu(task);
            self.touch(from.0);
            self.sched.move_queued_task(task, CpuId(cpu));
            self.refresh(from.0);
            self.arrived(task, from, CpuId(cpu));
        }
        let mut scheduled = self.sched.schedule(CpuId(cpu), state);
        // A task that is picked in a throttled group is taken off before it runs anything of its own, but comes before that where switching takes
        // time: it is still in the kernel.
        let way = self.takes(cpu, self.prices.switch + self.prices.schedule);
        while (way == 0 || scheduled.next == scheduled.previous) && self.sched.exit_to_user(CpuId(cpu)) {
            scheduled.next = self.sched.schedule(CpuId(cpu), TaskState::Running).next;
        }
        // The previous task may have been pushed away itself, once it was off the CPU.
        let mut pushed = Vec::new();
        if self.sched.has_migrations() {
            let mut moves = std::mem::take(&mut self.moves);
            self.sched.take_migrations_into(&mut moves);
            for migration in &moves {
                if migration.task == scheduled.previous {
                    pushed.push(*migration);
                } else {
                    self.settle_move(*migration, cpu);
                }
            }
            self.moves = moves;
        }
        self.settle_moves(cpu);
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        if looked_at > 0 && scheduled.next != TaskId::IDLE && scheduled.next != scheduled.previous {
            self.arena.tasks[scheduled.next.index()].debt += looked_at;
        }
        let record = &mut self.arena.cpus[cpu as usize];
        let was_idle = record.current == NONE;
        let roused = std::mem::replace(&mut record.resched_at, NEVER) != NEVER;
        let called = std::mem::take(&mut record.called);
        (record.leaving, record.clock_held) = (false, NEVER);
        let pulls = scheduled.next == TaskId::IDLE && !self.sched.balances();
        let next = if pulls { self.pull(cpu) } else { scheduled.next };
        let previous = scheduled.previous;
        if was_idle && next == TaskId::IDLE {
            // The task of which it was notified is gone.
            self.arena.cpus[cpu as usize].roused_at = NEVER;
            self.idle += u32::from(roused);
            self.busy_changed(cpu, false);
            return;
        }
        if previous == next {
            let left_over = self.arena.cpus[cpu as usize].suspend(self.now);
            self.arena.tasks[next.index()].interrupted(left_over);
            return;
        }
        let passed = self.now - self.sched.clock(CpuId(cpu)).as_nanos();
        if was_idle {
            let next_tick = self.tick_after_now();
            let record = &mut self.arena.cpus[cpu as usize];
            record.next_tick = next_tick;
            let comer = &mut self.arena.tasks[next.index()];
            let taken = if charged { passed } else { 0 };
            comer.account.leaves_idle(self.now, std::mem::replace(&mut record.roused_at, NEVER), taken);
            if charged {
                comer.takes_on(taken, &self.prices);
            }
        } else {
            self.leave(cpu, previous.0, state);
            if next != TaskId::IDLE {
                self.arena.tasks[previous.index()].passes_on(passed, &self.prices);
                self.arena.tasks[next.index()].takes_on(passed, &self.prices);
            }
        }
        self.emit(cpu, EventKind::Switch { previous, state, next });
        self.tell_standings([previous, next]);
        self.switches += 1;
        if next == TaskId::IDLE {
            let record = &mut self.arena.cpus[cpu as usize];
            (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
            record.begins_to_idle(self.now, &self.prices);
            record.tick_stopped = !self.arena.objects.grace_periods.keeps_tick(cpu as usize);
            self.idle += 1;
        } else {
            self.come(cpu, next.0);
            if self.sched.is_throttle_pending(CpuId(cpu)) {
                let record = &mut self.arena.cpus[cpu as usize];
                (record.leaving, record.resched_at) = (true, self.now + way);
            }
        }
        if in_call {
            self.shorten_pass(previous, next);
        }
        if was_idle != (next == TaskId::IDLE) {
            self.busy_changed(cpu, was_idle);
        }
        let record = &mut self.arena.cpus[cpu as usize];
        record.acting_tick = record.next_tick;
        pushed.into_iter().for_each(|push| self.settle_move(push, cpu));
        if was_idle {
            // Other tasks that were queued here meanwhile wait, and so does the task for which the CPU was notified, if the CPU had work
            // before it.
            let missed = u32::from(called && scheduled.next != TaskId::IDLE);
            self.rouse_others(self.sched.nr_running(CpuId(cpu)) - 1 + missed);
        } else if state == TaskState::Running {
            self.rouse_another(previous.0);
        } else if state == TaskState::Dead {
            self.reweight_threads(previous, cpu);
        }
    }

    pub(crate) fn tell_standings(&mut self, tasks: [TaskId; 2]) {
        tell_standings(self.sink, &self.sched, self.now, tasks);
    }

    /// The number of threads of the task's process changed: their weights follow, each on its own CPU. Of the CPU on which this
    /// happens, `here`, the caller writes down what it does next.
    pub(crate) fn reweight_threads(&mut self, task: TaskId, here: u32) {
        if self.sched.rules().weights.is_none() {
            return;
        }
        let mut next = self.sched.first_thread(task);
        while let Some(thread) = next {
            let cpu = self.sched.task_cpu(thread).0;
            self.touch(cpu);
            self.sched.reweight_task(thread);
            if cpu != here {
                self.refresh(cpu);
            }
            next = self.sched.next_thread(thread);
        }
    }

    pub(crate) fn leave(&mut self, cpu: u32, task: u32, state: TaskState) {
        let record = &mut self.arena.cpus[cpu as usize];
        let left_over = record.suspend(self.now);
        self.stop_work(cpu, task);
        let record = &mut self.arena.cpus[cpu as usize];
        // What follows may change how many CPUs have turns before the next task takes up its own.
        record.clocked = false;
        let left = &mut self.arena.tasks[task as usize];
        record.busy += left.account.end_run(self.now);
        match state {
            TaskState::Running => {
                left.account.involuntary += u32::from(!left.has_reported());
                left.interrupted(left_over);
                left.state = State::Runnable;
            }
            TaskState::Dead => {
                self.arena.identities[task as usize].died = self.now;
                left.state = State::Dead;
                self.alive -= 1;
                self.awaited -= u32::from(!left.background);
                if self.awaited == 0 {
                    (self.until, self.quiet) = (0, 0);
                }
                self.left_group(task);
            }
            TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => {
                left.account.voluntary += 1;
                left.state = State::Asleep;
            }
        }
    }

    pub(crate) fn come(&mut self, cpu: u32, task: u32) {
        let record = &mut self.arena.cpus[cpu as usize];
        let queue = record.uses_queue(cpu, &self.prices);
        record.current = task;
        let comer = &mut self.arena.tasks[task as usize];
        comer.account.end_wait(self.now);
        comer.state = State::Running { computed: false };
        if matches!((comer.op, comer.stage), (Op::Busy(_), Stage::Act)) {
            // The time that it waits for passes off the CPU too.
            comer.remaining = self.arena.objects.luggage(task).until.saturating_sub(self.now);
        }
        let price = self.prices.switch_on(&self.arena.cpus, comer, cpu, self.alive - 1);
        let price = comer.came(price, &self.prices);
        comer.debt += price + queue;
        let masked = self.takes(cpu, price.min(self.prices.masked()));
        let comer = &mut self.arena.tasks[task as usize];
        let record = &mut self.arena.cpus[cpu as usize];
        record.masked_until = self.now + masked;
        // Back on a CPU that no other task had, the task finds all as it left it, but the CPU has switched to idle and back.
        if comer.ran_on != cpu || comer.ran_at != record.switches {
            record.switches += 1;
            comer.ran_on = cpu;
            comer.ran_at = record.switches;
        }
        self.start_work(cpu, task);
    }

    /// A CPU that is about to idle takes a waiting task from another one, if it can, and picks it.
    fn pull(&mut self, cpu: u32) -> TaskId {
        let to = CpuId(cpu);
        let Some(from) = self.sched.newly_idle_balance(to) else { return TaskId::IDLE };
        self.touch(from.0);
        let pulled = self.sched.pull_task(from, to);
        self.refresh(from.0);
        let Some(task) = pulled else { return TaskId::IDLE };
        self.arrived(task, from, to);
        self.sched.schedule(to, TaskState::Running).next
    }

    /// A CPU took a waiting task from another one.
    fn arrived(&mut self, task: TaskId, from: CpuId, to: CpuId) {
        let record = &mut self.arena.tasks[task.index()];
        record.cpu = to.0;
        record.debt += self.prices.migration();
        record.account.migrations += 1;
        self.emit(to.0, EventKind::Migrate { task, from, to });
    }
}

/// Passes on the virtual time of those tasks that are of the fair class.
#[inline]
pub(crate) fn tell_standings<S: EventSink>(sink: &mut S, sched: &Sched<Ours>, now: u64, tasks: [TaskId; 2]) {
    if !S::LISTENS {
        return;
    }
    for task in tasks.into_iter().filter(|task| *task != TaskId::IDLE) {
        if sched.task(task).class == Class::Fair {
            let (vruntime, lag) = sched.standing(task);
            let deadline = sched.virtual_deadline(task).map(|deadline| deadline.0 as i64);
            sink.standing(Standing { time: Time::from_nanos(now), task, vruntime: vruntime.0 as i64, lag, deadline });
        }
    }
}
