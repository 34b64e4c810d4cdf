//! Queues as recordings have them.

use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState, Time};
use schedlab_replay::{Options, replay_file_watched};
use schedlab_sched::pelt::SchedAvg;
use schedlab_sched::{Class, Clocks, Entity, Ours, Past, Rules, Sched, Vruntime};

/// Between two states that are taken lie so many steps of the recording at least.
const APART: usize = 7;

/// Queues that are taken of one recording.
const MOST: usize = 400;

/// A task of a queue.
#[derive(Debug, Clone)]
struct Member {
    nice: i8,
    entity: Entity,
    load: SchedAvg,
    util_est: u64,
    /// It runs.
    runs: bool,
    buddy: [bool; 3],
}

/// A CPU's fair queue at a point of a recording, without what is not SCHED_OTHER or in a group.
#[derive(Debug, Clone)]
pub struct Queue {
    pub rules: Rules,
    clocks: Clocks,
    bases: [Vruntime; 2],
    load: SchedAvg,
    /// The queued tasks in the order of the timeline, after the running one; then the sleeping tasks.
    members: Vec<Member>,
}

/// A recording's queues that have tasks, at many points of it.
pub fn recorded_queues(recording: &str) -> Vec<Queue> {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = |ending: &str| std::path::PathBuf::from(format!("{root}/tests/fixtures/{recording}.{ending}"));
    let snapshot = Some(path("snap1")).filter(|path| path.exists());
    let release = recording.strip_prefix("k612-").map(|_| "6.12").or(recording.strip_prefix("k61-").map(|_| "6.1"));
    let release = release.map(|release| release.parse().unwrap());
    let (mut found, mut step) = (vec![], 0usize);
    let options = Options { snapshot: snapshot.as_deref(), release, ..Options::default() };
    replay_file_watched(&path("txt.gz"), &options, &mut |watched| {
        step += 1;
        if step.is_multiple_of(APART) && found.len() < MOST {
            let machine = watched.machine();
            found.extend(machine.cpus().filter_map(|cpu| Queue::of(&machine, cpu)));
        }
    })
    .unwrap();
    found
}

impl Queue {
    /// Tasks that wait on it.
    pub fn waiting(&self) -> usize {
        self.members.iter().filter(|member| member.entity.on_rq && !member.runs).count()
    }

    /// The same queue whose tasks have asked for these slices, in nanoseconds, in turn; none keeps the recorded one.
    pub fn with_slices(&self, slices: &[Option<u64>]) -> Self {
        let mut queue = self.clone();
        for (member, slice) in queue.members.iter_mut().zip(slices.iter().cycle()) {
            if let Some(slice) = slice {
                (member.entity.slice, member.entity.custom_slice) = (*slice, true);
            }
        }
        queue
    }

    fn of(machine: &Sched<Ours>, cpu: CpuId) -> Option<Self> {
        let queue = machine.cfs_rq(cpu);
        let plain = |task: &TaskId| {
            let record = machine.task(*task);
            record.class == Class::Fair
                && record.policy == Policy::Other
                && record.cpu == cpu
                && machine.entity(*task).parent.is_none()
                // It is on its way from one queue to another.
                && !machine.entity(*task).rel_deadline
        };
        let member = |task: TaskId| {
            let entity = machine.entity(task).clone();
            let se = Some(machine.task(task).se);
            Member {
                nice: machine.task(task).nice,
                load: machine.load_of(task).unwrap_or_default(),
                util_est: machine.util_est_of(task).unwrap_or(0),
                runs: machine.curr(cpu) == task,
                buddy: [queue.next, queue.last, queue.skip].map(|buddy| buddy == se),
                entity,
            }
        };
        let waiting = queue.timeline.iter().map(|entity| machine.entity_at(entity).task);
        let runs = Some(machine.curr(cpu)).filter(|task| *task != TaskId::IDLE);
        let asleep = machine.tasks().filter(|task| !machine.entity(*task).on_rq);
        let members: Vec<_> = runs.into_iter().chain(waiting).chain(asleep).filter(plain).map(member).collect();
        members.iter().any(|member| member.entity.on_rq).then(|| Self {
            rules: *machine.rules(),
            clocks: machine.clocks(cpu),
            bases: [queue.min_vruntime, queue.zero_vruntime],
            load: machine.load_of_cpu(cpu).unwrap_or_default(),
            members,
        })
    }

    /// Puts its tasks on a CPU that has no task yet, at the time `now` of that machine.
    pub fn put_on(&self, sched: &mut Sched<Ours>, cpu: CpuId, now: Time) {
        let base = sched.cfs_rq_mut(cpu);
        [base.min_vruntime, base.zero_vruntime] = self.bases;
        let aged = |then: u64, clock: Time| match then {
            // Never.
            0 => 0,
            then => now.as_nanos().wrapping_sub(clock.as_nanos().saturating_sub(then)),
        };
        let average = |load: &SchedAvg| SchedAvg {
            last_update_time: aged(load.last_update_time, self.clocks.clock_pelt),
            ..*load
        };
        for member in &self.members {
            let task = sched.new_task(&Attributes { nice: member.nice, ..Attributes::default() });
            let mut entity = member.entity.clone();
            entity.exec_start = aged(entity.exec_start, self.clocks.clock_task);
            (entity.on_rq, entity.task, entity.cfs_rq) = (false, task, sched.entity(task).cfs_rq);
            *sched.entity_mut(task) = entity.clone();
            match member.entity.on_rq {
                true => sched.assume_queued(task, cpu),
                false => sched.assume_asleep(task, cpu),
            }
            if member.runs && member.entity.on_rq {
                // It is the only task so far, and the switch gives it a new slice.
                assert_eq!(sched.schedule(cpu, TaskState::Running).next, task);
                let own = sched.entity_mut(task);
                (own.exec_start, own.prev_sum_exec_runtime) = (entity.exec_start, entity.prev_sum_exec_runtime);
                (own.vlag, own.vprot) = (entity.vlag, entity.vprot);
            }
            sched.assume_past(task, Past { flips: 0, decayed: 0, last: None, recent: cpu });
            sched.assume_load(task, average(&member.load));
            sched.assume_util_est(task, member.util_est, member.util_est);
            let se = sched.task(task).se;
            let queue = sched.cfs_rq_mut(cpu);
            let buddies = [&mut queue.next, &mut queue.last, &mut queue.skip];
            for (buddy, is) in buddies.into_iter().zip(member.buddy) {
                if is && member.entity.on_rq {
                    *buddy = Some(se);
                }
            }
        }
        sched.assume_queue_load(cpu, average(&self.load), (0, 0, 0, 0));
    }
}
