//! The event loop: virtual time, timers, ticks.
//!
//! The engine holds the records of the other files, whose sequences are methods of the engine beside the records that they change: these files use
//! each other through [`Engine`], and no record is parted from what changes it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use schedlab_model::{CpuChange, CpuId, Decision, Event, EventKind, EventSink, Machine, Scheduler, TaskId, Time};
use schedlab_program::Program;
use schedlab_sched::{Clocks, Migration, Ours, Rules, Sched};

use crate::arena::Arena;
use crate::cpu::ticks_leave_time;
use crate::event_queue::{Key, Kind, NEVER};
use crate::groups::Pools;
use crate::pace::Pace;
use crate::price::Prices;
use crate::slabs::Keeps;
use crate::ticks::Ticks;
use crate::wait::NONE;
use crate::{Options, SimError, hotplug, setting};

/// Operations at one instant after which the engine gives up: about half a minute's work.
pub(crate) const STANDSTILL: u64 = if cfg!(test) { 1000 } else { 1 << 30 };

/// Events after which the engine looks again whether the workload's own tasks wait for each other while background goes on.
const BETWEEN_CHECKS: u64 = 1 << 14;

/// One run.
pub(crate) struct Engine<'a, S> {
    pub(crate) program: &'a Program,
    pub(crate) sched: Sched<Ours>,
    pub(crate) prices: Prices,
    /// Where CPUs are not always as fast.
    pub(crate) pace: Option<Box<Pace>>,
    /// Groups and sessions, where there are any.
    pub(crate) pools: Option<Box<Pools>>,
    pub(crate) ticks: Ticks,
    /// Nanoseconds from tick to tick.
    pub(crate) period: u64,
    pub(crate) skip_ticks: bool,
    /// All queues are flat, from beginning to end (`flat.rs`).
    pub(crate) flat: bool,
    /// There may be high-resolution ticks.
    has_hrtick: bool,
    /// Some CPU's coming ticks are skipped while load is balanced between CPUs.
    pub(crate) skips_beside_others: bool,
    pub(crate) limit: u64,
    /// The first instant at which the run may be over, by the workload's word or the limit; 0 once all tasks have ended.
    pub(crate) until: u64,
    /// Before this instant a flat run has nothing to ask but what is first ([`Engine::flat_run`]); 0 where it has to ask.
    pub(crate) quiet: u64,
    /// Before this instant it is not worth while to look whether CPUs may go on alone (`fast_path/alone.rs`).
    pub(crate) alone_from: u64,
    /// When the run is over by the workload's word, [`u64::MAX`] if never.
    pub(crate) end: u64,
    pub(crate) seed: u64,
    /// When the timers of the workload's tasks begin to count.
    pub(crate) origin: u64,
    pub(crate) arena: Arena,
    pub(crate) sink: &'a mut S,
    /// CPUs that are still to go off line or come back.
    pub(crate) changes: &'a [CpuChange],
    pub(crate) cancel: Option<&'a AtomicBool>,
    pub(crate) now: u64,
    /// The CPU whose tick was the last to be done, and when.
    pub(crate) last_tick: (u64, u32),
    /// Idle CPUs that are not yet to schedule.
    pub(crate) idle: u32,
    /// Tasks that have not ended.
    pub(crate) alive: u32,
    /// Of those, the workload's own, for which the run waits.
    pub(crate) awaited: u32,
    /// When the last operation was counted, and operations at that instant so far.
    pub(crate) counted: (u64, u64),
    /// Events so far.
    pub(crate) events: u64,
    /// Switch events so far, from and to idle included: the speed of the simulator is by these.
    pub(crate) switches: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// When the workload's own clock started and stopped.
    pub(crate) started: Option<u64>,
    pub(crate) stopped: Option<u64>,
    /// The task that started that clock.
    pub(crate) starter: u32,
    /// Room for what the rules moved on their own.
    pub(crate) moves: Vec<Migration>,
    /// What the kernel would have refused.
    refusal: Option<SimError>,
}

impl<'a, S: EventSink> Engine<'a, S> {
    pub(crate) fn new(
        program: &'a Program,
        scheduler: &Scheduler,
        machine: &'a Machine,
        options: &Options<'a>,
        arena: &mut Arena,
        sink: &'a mut S,
    ) -> Result<Self, SimError> {
        machine.validate()?;
        let unsimulated = scheduler.unsimulated();
        if !unsimulated.is_empty() {
            return Err(SimError::Unsimulated { knobs: unsimulated.join(", ") });
        }
        setting::check_affinities(program, machine.cpus)?;
        hotplug::check(program, machine)?;
        let rules = Rules::new(scheduler, machine.cpus)?;
        let (cost, period) = (machine.costs.tick, rules.tick_time());
        if !ticks_leave_time(cost.as_nanos(), period.as_nanos(), machine.speed.least_rate(machine.cpus)) {
            return Err(SimError::TickCost { cost, period });
        }
        let mut prices = Prices::new(machine, &rules.set)?;
        prices.clocked &= machine.speed.keeps_clocks();
        let mut arena = std::mem::take(arena);
        arena.reset(program, machine.cpus, Keeps::of(&rules.set));
        let decider = if S::EXPLAINS { Ours::explaining() } else { Ours::default() };
        let mut sched = Sched::new(rules, machine.cpus, decider);
        sched.start_pelt_clocks();
        if setting::asks_for_slices(program) {
            sched.expect_slices();
        }
        sched.set_topology(&machine.topology, machine.costs.balance.as_nanos(), options.seed);
        sched.set_newidle_cost(machine.costs.newidle);
        let pools = Pools::make(program, scheduler, &mut sched, machine.cpus)?;
        let end = program.duration().map_or(u64::MAX, Time::as_nanos);
        let limit = options.time_limit.as_nanos().min(NEVER - 1);
        Ok(Self {
            program,
            ticks: Ticks {
                phase: options.phase.as_nanos() % period.as_nanos(),
                period: period.as_nanos(),
                in_ticks: rules.in_ticks,
                ahead: 0,
            },
            period: period.as_nanos(),
            sched,
            pools,
            prices,
            pace: Pace::new(machine),
            // Where work is re-rated, ticks that were put off may no longer be the ones that there would be. Skipped ticks and the fast path
            // give no reasons.
            skip_ticks: !options.no_tick_skip && !S::EXPLAINS && machine.speed.is_default(),
            flat: false,
            has_hrtick: false,
            skips_beside_others: false,
            end,
            limit,
            until: end.min(limit + 1),
            quiet: 0,
            alone_from: 0,
            seed: options.seed,
            origin: options.origin.as_nanos(),
            arena,
            sink,
            changes: &machine.changes,
            cancel: options.cancel,
            now: 0,
            last_tick: (NEVER, 0),
            idle: machine.cpus,
            alive: 0,
            awaited: 0,
            counted: (0, 0),
            events: 0,
            switches: 0,
            messages: 0,
            bytes: 0,
            started: None,
            stopped: None,
            starter: NONE,
            moves: Vec::new(),
            refusal: None,
        })
    }

    /// Runs until every task has ended.
    pub(crate) fn run(&mut self) -> Result<(), SimError> {
        let end = self.run_to_the_end();
        self.tell_decisions();
        self.refusal.take().map_or(end, Err)
    }

    /// Lets the run end, with an error, before time goes on.
    pub(crate) fn give_up(&mut self, refusal: SimError) {
        self.refusal = Some(refusal);
        (self.limit, self.until, self.quiet) = (0, 0, 0);
    }

    fn run_to_the_end(&mut self) -> Result<(), SimError> {
        (self.flat, self.has_hrtick) = (self.is_flat(), self.sched.has_hrtick());
        self.start()?;
        while self.awaited > 0 {
            if self.flat {
                self.flat_run()?;
                if self.awaited == 0 {
                    break;
                }
            }
            self.events += 1;
            if self.alive > self.awaited && self.events.is_multiple_of(BETWEEN_CHECKS) && self.awaits_nothing() {
                return Err(self.deadlock());
            }
            let (key, cpu) = self.arena.agenda.first();
            let timer = self.arena.timers.first();
            let rule = self.sched.next_timer().map_or(Key::NEVER, |(time, _)| Key::new(time.as_nanos(), Kind::Timer));
            let bandwidth = match &self.pools {
                Some(pools) if pools.limited => {
                    self.sched.bandwidth_timer().map_or(Key::NEVER, |timer| Key::new(timer.at.as_nanos(), Kind::Timer))
                }
                _ => Key::NEVER,
            };
            let due = key.min(timer).min(rule).min(bandwidth);
            // A CPU that changes makes nothing happen that would not happen anyway.
            let change = if due == Key::NEVER { Key::NEVER } else { self.next_change() };
            let first = due.min(change);
            if first.time() >= self.end {
                self.end();
                return Ok(());
            }
            let time = first.time();
            if time != self.now {
                if first == Key::NEVER {
                    return Err(self.standstill());
                }
                if time > self.limit {
                    return Err(self.over_limit());
                }
                debug_assert!(
                    time > self.now,
                    "time went back: {key:?} {timer:?} {rule:?} {bandwidth:?} at {}",
                    self.now
                );
                self.tell_decisions();
                self.now = time;
                self.sched.set_machine_clock(Time::from_nanos(time));
            }
            if self.cancel.is_some_and(|cancel| cancel.load(Relaxed)) {
                return Err(SimError::Cancelled { time: Time::from_nanos(self.now) });
            }
            if change == first {
                self.change_cpu();
                continue;
            }
            // At one instant the rules' own timers come before sleepers'.
            if rule == first && rule != Key::NEVER {
                self.rule_timer();
                continue;
            }
            if bandwidth == first && bandwidth != Key::NEVER {
                self.bandwidth_timer();
                continue;
            }
            self.event(key, cpu, timer)?;
        }
        if self.alive > 0 {
            // Other work of the machine would go on.
            self.end = self.now;
            self.end();
        }
        Ok(())
    }

    /// What is due now: the first sleeper's timer, or what the CPU that is first has to do.
    fn event(&mut self, key: Key, cpu: u32, timer: Key) -> Result<(), SimError> {
        if timer < key {
            let task = self.arena.timers.pop();
            self.timer(task);
            return Ok(());
        }
        match key.kind() {
            Kind::Completion => self.completed(cpu),
            Kind::Tick => self.tick(cpu),
            Kind::Timer => self.hrtick(cpu),
            Kind::Schedule => self.rescheduled(cpu),
        }
    }

    /// The CPU's task has used the time of its stage.
    pub(crate) fn completed(&mut self, cpu: u32) -> Result<(), SimError> {
        self.catch_up(cpu);
        self.operate(cpu, true)
    }

    /// Counts an operation; refuses to go on where time stands still for too long.
    #[inline]
    pub(crate) fn count_operation(&mut self) -> Result<(), SimError> {
        self.count_operations(1)
    }

    /// Counts operations that end one after another, with no event in between. Each that ends at an instant counts there, whether time passed for it or
    /// not: both paths count the same, and so give up at the same operation.
    #[inline(always)]
    pub(crate) fn count_operations(&mut self, count: u64) -> Result<(), SimError> {
        if self.counted.0 != self.now {
            self.counted = (self.now, count);
            return Ok(());
        }
        self.counted.1 += count;
        if self.counted.1 <= STANDSTILL {
            return Ok(());
        }
        Err(SimError::NoProgress { time: Time::from_nanos(self.now), operations: STANDSTILL })
    }

    /// No event is left: an error that names the waiting tasks and what each of them waits for.
    fn standstill(&self) -> SimError {
        // Beyond what can be counted is beyond the limit.
        if self.arena.timers.is_empty() && self.arena.cpus.iter().all(|cpu| cpu.current == NONE) {
            self.deadlock()
        } else {
            self.over_limit()
        }
    }

    fn over_limit(&self) -> SimError {
        if self.alive > self.awaited && self.awaits_nothing() {
            return self.deadlock();
        }
        let made = self.arena.tasks.iter().filter(|task| !task.background).count() as u32;
        SimError::TimeLimit { limit: Time::from_nanos(self.limit), left: self.awaited, made }
    }

    #[inline]
    pub(crate) fn emit(&mut self, cpu: u32, kind: EventKind) {
        self.tell_decisions();
        tell(self.sink, self.now, cpu, kind);
    }

    /// Passes on the decisions of this instant that were not passed on yet.
    #[inline]
    fn tell_decisions(&mut self) {
        if S::EXPLAINS {
            let time = Time::from_nanos(self.now);
            for (cpu, reason) in self.sched.decider.take_reasons() {
                self.sink.decision(Decision { time, cpu, reason });
            }
        }
    }

    /// Puts the task to sleep until `duration` has passed; it is the caller's to switch.
    #[inline(never)]
    pub(crate) fn set_timer(&mut self, task: u32, duration: u64) {
        self.arena.timers.push(self.now, duration, task);
    }

    /// A sleeper's timer expires: an interrupt on the CPU on which it went to sleep, or the disk's. The current task of that CPU pays for it.
    fn timer(&mut self, task: u32) {
        let record = &self.arena.tasks[task as usize];
        let asked = record.cpu;
        let of_disk = !record.recalled && record.op.is_of_disk();
        let cpu = self.online_cpu(if of_disk { self.prices.interrupted_by_disk(asked) } else { asked });
        // What an access of the disk takes was measured by a task that waited for it on an idle CPU.
        if self.is_deferred(task, cpu) || self.comes_masked(task, cpu) || !of_disk && self.comes_late(task, cpu) {
            return;
        }
        let cost = self.wake_by_timer(task, cpu);
        if self.arena.cpus[cpu as usize].current != NONE {
            self.interrupted(cpu, cost);
        }
    }

    /// A timer of the rules expires: they look at one CPU's queue, or at every one.
    fn rule_timer(&mut self) {
        let Some((time, timer)) = self.sched.next_timer() else { return };
        let cpus = match self.sched.timer_cpu(timer) {
            Some(cpu) => cpu.0..cpu.0 + 1,
            None => 0..self.arena.cpus.len() as u32,
        };
        cpus.clone().for_each(|cpu| self.touch(cpu));
        // Ticks that were made up for may have put it off.
        if self.sched.next_timer() == Some((time, timer)) {
            self.sched.run_timer();
        }
        cpus.for_each(|cpu| self.settle(cpu));
        self.settle_moves(NONE);
    }

    /// Ends a critical section in which a timer may have put tasks on a CPU's queue.
    pub(crate) fn settle(&mut self, cpu: u32) {
        let record = &self.arena.cpus[cpu as usize];
        let idle = record.current == NONE && record.resched_at == NEVER && record.online;
        if idle && self.sched.need_resched(CpuId(cpu)) {
            self.rouse(cpu, 0, self.idle_exit(cpu));
        } else {
            self.refresh(cpu);
        }
    }

    /// Begins a critical section on a CPU's queue: its ticks are made up for, its clocks are set, and its next tick is looked at
    /// anew. [`Engine::refresh`] must follow.
    #[inline]
    pub(crate) fn touch(&mut self, cpu: u32) {
        self.catch_up(cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        record.acting_tick = record.next_tick;
        self.sched.set_clocks(CpuId(cpu), Clocks::all(Time::from_nanos(self.now)));
    }

    /// Whether the current task has to be switched out: `need_resched` is set and the kernel preempts it where it is, or its group is throttled and
    /// it is about to return to user space.
    #[inline]
    pub(crate) fn must_switch(&self, cpu: u32) -> bool {
        self.must_resched(cpu) || self.sched.is_throttle_pending(CpuId(cpu))
    }

    /// Whether `need_resched` is set and the kernel preempts the current task where it is.
    #[inline]
    pub(crate) fn must_resched(&self, cpu: u32) -> bool {
        self.sched.need_resched(CpuId(cpu)) && !self.goes_on_in_kernel(cpu)
    }

    /// Ends a critical section on a CPU's queue: records what the CPU does next. Charging the current task may have set `need_resched`,
    /// even where a task was taken off the queue.
    #[inline]
    pub(crate) fn refresh(&mut self, cpu: u32) {
        if self.flat && self.prices.tick == 0 && self.arena.cpus[cpu as usize].current != NONE {
            return self.flat_refresh(cpu);
        }
        // No task is throttled on the fast path.
        let goes = if self.flat { self.must_resched(cpu) } else { self.must_switch(cpu) };
        let record = &mut self.arena.cpus[cpu as usize];
        if record.current != NONE && goes && !record.leaving {
            record.resched_at = self.now;
        }
        let key = record.key(self.prices.tick, self.period);
        self.arena.agenda.set(cpu, self.key_or_hrtick(cpu, key));
    }

    /// What a CPU does next, but for its high-resolution tick, or that.
    #[inline(always)]
    pub(crate) fn key_or_hrtick(&self, cpu: u32, key: Key) -> Key {
        if self.has_hrtick { key.min(self.hrtick_key(cpu)) } else { key }
    }

    /// When the high-resolution tick of a CPU is due, which does nothing if that idles.
    #[inline(never)]
    fn hrtick_key(&self, cpu: u32) -> Key {
        if self.arena.cpus[cpu as usize].current == NONE {
            return Key::NEVER;
        }
        // One that is set to the past is due at once, as any timer.
        let due = self.sched.hrtick_expires(CpuId(cpu)).map_or(NEVER, |due| due.as_nanos().max(self.now));
        Key::new(due, Kind::Timer)
    }
}

/// Passes an event to the sink, if that listens.
#[inline]
pub(crate) fn tell<S: EventSink>(sink: &mut S, now: u64, cpu: u32, kind: EventKind) {
    if S::LISTENS {
        sink.event(Event { time: Time::from_nanos(now), cpu: CpuId(cpu), kind });
    }
}

/// The engine's number of a task as the event schema's.
pub(crate) const fn task_id(task: u32) -> TaskId {
    // NONE and the idle task are both u32::MAX.
    TaskId(task)
}

#[cfg(test)]
mod tests {
    use schedlab_model::{Attributes, NoEvents, Step, TaskKind, Workload};

    use super::*;

    #[test]
    fn a_run_in_which_no_time_passes_is_given_up() {
        let yields = schedlab_model::Task {
            name: "yields".into(),
            instances: 1,
            kind: TaskKind::Process,
            attributes: Some(Attributes::default()),
            steps: vec![Step::Loop { count: 10_000, steps: vec![Step::Yield] }],
            ..schedlab_model::Task::default()
        };
        let workload = Workload {
            name: "standstill".into(),
            channels: Default::default(),
            latches: vec![],
            tasks: vec![yields],
            ..Workload::default()
        };
        let program = Program::compile(&workload).unwrap();
        let scheduler = Scheduler::new("6.1".parse().unwrap());
        let error =
            crate::simulate(&program, &scheduler, &Machine::ideal(1), &Options::default(), &mut NoEvents).unwrap_err();
        assert!(matches!(error, SimError::NoProgress { time: Time::ZERO, .. }), "{error}");
    }
}
