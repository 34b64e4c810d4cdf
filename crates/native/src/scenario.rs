//! Small sets of tasks in which the scheduler has to decide something of every kind; recordings are made of them.
//!
//! A workload says what tasks do by themselves. Here other tasks change them meanwhile, and groups come and go.

mod realtime;

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use schedlab_model::Time;
use serde::Serialize;

use crate::NativeError;
use crate::error::during;
use crate::system::{self, SchedAttr, await_tick, die_with, exit_now, monotonic};

/// The kind of decisions that a scenario provokes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Tasks of different nice levels that never sleep.
    Hogs,
    /// Tasks that run and sleep in turn, beside one that never sleeps.
    Sleepers,
    /// Pairs of tasks that wake each other all the time, beside one that never sleeps.
    Pipes,
    /// Tasks that fork children all the time.
    Forks,
    /// Tasks whose nice levels, policies and CPUs are changed while they run, and which yield.
    Changes,
    /// SCHED_BATCH and SCHED_IDLE beside the others.
    BatchIdle,
    /// SCHED_FIFO and SCHED_RR beside the others.
    Realtime,
    /// SCHED_DEADLINE beside the others, within and beyond their budgets.
    Deadline,
    /// SCHED_DEADLINE with deadlines before the period's end, with yields, and with parameters and policies that change.
    Reservations,
    /// SCHED_FIFO tasks that never sleep for seconds: the others run by the real-time class's throttling or by the fair server.
    Starved,
    /// Sessions, which autogroup makes groups of.
    Autogroup,
    /// Nested control groups with weights and limits.
    Groups,
}

/// The outcome of a scenario.
#[derive(Debug, Clone, Serialize)]
pub struct Played {
    scenario: Scenario,
    tasks: usize,
    elapsed_ns: u64,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

/// `SCHED_DEADLINE`.
const DEADLINE: u32 = 6;

/// Plays `scenario` for so long, with all its tasks on the CPUs of the caller.
///
/// Call it once a process, before any thread was made.
///
/// # Errors
/// What is not permitted: policies, nice levels, groups. All tasks have ended when it returns.
pub fn play(scenario: Scenario, length: Time) -> Result<Played, NativeError> {
    let start = monotonic();
    let mut world = World { end: start + length.as_nanos(), tasks: Vec::new(), groups: Vec::new() };
    let played = world.play(scenario);
    let tasks = world.tasks.len();
    let failed = world.collect();
    drop(world);
    played?;
    match failed {
        0 => Ok(Played { scenario, tasks, elapsed_ns: monotonic() - start }),
        failed => {
            let what = format!("{failed} of {tasks} tasks failed; the scenario needs root and the policies it sets");
            Err(NativeError::Task { task: "scenario".to_owned(), what })
        }
    }
}

/// Burns CPU time for so long by the clock on the wall.
fn burn(nanoseconds: u64, end: u64) {
    let until = monotonic().saturating_add(nanoseconds).min(end);
    while monotonic() < until {
        (0..200).for_each(|number| {
            std::hint::black_box(number);
        });
    }
}

/// Runs and sleeps in turn.
fn alternate(run: u64, sleep: u64, end: u64) {
    while monotonic() < end {
        burn(run, end);
        system::sleep(sleep);
    }
}

/// Gives the calling task its attributes, by the calls whose arguments tracepoints tell where there are such; whether it was permitted.
fn become_task(attributes: SchedAttr) -> bool {
    if attributes.policy == DEADLINE {
        return system::sched_setattr(attributes).is_ok();
    }
    let parameter = libc::sched_param { sched_priority: attributes.priority.cast_signed() };
    // SAFETY: plain calls with numbers, and a parameter to read.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, attributes.nice) == 0
            && (attributes.policy == 0
                || libc::syscall(libc::SYS_sched_setscheduler, 0, attributes.policy, &raw const parameter) == 0)
    }
}

fn policy(policy: i32, priority: u32, nice: i32) -> SchedAttr {
    SchedAttr { policy: policy as u32, priority, nice, ..SchedAttr::default() }
}

fn nice(nice: i32) -> SchedAttr {
    policy(libc::SCHED_OTHER, 0, nice)
}

/// The tasks of a scenario and the groups that were made for them; the groups go when it is dropped.
struct World {
    end: u64,
    tasks: Vec<libc::pid_t>,
    /// In the order in which they were made.
    groups: Vec<PathBuf>,
}

impl World {
    /// A task with these attributes that does `body` and ends; what it was refused makes it fail.
    fn task(&mut self, attributes: SchedAttr, body: impl FnOnce(u64)) -> Result<libc::pid_t, NativeError> {
        let parent = system::pid();
        // SAFETY: `play` asks for a process without other threads.
        match unsafe { system::fork() }.map_err(during("making a task"))? {
            0 => {
                if !die_with(parent) || !become_task(attributes) {
                    exit_now(1);
                }
                body(self.end);
                exit_now(0)
            }
            pid => {
                self.tasks.push(pid);
                Ok(pid)
            }
        }
    }

    /// Waits for all tasks; how many failed.
    fn collect(&mut self) -> usize {
        let failed =
            |pid: &libc::pid_t| !system::wait_own(*pid).is_ok_and(|(_, status)| system::abnormal(status).is_none());
        std::mem::take(&mut self.tasks).iter().filter(|pid| failed(pid)).count()
    }

    fn hogs(&mut self, levels: &[i32]) -> Result<(), NativeError> {
        levels.iter().try_for_each(|level| self.task(nice(*level), |end| burn(u64::MAX, end)).map(drop))
    }

    fn sleepers(&mut self, turns: &[(u64, u64)]) -> Result<(), NativeError> {
        turns.iter().try_for_each(|&(run, sleep)| {
            let body = move |end| alternate(run * MICROSECOND, sleep * MICROSECOND, end);
            self.task(nice(0), body).map(drop)
        })
    }

    fn play(&mut self, scenario: Scenario) -> Result<(), NativeError> {
        match scenario {
            Scenario::Hogs => self.hogs(&[-5, 0, 0, 5, 10, -10]),
            Scenario::Sleepers => {
                self.hogs(&[5])?;
                self.sleepers(&[(1000, 3000), (500, 2000), (3000, 10_000), (200, 700), (6000, 4000)])
            }
            Scenario::Pipes => self.pipes(),
            Scenario::Forks => self.forks(),
            Scenario::Changes => self.changes(),
            Scenario::BatchIdle => self.batch_idle(),
            Scenario::Realtime => self.realtime(),
            Scenario::Deadline => self.deadline(),
            Scenario::Reservations => self.reservations(),
            Scenario::Starved => self.starved(),
            Scenario::Autogroup => self.autogroup(),
            Scenario::Groups => self.control_groups(),
        }
    }

    fn pipes(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0])?;
        for level in [0, 3] {
            let (ping, pong) = (system::pipe(), system::pipe());
            let ends = ping.and_then(|ping| Ok((ping, pong?))).map_err(during("making a pipe"))?;
            let ((left, to_left), (right, to_right)) = ends;
            for (from, to, first) in [(left, to_right, true), (right, to_left, false)] {
                self.task(nice(level), |end| {
                    if first && system::write(to, b"!").is_err() {
                        exit_now(1);
                    }
                    while monotonic() < end {
                        if system::read(from, &mut [0]).is_err() || system::write(to, b"!").is_err() {
                            exit_now(1);
                        }
                    }
                    // The other may wait still.
                    let _ = system::write(to, b"!");
                })?;
            }
            for descriptor in [left, to_left, right, to_right] {
                // SAFETY: the pipes' ends, which nothing here uses any more.
                unsafe { libc::close(descriptor) };
            }
        }
        Ok(())
    }

    fn forks(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0])?;
        for (level, work) in [(0, 300), (0, 1500), (3, 700)] {
            self.task(nice(level), |end| {
                while monotonic() < end {
                    // SAFETY: a task has one thread.
                    match unsafe { system::fork() } {
                        Ok(0) => {
                            burn(work * MICROSECOND, end);
                            exit_now(0);
                        }
                        Ok(child) => drop(system::wait_own(child)),
                        Err(_) => exit_now(1),
                    }
                }
            })?;
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<(), NativeError> {
        let cpus = system::allowed_cpus();
        self.hogs(&[0, 0, 5])?;
        self.sleepers(&[(1000, 3000), (400, 1500)])?;
        self.task(nice(0), |end| {
            while monotonic() < end {
                burn(300 * MICROSECOND, end);
                system::sched_yield();
            }
        })?;
        let others = self.tasks.clone();
        // Above all tasks that it changes, or a round-robin task that never sleeps would keep it from taking that back.
        self.task(policy(libc::SCHED_FIFO, 50, 0), |end| {
            let steps = [-3, 7, 0, 12, -8, 2];
            let policies = [libc::SCHED_BATCH, libc::SCHED_IDLE, libc::SCHED_OTHER, libc::SCHED_RR, libc::SCHED_OTHER];
            for turn in 0.. {
                let pid = others[turn % others.len()];
                let real =
                    libc::sched_param { sched_priority: i32::from(policies[turn % policies.len()] == libc::SCHED_RR) };
                // SAFETY: plain calls with numbers, and a parameter to read.
                unsafe {
                    match turn % 3 {
                        0 => drop(libc::setpriority(libc::PRIO_PROCESS, pid as libc::id_t, steps[turn % steps.len()])),
                        1 => drop(libc::sched_setscheduler(pid, policies[turn % policies.len()], &raw const real)),
                        _ => drop(system::set_affinity(pid, &cpus)),
                    }
                }
                system::sleep(2 * MILLISECOND);
                // No task stays above the others.
                let ordinary = libc::sched_param { sched_priority: 0 };
                // SAFETY: as above.
                unsafe { libc::sched_setscheduler(pid, libc::SCHED_OTHER, &raw const ordinary) };
                if monotonic() >= end {
                    break;
                }
                system::sleep(3 * MILLISECOND);
            }
        })
        .map(drop)
    }

    fn batch_idle(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0])?;
        let tasks = [
            (libc::SCHED_BATCH, 0, 0, 0),
            (libc::SCHED_IDLE, 0, 0, 0),
            (libc::SCHED_IDLE, 0, 500, 1500),
            (libc::SCHED_BATCH, 0, 700, 2500),
            (libc::SCHED_BATCH, 5, 300, 900),
            (libc::SCHED_OTHER, 0, 800, 3000),
        ];
        tasks.iter().try_for_each(|&(kind, level, run, sleep)| {
            let body = move |end| match sleep {
                0 => burn(u64::MAX, end),
                _ => alternate(run * MICROSECOND, sleep * MICROSECOND, end),
            };
            self.task(policy(kind, 0, level), body).map(drop)
        })
    }

    fn autogroup(&mut self) -> Result<(), NativeError> {
        for (hogs, run, sleep) in [(1, 500, 1500), (3, 1000, 4000), (2, 300, 5000)] {
            self.task(nice(0), |end| {
                let parent = system::pid();
                // SAFETY: a task that leads no group of processes may begin a session.
                unsafe { libc::setsid() };
                for _ in 0..hogs {
                    // SAFETY: a task has one thread.
                    if let Ok(0) = unsafe { system::fork() } {
                        if die_with(parent) {
                            burn(u64::MAX, end);
                        }
                        exit_now(0);
                    }
                }
                alternate(run * MICROSECOND, sleep * MICROSECOND, end);
                (0..hogs).for_each(|_| drop(system::wait_own(-1)));
            })?;
        }
        Ok(())
    }

    fn control_groups(&mut self) -> Result<(), NativeError> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            let what = "the CPU controller of the second version of cgroups must be in /sys/fs/cgroup".to_owned();
            return Err(NativeError::Refused { task: "groups".to_owned(), what });
        }
        // It may be on already, and other users may need it: it stays on.
        let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        let top = root.join(format!("schedlab-scenario-{}", system::mark()));
        let group = |world: &mut Self, path: PathBuf, weight: &str, limit: &str| -> Result<PathBuf, NativeError> {
            fs::create_dir(&path).map_err(during("making a control group"))?;
            world.groups.push(path.clone());
            fs::write(path.join("cpu.weight"), weight).map_err(during("setting a group's weight"))?;
            fs::write(path.join("cpu.max"), limit).map_err(during("setting a group's limit"))?;
            Ok(path)
        };
        let inner = |path: &PathBuf| fs::write(path.join("cgroup.subtree_control"), "+cpu");
        let top = group(self, top, "100", "max 100000")?;
        inner(&top).map_err(during("dividing a control group"))?;
        let light = group(self, top.join("light"), "50", "max 100000")?;
        let heavy = group(self, top.join("heavy"), "300", "max 100000")?;
        inner(&heavy).map_err(during("dividing a control group"))?;
        let limited = group(self, heavy.join("limited"), "100", "3000 50000")?;
        let free = group(self, heavy.join("free"), "200", "max 100000")?;
        self.hogs(&[0])?;
        for (path, run, sleep) in [
            (&light, 0, 0),
            (&light, 500, 1500),
            (&limited, 0, 0),
            (&limited, 400, 1000),
            (&free, 0, 0),
            (&free, 1000, 2500),
        ] {
            self.task(nice(0), |end| {
                if fs::write(path.join("cgroup.procs"), "0").is_err() {
                    exit_now(1);
                }
                match sleep {
                    0 => burn(u64::MAX, end),
                    _ => alternate(run * MICROSECOND, sleep * MICROSECOND, end),
                }
            })?;
        }
        // Weights and limits change while all of them run, so many times that the probes on that are met by an interrupt now and then only.
        self.task(nice(0), |end| {
            let pause = end.saturating_sub(monotonic()) / 16;
            for turn in 0.. {
                system::sleep(pause);
                if monotonic() >= end {
                    break;
                }
                await_tick();
                let (weight, limit) = [("50", "3000 50000"), ("400", "6000 50000"), ("100", "max 50000")][turn % 3];
                let written = fs::write(light.join("cpu.weight"), weight).is_ok()
                    && fs::write(limited.join("cpu.max"), limit).is_ok();
                if !written {
                    exit_now(1);
                }
            }
        })
        .map(drop)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for pid in self.tasks.drain(..) {
            // SAFETY: children that were not collected yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            let _ = system::wait_own(pid);
        }
        for group in self.groups.drain(..).rev() {
            // The last task's end may still be under way in the kernel.
            for _ in 0..100 {
                if fs::remove_dir(&group).is_ok() {
                    break;
                }
                system::sleep(10 * MILLISECOND);
            }
        }
    }
}
