//! What steps name, gathered: mutexes, conditions, barriers, semaphores, timers, memory, files, ports, changes and stopwatches.

use std::collections::HashMap;

use schedlab_model::{self as model, Access, FileAccess, MAX_FILE, Offset, Step, Task, Workload};

use crate::check::{known, message_fault};
use crate::{Membership, Op};

/// Names in the order in which they were met.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    names: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    /// The place of a name, which is new or not.
    fn of(&mut self, name: &str) -> u32 {
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        index
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.names
    }
}

/// A barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barrier {
    /// Its name.
    pub name: String,
    /// How many tasks go on together; at least 1.
    pub parties: u64,
}

/// A timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// Its name.
    pub name: String,
    /// Whether every task has its own timer of this name.
    pub own: bool,
    /// Whether an expiry that was missed leaves the later ones where they are.
    pub absolute: bool,
}

/// Memory that a step touches in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// How.
    pub access: Access,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes from pointer to pointer.
    pub stride: u32,
    /// The name under which tasks share it.
    pub shared: Option<String>,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVerb {
    /// Write, and wait until that is done.
    Write,
    /// Read, and wait until that is done.
    Read,
    /// Begin to write; at most so many accesses are under way.
    SubmitWrite(u32),
    /// Begin to read; at most so many accesses are under way.
    SubmitRead(u32),
}

/// One kind of access of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOp {
    /// The file, an index into the program's.
    pub file: u32,
    /// What is done.
    pub verb: FileVerb,
    /// Bytes.
    pub bytes: u32,
    /// Where it begins.
    pub offset: Offset,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The port.
    pub port: u32,
    /// Bytes sent.
    pub bytes: u32,
    /// Bytes of the reply.
    pub reply: u32,
}

/// A change of how a task is treated, its group resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The change of the step.
    pub step: model::Change,
    /// The group of the task from then on.
    pub group: Option<Membership>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) mutexes: Names,
    pub(crate) conditions: Names,
    pub(crate) semaphores: Names,
    pub(crate) post_lists: Vec<Vec<u32>>,
    post_list_index: HashMap<Vec<u32>, u32>,
    pub(crate) ports: Names,
    pub(crate) watches: Names,
    pub(crate) barriers: Vec<Barrier>,
    barrier_index: HashMap<String, u32>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) accesses: Vec<FileOp>,
    pub(crate) requests: Vec<Request>,
    pub(crate) changes: Vec<Change>,
}

/// The place of `value` in a list, at whose end it is put if it is new.
fn place<T: PartialEq>(list: &mut Vec<T>, value: T) -> u32 {
    let index = list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    });
    index as u32
}

impl Objects {
    /// The place of a list of semaphores to post, which is new or not.
    fn post_list(&mut self, list: Vec<u32>) -> u32 {
        let new = self.post_lists.len() as u32;
        *self.post_list_index.entry(list).or_insert_with_key(|list| {
            self.post_lists.push(list.clone());
            new
        })
    }

    /// The operation of a step that is one primitive operation and needs nothing else of the compiler; none for any other.
    ///
    /// # Errors
    /// What is wrong with the step.
    pub(crate) fn operation(
        &mut self,
        workload: &Workload,
        groups: &[model::GroupNode],
        task: &Task,
        step: &Step,
    ) -> Result<Option<Op>, String> {
        Ok(Some(match step {
            Step::Timer { timer, period, own, absolute } => {
                let timer = self.timer(timer, *own, *absolute)?;
                Op::Timer { timer, period: *period }
            }
            Step::Lock(name) => Op::Lock(self.mutexes.of(name)),
            Step::Unlock(name) => Op::Unlock(self.mutexes.of(name)),
            Step::Wait { condition, mutex } => {
                Op::Wait { condition: self.conditions.of(condition), mutex: self.mutexes.of(mutex) }
            }
            Step::Signal(name) => Op::Signal(self.conditions.of(name)),
            Step::Broadcast(name) => Op::Broadcast(self.conditions.of(name)),
            Step::Barrier(name) => Op::Barrier(self.barrier(name, task.instances)),
            Step::Post(name) => Op::Post(self.semaphores.of(name)),
            Step::PostAll(names) => {
                if names.is_empty() {
                    return Err("a list of semaphores to post is empty".into());
                }
                let list: Vec<u32> = names.iter().map(|name| self.semaphores.of(name)).collect();
                Op::PostAll(self.post_list(list))
            }
            Step::Acquire(name) => Op::Acquire(self.semaphores.of(name)),
            Step::Memory { access, count, buffer } => {
                Op::Memory { buffer: self.memory(*access, buffer)?, count: *count }
            }
            Step::Device { bytes, chunk } => {
                if let Some(fault) = message_fault(*chunk) {
                    return Err(fault);
                }
                Op::Device { chunk: *chunk, bytes: *bytes }
            }
            Step::WriteFile(access) => self.file(workload, access, FileVerb::Write)?,
            Step::ReadFile(access) => self.file(workload, access, FileVerb::Read)?,
            Step::SubmitWrite { access, depth } => self.file(workload, access, FileVerb::SubmitWrite(*depth))?,
            Step::SubmitRead { access, depth } => self.file(workload, access, FileVerb::SubmitRead(*depth))?,
            Step::AwaitFiles => Op::AwaitFiles,
            Step::CompleteWrite => Op::CompleteWrite,
            Step::Dispatch => Op::Dispatch,
            Step::EndWriteback => Op::EndWriteback,
            Step::GracePeriod => Op::GracePeriod,
            Step::DispatchFlush => Op::DispatchFlush,
            Step::Request { port, bytes, reply } => {
                for bytes in [*bytes, *reply] {
                    message_fault(bytes).map_or(Ok(()), Err)?;
                }
                let request = Request { port: self.ports.of(port), bytes: *bytes, reply: *reply };
                Op::Request(place(&mut self.requests, request))
            }
            Step::Accept { port, bytes } => {
                message_fault(*bytes).map_or(Ok(()), Err)?;
                Op::Accept { port: self.ports.of(port), bytes: *bytes }
            }
            Step::Reply { bytes } => {
                message_fault(*bytes).map_or(Ok(()), Err)?;
                Op::Reply(*bytes)
            }
            Step::Set(change) => Op::Set(self.change(change, groups)?),
            Step::Start(name) => Op::Start(self.watches.of(name)),
            Step::Stop(name) => Op::Stop(self.watches.of(name)),
            _ => return Ok(None),
        }))
    }

    fn timer(&mut self, name: &str, own: bool, absolute: bool) -> Result<u32, String> {
        let timer = Timer { name: name.to_owned(), own, absolute };
        if !own && self.timers.iter().any(|other| other.name == name && !other.own && other.absolute != absolute) {
            return Err(format!("timer '{name}' is absolute in one step and relative in another"));
        }
        Ok(place(&mut self.timers, timer))
    }

    fn barrier(&mut self, name: &str, instances: u32) -> u32 {
        let index = match self.barrier_index.get(name) {
            Some(index) => *index,
            None => {
                let index = self.barriers.len() as u32;
                self.barriers.push(Barrier { name: name.to_owned(), parties: 0 });
                self.barrier_index.insert(name.to_owned(), index);
                index
            }
        };
        self.barriers[index as usize].parties += u64::from(instances);
        index
    }

    fn memory(&mut self, access: Access, buffer: &model::Buffer) -> Result<u32, String> {
        let model::Buffer { bytes, stride, shared } = buffer.clone();
        if !(1..=MAX_MEMORY).contains(&bytes) {
            return Err(format!("a buffer of {bytes} bytes is out of range; allowed: 1 to {MAX_MEMORY}"));
        }
        if access.chases() && (stride < 8 || u64::from(stride) * 2 > bytes) {
            return Err(format!(
                "a stride of {stride} bytes is out of range; allowed: 8 to half the buffer's {bytes} bytes"
            ));
        }
        let stride = if access.chases() { stride } else { 0 };
        if let Some(name) = &shared
            && let Some(other) = self.memories.iter().find(|memory| memory.shared.as_ref() == Some(name))
            && (other.bytes, other.stride) != (bytes, stride)
        {
            return Err(format!("the shared buffer '{name}' has another size or stride elsewhere"));
        }
        Ok(place(&mut self.memories, Memory { access, bytes, stride, shared }))
    }

    fn file(&mut self, workload: &Workload, access: &FileAccess, verb: FileVerb) -> Result<Op, String> {
        let FileAccess { file: name, bytes, offset } = access;
        message_fault(*bytes).map_or(Ok(()), Err)?;
        let Some(file) = workload.files.keys().position(|known| known == name) else {
            return Err(format!("no file is called '{name}'; {}", known(workload.files.keys().map(String::as_str))));
        };
        let size = workload.files[name].size;
        if u64::from(*bytes) > size {
            return Err(format!("{bytes} bytes are more than file '{name}' has, which are {size}"));
        }
        if let FileVerb::SubmitWrite(depth) | FileVerb::SubmitRead(depth) = verb
            && !(1..=MAX_DEPTH).contains(&depth)
        {
            return Err(format!("a depth of {depth} is out of range; allowed: 1 to {MAX_DEPTH}"));
        }
        Ok(Op::File(place(&mut self.accesses, FileOp { file: file as u32, verb, bytes: *bytes, offset: *offset })))
    }

    fn change(&mut self, change: &model::Change, groups: &[model::GroupNode]) -> Result<u32, String> {
        let whole = change.apply(&model::Attributes::default());
        if let Some(fault) = crate::check::attributes_fault(&whole).or_else(|| change.clamp.fault()) {
            return Err(fault);
        }
        let group = match change.taskgroup.as_deref() {
            None => None,
            Some("/") => Some(Membership::Root),
            Some(path) => match groups.iter().position(|node| node.path == path) {
                Some(group) => Some(Membership::Group(group as u32)),
                None => {
                    let known = known(groups.iter().map(|group| group.path.as_str()));
                    return Err(format!("no group is called '{path}'; {known}"));
                }
            },
        };
        if let Some(fault) = nodes_fault(change.nodes.as_deref().unwrap_or_default()) {
            return Err(fault);
        }
        Ok(place(&mut self.changes, Change { step: change.clone(), group }))
    }
}

/// The largest buffer that a task touches (16 GiB).
const MAX_MEMORY: u64 = 1 << 34;

/// The most accesses of files that a task has under way.
const MAX_DEPTH: u32 = 1024;

/// The highest number of a NUMA node (`MAX_NUMNODES` of the largest configurations).
const MAX_NODES: u32 = 1024;

/// What is wrong with a list of NUMA nodes, if anything.
pub(crate) fn nodes_fault(nodes: &[u32]) -> Option<String> {
    let node = nodes.iter().find(|node| **node >= MAX_NODES)?;
    Some(format!("NUMA node {node} is out of range; allowed: 0 to {}", MAX_NODES - 1))
}

/// What is wrong with a file, if anything.
pub(crate) fn file_fault(file: &model::File) -> Option<String> {
    (!(1..=MAX_FILE).contains(&file.size))
        .then(|| format!("a size of {} bytes is out of range; allowed: 1 to {MAX_FILE}", file.size))
}
