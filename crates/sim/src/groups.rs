//! Groups of tasks and the sessions of autogroup: made at the start, followed as tasks begin and end, and the outcome of each.

use schedlab_model::{EventSink, GroupOutcome, ModelError, Scheduler, Time};
use schedlab_program::{Membership, Program, TemplateId};
use schedlab_sched::{Clocks, GroupId, Ours, Sched};

use crate::engine::{Engine, task_id};
use crate::wait::NONE;

/// Where a task belongs, as indices into the program's groups and sessions, [`NONE`] for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Belongs {
    /// Its cgroup.
    group: u32,
    session: u32,
}

impl Belongs {
    pub(crate) const NOWHERE: Self = Self { group: NONE, session: NONE };

    /// What a task of this template says of itself, the rest from its parent.
    pub(crate) fn of(program: &Program, template: TemplateId, parent: Self) -> Self {
        let template = program.template(template);
        Self {
            group: template.group.map_or(parent.group, |membership| match membership {
                Membership::Root => NONE,
                Membership::Group(group) => group,
            }),
            session: template.session.unwrap_or(parent.session),
        }
    }
}

/// One group of the rules: the workload's groups first, then, under autogroup, its sessions.
struct Pool {
    id: GroupId,
    name: String,
    /// The pool above it, [`NONE`] at the top.
    parent: u32,
    /// Tasks that have not ended, and all there were, those of pools below it among them.
    alive: u32,
    tasks: u64,
}

/// The pools of a run that has any.
pub(crate) struct Pools {
    pools: Vec<Pool>,
    /// The sessions stand behind so many groups; none of them if autogroup is off.
    groups: u32,
    sessions: bool,
    /// Some group's CPU time is limited, which needs timers.
    pub(crate) limited: bool,
    /// Tasks of no pool that have not ended.
    rest: u32,
    /// CPU time of each pool, and of all tasks, when the first pool, or those of no pool, had no task left.
    contended: Option<(Vec<u64>, u64)>,
}

impl Pools {
    /// Makes the program's groups, and its sessions where `scheduler` groups those; none where there are none.
    pub(crate) fn make(
        program: &Program,
        scheduler: &Scheduler,
        sched: &mut Sched<Ours>,
        cpus: u32,
    ) -> Result<Option<Box<Self>>, ModelError> {
        let sessions = scheduler.autogroup() && !program.sessions().is_empty();
        if program.groups().is_empty() && !sessions {
            return Ok(None);
        }
        for cpu in 0..cpus {
            sched.set_clocks(schedlab_model::CpuId(cpu), Clocks::all(Time::ZERO));
        }
        let mut pools: Vec<Pool> = Vec::new();
        for node in program.groups() {
            let above = node.parent.map_or(GroupId::ROOT, |parent| pools[parent].id);
            let named = |error: ModelError| match error {
                ModelError::Group(why) => ModelError::Group(format!("'{}': {why}", node.path)),
                other => other,
            };
            let id = sched.create_group(above).map_err(named)?;
            let settings = &node.settings;
            if let Some(weight) = settings.weight {
                sched.set_group_weight(id, weight).map_err(named)?;
            }
            if let Some(shares) = settings.shares {
                sched.set_group_shares(id, shares).map_err(named)?;
            }
            if settings.idle {
                sched.set_group_idle(id, true).map_err(named)?;
            }
            if let Some(max) = settings.max {
                sched.set_group_bandwidth(id, Some(max.quota), max.period, max.burst).map_err(named)?;
            }
            let parent = node.parent.map_or(NONE, |parent| parent as u32);
            pools.push(Pool { id, name: node.path.clone(), parent, alive: 0, tasks: 0 });
        }
        let groups = pools.len() as u32;
        for name in program.sessions().iter().filter(|_| sessions) {
            // autogroup_create
            let id = sched.create_group(GroupId::ROOT)?;
            pools.push(Pool { id, name: format!("session {name}"), parent: NONE, alive: 0, tasks: 0 });
        }
        let limited = program.groups().iter().any(|node| node.settings.max.is_some());
        Ok(Some(Box::new(Self { pools, groups, sessions, limited, rest: 0, contended: None })))
    }

    /// The pool a task is in (`task_wants_autogroup`): its session's where it is in no cgroup.
    fn pool_of(&self, belongs: Belongs) -> Option<usize> {
        match belongs {
            Belongs { group: NONE, session: NONE } => None,
            Belongs { group: NONE, session } => self.sessions.then_some((self.groups + session) as usize),
            Belongs { group, .. } => Some(group as usize),
        }
    }

    /// The pool and those above it.
    fn path(&self, pool: Option<usize>) -> impl Iterator<Item = usize> + use<> {
        let mut path = Vec::new();
        let mut level = pool;
        while let Some(pool) = level {
            path.push(pool);
            level = Some(self.pools[pool].parent as usize).filter(|parent| *parent != NONE as usize);
        }
        path.into_iter()
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// A new task goes where it belongs, before it is woken. Its CPU must have its clocks.
    pub(crate) fn join_group(&mut self, task: u32) {
        let Some(pools) = &mut self.pools else { return };
        let pool = pools.pool_of(self.arena.identities[task as usize].belongs);
        if !self.arena.tasks[task as usize].background {
            for pool in pools.path(pool) {
                pools.pools[pool].alive += 1;
                pools.pools[pool].tasks += 1;
            }
            pools.rest += u32::from(pool.is_none());
        }
        let group = pool.map_or(GroupId::ROOT, |pool| pools.pools[pool].id);
        if self.sched.group_of(task_id(task)) != group {
            self.sched.sched_move_task(task_id(task), group);
        }
    }

    /// Whether a task lives there.
    pub(crate) fn belongs_to(&self, task: u32, membership: Membership) -> bool {
        let group = match membership {
            Membership::Root => NONE,
            Membership::Group(group) => group,
        };
        self.arena.identities[task as usize].belongs.group == group
    }

    /// `cgroup_attach_task`: a task goes to another cgroup. Its CPU must have its clocks.
    pub(crate) fn change_group(&mut self, task: u32, membership: Membership) {
        let Some(pools) = &mut self.pools else { return };
        let belongs = &mut self.arena.identities[task as usize].belongs;
        let old = pools.pool_of(*belongs);
        belongs.group = match membership {
            Membership::Root => NONE,
            Membership::Group(group) => group,
        };
        let new = pools.pool_of(*belongs);
        if !self.arena.tasks[task as usize].background {
            for pool in pools.path(old) {
                pools.pools[pool].alive -= 1;
            }
            for pool in pools.path(new) {
                pools.pools[pool].alive += 1;
                pools.pools[pool].tasks += 1;
            }
            pools.rest = pools.rest + u32::from(new.is_none()) - u32::from(old.is_none());
        }
        let group = new.map_or(GroupId::ROOT, |pool| pools.pools[pool].id);
        if self.sched.group_of(task_id(task)) != group {
            self.sched.sched_move_task(task_id(task), group);
        }
    }

    /// `sched_autogroup_exit_task`: a session's group lets its task go as it exits; a cgroup does not.
    pub(crate) fn leave_session(&mut self, task: u32, cpu: u32) {
        let Some(pools) = &self.pools else { return };
        let pool = pools.pool_of(self.arena.identities[task as usize].belongs);
        if pool.is_some_and(|pool| pool >= pools.groups as usize) {
            self.touch(cpu);
            self.sched.sched_move_task(task_id(task), GroupId::ROOT);
        }
    }

    /// A task has ended. With the last one of a group, or of those in none, the groups compete no more.
    pub(crate) fn left_group(&mut self, task: u32) {
        if self.arena.tasks[task as usize].background {
            return;
        }
        let Some(pools) = &mut self.pools else { return };
        let pool = pools.pool_of(self.arena.identities[task as usize].belongs);
        pools.rest -= u32::from(pool.is_none());
        let mut emptied = pool.is_none() && pools.rest == 0;
        for pool in pools.path(pool) {
            pools.pools[pool].alive -= 1;
            emptied |= pools.pools[pool].alive == 0;
        }
        if emptied && pools.contended.is_none() {
            let times = self.times();
            if let Some(pools) = &mut self.pools {
                pools.contended = Some(times);
            }
        }
    }

    /// The CPU time of each pool so far, and of all tasks.
    fn times(&self) -> (Vec<u64>, u64) {
        let Some(pools) = &self.pools else { return (Vec::new(), 0) };
        let mut times = vec![0; pools.pools.len()];
        let mut total = 0;
        let all = self.arena.tasks.iter().zip(&self.arena.identities);
        for (task, identity) in all.filter(|(task, _)| !task.background) {
            let (account, running) = (&task.account, matches!(task.state, crate::task::State::Running { .. }));
            let run = account.run + if running { self.now - account.since } else { 0 };
            total += run;
            for pool in pools.path(pools.pool_of(identity.belongs)) {
                times[pool] += run;
            }
        }
        (times, total)
    }

    /// What each group came to, once the run is over.
    pub(crate) fn group_outcomes(&self) -> Vec<GroupOutcome> {
        let Some(pools) = &self.pools else { return Vec::new() };
        let (runs, all) = self.times();
        let (contended, total) = pools.contended.clone().unwrap_or_else(|| (runs.clone(), all));
        let outcome = |(number, pool): (usize, &Pool)| {
            let stats = self.sched.bandwidth_stats(pool.id);
            GroupOutcome {
                name: pool.name.clone(),
                tasks: pool.tasks,
                run_ns: runs[number],
                contended_ns: contended[number],
                share: 0.0,
                periods: stats.nr_periods,
                throttled_periods: stats.nr_throttled,
                throttled_ns: stats.throttled_time,
            }
        };
        let mut groups: Vec<GroupOutcome> = pools.pools.iter().enumerate().map(outcome).collect();
        GroupOutcome::fill_shares(&mut groups, total);
        groups
    }

    /// A timer of a group's bandwidth expires: it may put tasks back on any queue that was throttled.
    pub(crate) fn bandwidth_timer(&mut self) {
        let Some(timer) = self.sched.bandwidth_timer() else { return };
        let cpus = self.sched.bandwidth_timer_cpus(timer);
        cpus.iter().for_each(|cpu| self.touch(cpu.0));
        // Charging what ran may have used up, or given back, runtime meanwhile.
        if self.sched.bandwidth_timer() == Some(timer) {
            self.sched.run_bandwidth_timer(timer);
        }
        for cpu in &cpus {
            self.settle(cpu.0);
        }
        // What waits again may run on CPUs that idle.
        self.rouse_others(self.arena.cpus.len() as u32);
    }
}
