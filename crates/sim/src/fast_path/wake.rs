//! Sleepers' timers that expire on flat queues.

use schedlab_model::{CpuId, EventKind, EventSink, TaskId, TaskState};
use schedlab_sched::Wakeup;

use crate::SimError;
use crate::engine::{Engine, task_id, tell};
use crate::event_queue::{Key, Kind, NEVER};
use crate::switch::tell_standings;
use crate::task::{Stage, State};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// A sleeper's timer expires: it is woken, and where its CPU idles, the CPU takes it. [`Engine::timer`] and, where nothing else comes
    /// before that, the [`Engine::rescheduled`] that would follow. `first` is what CPUs have to do first.
    #[inline(always)]
    pub(super) fn flat_timer<const FREE: bool, const EEVDF: bool>(
        &mut self,
        task: u32,
        first: Key,
    ) -> Result<(), SimError> {
        let (now, place) = (self.now, task as usize);
        // What is looked up is held on to, and looked up again only where others had to be called.
        let mut woken = known!(mut self.arena.tasks[place]);
        let home = woken.cpu;
        if !FREE {
            if self.comes_masked(task, home) || self.comes_late(task, home) {
                return Ok(());
            }
            woken = known!(mut self.arena.tasks[place]);
            woken.recalled = false;
        }
        if self.skips_beside_others {
            self.catch_up(home);
            woken = known!(mut self.arena.tasks[place]);
        }
        let wakeup = self.sched.flat_select::<EEVDF>(task_id(task));
        let target = wakeup.cpu().0;
        if home != target {
            woken.account.migrations += 1;
            // Its virtual time is relative to the queue it leaves, as that stands now.
            self.catch_up(home);
            let (from, to) = (CpuId(home), CpuId(target));
            self.emit(home, EventKind::Migrate { task: task_id(task), from, to });
            woken = known!(mut self.arena.tasks[place]);
        }
        (woken.cpu, woken.state) = (target, State::Runnable);
        woken.account.end_sleep(now);
        let mut record = known!(mut self.arena.cpus[target as usize]);
        if record.current != NONE || record.resched_at != NEVER {
            return self.flat_wait::<FREE, EEVDF>(task, home, wakeup);
        }
        // Nothing else at this instant comes before a CPU schedules.
        let alone = self.arena.timers.first().min(first) > Key::at(now, Kind::Schedule);
        let at_once = (FREE || self.prices.at_once()) && alone;
        if !FREE && self.prices.lingering > 0 {
            woken.was_delayed = self.sched.entity(task_id(task)).sched_delayed;
        }
        let runs = self.sched.flat_wake::<EEVDF, FREE>(wakeup, at_once);
        tell(
            self.sink,
            now,
            home,
            EventKind::Waking { task: task_id(task), waker: TaskId::IDLE, target: CpuId(target) },
        );
        if !FREE && !runs && home == target {
            self.bill_timer(task, home);
            self.flat_rouse(task, home);
            return Ok(());
        }
        if !FREE {
            self.pay_wakeup(task, home, target, runs);
            (woken, record) = (known!(mut self.arena.tasks[place]), known!(mut self.arena.cpus[target as usize]));
        } else if !runs {
            self.queued(task, target, home, 0, 0);
            self.settle_moves(home);
            return Ok(());
        }
        if !runs {
            return Ok(());
        }
        // The CPU takes it.
        self.idle -= 1;
        let next_tick = self.ticks.after(now);
        (record.next_tick, record.acting_tick) = (next_tick, next_tick);
        if woken.stage != Stage::Fetch || !(FREE || self.prices.free_switches) {
            self.tell_switch(target, TaskId::IDLE, TaskState::Running, task_id(task));
            self.flat_come(target, task);
            return self.resume::<FREE, EEVDF>(target, task);
        }
        let switch = EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: task_id(task) };
        tell(self.sink, now, target, switch);
        tell_standings(self.sink, &self.sched, now, [TaskId::IDLE, task_id(task)]);
        self.switches += 1;
        // It did not wait, and a switch costs nothing.
        woken.takes(task, record);
        if !woken.fetch::<FREE>(self.program, &self.prices) {
            return self.operate(target, false);
        }
        let prices = &self.prices;
        record.end = now.saturating_add(if FREE { woken.due_free() } else { record.takes_up(now, woken, prices) });
        if record.end == now {
            return self.operate(target, true);
        }
        let key = record.undisturbed_key(if FREE { 0 } else { self.prices.tick }, self.period);
        self.arena.agenda.set(target, if EEVDF { self.key_or_hrtick(target, key) } else { key });
        Ok(())
    }

    /// The same where it has to wait on a CPU that does something else.
    #[inline(always)]
    fn flat_wait<const FREE: bool, const EEVDF: bool>(
        &mut self,
        task: u32,
        home: u32,
        wakeup: Wakeup,
    ) -> Result<(), SimError> {
        let target = wakeup.cpu().0;
        self.touch(target);
        if !FREE {
            self.note_delayed_dequeue(task);
        }
        self.sched.flat_wake_later::<EEVDF>(wakeup);
        self.emit(home, EventKind::Waking { task: task_id(task), waker: TaskId::IDLE, target: CpuId(target) });
        if FREE {
            self.flat_queued(task, home, target);
        } else {
            self.hold_clock(target);
            self.pay_wakeup(task, home, target, false);
        }
        Ok(())
    }

    /// What a timer's wake-up costs, and what follows it.
    fn pay_wakeup(&mut self, task: u32, home: u32, target: u32, runs: bool) {
        let (remote, exit) = if target == home {
            (0, self.end_of_idle(target) + self.timer_switch(task))
        } else {
            (self.wakeup_elsewhere(target, home), self.way_out_of_idle(target))
        };
        let cost = self.prices.wakeup + self.wakeup_preempt(task, target) - self.delayed_dequeue_wakeup(task) + remote;
        if !runs {
            self.queued(task, target, home, cost, exit);
            self.charge_way_out(target, exit, target == home);
            self.settle_moves(home);
        }
        let cost = cost + self.sched.take_looked_at().saturating_mul(self.prices.balance);
        let cost = cost + self.rest_of_interrupt(task, home);
        self.bill_timer(task, home);
        // Where nothing is billed and no task was queued here, the interrupted CPU goes on as it did.
        if (cost > 0 || target == home) && known!(self.arena.cpus[home as usize]).current != NONE {
            self.flat_interrupted(home, cost);
        }
    }

    /// [`Engine::interrupted`], after which the current task mostly goes on.
    #[inline(always)]
    fn flat_interrupted(&mut self, cpu: u32, cost: u64) {
        self.catch_up(cpu);
        let record = known!(mut self.arena.cpus[cpu as usize]);
        if record.leaving || record.resched_at != NEVER || self.sched.need_resched(CpuId(cpu)) {
            return self.interrupted(cpu, cost);
        }
        record.interrupted(self.now, self.now + cost, cost);
        let key = record.undisturbed_key(self.prices.tick, self.period);
        self.arena.agenda.set(cpu, self.key_or_hrtick(cpu, key));
    }

    /// What follows on an idle CPU after the interrupt that has woken a task there: [`Engine::pay_wakeup`]. No task pays, as none is
    /// interrupted.
    #[inline(always)]
    fn flat_rouse(&mut self, task: u32, cpu: u32) {
        let exit = self.end_of_idle(cpu) + self.timer_switch(task);
        let way = self.prices.wakeup + exit + self.prices.idle_schedule;
        let held_up = self.held_up(way);
        self.idle -= 1;
        let record = known!(mut self.arena.cpus[cpu as usize]);
        (record.idle_charge, record.roused_at, record.idle_until) = (exit, self.now, self.now);
        record.resched_at = self.now + way + held_up;
        let key = Key::new(record.resched_at, Kind::Schedule);
        self.arena.agenda.set(cpu, key);
        self.settle_moves(cpu);
        self.sched.take_looked_at();
    }

    /// What follows it where it costs nothing, of a task that has to wait.
    #[inline(always)]
    fn flat_queued(&mut self, task: u32, home: u32, target: u32) {
        let busy = known!(self.arena.cpus[target as usize]).current != NONE;
        if !busy {
            self.queued(task, target, home, 0, 0);
        } else if target != home {
            self.flat_refresh(target);
        }
        self.settle_moves(home);
        if busy && target == home {
            self.flat_refresh(home);
        }
    }

    /// [`Engine::refresh`] of a busy CPU, where ticks cost nothing.
    #[inline(always)]
    pub(crate) fn flat_refresh(&mut self, cpu: u32) {
        let goes = self.must_resched(cpu);
        let record = known!(mut self.arena.cpus[cpu as usize]);
        if goes && !record.leaving {
            record.resched_at = self.now;
        }
        let key = Key::of_busy(record.end, record.acting_tick).min(Key::new(record.resched_at, Kind::Schedule));
        self.arena.agenda.set(cpu, self.key_or_hrtick(cpu, key));
    }
}
