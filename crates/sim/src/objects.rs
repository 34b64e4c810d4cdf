//! What tasks share besides channels, and what they carry along besides their operation.

use std::collections::VecDeque;

use schedlab_model::Histogram;
use schedlab_program::{Places, Program};

use crate::completions::{Pool, Write};
use crate::dispatch::Dispatcher;
use crate::flush::Flushes;
use crate::grace_period::GracePeriods;
use crate::inode::Inode;
use crate::rwsem::Hold;
use crate::wait::{NONE, WaitQueue};
use crate::writeback::Writebacks;

/// `pthread_mutex_t`.
#[derive(Debug, Clone)]
pub(crate) struct Mutex {
    /// Who holds it.
    pub(crate) owner: u32,
    pub(crate) waiters: WaitQueue,
}

/// A barrier, as rt-app makes it: a mutex, a condition, and how many of its tasks are there.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    pub(crate) parties: u64,
    pub(crate) arrived: u64,
    /// Its own, behind the program's.
    pub(crate) mutex: u32,
    pub(crate) condition: u32,
}

/// `sem_t`.
#[derive(Debug, Clone)]
pub(crate) struct Semaphore {
    pub(crate) count: u64,
    /// When it was posted last.
    pub(crate) posted: u64,
    pub(crate) waiters: WaitQueue,
    /// Times from a post until the task that slept for it runs.
    pub(crate) wakeups: Histogram,
}

/// A listening socket.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// Clients whose connection no server has taken.
    pub(crate) backlog: VecDeque<u32>,
    pub(crate) servers: WaitQueue,
}

/// What some tasks carry along.
#[derive(Debug, Clone, Default)]
pub(crate) struct Luggage {
    /// When its own timers expire next, by timer, once used.
    timers: Vec<Option<u64>>,
    /// When its stopwatches were started, by watch.
    watches: Vec<u64>,
    /// When what it began to read and write is done, earliest first.
    pub(crate) under_way: VecDeque<u64>,
    /// Where its next access of each file begins, once it has accessed one.
    pub(crate) places: Option<Places>,
    /// The page that its present write is about, or that it waits for.
    pub(crate) page: u64,
    /// Until when its present operation lasts.
    pub(crate) until: u64,
    /// Those that its broadcast has yet to wake.
    pub(crate) waking: Option<WaitQueue>,
    /// The client whose request it has not answered.
    pub(crate) client: u32,
    /// The server that has taken its connection and sleeps until its request comes.
    pub(crate) server: u32,
    /// The server that has replied, and has not ended the connection.
    pub(crate) peer: u32,
    /// It sleeps until its reply comes.
    pub(crate) reads: bool,
    /// Writes that it began and that no kernel thread has completed, and with how many it goes on.
    pub(crate) writes: u32,
    pub(crate) enough: u32,
    /// It asked for a block of metadata to be written, and was preempted before it slept for that.
    pub(crate) asked: bool,
    /// How it holds the lock of the inode to which it begins a write.
    pub(crate) hold: Option<Hold>,
    /// The write that it completes as a kernel thread.
    pub(crate) write: Option<Write>,
    /// Its attributes while it is served as another task's holder of a mutex.
    pub(crate) lent: Option<schedlab_model::Attributes>,
}

/// All of a run.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) conditions: Vec<WaitQueue>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) ports: Vec<Port>,
    /// When the timers that tasks share expire next, once used.
    timers: Vec<Option<u64>>,
    pub(crate) watches: Vec<Histogram>,
    pub(crate) inodes: Vec<Inode>,
    /// The kernel threads of each CPU that complete writes; none where the disk completes them by itself.
    pub(crate) pools: Vec<Pool>,
    /// First writes of blocks whose writeback a kernel thread ends.
    pub(crate) writebacks: Writebacks,
    /// What was left to RCU, where its thread is simulated.
    pub(crate) grace_periods: GracePeriods,
    /// The kernel threads of each CPU that hand accesses to the disk; none where tasks do that themselves.
    pub(crate) dispatchers: Vec<Dispatcher>,
    /// Flushes of the disk's write cache.
    pub(crate) flushes: Flushes,
    /// When the disk has its next free moment.
    pub(crate) disk_free: u64,
    /// By task, made when first needed.
    luggage: Vec<Option<Box<Luggage>>>,
}

impl Objects {
    /// All as at the start of a run.
    pub(crate) fn reset(&mut self, program: &Program) {
        let waiters = WaitQueue::EMPTY;
        let port = Port { backlog: VecDeque::new(), servers: waiters };
        let semaphore = Semaphore { count: 0, posted: 0, waiters, wakeups: Histogram::default() };
        *self = Self {
            mutexes: vec![Mutex { owner: NONE, waiters }; program.mutexes().len() + program.barriers().len()],
            conditions: vec![waiters; program.conditions().len() + program.barriers().len()],
            barriers: program
                .barriers()
                .iter()
                .enumerate()
                .map(|(number, barrier)| Barrier {
                    parties: barrier.parties,
                    arrived: 0,
                    mutex: (program.mutexes().len() + number) as u32,
                    condition: (program.conditions().len() + number) as u32,
                })
                .collect(),
            semaphores: vec![semaphore; program.semaphores().len()],
            ports: vec![port; program.ports().len()],
            timers: vec![None; program.timers().len()],
            watches: vec![Histogram::default(); program.watches().len()],
            inodes: vec![Inode::new(); program.files().len()],
            pools: Vec::new(),
            writebacks: Writebacks::default(),
            grace_periods: GracePeriods::default(),
            dispatchers: Vec::new(),
            flushes: Flushes::default(),
            disk_free: 0,
            luggage: Vec::new(),
        };
    }

    /// The client whose connection a server has taken.
    pub(crate) fn taken(&self, server: u32) -> u32 {
        self.luggage.get(server as usize).and_then(Option::as_ref).map_or(NONE, |luggage| luggage.client)
    }

    /// The server that has replied to a client, and has not ended their connection.
    pub(crate) fn peer(&self, client: u32) -> u32 {
        self.luggage.get(client as usize).and_then(Option::as_ref).map_or(NONE, |luggage| luggage.peer)
    }

    pub(crate) fn luggage(&mut self, task: u32) -> &mut Luggage {
        let index = task as usize;
        if self.luggage.len() <= index {
            self.luggage.resize(index + 1, None);
        }
        self.luggage[index]
            .get_or_insert_with(|| Box::new(Luggage { client: NONE, server: NONE, peer: NONE, ..Luggage::default() }))
    }

    /// When a timer expires next: the task's own, or the one that all tasks share.
    pub(crate) fn timer(&mut self, task: u32, timer: u32, own: bool) -> &mut Option<u64> {
        let timer = timer as usize;
        if !own {
            return &mut self.timers[timer];
        }
        let timers = &mut self.luggage(task).timers;
        if timers.len() <= timer {
            timers.resize(timer + 1, None);
        }
        &mut timers[timer]
    }

    /// When the task started a stopwatch.
    pub(crate) fn watch(&mut self, task: u32, watch: u32) -> &mut u64 {
        let watches = &mut self.luggage(task).watches;
        if watches.len() <= watch as usize {
            watches.resize(watch as usize + 1, 0);
        }
        &mut watches[watch as usize]
    }

    /// An access of the disk that is asked for at `now`: when it is done. Accesses take turns for their bytes and overlap in the rest.
    pub(crate) fn access_disk(&mut self, now: u64, (busy, latency): (u64, u64)) -> u64 {
        self.disk_free = self.disk_free.max(now).saturating_add(busy);
        self.disk_free.saturating_add(latency)
    }
}
