//! From steps to events.

use schedlab_model::{Access, Duration, FileAccess, Offset, Step};

use super::attributes::change;
use super::events::MAX_CHUNK;
use super::json::{Kind, Value, count, number, object, text, time};
use super::read::BUFFER;

fn fields<const N: usize>(entries: [(&str, Value); N]) -> Value {
    object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn duration(value: Duration) -> Value {
    let pair = |one, two| Value::new(Kind::Array(vec![time(one), time(two)]));
    match value {
        Duration::Fixed(value) => time(value),
        Duration::Uniform { low, high } => fields([("uniform", pair(low, high))]),
        Duration::Exponential { mean } => fields([("exponential", time(mean))]),
        Duration::Normal { mean, deviation } => fields([("normal", pair(mean, deviation))]),
    }
}

/// The events of steps in their order; keys may be there more than once.
pub(crate) fn run_of(mut steps: &[Step]) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while !steps.is_empty() {
        let (key, value, taken) = words_of(steps).unwrap_or_else(|| {
            let (key, value) = event(&steps[0]);
            (key, value, 1)
        });
        events.push((key.to_owned(), value));
        steps = &steps[taken..];
    }
    events
}

/// rt-app's words for several steps.
fn words_of(steps: &[Step]) -> Option<(&'static str, Value, usize)> {
    match steps {
        [Step::Lock(lock), middle, Step::Unlock(unlock), ..] if lock == unlock => match middle {
            Step::Wait { condition, mutex } if condition == lock && mutex == lock => Some(("suspend", text(lock), 3)),
            Step::Broadcast(condition) if condition == lock => Some(("resume", text(lock), 3)),
            _ => None,
        },
        [Step::Signal(signal), Step::Wait { condition, mutex }, ..] if signal == condition => {
            Some(("sync", fields([("ref", text(signal)), ("mutex", text(mutex))]), 2))
        }
        _ => None,
    }
    // A name that is empty means the task's own.
    .filter(|(key, value, _)| *key != "suspend" || value.kind != Kind::Text(String::new()))
}

fn event(step: &Step) -> (&'static str, Value) {
    let message = |channel: &str, bytes: u32| fields([("channel", text(channel)), ("bytes", count(bytes.into()))]);
    match step {
        Step::Run(value) => ("run", duration(*value)),
        Step::Busy(value) => ("runtime", duration(*value)),
        Step::Sleep(value) => ("sleep", duration(*value)),
        Step::Timer { timer, period, own, absolute } => {
            let mut entries = vec![("ref".to_owned(), text(timer)), ("period".to_owned(), time(*period))];
            if *absolute {
                entries.push(("mode".into(), text("absolute")));
            }
            if *own != timer.starts_with("unique") {
                entries.push(("own".into(), Value::new(Kind::Bool(*own))));
            }
            ("timer", object(entries))
        }
        Step::Yield => ("yield", text("")),
        Step::Write { channel, bytes } => ("send", message(channel, *bytes)),
        Step::Read { channel, bytes } => ("receive", message(channel, *bytes)),
        Step::OpenLatch(name) => ("open", text(name)),
        Step::AwaitLatch(name) => ("await", text(name)),
        Step::Lock(name) => ("lock", text(name)),
        Step::Unlock(name) => ("unlock", text(name)),
        Step::Wait { condition, mutex } => ("wait", fields([("ref", text(condition)), ("mutex", text(mutex))])),
        Step::Signal(name) => ("signal", text(name)),
        Step::Broadcast(name) => ("broad", text(name)),
        Step::Barrier(name) => ("barrier", text(name)),
        Step::Post(name) => ("sem_post", text(name)),
        Step::PostAll(names) => ("sem_post", Value::new(Kind::Array(names.iter().map(|name| text(name)).collect()))),
        Step::Acquire(name) => ("sem_wait", text(name)),
        Step::Memory { access, count: bytes, buffer } => memory(*access, *bytes, buffer),
        Step::Device { bytes, chunk } if u64::from(*chunk) == BUFFER.min(MAX_CHUNK) => ("iorun", count(*bytes)),
        Step::Device { bytes, chunk } => {
            ("iorun", fields([("bytes", count(*bytes)), ("chunk", count(u64::from(*chunk)))]))
        }
        Step::WriteFile(access) => ("write_file", object(file(access))),
        Step::ReadFile(access) => ("read_file", object(file(access))),
        Step::SubmitWrite { access, depth } => ("submit_write", submit(access, *depth)),
        Step::SubmitRead { access, depth } => ("submit_read", submit(access, *depth)),
        Step::AwaitFiles => ("await_files", text("")),
        // No description that is written has them.
        Step::CompleteWrite => ("complete_write", text("")),
        Step::Dispatch => ("dispatch", text("")),
        Step::EndWriteback => ("end_writeback", text("")),
        Step::GracePeriod => ("grace_period", text("")),
        Step::DispatchFlush => ("dispatch_flush", text("")),
        Step::Request { port, bytes, reply } => {
            let (bytes, reply) = (count(u64::from(*bytes)), count(u64::from(*reply)));
            ("request", fields([("port", text(port)), ("bytes", bytes), ("reply", reply)]))
        }
        Step::Accept { port, bytes } => ("accept", fields([("port", text(port)), ("bytes", count(u64::from(*bytes)))])),
        Step::Reply { bytes } => ("reply", count(u64::from(*bytes))),
        Step::Fork { task, count: 1 } => ("fork", text(task)),
        Step::Fork { task, count: many } => {
            ("fork", fields([("task", text(task)), ("count", count(u64::from(*many)))]))
        }
        Step::Join => ("join", text("")),
        Step::Set(value) => {
            let mut entries = Vec::new();
            change(value, &mut entries);
            ("set", object(entries))
        }
        Step::Mark(name) => ("mark", text(name)),
        Step::Start(name) => ("start", text(name)),
        Step::Stop(name) => ("stop", text(name)),
        Step::Loop { count: rounds, steps } => {
            // More rounds than a signed number counts are no different from so many.
            let mut entries = vec![("loop".to_owned(), count((*rounds).min(i64::MAX as u64)))];
            entries.extend(run_of(steps));
            ("repeat", object(entries))
        }
        Step::Forever(steps) => {
            let mut entries = vec![("loop".to_owned(), number("-1"))];
            entries.extend(run_of(steps));
            ("repeat", object(entries))
        }
    }
}

fn memory(access: Access, amount: u64, buffer: &schedlab_model::Buffer) -> (&'static str, Value) {
    if access == Access::Write && buffer.bytes == BUFFER && buffer.shared.is_none() && buffer.stride == 64 {
        return ("mem", count(amount));
    }
    let (kind, pattern) = match access {
        Access::Write => ("write", None),
        Access::Read => ("read", None),
        Access::ChaseSequential => ("chase", Some("sequential")),
        Access::ChaseRandom => ("chase", Some("random")),
    };
    let mut entries = vec![
        ("type".to_owned(), text(kind)),
        ("size".to_owned(), count(buffer.bytes)),
        ("count".to_owned(), count(amount)),
    ];
    if let Some(pattern) = pattern {
        entries.push(("pattern".into(), text(pattern)));
    }
    if buffer.stride != 64 {
        entries.push(("stride".into(), count(u64::from(buffer.stride))));
    }
    if let Some(name) = &buffer.shared {
        entries.push(("ref".into(), text(name)));
    }
    ("memrun", object(entries))
}

fn file(access: &FileAccess) -> Vec<(String, Value)> {
    let mut entries =
        vec![("file".to_owned(), text(&access.file)), ("bytes".to_owned(), count(u64::from(access.bytes)))];
    if access.offset == Offset::Random {
        entries.push(("offset".into(), text("random")));
    }
    entries
}

fn submit(access: &FileAccess, depth: u32) -> Value {
    let mut entries = file(access);
    entries.push(("depth".into(), count(u64::from(depth))));
    object(entries)
}
