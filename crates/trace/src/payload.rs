//! From an event's name and text to its meaning.

use crate::fields::{Fields, parse_pid};
use crate::further;
use crate::line::{LATEST, MAX_CPUS};
use crate::probe::Probe;
use crate::record::{EntityRef, QueueClocks, RecordKind, RecordState, TaskRef};
use crate::snap::TaskSnap;

/// Reads an event's text; `Err` says what was expected in it.
pub(crate) fn parse(event: &str, text: &str) -> Result<RecordKind, String> {
    let fields = Fields::new(text);
    if let Some(probe) = parse_probe(event, fields) {
        return probe.map(RecordKind::Probe).map_err(|expected| format!("{expected} in {event}"));
    }
    let kind = match event {
        "sched_switch" => parse_switch(text),
        "sched_waking" => parse_woken(text).map(|(task, target)| RecordKind::Waking { task, target }),
        "sched_wakeup" => parse_woken(text).map(|(task, target)| RecordKind::Wakeup { task, target }),
        "sched_wakeup_new" => parse_woken(text).map(|(task, target)| RecordKind::WakeupNew { task, target }),
        "sched_migrate_task" => parse_migrate(fields),
        "sched_stat_runtime" => parse_stat_runtime(fields),
        "sched_process_fork" => parse_fork(fields),
        "sched_process_exit" => parse_task(fields).map(|task| RecordKind::Exit { task }),
        "hrtimer_expire_entry" => fields
            .find("function")
            .map(|function| RecordKind::TimerEntry { function: function.trim_end_matches("/0x0").into() })
            .ok_or_else(|| "'function='".to_owned()),
        "hrtimer_expire_exit" => Ok(RecordKind::TimerExit),
        "sys_enter_setpriority" => parse_setpriority(text),
        "k_snap" | "k_snaprt" => TaskSnap::parse(fields).map(|snap| RecordKind::Snap(Box::new(snap))),
        _ => Ok(RecordKind::Other { event: event.into(), text: text.into() }),
    };
    kind.map_err(|expected| format!("{expected} in {event}"))
}

fn parse_probe(event: &str, fields: Fields<'_>) -> Option<Result<Probe, String>> {
    Some(match event {
        "k_tick" => fields.get("pid").map(|pid| Probe::Tick { pid }),
        "k_enq" => enqueue(fields),
        "k_deq" => fields.pid_and_flags().map(|(pid, flags)| Probe::Dequeue { pid, flags }),
        "k_deqs" => fields.pid_and_flags().map(|(pid, flags)| Probe::DequeueEntities { pid, flags }),
        "k_place" if fields.find("zv").is_some() => place_eevdf(fields),
        "k_place" => place(fields),
        "k_cpw" => wakeup_preempt(fields),
        "k_resched" => fields.optional("tif").map(|flag| Probe::Resched { flag }),
        "k_pick" => pick(fields),
        "k_eevdf" => pick_eevdf(fields),
        "k_set" if fields.find("dl").is_some() => set_next_eevdf(fields),
        "k_set" => set_next(fields),
        "k_sett" => set_task(fields),
        "k_rew" => reweight(fields),
        "k_rqd" => fields.get("pid").map(|pid| Probe::RequeueDelayed { pid }),
        _ => return further::parse(event, fields),
    })
}

/// What many probes have beside their own: the queue's clocks, and which entity on which queue is concerned.
pub(crate) fn parse_common(event: &str, text: &str) -> (Option<QueueClocks>, Option<EntityRef>) {
    if !event.starts_with("k_") {
        return (None, None);
    }
    let fields = Fields::new(text);
    let address = |key| fields.address(key).unwrap_or(0);
    let clock = |key| fields.find(key).and_then(|clock| clock.parse().ok()).filter(|clock| (1..LATEST).contains(clock));
    // A fair server has its queue's clocks elsewhere than a task.
    let clocks = [("ct", "c"), ("sct", "sc")]
        .into_iter()
        .find_map(|(task, wall)| Some(QueueClocks { task: clock(task)?, clock: clock(wall) }));
    let entity = EntityRef { entity: address("se").max(address("cse")), owned: address("my"), queue: address("cfs") };
    (clocks, (entity != EntityRef::default()).then_some(entity))
}

fn enqueue(fields: Fields<'_>) -> Result<Probe, String> {
    let (pid, flags) = fields.pid_and_flags()?;
    let attributes = match (fields.optional("pol")?, fields.optional("sp")?) {
        (Some(policy), Some(priority)) => Some((policy, priority)),
        _ => None,
    };
    Ok(Probe::Enqueue { pid, flags, attributes })
}

fn place(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Place {
        pid: fields.get("pid")?,
        vruntime: fields.get("vr")?,
        min_vruntime: fields.get("minv")?,
        initial: fields.switch("init")?,
    })
}

fn place_eevdf(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::PlaceEevdf {
        pid: fields.get("pid")?,
        vruntime: fields.get("vr")?,
        deadline: fields.get("dl")?,
        vlag: fields.get("vlag")?,
        zero_vruntime: fields.get("zv")?,
        avg_vruntime: fields.get("av")?,
        avg_load: fields.get("al")?,
        flags: fields.hex("fl")?,
        relative_deadline: fields.switch("rel")?,
    })
}

fn wakeup_preempt(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::WakeupPreempt {
        pid: fields.get("pid")?,
        flags: fields.hex("wf")?,
        thread_flags: fields.hex("tif")?,
        current: fields.get("cpid")?,
    })
}

fn pick(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Pick {
        current: fields.get("cpid")?,
        min_vruntime: fields.get("minv")?,
        running: fields.get("nr")?,
        weight: fields.get("lw")?,
        next: fields.get("next")?,
        last: fields.get("last")?,
        skip: fields.get("skip")?,
    })
}

fn pick_eevdf(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::PickEevdf {
        zero_vruntime: fields.get("zv")?,
        avg_vruntime: fields.get("av")?,
        avg_load: fields.get("al")?,
        running: fields.get("nr")?,
        current: fields.get("cpid")?,
        next: fields.get("next")?,
    })
}

fn set_next(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::SetNext { pid: fields.get("pid")?, vruntime: fields.get("vr")?, min_vruntime: fields.get("minv")? })
}

fn set_next_eevdf(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::SetNextEevdf {
        pid: fields.get("pid")?,
        vruntime: fields.get("vr")?,
        deadline: fields.get("dl")?,
        vlag: fields.get("vlag")?,
        slice: fields.get("sl")?,
    })
}

fn set_task(fields: Fields<'_>) -> Result<Probe, String> {
    let deadline = fields.optional("dl")?;
    Ok(Probe::SetTask {
        pid: fields.get("pid")?,
        first: fields.flag("first")?,
        vruntime: fields.get("vr")?,
        deadline,
        slice: fields.optional("sl")?,
    })
}

fn reweight(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Reweight { pid: fields.get("pid")?, weight: fields.get("w")? })
}

/// `comm=NAME pid=PID prio=PRIO`, with prefixed keys in `sched_switch`.
fn parse_prefixed_task(fields: Fields<'_>, prefix: &str) -> Result<TaskRef, String> {
    let pid = format!("{prefix}pid");
    Ok(TaskRef {
        name: fields.name(&format!("{prefix}comm"), &pid)?.into(),
        pid: fields.get(&pid)?,
        priority: fields.get(&format!("{prefix}prio"))?,
    })
}

fn parse_task(fields: Fields<'_>) -> Result<TaskRef, String> {
    parse_prefixed_task(fields, "")
}

/// trace-cmd's `NAME:PID [PRIO]`; returns the task and what follows.
fn parse_short_task(text: &str) -> Option<(TaskRef, &str)> {
    let close = text.rfind(']')?;
    let (task, rest) = (&text[..close], &text[close + 1..]);
    let (task, priority) = task.rsplit_once(" [")?;
    let (name, pid) = task.rsplit_once(':')?;
    let task = TaskRef { name: name.trim().into(), pid: parse_pid(pid)?, priority: priority.parse().ok()? };
    Some((task, rest.trim()))
}

fn parse_switch(text: &str) -> Result<RecordKind, String> {
    let expected =
        || "'PREVIOUS STATE ==> NEXT' with each task as 'NAME:PID [PRIO]' or in prev_ and next_ fields".to_owned();
    // A task's name may hold an arrow too; the real one is the last after which a whole task follows.
    let (left, right) = text.rsplit_once(" ==> ").ok_or_else(expected)?;
    let (previous, state, next) = if left.starts_with("prev_comm=") {
        let fields = Fields::new(left);
        let previous = parse_prefixed_task(fields, "prev_")?;
        let state = fields.find("prev_state").ok_or_else(expected)?;
        (previous, state, parse_prefixed_task(Fields::new(right), "next_")?)
    } else {
        let (previous, state) = parse_short_task(left).ok_or_else(expected)?;
        let (next, rest) = parse_short_task(right).ok_or_else(expected)?;
        if !rest.is_empty() {
            return Err(expected());
        }
        (previous, state, next)
    };
    let state = parse_state(state).ok_or_else(|| "a state letter (R, S, D, …)".to_owned())?;
    Ok(RecordKind::Switch { previous, state, next })
}

/// `R`, `R+`, `S`, …; combined states (`D|K`) go by their first letter.
fn parse_state(text: &str) -> Option<RecordState> {
    let letter = text.chars().next()?;
    match letter {
        'R' => Some(RecordState::Running),
        'X' | 'Z' | 'x' => Some(RecordState::Dead(letter)),
        letter if letter.is_ascii_alphabetic() => Some(RecordState::Sleeping(letter)),
        _ => None,
    }
}

fn parse_woken(text: &str) -> Result<(TaskRef, u32), String> {
    if text.starts_with("comm=") {
        let fields = Fields::new(text);
        return Ok((parse_task(fields)?, cpu(fields, "target_cpu")?));
    }
    let expected = || "'NAME:PID [PRIO] CPU:NUMBER' or 'comm= pid= prio= target_cpu='".to_owned();
    let (task, rest) = parse_short_task(text).ok_or_else(expected)?;
    let cpu = rest.rsplit_once("CPU:").ok_or_else(expected)?.1;
    Ok((task, cpu.parse().ok().filter(|cpu| *cpu < MAX_CPUS).ok_or_else(expected)?))
}

/// A CPU's number, of which what follows keeps something each.
fn cpu(fields: Fields<'_>, key: &str) -> Result<u32, String> {
    let cpu = fields.get(key)?;
    if cpu < MAX_CPUS { Ok(cpu) } else { Err(format!("a CPU below {MAX_CPUS} in '{key}='")) }
}

fn parse_migrate(fields: Fields<'_>) -> Result<RecordKind, String> {
    Ok(RecordKind::Migrate { task: parse_task(fields)?, from: cpu(fields, "orig_cpu")?, to: cpu(fields, "dest_cpu")? })
}

fn parse_stat_runtime(fields: Fields<'_>) -> Result<RecordKind, String> {
    let vruntime = fields.find("vruntime").map(|_| fields.get("vruntime")).transpose()?;
    Ok(RecordKind::StatRuntime {
        name: fields.name("comm", "pid")?.into(),
        pid: fields.get("pid")?,
        runtime: fields.get("runtime")?,
        vruntime,
    })
}

fn parse_fork(fields: Fields<'_>) -> Result<RecordKind, String> {
    // trace-cmd writes the parent as `comm= pid=`, the kernel as `comm= pid=` too since 2.6.33.
    Ok(RecordKind::Fork {
        parent: fields.get("pid")?,
        child_name: fields.name("child_comm", "child_pid")?.into(),
        child: fields.get("child_pid")?,
    })
}

fn parse_setpriority(text: &str) -> Result<RecordKind, String> {
    let value = |key: &str| {
        let after = text.split(key).nth(1).and_then(|rest| rest.trim_start().strip_prefix(':'));
        let word = after.and_then(|rest| rest.split([',', ' ', ')']).find(|word| !word.is_empty()));
        let number = word.and_then(crate::fields::parse_hex);
        number.ok_or_else(|| format!("a hexadecimal number after '{key}:'"))
    };
    // The nice level is a C int that the trace prints as the bits it is made of.
    Ok(RecordKind::SetPriority { which: value("which")?, who: value("who")?, nice: value("niceval")? as i32 })
}
