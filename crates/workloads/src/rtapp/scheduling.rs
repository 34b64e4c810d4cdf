//! Policy, priority, CPUs, groups and clamps, as tasks and phases say them.

use schedlab_model::{Attributes, Change, Clamp, Policy, Time};

use super::json::Kind;
use super::value::{Fault, Fields, Found};

/// rt-app's `DEFAULT_THREAD_PRIORITY` and `DEFAULT_THREAD_NICE`.
const PRIORITY: u8 = 10;
const NICE: i8 = 0;

/// A policy without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Other,
    Batch,
    Idle,
    Rr,
    Fifo,
    Deadline,
}

/// The names that rt-app gives them.
pub(crate) const NAMES: [(&str, Name); 6] = [
    ("SCHED_OTHER", Name::Other),
    ("SCHED_BATCH", Name::Batch),
    ("SCHED_IDLE", Name::Idle),
    ("SCHED_RR", Name::Rr),
    ("SCHED_FIFO", Name::Fifo),
    ("SCHED_DEADLINE", Name::Deadline),
];

impl Name {
    pub(crate) const fn of(policy: Policy) -> Self {
        match policy {
            Policy::Other => Self::Other,
            Policy::Batch => Self::Batch,
            Policy::Idle => Self::Idle,
            Policy::Rr(_) => Self::Rr,
            Policy::Fifo(_) => Self::Fifo,
            Policy::Deadline { .. } => Self::Deadline,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        NAMES.iter().find(|(_, name)| *name == self).map_or("", |(text, _)| text)
    }

    /// Whether `priority` is a nice level.
    const fn is_fair(self) -> bool {
        matches!(self, Self::Other | Self::Batch | Self::Idle)
    }
}

/// What was said of a policy's parameters, not yet taken together.
struct Said {
    policy: Option<Name>,
    priority: Option<i64>,
    nice: Option<i8>,
    /// The nice level stays, whatever the policy.
    keeps_nice: bool,
    slice: Option<Time>,
    runtime: Option<Time>,
    period: Option<Time>,
    deadline: Option<Time>,
}

impl Said {
    fn read(fields: &Fields<'_>) -> Result<Self, Fault> {
        let nice = |found: &Found<'_>| found.count(-20, 19).map(|nice| nice as i8);
        let keeps_nice = fields.get("nice").is_some_and(|found| found.value.kind == Kind::Null);
        let present = |time: &Time| *time > Time::ZERO;
        Ok(Self {
            policy: fields.read("policy", |found| found.one_of(&NAMES))?,
            priority: fields.read("priority", |found| found.count(-20, 99))?,
            nice: if keeps_nice { None } else { fields.read("nice", nice)? },
            keeps_nice,
            slice: fields.read("slice", Found::time)?,
            runtime: fields.read("dl-runtime", Found::time)?.filter(present),
            period: fields.read("dl-period", Found::time)?.filter(present),
            deadline: fields.read("dl-deadline", Found::time)?.filter(present),
        })
    }

    /// The policy with its parameters; `found` is what is refused.
    fn policy(&self, name: Name, found: &Found<'_>) -> Result<Policy, Fault> {
        let priority = |priority: Option<i64>| match priority {
            None => Ok(PRIORITY),
            Some(priority @ 1..=99) => Ok(priority as u8),
            Some(priority) => {
                let why = format!("priority {priority} is out of range under {}; allowed: 1 to 99", name.text());
                Err(found.fault(why))
            }
        };
        Ok(match name {
            Name::Other => Policy::Other,
            Name::Batch => Policy::Batch,
            Name::Idle => Policy::Idle,
            Name::Rr => Policy::Rr(priority(self.priority)?),
            Name::Fifo => Policy::Fifo(priority(self.priority)?),
            Name::Deadline => {
                let Some(runtime) = self.runtime else {
                    return Err(found.fault("a SCHED_DEADLINE task needs a 'dl-runtime'"));
                };
                let period = self.period.unwrap_or(runtime);
                Policy::Deadline { runtime, deadline: self.deadline.unwrap_or(period), period }
            }
        })
    }

    /// The nice level under this policy.
    fn nice(&self, name: Name, found: &Found<'_>) -> Result<Option<i8>, Fault> {
        match self.priority {
            _ if self.nice.is_some() || !name.is_fair() => Ok(self.nice),
            Some(nice @ -20..=19) => Ok(Some(nice as i8)),
            Some(nice) => {
                let why = format!("priority {nice} is out of range under {}; allowed: -20 to 19", name.text());
                Err(found.fault(why))
            }
            None => Ok(None),
        }
    }

    /// The slice asked for, which the kernel keeps within 0.1 to 100 ms.
    fn slice(&self, name: Name) -> Option<Time> {
        let within = |slice: Time| slice.clamp(Time::from_micros(100), Time::from_millis(100));
        self.slice.or(if name.is_fair() { self.runtime.map(within) } else { None })
    }
}

/// What a task is at its start; `legacy` are the older names of a deadline's parameters.
pub(crate) fn attributes(found: &Found<'_>, fields: &Fields<'_>, default: Name) -> Result<Attributes, Fault> {
    let mut said = Said::read(fields)?;
    let name = said.policy.unwrap_or(default);
    if name == Name::Deadline {
        for (place, key) in
            [(&mut said.runtime, "runtime"), (&mut said.period, "period"), (&mut said.deadline, "deadline")]
        {
            if place.is_none() {
                *place = fields.read(key, Found::time)?;
            }
        }
    }
    Ok(Attributes {
        policy: said.policy(name, found)?,
        nice: said.nice(name, found)?.unwrap_or(NICE),
        slice: said.slice(name),
        affinity: fields.read("cpus", cpus)?.unwrap_or_default(),
    })
}

/// What changes where a phase begins, under the policy `before`; nothing where none of its keys is there.
pub(crate) fn change(found: &Found<'_>, fields: &Fields<'_>, before: Name) -> Result<Change, Fault> {
    let said = Said::read(fields)?;
    let name = said.policy.unwrap_or(before);
    let parameters = match name {
        Name::Rr | Name::Fifo => said.priority.is_some(),
        Name::Deadline => said.runtime.is_some() || said.period.is_some() || said.deadline.is_some(),
        Name::Other | Name::Batch | Name::Idle => false,
    };
    let policy = if said.policy.is_some() || parameters { Some(said.policy(name, found)?) } else { None };
    let nice = said.nice(name, found)?;
    Ok(Change {
        policy,
        nice: if said.policy.is_some() && name.is_fair() && !said.keeps_nice { nice.or(Some(NICE)) } else { nice },
        slice: said.slice(name),
        affinity: fields.read("cpus", cpus)?,
        taskgroup: fields.read("taskgroup", taskgroup)?.flatten(),
        clamp: clamp(fields)?,
        nodes: fields.read("nodes_membind", Found::numbers)?,
    })
}

/// CPUs, each once, in their order.
fn cpus(found: &Found<'_>) -> Result<Vec<u32>, Fault> {
    found.numbers()
}

/// A group's path; none where the text is empty.
pub(crate) fn taskgroup(found: &Found<'_>) -> Result<Option<String>, Fault> {
    let path = found.text()?;
    if path.is_empty() {
        return Ok(None);
    }
    if !path.starts_with('/') {
        return Err(found.fault(format!("a group's path begins with '/', \"{path}\" does not")));
    }
    // rt-app takes several slashes for one, and none at the end.
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Ok(Some(format!("/{}", parts.join("/"))))
}

/// The bounds of the utilisation; −1 says nothing.
pub(crate) fn clamp(fields: &Fields<'_>) -> Result<Clamp, Fault> {
    let bound = |key| {
        let read = fields.read(key, |found| found.count(-1, 1024))?;
        Ok(read.and_then(|bound| u16::try_from(bound).ok()))
    };
    Ok(Clamp { min: bound("util_min")?, max: bound("util_max")? })
}
