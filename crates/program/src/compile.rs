//! From steps to flat instructions.

use std::collections::HashMap;

use schedlab_model::{Duration, ModelError, Step, Task, Workload, group_tree};

use crate::background::{named_apart, shared_fault};
use crate::check::{
    MAX_NESTING, asleep_fault, attributes_fault, doubled, duration_fault, known, membership_fault, message_fault,
    refuse, step_place,
};
use crate::objects::{Objects, file_fault, nodes_fault};
use crate::op::{Instruction, Rounds, link};
use crate::random::name_key;
use crate::totals::{Doings, saturate, sum_up};
use crate::{Membership, Op, Program, Template, TemplateId, Traffic, holding};

/// How many tasks one `fork` step makes at most where it is repeated without end (rt-app's `FORKS_LIMIT`).
pub const FORKS_WITHOUT_END: u32 = 1024;

/// Rounds of a loop without end: more than there are nanoseconds in half a millennium.
const ENDLESS: u64 = u64::MAX;

pub(crate) struct Compiler<'a> {
    workload: &'a Workload,
    templates: HashMap<&'a str, TemplateId>,
    channels: HashMap<&'a str, u32>,
    latches: HashMap<&'a str, u32>,
    /// Of each latch: who awaits it, and whether a task opens it.
    awaited: Vec<Option<&'a str>>,
    opened: Vec<bool>,
    doings: Vec<Doings>,
    code: Vec<Instruction>,
    program: Program,
}

/// Where the compiler is in a task.
struct Place<'a> {
    task: &'a Task,
    path: Vec<usize>,
    depth: u32,
    /// How often the current step happens in one life of the task.
    times: u128,
    /// Whether it is repeated without end.
    endless: bool,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(workload: &'a Workload) -> Result<Self, ModelError> {
        if let Some(name) = doubled(workload.tasks.iter().map(|task| task.name.as_str())) {
            return Err(refuse(workload, format!("task '{name}'"), "two tasks have this name"));
        }
        if let Some(name) = doubled(workload.latches.iter().map(String::as_str)) {
            return Err(refuse(workload, format!("latch '{name}'"), "two latches have this name"));
        }
        let faulty = workload.files.iter().find_map(|(name, file)| file_fault(file).map(|fault| (name, fault)));
        if let Some((name, fault)) = faulty {
            return Err(refuse(workload, format!("file '{name}'"), fault));
        }
        if workload.duration.is_some_and(|duration| duration == schedlab_model::Time::ZERO) {
            return Err(refuse(workload, "duration", "0ns is out of range; allowed: 1ns or more"));
        }
        let groups =
            group_tree(&workload.groups).map_err(|(path, why)| refuse(workload, format!("group '{path}'"), why))?;
        let latches = workload.latches.len();
        let program = Program {
            name: workload.name.clone(),
            templates: Vec::with_capacity(workload.tasks.len()),
            code: Vec::new(),
            durations: Vec::new(),
            channels: workload.channels.values().map(|channel| channel.kind).collect(),
            traffic: vec![Traffic::default(); workload.channels.len()],
            channel_names: workload.channels.keys().cloned().collect(),
            latches: workload.latches.clone(),
            groups,
            sessions: Vec::new(),
            marks: Vec::new(),
            turnaround_mark: None,
            total_tasks: 0,
            longest_message: 0,
            objects: Objects::default(),
            files: workload.files.iter().map(|(name, file)| (name.clone(), file.clone())).collect(),
            duration: workload.duration,
            priority_inheritance: workload.priority_inheritance,
            lock_pages: workload.lock_pages,
            io_device: workload.io_device.clone(),
        };
        Ok(Self {
            workload,
            templates: (0..).zip(&workload.tasks).map(|(id, task)| (task.name.as_str(), TemplateId(id))).collect(),
            channels: workload.channels.keys().map(String::as_str).zip(0..).collect(),
            latches: workload.latches.iter().map(String::as_str).zip(0..).collect(),
            awaited: vec![None; latches],
            opened: vec![false; latches],
            doings: Vec::with_capacity(workload.tasks.len()),
            code: Vec::new(),
            program,
        })
    }

    pub(crate) fn compile(mut self) -> Result<Program, ModelError> {
        let fault = if self.workload.has_background() { shared_fault(self.workload) } else { None };
        if let Some((place, why)) = fault {
            return Err(refuse(self.workload, place, why));
        }
        for task in &self.workload.tasks {
            self.task(task)?;
        }
        for barrier in &mut self.program.objects.barriers {
            // Tasks that are only forked have no partner that is sure to arrive.
            barrier.parties = barrier.parties.max(1);
        }
        self.latches_open()?;
        self.turnaround()?;
        sum_up(self.workload, &self.doings, &mut self.program)?;
        self.program.code = link(&self.code);
        Ok(self.program)
    }

    fn task(&mut self, task: &'a Task) -> Result<(), ModelError> {
        if let Some(fault) = task.attributes.as_ref().and_then(attributes_fault) {
            return Err(refuse(self.workload, format!("task '{}'", task.name), fault));
        }
        if let Some(fault) = membership_fault(task, &self.program.groups) {
            return Err(refuse(self.workload, format!("task '{}'", task.name), fault));
        }
        if let Some(fault) = task.clamp.fault().or_else(|| nodes_fault(&task.nodes)) {
            return Err(refuse(self.workload, format!("task '{}'", task.name), fault));
        }
        if let Some(fault) = asleep_fault(task) {
            return Err(refuse(self.workload, format!("task '{}'", task.name), fault));
        }
        holding::check(self.workload, task)?;
        let group =
            task.taskgroup.as_deref().map(|path| match self.program.groups.iter().position(|node| node.path == path) {
                Some(group) => Membership::Group(group as u32),
                None => Membership::Root,
            });
        let session = task.session.as_deref().map(|name| index_of(&mut self.program.sessions, name));
        let entry = self.position()?;
        self.program.templates.push(Template {
            name: task.name.clone(),
            kind: task.kind,
            attributes: task.attributes.clone(),
            group,
            session,
            clamp: task.clamp,
            nodes: task.nodes.clone(),
            delay: task.delay,
            asleep: task.asleep,
            background: task.background,
            deferrable: task.deferrable,
            total: 0,
            instances: task.instances,
            entry,
            depth: 0,
            children: Vec::new(),
            endless: Vec::new(),
            name_key: name_key(&task.name),
        });
        self.doings.push(Doings::default());
        if task.delay > schedlab_model::Time::ZERO {
            self.emit(Op::Delay(task.delay));
        }
        self.steps(&task.steps, &mut Place { task, path: Vec::new(), depth: 0, times: 1, endless: false })?;
        self.code.push(Instruction::Exit);
        Ok(())
    }

    fn steps(&mut self, steps: &'a [Step], place: &mut Place<'a>) -> Result<(), ModelError> {
        for (index, step) in steps.iter().enumerate() {
            place.path.push(index);
            self.step(step, place)?;
            place.path.pop();
        }
        Ok(())
    }

    fn step(&mut self, step: &'a Step, place: &mut Place<'a>) -> Result<(), ModelError> {
        let workload = self.workload;
        let wrong = |why: String| refuse(workload, step_place(&place.task.name, &place.path), why);
        match step {
            Step::Run(duration) => self.time(*duration, Op::Run, Instruction::RunDrawn).map_err(wrong)?,
            Step::Busy(duration) => self.time(*duration, Op::Busy, Instruction::BusyDrawn).map_err(wrong)?,
            Step::Sleep(duration) => match Instruction::sleep_among(*duration) {
                Some(sleep) => self.code.push(sleep),
                None => self.time(*duration, Op::Sleep, Instruction::SleepDrawn).map_err(wrong)?,
            },
            Step::Yield => self.emit(Op::Yield),
            Step::Write { channel, bytes } => {
                let channel = self.message(channel, *bytes, true, place.times).map_err(wrong)?;
                self.emit(Op::Write { channel, bytes: *bytes });
            }
            Step::Read { channel, bytes } => {
                let channel = self.message(channel, *bytes, false, place.times).map_err(wrong)?;
                self.emit(Op::Read { channel, bytes: *bytes });
            }
            Step::OpenLatch(name) => {
                let latch = self.latch(name).map_err(wrong)?;
                self.opened[latch as usize] |= place.times > 0;
                self.emit(Op::OpenLatch(latch));
            }
            Step::AwaitLatch(name) => {
                let latch = self.latch(name).map_err(wrong)?;
                if place.times > 0 {
                    self.awaited[latch as usize].get_or_insert(&place.task.name);
                }
                self.emit(Op::AwaitLatch(latch));
            }
            Step::Fork { task, count } => {
                let Some(&template) = self.templates.get(task.as_str()) else {
                    let known = known(workload.tasks.iter().map(|task| task.name.as_str()));
                    return Err(wrong(format!("no task is called '{task}'; {known}")));
                };
                self.repeat(u64::from(*count), place, |compiler, place| {
                    compiler.fork(template, place);
                    Ok(())
                })?;
            }
            Step::Join => self.emit(Op::Join),
            // Other work of the machine is not measured.
            Step::Mark(_) | Step::Start(_) | Step::Stop(_) if place.task.background => {}
            Step::Mark(name) => {
                if place.times > 0 {
                    let mark = self.mark(name);
                    self.emit(Op::Mark(mark));
                }
            }
            Step::Loop { count, steps } => {
                if place.depth == MAX_NESTING {
                    return Err(wrong(format!("loops are nested deeper than {MAX_NESTING}")));
                }
                self.repeat(*count, place, |compiler, place| compiler.steps(steps, place))?;
            }
            Step::Forever(steps) => {
                if workload.duration.is_none() && !place.task.background {
                    let why = "it is repeated for ever, and the workload has no duration; give it one".to_owned();
                    return Err(wrong(why));
                }
                if place.depth == MAX_NESTING {
                    return Err(wrong(format!("loops are nested deeper than {MAX_NESTING}")));
                }
                let endless = std::mem::replace(&mut place.endless, true);
                self.repeat(ENDLESS, place, |compiler, place| compiler.steps(steps, place))?;
                place.endless = endless;
            }
            _ => {
                let Self { program, .. } = self;
                let step = if place.task.background { &*named_apart(step) } else { step };
                let operation =
                    program.objects.operation(workload, &program.groups, place.task, step).map_err(wrong)?;
                if let Some(operation) = operation {
                    self.emit(operation);
                }
            }
        }
        Ok(())
    }

    /// A loop around what `body` emits. A loop of no rounds is checked but not emitted, nor is one around nothing.
    fn repeat(
        &mut self,
        count: u64,
        place: &mut Place<'a>,
        body: impl FnOnce(&mut Self, &mut Place<'a>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if count == 1 {
            return body(self, place);
        }
        let begin = self.position()?;
        let (depth, times) = (place.depth, place.times);
        if count != ENDLESS {
            self.code.push(Instruction::Begin { depth, count: Rounds(count) });
        }
        place.times = times.saturating_mul(u128::from(count));
        place.depth = depth + 1;
        body(self, place)?;
        (place.depth, place.times) = (depth, times);
        let (body, end) = (begin + u32::from(count != ENDLESS), self.position()?);
        if count == 0 || end == body {
            self.code.truncate(begin as usize);
            return Ok(());
        }
        if count == ENDLESS {
            self.code.push(Instruction::Jump { body });
            return Ok(());
        }
        self.code.push(Instruction::End { depth, body });
        if let Some(template) = self.program.templates.last_mut() {
            template.depth = template.depth.max(depth + 1);
        }
        Ok(())
    }

    fn emit(&mut self, op: Op) {
        self.code.push(Instruction::Do(op));
    }

    fn position(&self) -> Result<u32, ModelError> {
        u32::try_from(self.code.len())
            .map_err(|_| refuse(self.workload, "tasks", "all steps together are more than 32 bits count"))
    }

    fn time(
        &mut self,
        duration: Duration,
        fixed: fn(schedlab_model::Time) -> Op,
        drawn: fn(u32) -> Instruction,
    ) -> Result<(), String> {
        if let Some(fault) = duration_fault(duration) {
            return Err(fault);
        }
        if let Duration::Fixed(time) = duration {
            self.emit(fixed(time));
            return Ok(());
        }
        // There are no more durations than instructions, and those are counted in 32 bits.
        let index = self.program.durations.len() as u32;
        self.program.durations.push(duration);
        self.code.push(drawn(index));
        Ok(())
    }

    fn message(&mut self, name: &str, bytes: u32, write: bool, times: u128) -> Result<u32, String> {
        if let Some(fault) = message_fault(bytes) {
            return Err(fault);
        }
        let Some(&channel) = self.channels.get(name) else {
            let known = known(self.workload.channels.keys().map(String::as_str));
            return Err(format!("no channel is called '{name}'; {known}"));
        };
        self.program.longest_message = self.program.longest_message.max(bytes);
        let count = saturate(times);
        let size = count.saturating_mul(u64::from(bytes));
        let part = if write {
            Traffic { messages_written: count, bytes_written: size, ..Traffic::default() }
        } else {
            Traffic { messages_read: count, bytes_read: size, ..Traffic::default() }
        };
        if let Some(doings) = self.doings.last_mut() {
            doings.traffic.entry(channel).or_default().add(part, 1);
        }
        Ok(channel)
    }

    fn latch(&self, name: &str) -> Result<u32, String> {
        self.latches.get(name).copied().ok_or_else(|| {
            format!("no latch is called '{name}'; {}", known(self.workload.latches.iter().map(String::as_str)))
        })
    }

    fn mark(&mut self, name: &str) -> u32 {
        index_of(&mut self.program.marks, name)
    }

    fn fork(&mut self, template: TemplateId, place: &Place<'_>) {
        let times = if place.endless { u128::from(FORKS_WITHOUT_END) } else { place.times };
        if place.times == 0 {
            return;
        }
        let (Some(parent), Some(doings)) = (self.program.templates.last_mut(), self.doings.last_mut()) else { return };
        // A hash look-up tells new children from known ones: main tasks of large workloads fork thousands of templates.
        let slot = if let Some(count) = doings.forks.get_mut(&template) {
            *count = count.saturating_add(times);
            parent.children.iter().position(|&child| child == template).unwrap_or_default()
        } else {
            doings.forks.insert(template, times);
            parent.children.push(template);
            parent.endless.push(false);
            parent.children.len() - 1
        };
        parent.endless[slot] |= place.endless;
        self.code.push(Instruction::Fork { template, slot: slot as u32 });
    }

    fn latches_open(&self) -> Result<(), ModelError> {
        for ((name, awaited), opened) in self.workload.latches.iter().zip(&self.awaited).zip(&self.opened) {
            if let (Some(task), false, None) = (awaited, opened, self.workload.duration) {
                let why = format!("task '{task}' awaits it, but no task opens it");
                return Err(refuse(self.workload, format!("latch '{name}'"), why));
            }
        }
        Ok(())
    }

    fn turnaround(&mut self) -> Result<(), ModelError> {
        let Some(name) = &self.workload.turnaround_from else { return Ok(()) };
        let Some(mark) = self.program.marks.iter().position(|mark| mark == name) else {
            let marks = self.program.marks.iter().map(String::as_str);
            let why = format!("no task marks '{name}'; {}", known(marks));
            return Err(refuse(self.workload, "turnaround_from", why));
        };
        self.program.turnaround_mark = Some(mark as u32);
        Ok(())
    }
}

/// The place of a name in a list, at whose end it is put if it is new.
fn index_of(names: &mut Vec<String>, name: &str) -> u32 {
    let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    index as u32
}
