//! Load averages where recordings of several CPUs told that the rules were not the kernel's: tasks that end, that begin another program,
//! that stay in their group; CPUs with a wake-up on its way; and what is expected of tasks that slept (`util_est`). Source: `kernel/sched/fair.c`.

use schedlab_model::{Attributes, Policy, TaskId, TaskState};
use schedlab_sched::{DequeueFlags, GroupId, WakeKind};

use crate::lab::{CPU0, CPU1, Lab, MS};

/// `PELT_MIN_DIVIDER`: LOAD_AVG_MAX less a period.
const LEAST: u64 = 47_742 - 1024;

/// Two CPUs on which load averages are kept and tasks are placed by them.
fn lab(release: &str) -> Lab {
    let mut lab = Lab::with_cpus(release, 2, &[]);
    lab.sched.set_topology(&"llc=2".parse().expect("a topology"), 0, 1);
    lab
}

/// Two tasks on CPU 0, of which the first runs; they had 200 ms together.
fn busy(lab: &mut Lab) -> [TaskId; 2] {
    let tasks = [lab.task(), lab.task()];
    lab.schedule(CPU0);
    for _ in 0..50 {
        lab.tick_after(CPU0, 4 * MS);
        lab.schedule(CPU0);
    }
    tasks
}

/// `task_dead_fair` takes the load of a task that ended off its queue (`remove_entity_load_avg`) when that next looks. Without that it
/// would fade there, by half in 32 ms.
#[test]
fn a_task_that_ends_takes_its_load_along() {
    for release in ["5.10", "6.1", "6.12", "7.2", "7.3"] {
        // One CPU, so that balancing pulls no task.
        let mut lab = Lab::new(release, &[]);
        lab.sched.track_load();
        let tasks = busy(&mut lab);
        let ending = lab.curr(CPU0);
        let other = if ending == tasks[0] { tasks[1] } else { tasks[0] };
        assert_eq!(lab.leave(CPU0, TaskState::Dead), other);
        lab.tick_after(CPU0, 4 * MS);
        let (queue, task) = (lab.sched.load_of_cpu(CPU0).expect("kept"), lab.sched.load_of(other).expect("kept"));
        // All that is left is the other one's, but for what was rounded on the way: a unit each time one of both was looked at.
        assert!(queue.load_avg.abs_diff(task.load_avg) <= 4, "{release}: {queue:?} {task:?}");
        assert!(queue.util_avg < 1024, "{release}: {queue:?}");
    }
}

/// `sched_change_group` takes a task off its queue's load and puts it on again whatever its group is, as every exit does with
/// autogroup built in: `attach_entity_load_avg` makes its sums anew from its averages, util_sum = util_avg × divider.
#[test]
fn a_task_that_stays_in_its_group_joins_its_queues_load_anew() {
    for release in ["5.10", "6.1", "6.12", "7.2", "7.3"] {
        let mut lab = lab(release);
        busy(&mut lab);
        let running = lab.curr(CPU0);
        lab.sched.sched_move_task(running, GroupId::ROOT);
        let avg = lab.sched.load_of(running).expect("kept");
        let divider = LEAST + u64::from(avg.period_contrib);
        assert_eq!(u64::from(avg.util_sum), avg.util_avg * divider, "{release}");
        assert_eq!(avg.runnable_sum, avg.runnable_avg * divider, "{release}");
    }
}

/// `sched_balance_find_dst_cpu` brings the averages of a task that begins another program up to where its queue is, as if it had slept
/// since (`sync_entity_load_avg`); at fork there are none yet.
#[test]
fn exec_looks_at_a_load_as_if_it_had_slept() {
    for release in ["5.10", "6.1", "6.12", "7.2", "7.3"] {
        let mut lab = lab(release);
        lab.sched.follow_balancing();
        let [_, waiting] = busy(&mut lab);
        // Only the queue's averages are updated: another task comes and goes for 3 ticks, and the waiting task's are not.
        let sleeper = if lab.curr(CPU0) == waiting { busy_other(&lab, waiting) } else { waiting };
        lab.tick_after(CPU0, 12 * MS);
        let before = lab.sched.load_of(sleeper).expect("kept");
        let queue = lab.sched.load_of_cpu(CPU0).expect("kept");
        assert!(before.last_update_time < queue.last_update_time, "{release}");
        lab.sched.select_task_rq(sleeper, CPU0, WakeKind::Exec);
        let after = lab.sched.load_of(sleeper).expect("kept");
        // In units of 1024 ns both come to the same.
        assert!(queue.last_update_time - after.last_update_time < 1024, "{release}");
        assert!(after.load_sum < before.load_sum, "{release}");
    }
}

fn busy_other(lab: &Lab, task: TaskId) -> TaskId {
    let queue = lab.queue(CPU0);
    let found = queue.timeline.iter().map(|se| lab.sched.entity_at(se).task).find(|other| *other != task);
    found.expect("two are queued")
}

/// `idle_cpu` and `idle_cpu_without`: a CPU to which a wake-up is on its way (`ttwu_pending`) is not idle, be it for a waking task, for
/// a new one or for balancing.
#[test]
fn a_cpu_with_a_wake_up_on_its_way_is_not_idle() {
    for release in ["6.1", "6.12", "7.2", "7.3"] {
        let mut lab = lab(release);
        let running = lab.task();
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 4 * MS);
        let child = lab.sched.sched_fork(running, false);
        assert_eq!(lab.sched.select_task_rq(child, CPU0, WakeKind::Fork), CPU1, "{release}");
        lab.sched.follow_balancing();
        assert!(lab.sched.idle_cpu(CPU1), "{release}");
        lab.sched.assume_not_idle(CPU1);
        assert!(!lab.sched.idle_cpu(CPU1), "{release}");
        assert_eq!(lab.sched.select_task_rq(child, CPU0, WakeKind::Fork), CPU0, "{release}");
    }
}

/// `util_est_enqueue` and `util_est_dequeue`: a task that ran for 200 ms used its CPU for 1 − ½^(200/32) = 98.7 % of the time that
/// counts, 1010 of 1024. Asleep it is expected to use nothing, and its utilisation is 1010 · ½^(320/32) = 1 after 320 ms; but as it
/// wakes its queue expects those 1010 of it at once. A tick of 4 ms that 6.12 does not look back on is 1 % of what is missing.
#[test]
fn a_sleeper_that_wakes_is_expected_to_use_what_it_used() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = lab(release);
        let task = lab.task();
        lab.schedule(CPU0);
        for _ in 0..50 {
            lab.tick_after(CPU0, 4 * MS);
        }
        assert_eq!(lab.sched.util_est_of_cpu(CPU0), Some(0), "{release}: nothing was expected of a new task");
        lab.sleep(CPU0);
        let expected = lab.sched.util_est_of(task).expect("kept");
        assert!((1005..=1015).contains(&expected), "{release}: {expected}");
        lab.advance(320 * MS);
        lab.sync(CPU0);
        assert!(lab.sched.try_to_wake_up(task, CPU0));
        assert!(lab.sched.load_of(task).expect("kept").util_avg <= 2, "{release}");
        assert_eq!(lab.sched.util_est_of_cpu(CPU0), Some(expected), "{release}");
        // It goes as it came, on to the other CPU too.
        lab.sync(CPU1);
        lab.sched.move_queued_task(task, CPU1);
        let queues = [CPU0, CPU1].map(|cpu| lab.sched.util_est_of_cpu(cpu));
        assert_eq!(queues, [Some(0), Some(expected)], "{release}");
    }
}

/// The estimated utilisation of a delayed task leaves its queue's as it goes to sleep. Of 6.12.107: a pick dequeues it by
/// `dequeue_entities`, which neither takes the estimate off again nor updates it; a change of its class, and a wait for its sleep, dequeue
/// it by `dequeue_task_fair`, which on 6.12 takes the estimate off once more, from what is estimated of others.
#[test]
fn util_est_of_a_delayed_task_is_taken_off_once() {
    for release in ["6.12", "6.18", "7.2", "7.3"] {
        let mut lab = lab(release);
        let [sleeper, other] = [lab.task(), lab.task()];
        lab.schedule(CPU0);
        lab.advance(300_000);
        for (task, expected) in [(sleeper, 600), (other, 300)] {
            lab.sched.assume_util_est(task, expected, 0);
        }
        lab.sched.assume_queue_util_est(CPU0, 900);
        assert_eq!(lab.sleep(CPU0), other, "{release}");
        assert!(lab.entity(sleeper).sched_delayed, "{release}: in debt");
        let learned = lab.sched.util_est_of(sleeper).expect("kept");
        assert!(learned > 300, "{release}: a sample counts a quarter: {learned}");
        assert_eq!(lab.sched.util_est_of_cpu(CPU0), Some(300), "{release}");

        let mut called = lab.clone();
        let fifo = Attributes { policy: Policy::Fifo(1), ..Attributes::default() };
        called.sched.change_attributes(sleeper, &fifo, DequeueFlags::SAVE);
        let left = if release == "6.12" { 0 } else { 300 };
        assert_eq!(called.sched.util_est_of_cpu(CPU0), Some(left), "{release}");
        let mut waited = lab.clone();
        assert!(waited.sched.wait_task_inactive(sleeper), "{release}");
        assert_eq!(waited.sched.util_est_of_cpu(CPU0), Some(left), "{release}");
        assert!(!waited.entity(sleeper).on_rq, "{release}: gone");

        // As the other has caught up and more it would be picked: it leaves.
        lab.run(CPU0, 4 * MS);
        assert_eq!(lab.schedule(CPU0), other, "{release}");
        lab.run(CPU0, 4 * MS);
        assert_eq!(lab.schedule(CPU0), other, "{release}");
        assert!(!lab.entity(sleeper).on_rq, "{release}: gone");
        assert_eq!(lab.sched.util_est_of_cpu(CPU0), Some(300), "{release}");
        assert_eq!(lab.sched.util_est_of(sleeper), Some(learned), "{release}");
    }
}

/// A wake-up in two parts, as on several CPUs: the task's load leaves its old queue with the first, and it comes in on the new one with
/// the second, to the same virtual time as in one.
#[test]
fn a_wake_up_in_two_parts_is_one() {
    for release in ["5.10", "6.1", "6.12", "7.2", "7.3"] {
        let mut lab = lab(release);
        let sleeper = lab.spawn(Policy::Other, 0);
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 4 * MS);
        lab.sleep(CPU0);
        lab.advance(MS);
        lab.sync(CPU0);
        lab.sync(CPU1);
        let mut other = lab.clone();
        assert!(lab.sched.try_to_wake_up(sleeper, CPU1));
        other.sched.migrate_waking(sleeper, CPU1);
        assert!(!other.entity(sleeper).on_rq, "{release}");
        assert!(other.sched.activate_waking(sleeper, true), "{release}");
        assert!(!other.sched.activate_waking(sleeper, true), "{release}");
        assert_eq!(lab.entity(sleeper).vruntime, other.entity(sleeper).vruntime, "{release}");
        assert_eq!(lab.sched.load_of(sleeper), other.sched.load_of(sleeper), "{release}");
        assert_eq!(lab.sched.load_of_cpu(CPU1), other.sched.load_of_cpu(CPU1), "{release}");
    }
}

/// A recording shows what a task that leaves a queue without its lock read, each at its own time: told the same as the rules would read at
/// once, it comes to the same (`migrate_task_rq_fair`: the queue's virtual time in CFS, up to when its averages are, and from 5.19 on what
/// an idle CPU's clock would be). Told that the averages were of earlier, it leaves as much older load behind: as it was when it went to
/// sleep, if they were of then; and so does one that ends (`task_dead_fair`).
#[test]
fn a_task_that_leaves_in_parts_leaves_what_it_read() {
    for release in ["5.10", "6.1", "6.12", "7.2", "7.3"] {
        let mut lab = lab(release);
        let sleeper = lab.spawn(Policy::Other, 0);
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 4 * MS);
        lab.sleep(CPU0);
        let slept = lab.sched.load_of(sleeper).expect("it is tracked");
        lab.advance(40 * MS);
        lab.sync(CPU0);
        lab.sync(CPU1);
        lab.sched.update_blocked_load(CPU0);
        let updated = lab.sched.load_of_cpu(CPU0).expect("it is tracked").last_update_time;
        let mut whole = lab.clone();
        whole.sched.migrate_waking(sleeper, CPU1);
        let idle = (release != "5.10").then_some(lab.now);

        let mut parts = lab.clone();
        let least = parts.sched.cfs_rq(CPU0).min_vruntime;
        parts.sched.leave_virtual_time(sleeper, least);
        parts.sched.migrate_load(sleeper, CPU1, updated, idle);
        assert_eq!(parts.sched.task_cpu(sleeper), CPU1, "{release}");
        assert_eq!(parts.entity(sleeper).vruntime, whole.entity(sleeper).vruntime, "{release}");
        assert_eq!(parts.sched.load_of(sleeper), whole.sched.load_of(sleeper), "{release}");
        assert_eq!(
            parts.sched.removed_of(parts.sched.root_queue(CPU0)),
            whole.sched.removed_of(whole.sched.root_queue(CPU0)),
            "{release}"
        );

        let left = (1, slept.load_avg, slept.util_avg, slept.runnable_avg);
        let mut earlier = lab.clone();
        earlier.sched.migrate_load(sleeper, CPU1, slept.last_update_time, None);
        assert_eq!(earlier.sched.removed_of(earlier.sched.root_queue(CPU0)), left, "{release}");
        assert!(whole.sched.removed_of(whole.sched.root_queue(CPU0)).1 < left.1, "{release}: 40 ms halve it");
        lab.sched.task_dead_at(sleeper, slept.last_update_time);
        assert_eq!(lab.sched.removed_of(lab.sched.root_queue(CPU0)), left, "{release}");
    }
}
