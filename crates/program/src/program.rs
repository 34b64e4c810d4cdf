//! A compiled workload.

use schedlab_model::{Attributes, ChannelKind, Clamp, Duration, File, GroupNode, ModelError, TaskKind, Time, Workload};

use crate::compile::{Compiler, FORKS_WITHOUT_END};
use crate::objects::{Barrier, Change, FileOp, Memory, Objects, Request, Timer};
use crate::op::{Instruction, Placed};
use crate::{Op, TemplateId};

/// A compiled, checked workload: immutable and shared by any number of runs.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) templates: Vec<Template>,
    /// The code of all templates, one after the other, each ending in `Exit`.
    pub(crate) code: Vec<Placed>,
    /// The random durations that the code refers to.
    pub(crate) durations: Vec<Duration>,
    pub(crate) channels: Vec<ChannelKind>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) channel_names: Vec<String>,
    pub(crate) latches: Vec<String>,
    pub(crate) groups: Vec<GroupNode>,
    pub(crate) sessions: Vec<String>,
    pub(crate) marks: Vec<String>,
    pub(crate) turnaround_mark: Option<u32>,
    pub(crate) total_tasks: u64,
    pub(crate) longest_message: u32,
    pub(crate) objects: Objects,
    pub(crate) files: Vec<(String, File)>,
    pub(crate) duration: Option<Time>,
    pub(crate) priority_inheritance: bool,
    pub(crate) lock_pages: bool,
    pub(crate) io_device: Option<String>,
}

/// One task, or what equal tasks have in common.
#[derive(Debug, Clone)]
pub struct Template {
    /// Its name in the workload.
    pub name: String,
    /// Process or thread.
    pub kind: TaskKind,
    /// How the scheduler is to treat it; its parent's where there are none.
    pub attributes: Option<Attributes>,
    /// Its group; its parent's where none is given.
    pub group: Option<Membership>,
    /// Its session, an index into the program's; its parent's where there is none.
    pub session: Option<u32>,
    /// The bounds of its utilisation.
    pub clamp: Clamp,
    /// The NUMA nodes its memory comes from; any where there are none.
    pub nodes: Vec<u32>,
    /// When its run begins, after the whole run's start; its timers count from then.
    pub delay: Time,
    /// Whether it is asleep at the start, in its first operation.
    pub asleep: bool,
    /// Whether it is other work of the machine: the run does not wait for its end.
    pub background: bool,
    /// Whether the timers of its sleeps wait while its CPU idles.
    pub deferrable: bool,
    /// How many of them a whole run has, forked ones included.
    pub total: u64,
    /// How many of them are there from the start.
    pub(crate) instances: u32,
    /// Where its code starts.
    pub(crate) entry: u32,
    /// Loops nested in one another, at most.
    pub(crate) depth: u32,
    /// The templates it forks, by slot.
    pub(crate) children: Vec<TemplateId>,
    /// Of each of them, whether it is forked without end.
    pub(crate) endless: Vec<bool>,
    /// Its name, hashed for its tasks' random streams.
    pub(crate) name_key: u64,
}

/// The group of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// In no group.
    Root,
    /// In a group, an index into the program's.
    Group(u32),
}

/// What passes through one channel in a whole run, if every task reaches its end. Saturates at `u64::MAX`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages written.
    pub messages_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Messages read.
    pub messages_read: u64,
    /// Bytes read; never more than are written.
    pub bytes_read: u64,
}

impl Program {
    /// Checks and compiles `workload`.
    ///
    /// # Errors
    /// [`ModelError::Workload`], naming the task and step, for: no task at the start; more tasks than
    /// [`MAX_TASKS`](schedlab_model::MAX_TASKS); names that are unknown or given twice; tasks that fork each other without end;
    /// messages of zero or too many bytes; more bytes read from a channel than are ever written; a latch that is awaited and never
    /// opened; a mutex that a task takes twice or never gives back; steps without end in a run without one; loops nested too deep;
    /// durations, attributes and settings of groups out of range; a task in an unknown group; a `turnaround_from` that no task marks.
    pub fn compile(workload: &Workload) -> Result<Self, ModelError> {
        Compiler::new(workload)?.compile()
    }

    /// The workload's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tasks that are there from the start, in order: template and instance number.
    pub fn roots(&self) -> impl Iterator<Item = (TemplateId, u32)> {
        (0u32..)
            .zip(&self.templates)
            .flat_map(|(id, template)| (0..template.instances).map(move |i| (TemplateId(id), i)))
    }

    /// All templates, by [`TemplateId`].
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// Whether other work of the machine is a part of it.
    pub fn has_background(&self) -> bool {
        self.templates.iter().any(|template| template.background)
    }

    /// One template.
    pub fn template(&self, id: TemplateId) -> &Template {
        &self.templates[id.index()]
    }

    /// The template of the task that an outcome calls `task`: `sender.g0` of `sender.g0[3]`.
    pub fn template_of(&self, task: &str) -> Option<&Template> {
        let by_name = |name: &str| self.templates.iter().find(|template| template.name == name);
        by_name(task).or_else(|| task.rsplit_once('[').and_then(|(name, _)| by_name(name)))
    }

    /// A task's name in outcomes: `sender.g0[3]`, or only the template's name where a whole run has one of it.
    pub fn task_name(&self, id: TemplateId, instance: u32) -> String {
        let template = self.template(id);
        if template.total <= 1 { template.name.clone() } else { format!("{}[{instance}]", template.name) }
    }

    /// The channels that operations refer to, in the order of their names.
    pub fn channels(&self) -> &[ChannelKind] {
        &self.channels
    }

    /// What passes through each channel.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Their names.
    pub fn channel_names(&self) -> &[String] {
        &self.channel_names
    }

    /// How many latches operations refer to.
    pub fn latches(&self) -> usize {
        self.latches.len()
    }

    /// Their names.
    pub fn latch_names(&self) -> &[String] {
        &self.latches
    }

    /// The groups of tasks, parents before their children.
    pub fn groups(&self) -> &[GroupNode] {
        &self.groups
    }

    /// The names of the sessions.
    pub fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// The names of the marks that operations refer to.
    pub fn marks(&self) -> &[String] {
        &self.marks
    }

    /// The mark at which the workload's own clock starts, if it has one.
    pub fn turnaround_mark(&self) -> Option<u32> {
        self.turnaround_mark
    }

    /// How many tasks a whole run has, forked ones included.
    pub fn total_tasks(&self) -> u64 {
        self.total_tasks
    }

    /// Bytes of the longest message, 0 without messages.
    pub fn longest_message(&self) -> u32 {
        self.longest_message
    }

    /// When the run is over, whatever its tasks are doing then.
    pub fn duration(&self) -> Option<Time> {
        self.duration
    }

    /// Whether mutexes have priority inheritance: the holder is served like its most urgent waiter.
    pub fn priority_inheritance(&self) -> bool {
        self.priority_inheritance
    }

    /// Whether tasks that are not fair keep their memory in RAM.
    pub fn lock_pages(&self) -> bool {
        self.lock_pages
    }

    /// The file or device that [`Op::Device`] writes to.
    pub fn io_device(&self) -> &str {
        self.io_device.as_deref().unwrap_or("/dev/null")
    }

    /// The files, by name.
    pub fn files(&self) -> &[(String, File)] {
        &self.files
    }

    /// The names of the mutexes.
    pub fn mutexes(&self) -> &[String] {
        self.objects.mutexes.all()
    }

    /// The names of the conditions.
    pub fn conditions(&self) -> &[String] {
        self.objects.conditions.all()
    }

    /// The barriers.
    pub fn barriers(&self) -> &[Barrier] {
        &self.objects.barriers
    }

    /// The names of the semaphores.
    pub fn semaphores(&self) -> &[String] {
        self.objects.semaphores.all()
    }

    /// The semaphores of each [`Op::PostAll`](crate::Op::PostAll), as indices into [`semaphores`](Self::semaphores).
    pub fn post_lists(&self) -> &[Vec<u32>] {
        &self.objects.post_lists
    }

    /// The timers.
    pub fn timers(&self) -> &[Timer] {
        &self.objects.timers
    }

    /// The memory that operations touch.
    pub fn memories(&self) -> &[Memory] {
        &self.objects.memories
    }

    /// What operations do with files.
    pub fn file_accesses(&self) -> &[FileOp] {
        &self.objects.accesses
    }

    /// The names of the ports.
    pub fn ports(&self) -> &[String] {
        self.objects.ports.all()
    }

    /// What requests send and expect.
    pub fn requests(&self) -> &[Request] {
        &self.objects.requests
    }

    /// What tasks change of themselves.
    pub fn changes(&self) -> &[Change] {
        &self.objects.changes
    }

    /// The names of the stopwatches.
    pub fn watches(&self) -> &[String] {
        self.objects.watches.all()
    }

    /// Whether the child of this number, that a task of template `parent` is about to make, is one too many: forks that are repeated
    /// without end come to one.
    pub fn is_fork_too_many(&self, parent: TemplateId, child: TemplateId, instance: u32) -> bool {
        let parent = self.template(parent);
        let slot = parent.children.iter().position(|known| *known == child);
        instance >= FORKS_WITHOUT_END && slot.is_some_and(|slot| parent.endless[slot])
    }

    /// The operations in a template's code in the order of the text, loops once; for counting what kinds there are.
    pub fn operations(&self, id: TemplateId) -> impl Iterator<Item = Op> {
        let end = self.templates.get(id.index() + 1).map_or(self.code.len(), |next| next.entry as usize);
        self.code[self.template(id).entry as usize..end].iter().filter_map(|placed| match placed.instruction {
            Instruction::Do(op) => Some(op),
            Instruction::Fork { template, .. } => Some(Op::Fork { template, instance: 0 }),
            _ => None,
        })
    }
}
