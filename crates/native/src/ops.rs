//! The operations of a task beyond computing, sleeping and messages.
//!
//! This file and `task.rs` use each other: an operation may make tasks, and a task's life is its operations.

use std::io;
use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{Attributes, Clamp, Policy};
use schedlab_program::{Op, TemplateId};

use crate::attributes::{has_policy, set_clamp, set_cpus_or_all, set_policy};
use crate::memory::Stretch;
use crate::network::reply;
use crate::shared::Wanted;
use crate::storage::Storage;
use crate::system::{self, monotonic};
use crate::task::{Task, World, give_up, number};

/// What a task needs for these, made when first needed.
#[derive(Default)]
pub(crate) struct Tools {
    stretches: Vec<Option<Stretch>>,
    storage: Option<Storage>,
    /// When its own timers expire next, by timer, 0 before their first use.
    timers: Vec<u64>,
    watches: Vec<u64>,
    /// Whose request it has not answered.
    client: libc::c_int,
    /// What it asked of the scheduler last.
    present: Option<(Attributes, Clamp)>,
}

/// What a task is before its first operation: group, clamp, memory, attributes. Affinity comes first: on other CPUs there may be
/// a task that never yields to the new policy.
pub(crate) fn prepare(world: &World, id: TemplateId) {
    let template = world.program.template(id);
    let failed = |wanted: Wanted| move |error: io::Error| give_up(world, wanted, number(&error), id);
    if let (Some(groups), Some(group)) = (&world.groups, template.group) {
        groups.join(group).unwrap_or_else(failed(Wanted::Group));
    }
    if !template.nodes.is_empty() {
        system::bind_memory(&template.nodes).unwrap_or_else(failed(Wanted::Nodes));
    }
    if let Some(attributes) = &template.attributes {
        crate::attributes::set_cpus(attributes).unwrap_or_else(failed(Wanted::Affinity));
        lock_pages(world, id, attributes.policy);
        if world.slices || !has_policy(attributes) {
            set_policy(attributes).unwrap_or_else(failed(Wanted::Attributes));
        }
    }
    set_clamp(template.clamp).unwrap_or_else(failed(Wanted::Clamp));
}

/// rt-app locks the pages of tasks that are not fair.
fn lock_pages(world: &World, id: TemplateId, policy: Policy) {
    let fair = matches!(policy, Policy::Other | Policy::Batch | Policy::Idle);
    if world.program.lock_pages()
        && !fair
        && let Err(error) = system::lock_memory()
    {
        give_up(world, Wanted::LockPages, number(&error), id);
    }
}

impl Task {
    /// Does one of these operations.
    pub(crate) fn act(&mut self, op: Op) {
        let world = self.world;
        let objects = &world.objects;
        match op {
            Op::Busy(time) => self.world.spin.until_passed(time.as_nanos()),
            Op::Delay(time) => system::sleep_until(self.opened() + time.as_nanos()),
            Op::Timer { timer, period } => self.use_timer(timer, period.as_nanos()),
            Op::Lock(mutex) => objects.mutexes[mutex as usize].lock(),
            Op::Unlock(mutex) => objects.mutexes[mutex as usize].unlock(),
            Op::Wait { condition, mutex } => {
                objects.conditions[condition as usize].wait(&objects.mutexes[mutex as usize]);
            }
            Op::Signal(condition) => objects.conditions[condition as usize].signal(),
            Op::Broadcast(condition) => objects.conditions[condition as usize].broadcast(),
            Op::Barrier(barrier) => {
                objects.barriers[barrier as usize].meet(self.world.program.barriers()[barrier as usize].parties);
            }
            Op::Post(semaphore) => objects.semaphores[semaphore as usize].post(monotonic()),
            Op::PostAll(list) => {
                for semaphore in &self.world.program.post_lists()[list as usize] {
                    objects.semaphores[*semaphore as usize].post(monotonic());
                }
            }
            Op::Acquire(semaphore) => objects.semaphores[semaphore as usize].wait(monotonic),
            Op::Memory { buffer, count } => self.touch(buffer, count),
            Op::Device { chunk, bytes } => self.write_device(chunk, bytes),
            Op::File(access) => {
                let op = self.world.program.file_accesses()[access as usize];
                let files = &self.world.files;
                let done = self.storage().access(files, op);
                self.expect(Wanted::File, done);
            }
            Op::AwaitFiles => {
                let done = self.storage().wait_all();
                self.expect(Wanted::File, done);
            }
            Op::Request(request) => {
                let request = self.world.program.requests()[request as usize];
                let done = self.world.ports[request.port as usize].request(request, &mut self.buffer);
                self.expect(Wanted::Network, done);
                self.count_message(request.reply);
            }
            Op::Accept { port, bytes } => {
                let taken = self.world.ports[port as usize].accept(&mut self.buffer[..bytes as usize]);
                self.tools.client = self.expect(Wanted::Network, taken);
                self.count_message(bytes);
            }
            Op::Reply(bytes) => {
                let done = reply(self.tools.client, &self.buffer[..bytes as usize]);
                self.expect(Wanted::Network, done);
            }
            Op::Set(change) => self.set(change),
            Op::Start(watch) => {
                let watches = &mut self.tools.watches;
                watches.resize(watches.len().max(watch as usize + 1), 0);
                watches[watch as usize] = monotonic();
            }
            Op::Stop(watch) => {
                let started = self.tools.watches.get(watch as usize).copied().unwrap_or(self.opened());
                objects.watches[watch as usize].add(monotonic().saturating_sub(started));
            }
            _ => {}
        }
    }

    fn expect<T>(&self, wanted: Wanted, done: io::Result<T>) -> T {
        done.unwrap_or_else(|error| self.fail(wanted, &error))
    }

    fn opened(&self) -> u64 {
        self.world.shared.header().opened.load(SeqCst)
    }

    fn use_timer(&mut self, timer: u32, period: u64) {
        let rule = &self.world.program.timers()[timer as usize];
        let begin = self.opened() + self.world.program.template(self.template).delay.as_nanos();
        let timers = &mut self.tools.timers;
        timers.resize(timers.len().max(timer as usize + 1), 0);
        let shared = &self.world.objects.timers[timer as usize];
        let before = if rule.own { timers[timer as usize] } else { shared.load(SeqCst) };
        let due = if before == 0 { begin } else { before }.saturating_add(period);
        let now = monotonic();
        let next = if due <= now && !rule.absolute { now } else { due };
        if rule.own {
            timers[timer as usize] = next;
        } else {
            shared.store(next, SeqCst);
        }
        if now < due {
            system::sleep_until(due);
        }
    }

    fn touch(&mut self, buffer: u32, count: u64) {
        let memory = &self.world.program.memories()[buffer as usize];
        let stretches = &mut self.tools.stretches;
        stretches.resize_with(stretches.len().max(buffer as usize + 1), || None);
        let shared = self.world.objects.memories[buffer as usize];
        let stretch = stretches[buffer as usize].get_or_insert_with(|| Stretch::prepare(memory, shared));
        stretch.touch(memory.access, count);
    }

    fn write_device(&mut self, chunk: u32, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(u64::from(chunk)) as usize;
            match system::write(self.world.device, &self.buffer[..part]) {
                Ok(written) => left -= written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(Wanted::Device, &error),
            }
        }
    }

    fn storage(&mut self) -> &mut Storage {
        let (world, seed) = (self.world, self.seed);
        self.tools.storage.get_or_insert_with(|| {
            let longest = world.program.file_accesses().iter().map(|access| access.bytes).max().unwrap_or(1);
            Storage::new(longest, seed)
        })
    }

    /// Asks the scheduler for what changes, and for nothing where nothing does.
    fn set(&mut self, change: u32) {
        let world = self.world;
        let change = &world.program.changes()[change as usize];
        let template = world.program.template(self.template);
        let (before, clamp) = self
            .tools
            .present
            .clone()
            .unwrap_or_else(|| (template.attributes.clone().unwrap_or_default(), template.clamp));
        let after = change.step.apply(&before);
        if after.affinity != before.affinity {
            self.expect(Wanted::Affinity, set_cpus_or_all(&after, &world.cpus));
        }
        if after != (Attributes { affinity: after.affinity.clone(), ..before }) {
            lock_pages(world, self.template, after.policy);
            self.expect(Wanted::Attributes, set_policy(&after));
        }
        let bounds = Clamp { min: change.step.clamp.min.or(clamp.min), max: change.step.clamp.max.or(clamp.max) };
        if bounds != clamp {
            self.expect(Wanted::Clamp, set_clamp(bounds));
        }
        if let (Some(groups), Some(group)) = (&world.groups, change.group)
            && self.group != Some(group)
        {
            self.expect(Wanted::Group, groups.join(group));
            self.group = Some(group);
            self.note_group();
        }
        if let Some(nodes) = &change.step.nodes {
            self.expect(Wanted::Nodes, system::bind_memory(nodes));
        }
        self.tools.present = Some((after, bounds));
    }
}
