//! CPUs whose speed follows what else is busy: threads of a core that share it, turbo by the number of busy cores of a socket, and CPUs that
//! have turns on one.
//!
//! A CPU's rate is a whole number of millionths of the nominal speed, so that the work it does in a time, `rate × nanoseconds`, is a
//! whole number of millionths of a nanosecond of nominal work. Nothing is ever rounded away: an operation is complete at the first
//! nanosecond by which its work is done, and what its CPU did of that nanosecond beyond it is credited to the task, towards its next
//! operation. So of every task, ∫ rate dt over the time it ran is exactly what it was told to do, plus what remains of its credit.
//!
//! Where CPUs have turns, clocks go on in others' turns: computing by a clock takes as long as the workload says, and what comes before the first look
//! at that clock takes as many times as long as CPUs are busy. A CPU is busy there from when it is notified: its way out of idle takes turns.

use schedlab_model::{Costs, EventSink, Machine, Speed, Time};
use schedlab_program::Op;

use crate::cpu::Cpu;
use crate::engine::Engine;
use crate::task::Stage;
use crate::wait::NONE;

/// A CPU's rate at its nominal speed, in millionths.
pub(crate) const NOMINAL: u32 = Speed::NOMINAL;

/// What a machine with such CPUs needs beyond what every machine does.
pub(crate) struct Pace {
    speed: Speed,
    /// By CPU: its core and its socket.
    places: Vec<(u32, u32)>,
    /// By socket: its CPUs.
    sockets: Vec<Vec<u32>>,
    /// By core: how many of its CPUs are busy.
    busy_threads: Vec<u32>,
    /// By socket: how many of its cores have a busy CPU.
    busy_cores: Vec<u32>,
    /// By CPU: whether it is counted as busy. One that has turns is from when it sets out to leave idle.
    busy: Vec<bool>,
    /// By CPU that has turns and is to be notified: what its way out of idle takes, with the pass.
    ways: Vec<u64>,
    /// By CPU: until when its work is in its task's books.
    since: Vec<u64>,
    books: Vec<Book>,
}

/// Of one task, in millionths of a nanosecond of nominal work.
#[derive(Debug, Clone, Copy, Default)]
struct Book {
    /// What CPUs did for it.
    work: u128,
    /// Of that, what they did ahead, while it does not run.
    credit: u64,
}

impl Pace {
    /// None where CPUs always work at their nominal speed.
    pub(crate) fn new(machine: &Machine) -> Option<Box<Self>> {
        if machine.speed.is_default() {
            return None;
        }
        let (topology, cpus) = (&machine.topology, machine.cpus);
        let turns = machine.speed.turns;
        let place = |cpu| if turns { (cpu, 0) } else { (topology.core(cpu, cpus), topology.node_of(cpu, cpus)) };
        let places: Vec<(u32, u32)> = (0..cpus).map(place).collect();
        let mut sockets = vec![Vec::new(); if turns { 1 } else { topology.nodes(cpus) as usize }];
        for ((_, socket), cpu) in places.iter().zip(0..) {
            sockets[*socket as usize].push(cpu);
        }
        Some(Box::new(Self {
            speed: machine.speed.clone(),
            busy_threads: vec![0; if turns { cpus } else { cpus / topology.smt } as usize],
            busy_cores: vec![0; sockets.len()],
            busy: vec![false; cpus as usize],
            ways: vec![0; cpus as usize],
            since: vec![0; cpus as usize],
            books: Vec::new(),
            places,
            sockets,
        }))
    }

    fn rate(&self, cpu: u32) -> u32 {
        let (core, socket) = self.places[cpu as usize];
        self.speed.rate(self.busy_threads[core as usize], self.busy_cores[socket as usize])
    }

    /// A CPU that idled is busy, or the other way round; returns false where that was counted before.
    fn count(&mut self, cpu: u32, busy: bool) -> bool {
        if std::mem::replace(&mut self.busy[cpu as usize], busy) == busy {
            return false;
        }
        let (core, socket) = self.places[cpu as usize];
        let (threads, cores) = (&mut self.busy_threads[core as usize], &mut self.busy_cores[socket as usize]);
        if busy {
            *threads += 1;
            *cores += u32::from(*threads == 1);
        } else {
            *threads -= 1;
            *cores -= u32::from(*threads == 0);
        }
        true
    }

    /// Enters into the books what a CPU did until `now`.
    fn enter(&mut self, cpu: u32, record: &Cpu, now: u64) {
        let since = std::mem::replace(&mut self.since[cpu as usize], now);
        self.books[record.current as usize].work += u128::from(now - since) * u128::from(record.rate);
    }

    /// How many CPUs have turns, each of which takes so many times as long as at its nominal speed; 1 where none have.
    fn stretch(&self) -> u32 {
        if self.speed.turns { self.busy_cores[0].max(1) } else { 1 }
    }

    /// How much later than its time is up a task that computes by a clock sees that, on average, as work before its first look, each nanosecond of
    /// which takes as many as CPUs have turns. With N of them the time is up in another's turn with a chance of (N − 1)/N, and then half of the
    /// N − 1 turns go by: T (N − 1)² / 2N, which is the work times N.
    fn late_look(&self) -> u64 {
        let busy = u64::from(self.stretch());
        Speed::TURN.as_nanos() * (busy - 1).pow(2) / (2 * busy.pow(2))
    }

    /// What a task was told to do and did, its operations' costs among it, in nanoseconds of nominal work.
    pub(crate) fn work(&self, task: usize) -> u64 {
        let Book { work, credit } = self.books[task];
        let done = work.saturating_sub(u128::from(credit));
        debug_assert!(done.is_multiple_of(u128::from(NOMINAL)), "work is lost, or done that nobody asked for");
        u64::try_from(done / u128::from(NOMINAL)).unwrap_or(u64::MAX)
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// [`Pace::late_look`]; nothing where CPUs have no turns, or none is to be read.
    #[inline]
    pub(crate) fn late_look(&self) -> u64 {
        self.pace.as_ref().filter(|_| self.prices.clocked).map_or(0, |pace| pace.late_look())
    }

    /// A task was made.
    pub(crate) fn open_book(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.books.push(Book::default());
        }
    }

    /// A task is switched in and takes its credit with it.
    pub(crate) fn start_work(&mut self, cpu: u32, task: u32) {
        if let Some(pace) = &mut self.pace {
            pace.since[cpu as usize] = self.now;
            let record = &mut self.arena.cpus[cpu as usize];
            (record.end, record.spare) = (self.now, pace.books[task as usize].credit);
        }
    }

    /// A task is switched out: what was done for it enters the books. Its work that is left was recorded before ([`Cpu::suspend`]).
    pub(crate) fn stop_work(&mut self, cpu: u32, task: u32) {
        if let Some(pace) = &mut self.pace {
            let record = &self.arena.cpus[cpu as usize];
            pace.enter(cpu, record, self.now);
            pace.books[task as usize].credit = record.spare;
        }
    }

    /// A CPU that idled is busy, or the other way round: those that share its core or its socket go on at another rate.
    pub(crate) fn busy_changed(&mut self, cpu: u32, busy: bool) {
        let Some(pace) = &mut self.pace else { return };
        if !busy {
            // It may go off line before it is notified.
            pace.ways[cpu as usize] = 0;
        }
        let before = pace.stretch();
        if !pace.count(cpu, busy) {
            return;
        }
        let after = pace.stretch();
        let socket = pace.places[cpu as usize].1 as usize;
        for place in 0..pace.sockets[socket].len() {
            let Some(pace) = &self.pace else { return };
            let other = pace.sockets[socket][place];
            if other == cpu {
                continue;
            }
            let put_off = self.arena.cpus[other as usize].put_off(self.now, before, after);
            let busy = self.arena.cpus[other as usize].current != NONE;
            if busy && (self.adopt_rate(other) || self.adopt_stretch(other)) || put_off {
                self.refresh(other);
            }
        }
    }

    /// Whether the task waits for a time to pass, and not for work to be done: that does not depend on the CPU's speed.
    fn watches_the_clock(&self, task: u32) -> bool {
        let record = &self.arena.tasks[task as usize];
        let spins = matches!((record.op, record.stage), (Op::Busy(_), Stage::Act));
        spins || self.pace.as_ref().is_some_and(|pace| pace.speed.turns) && self.arena.cpus[record.cpu as usize].clocked
    }

    /// How long a CPU takes for what takes so long at its nominal speed, if no other becomes busy or idle meanwhile.
    #[inline]
    pub(crate) fn takes(&self, cpu: u32, time: u64) -> u64 {
        let Some(pace) = self.pace.as_ref().filter(|pace| pace.speed.turns) else { return time };
        let idles = !pace.busy[cpu as usize];
        time * u64::from((pace.busy_cores[0] + u32::from(idles)).max(1))
    }

    /// How much longer ticks, this kernel's and a hypervisor's, make what lies between a wake-up and an idle CPU's switch: the waker's CPU takes them first,
    /// or this one does as it has started its own again.
    #[inline]
    pub(crate) fn held_up(&mut self, span: u64) -> u64 {
        let ticks = if self.ticks.after(self.now) < self.now + span { self.prices.tick } else { 0 };
        ticks + self.prices.steal(self.now, span)
    }

    /// An idle CPU is notified once another one has worked for `sent`, and then takes its `way` out of idle until it has scheduled.
    pub(crate) fn notify_cpu(&mut self, cpu: u32, sent: u64, way: u64) {
        let (now, held_up) = (self.now, self.held_up(sent + way));
        let resched_at = &mut self.arena.cpus[cpu as usize].resched_at;
        match &mut self.pace {
            Some(pace) if pace.speed.turns => {
                pace.ways[cpu as usize] = way;
                *resched_at = now + sent * u64::from(pace.stretch());
                if sent == 0 {
                    self.sets_out(cpu);
                }
            }
            _ => *resched_at = now + sent + way + held_up,
        }
    }

    /// Whether the CPU only now begins its way out of idle, on which it has turns.
    pub(crate) fn sets_out(&mut self, cpu: u32) -> bool {
        let Some(pace) = &mut self.pace else { return false };
        let way = std::mem::take(&mut pace.ways[cpu as usize]);
        if way == 0 {
            return false;
        }
        self.busy_changed(cpu, true);
        self.arena.cpus[cpu as usize].resched_at = self.now + self.takes(cpu, way);
        self.refresh(cpu);
        true
    }

    /// A task's first look at a clock comes sooner or later by how many CPUs have turns; returns whether it does. [`Engine::refresh`] must follow.
    pub(crate) fn adopt_stretch(&mut self, cpu: u32) -> bool {
        let Some(pace) = self.pace.as_ref().filter(|pace| pace.speed.turns) else { return false };
        let stretch = pace.stretch();
        self.catch_up(cpu);
        self.arena.cpus[cpu as usize].stretch_until_clock(self.now, stretch)
    }

    /// A busy CPU adopts its present rate; returns whether that is another one. [`Engine::refresh`] must follow.
    pub(crate) fn adopt_rate(&mut self, cpu: u32) -> bool {
        let Some(pace) = &self.pace else { return false };
        let record = &self.arena.cpus[cpu as usize];
        let rate = if self.watches_the_clock(record.current) { NOMINAL } else { pace.rate(cpu) };
        if rate == record.rate {
            return false;
        }
        // Ticks until now were at the old one.
        self.catch_up(cpu);
        let (now, record) = (self.now, &mut self.arena.cpus[cpu as usize]);
        if let Some(pace) = &mut self.pace {
            pace.enter(cpu, record, now);
        }
        record.change_rate(now, rate);
        true
    }

    /// How long the running or waiting task was at work so far, as its own accounts count: at the nominal speed.
    pub(crate) fn worked(&self, task: usize) -> u64 {
        let record = &self.arena.tasks[task];
        let account = &record.account;
        let Some(pace) = &self.pace else { return account.run + self.now - account.since };
        let cpu = &self.arena.cpus[record.cpu as usize];
        let running = cpu.current == task as u32;
        let ahead =
            if running { u128::from(self.now - pace.since[record.cpu as usize]) * u128::from(cpu.rate) } else { 0 };
        u64::try_from((pace.books[task].work + ahead) / u128::from(NOMINAL)).unwrap_or(u64::MAX)
    }

    /// A task's CPU time in user mode: of all of it the same share as of its work.
    pub(crate) fn user_time(&self, task: usize) -> u64 {
        let account = &self.arena.tasks[task].account;
        let Some(pace) = &self.pace else { return account.user };
        let (run, user, work) = (u128::from(account.run), u128::from(account.user), u128::from(pace.work(task).max(1)));
        u64::try_from(run * user / work).map_or(account.run, |user| user.min(account.run))
    }
}

/// Of a notification's costs what is left of the sender's interrupt and of the way out of idle where CPUs have turns.
///
/// Both were measured between two CPUs that had them. The sender's was counted by a clock that went on in the other's turns, as long as its own. A waker's
/// turn lasts until it sleeps, so that a round trip contains its read up to that, too, and how it went to sleep.
pub(crate) fn between_turns(costs: &Costs) -> (Time, Time) {
    let write = costs.system_call + costs.pipe_write + costs.wakeup + costs.wakeup_remote;
    let read = (costs.system_call + costs.pipe_read).as_nanos();
    let sleeps = Time::from_nanos(read - read / 2) + costs.block;
    (Time::from_nanos(costs.ipi.saturating_sub(write).as_nanos() / 2), costs.idle_exit.saturating_sub(sleeps))
}
