//! From events to steps.

use schedlab_model::{Access, Buffer, FileAccess, Offset, Step, Time};

use super::event_words::event_of;
use super::json::Kind;
use super::scheduling::{self, Name};
use super::value::{Fault, Fields, Found};

/// What events refer to besides themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// The task's name.
    pub(crate) task: &'a str,
    /// `mem_buffer_size`.
    pub(crate) buffer: u64,
}

/// The bytes of one call of `iorun`, at most.
pub(crate) const MAX_CHUNK: u64 = 1 << 24;

/// The steps of the events among these keys; other keys are none of an event's.
pub(crate) fn steps(entries: &[(&str, Found<'_>)], setting: Setting<'_>, depth: u32) -> Result<Vec<Step>, Fault> {
    let mut steps = Vec::new();
    for (key, found) in entries {
        if let Some(word) = event_of(key) {
            event(word.name, found, setting, depth, &mut steps)?;
        }
    }
    Ok(steps)
}

/// A loop's steps: −1 is for ever.
pub(crate) fn repeated(count: i64, steps: Vec<Step>) -> Step {
    match u64::try_from(count) {
        Ok(count) => Step::Loop { count, steps },
        Err(_) => Step::Forever(steps),
    }
}

fn event(name: &str, found: &Found<'_>, setting: Setting<'_>, depth: u32, out: &mut Vec<Step>) -> Result<(), Fault> {
    let text = || found.text().map(str::to_owned);
    let step = match name {
        "run" => Step::Run(found.duration()?),
        "runtime" => Step::Busy(found.duration()?),
        "sleep" => Step::Sleep(found.duration()?),
        "timer" => timer(found)?,
        "lock" => Step::Lock(text()?),
        "unlock" => Step::Unlock(text()?),
        "signal" => Step::Signal(text()?),
        "broad" => Step::Broadcast(text()?),
        "wait" | "sync" => {
            let fields = found.fields(&["!ref", "!mutex"])?;
            let (condition, mutex) = (fields.name("ref")?, fields.name("mutex")?);
            if name == "sync" {
                out.push(Step::Signal(condition.clone()));
            }
            Step::Wait { condition, mutex }
        }
        "suspend" => {
            let own = || setting.task.to_owned();
            let whom = match &found.value.kind {
                Kind::Null => own(),
                Kind::Text(text) if text.is_empty() => own(),
                _ => text()?,
            };
            let wait = Step::Wait { condition: whom.clone(), mutex: whom.clone() };
            out.extend([Step::Lock(whom.clone()), wait]);
            Step::Unlock(whom)
        }
        "resume" => {
            let whom = text()?;
            out.extend([Step::Lock(whom.clone()), Step::Broadcast(whom.clone())]);
            Step::Unlock(whom)
        }
        "barrier" => Step::Barrier(text()?),
        "sem_post" => match &found.value.kind {
            Kind::Array(_) => Step::PostAll(found.texts()?),
            _ => Step::Post(text()?),
        },
        "sem_wait" => Step::Acquire(text()?),
        "yield" => Step::Yield,
        "fork" => match &found.value.kind {
            Kind::Object(_) => {
                let fields = found.fields(&["!task", "!count"])?;
                let count = fields.read("count", |found| found.count(0, i64::from(u32::MAX)))?.unwrap_or(1);
                Step::Fork { task: fields.name("task")?, count: count as u32 }
            }
            _ => Step::Fork { task: text()?, count: 1 },
        },
        "mem" => {
            let count = found.count(0, i64::MAX)? as u64;
            Step::Memory { access: Access::Write, count, buffer: own_buffer(setting.buffer) }
        }
        "memrun" => memrun(found)?,
        "iorun" => match &found.value.kind {
            Kind::Object(_) => {
                let fields = found.fields(&["!bytes", "!chunk"])?;
                let bytes = fields.read("bytes", |found| found.count(0, i64::MAX))?.unwrap_or(0) as u64;
                Step::Device { bytes, chunk: fields.bytes("chunk")? }
            }
            _ => Step::Device { bytes: found.count(0, i64::MAX)? as u64, chunk: setting.buffer.min(MAX_CHUNK) as u32 },
        },
        "repeat" => {
            let entries = found.object()?;
            if depth > 64 {
                return Err(found.fault("loops are nested deeper than 64"));
            }
            for (key, found) in &entries {
                if *key != "loop" && event_of(key).is_none() {
                    return Err(found.fault("there is no such event"));
                }
            }
            let fields = Fields::new(entries.clone());
            let count = fields.read("loop", |found| found.count(-1, i64::MAX))?.unwrap_or(1);
            repeated(count, steps(&entries, setting, depth + 1)?)
        }
        _ => extension(name, found)?,
    };
    out.push(step);
    Ok(())
}

/// The words that rt-app does not know.
fn extension(name: &str, found: &Found<'_>) -> Result<Step, Fault> {
    let text = || found.text().map(str::to_owned);
    Ok(match name {
        "send" | "receive" => {
            let fields = found.fields(&["!channel", "!bytes"])?;
            let (channel, bytes) = (fields.name("channel")?, fields.bytes("bytes")?);
            if name == "send" { Step::Write { channel, bytes } } else { Step::Read { channel, bytes } }
        }
        "open" => Step::OpenLatch(text()?),
        "await" => Step::AwaitLatch(text()?),
        "write_file" => Step::WriteFile(file(&found.fields(&["!file", "!bytes", "offset"])?)?),
        "read_file" => Step::ReadFile(file(&found.fields(&["!file", "!bytes", "offset"])?)?),
        "submit_write" | "submit_read" => {
            let fields = found.fields(&["!file", "!bytes", "offset", "!depth"])?;
            let access = file(&fields)?;
            let depth = fields.read("depth", |found| found.count(1, 1024))?.unwrap_or(1) as u32;
            if name == "submit_write" {
                Step::SubmitWrite { access, depth }
            } else {
                Step::SubmitRead { access, depth }
            }
        }
        "await_files" => Step::AwaitFiles,
        "request" => {
            let fields = found.fields(&["!port", "!bytes", "!reply"])?;
            Step::Request { port: fields.name("port")?, bytes: fields.bytes("bytes")?, reply: fields.bytes("reply")? }
        }
        "accept" => {
            let fields = found.fields(&["!port", "!bytes"])?;
            Step::Accept { port: fields.name("port")?, bytes: fields.bytes("bytes")? }
        }
        "reply" => Step::Reply { bytes: found.count(1, 1 << 24)? as u32 },
        "join" => Step::Join,
        "set" => {
            let known = super::words::SCHEDULING.iter().map(|word| word.name).collect::<Vec<_>>();
            let fields = found.fields(&known)?;
            Step::Set(scheduling::change(found, &fields, Name::Other)?)
        }
        "mark" => Step::Mark(text()?),
        "start" => Step::Start(text()?),
        "stop" => Step::Stop(text()?),
        _ => return Err(found.fault("there is no such event")),
    })
}

fn timer(found: &Found<'_>) -> Result<Step, Fault> {
    let fields = found.fields(&["ref", "period", "mode", "own"])?;
    // rt-app calls a timer without a name so.
    let timer = fields.read("ref", |found| found.text())?.unwrap_or("unknown").to_owned();
    let own = fields.read("own", Found::switch)?.unwrap_or_else(|| timer.starts_with("unique"));
    let absolute = [("relative", false), ("absolute", true)];
    Ok(Step::Timer {
        period: fields.read("period", Found::time)?.unwrap_or(Time::ZERO),
        absolute: fields.read("mode", |found| found.one_of(&absolute))?.unwrap_or(false),
        timer,
        own,
    })
}

fn own_buffer(bytes: u64) -> Buffer {
    Buffer { bytes, stride: 64, shared: None }
}

fn memrun(found: &Found<'_>) -> Result<Step, Fault> {
    let fields = found.fields(&["!type", "!size", "!count", "pattern", "stride", "ref"])?;
    let patterns = [("random", Access::ChaseRandom), ("sequential", Access::ChaseSequential)];
    let pattern = fields.read("pattern", |found| found.one_of(&patterns))?.unwrap_or(Access::ChaseRandom);
    let types = [("read", Access::Read), ("write", Access::Write), ("chase", pattern)];
    let buffer = Buffer {
        bytes: fields.read("size", |found| found.count(1, 1 << 34))?.unwrap_or(1) as u64,
        stride: fields.read("stride", |found| found.count(8, i64::from(u32::MAX)))?.unwrap_or(64) as u32,
        shared: fields.read("ref", |found| found.text())?.map(str::to_owned),
    };
    let access = fields.read("type", |found| found.one_of(&types))?.unwrap_or(Access::Read);
    let count = fields.read("count", |found| found.count(0, i64::MAX))?.unwrap_or(0) as u64;
    Ok(Step::Memory { access, count, buffer })
}

fn file(fields: &Fields<'_>) -> Result<FileAccess, Fault> {
    let offsets = [("next", Offset::Next), ("random", Offset::Random)];
    Ok(FileAccess {
        file: fields.name("file")?,
        bytes: fields.bytes("bytes")?,
        offset: fields.read("offset", |found| found.one_of(&offsets))?.unwrap_or_default(),
    })
}
