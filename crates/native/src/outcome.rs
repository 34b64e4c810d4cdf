//! From what the tasks left in shared memory to an outcome.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{Begun, Disturbance, GroupOutcome, Latency, MetricSource, Outcome, TaskOutcome};
use schedlab_program::TemplateId;

use crate::cgroups::Throttling;
use crate::objects::Counters;
use crate::shared::Slot;
use crate::system::{allowed_cpus, hz, kernel};
use crate::task::World;

/// The outcome of a run that began when its gate was opened, and whose sessions had these leaders.
pub(crate) fn gather(
    world: &World,
    leaders: &[(libc::pid_t, u32)],
    begun: Begun,
    seed: u64,
    disturbance: Option<Disturbance>,
) -> Outcome {
    let opened = begun.monotonic_ns;
    let slots = world.shared.taken();
    let header = world.shared.header();
    let end = slots.iter().map(|slot| slot.end.load(SeqCst)).max().unwrap_or(opened);
    let elapsed_ns = end.saturating_sub(opened);
    let started = header.clock_start.load(SeqCst);
    let turnaround_ns = if started > 0 { header.clock_end.load(SeqCst).saturating_sub(started) } else { elapsed_ns };
    let tasks: Vec<TaskOutcome> = slots.iter().map(|slot| task(world, slot)).collect();
    let sum = |value: fn(&Slot) -> u64| slots.iter().map(value).sum();
    Outcome {
        workload: world.program.name().to_owned(),
        release: kernel().0,
        target: "host".to_owned(),
        cpus: u32::try_from(allowed_cpus().len()).unwrap_or(u32::MAX),
        seed,
        turnaround_ns,
        elapsed_ns,
        turnaround_jiffies: jiffies(turnaround_ns, hz()),
        cpu_busy_ns: Vec::new(),
        switches: tasks.iter().map(|task| task.voluntary + task.involuntary).sum(),
        messages: sum(|slot| slot.messages.load(SeqCst)),
        bytes: sum(|slot| slot.bytes.load(SeqCst)),
        tasks,
        groups: groups(world, leaders, slots),
        latencies: latencies(world),
        notes: disturbance.and_then(|found| found.note()).into_iter().collect(),
        begun: Some(begun),
        disturbance,
    }
}

/// What each group got: the CPU time of the tasks that were in it, or below it, at their end; under autogroup each session too.
fn groups(world: &World, leaders: &[(libc::pid_t, u32)], slots: &[Slot]) -> Vec<GroupOutcome> {
    let all = slots.iter().map(|slot| slot.run.load(SeqCst)).sum();
    let mut groups = cgroups(world, slots);
    if autogroup() {
        groups.extend(leaders.iter().map(|(leader, session)| session_of(world, *leader, *session, slots)));
    }
    GroupOutcome::fill_shares(&mut groups, all);
    groups
}

/// Whether the kernel makes groups of sessions.
fn autogroup() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// What the tasks of a session got that are in no cgroup of the workload's.
fn session_of(world: &World, leader: libc::pid_t, session: u32, slots: &[Slot]) -> GroupOutcome {
    let belongs = |slot: &&Slot| slot.leader.load(SeqCst) == leader as u32 && slot.group.load(SeqCst) == 0;
    let members = || slots.iter().filter(belongs);
    let run_ns = members().map(|slot| slot.run.load(SeqCst)).sum();
    GroupOutcome {
        name: format!("session {}", world.program.sessions()[session as usize]),
        tasks: members().count() as u64,
        run_ns,
        contended_ns: run_ns,
        share: 0.0,
        periods: 0,
        throttled_periods: 0,
        throttled_ns: 0,
    }
}

fn cgroups(world: &World, slots: &[Slot]) -> Vec<GroupOutcome> {
    let Some(groups) = &world.groups else { return Vec::new() };
    let nodes = world.program.groups();
    let within = |slot: &&Slot, group: usize| {
        let first = (slot.group.load(SeqCst) as usize).checked_sub(1);
        std::iter::successors(first, |node| nodes[*node].parent).any(|node| node == group)
    };
    let outcome = |(number, throttling): (usize, Throttling)| {
        let members = || slots.iter().filter(|slot| within(slot, number));
        let run_ns = members().map(|slot| slot.run.load(SeqCst)).sum();
        GroupOutcome {
            name: nodes[number].path.clone(),
            tasks: members().count() as u64,
            run_ns,
            contended_ns: run_ns,
            share: 0.0,
            periods: throttling.periods,
            throttled_periods: throttling.throttled,
            throttled_ns: throttling.throttled_ns,
        }
    };
    groups.throttling().into_iter().enumerate().map(outcome).collect()
}

fn latencies(world: &World) -> BTreeMap<String, Latency> {
    let (program, objects) = (&world.program, &world.objects);
    let watches = program.watches().iter().map(String::as_str).zip(objects.watches.iter().map(Counters::histogram));
    let wakeups = objects.semaphores.iter().map(|semaphore| semaphore.wakeups.histogram());
    schedlab_model::latencies(watches, program.semaphores().iter().map(String::as_str).zip(wakeups))
}

/// Whole ticks, rounded up.
fn jiffies(nanoseconds: u64, hz: u32) -> u64 {
    let jiffies = (u128::from(nanoseconds) * u128::from(hz)).div_ceil(1_000_000_000);
    u64::try_from(jiffies).unwrap_or(u64::MAX)
}

fn task(world: &World, slot: &Slot) -> TaskOutcome {
    let template = TemplateId(slot.template.load(SeqCst));
    let life_ns = slot.end.load(SeqCst).saturating_sub(slot.start.load(SeqCst));
    let (run_ns, wait_ns) = (slot.run.load(SeqCst), slot.wait.load(SeqCst));
    let (user_ns, system_ns) = divide(run_ns, slot.user.load(SeqCst), slot.system.load(SeqCst));
    TaskOutcome {
        background: false,
        name: world.program.task_name(template, slot.instance.load(SeqCst)),
        source: MetricSource::Counters,
        life_ns,
        run_ns,
        user_ns,
        system_ns,
        wait_ns,
        sleep_ns: if world.delays { life_ns.saturating_sub(run_ns).saturating_sub(wait_ns) } else { 0 },
        voluntary: slot.voluntary.load(SeqCst),
        involuntary: slot.involuntary.load(SeqCst),
        migrations: 0,
        wakeups: 0,
        delay_ns: wait_ns,
        delays: slot.delays.load(SeqCst),
        max_delay_ns: 0,
    }
}

/// Divides exact CPU time as the kernel divides its own, coarser account of it (user time rounded down).
fn divide(run: u64, user: u64, system: u64) -> (u64, u64) {
    let all = u128::from(user) + u128::from(system);
    let user = (u128::from(run) * u128::from(user)).checked_div(all).unwrap_or(0) as u64;
    (user, run - user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jiffies_are_rounded_up() {
        // 4 ms each at 250 Hz.
        assert_eq!([0, 1, 4_000_000, 4_000_001].map(|time| jiffies(time, 250)), [0, 1, 1, 2]);
    }

    #[test]
    fn the_parts_of_cpu_time_add_up() {
        // 1000 at 1 : 3; nothing known counts as the kernel's.
        assert_eq!(divide(1000, 10, 30), (250, 750));
        assert_eq!(divide(1000, 0, 0), (0, 1000));
    }
}
