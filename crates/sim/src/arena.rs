//! The memory of a run.

use schedlab_program::Program;

use crate::channel::Channel;
use crate::cpu::Cpu;
use crate::event_queue::EventQueue;
use crate::objects::Objects;
use crate::slabs::{Keeps, Slabs};
use crate::task::{Identity, Task};
use crate::timers::{Expiries, Timers};
use crate::wait::WaitQueue;

/// The memory of a run, to be used again by the next one.
#[derive(Default)]
pub(crate) struct Arena {
    pub(crate) tasks: Vec<Task>,
    pub(crate) identities: Vec<Identity>,
    /// The links of the wait queues, by task.
    pub(crate) links: Vec<u32>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) slabs: Slabs,
    pub(crate) latches: Vec<Latch>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) agenda: EventQueue,
    pub(crate) objects: Objects,
    pub(crate) timers: Timers,
    pub(crate) expiries: Expiries,
}

/// Closed at first; once open, open for ever.
#[derive(Clone)]
pub(crate) struct Latch {
    pub(crate) open: bool,
    pub(crate) waiters: WaitQueue,
}

impl Arena {
    /// Makes it as a run of `program` on `cpus` CPUs begins, with a kernel that so `keeps` memory.
    pub(crate) fn reset(&mut self, program: &Program, cpus: u32, keeps: Keeps) {
        self.tasks.clear();
        self.identities.clear();
        self.links.clear();
        self.timers.clear();
        self.expiries.clear();
        self.slabs = Slabs::new(keeps, cpus);
        self.objects.reset(program);
        self.latches.clear();
        self.latches.resize(program.latches(), Latch { open: false, waiters: WaitQueue::EMPTY });
        self.cpus.clear();
        self.cpus.resize(cpus as usize, Cpu::IDLE);
        self.agenda.reset(cpus);
        self.channels.truncate(program.channels().len());
        for (channel, kind) in self.channels.iter_mut().zip(program.channels()) {
            channel.reset(*kind, keeps);
        }
        let known = self.channels.len();
        self.channels.extend(program.channels()[known..].iter().map(|kind| Channel::new(*kind, keeps)));
    }
}
