//! Where EEVDF's rules differ between 6.12, 6.18 and 7.2, and between points of a series (`kernel/sched/fair.c`).

use schedlab_model::{Attributes, Policy, TaskId, Time};
use schedlab_sched::{GroupId, Vruntime, WakeKind, Weight};

use crate::groups::{group, member};
use crate::lab::{CPU0, Lab, MS, ORIGIN, US, attributes, pinned};

fn with_slice(lab: &mut Lab, policy: Policy, slice: u64) -> TaskId {
    let slice = Some(Time::from_nanos(slice));
    let task = lab.sched.new_task(&Attributes { slice, ..attributes(policy, 0) });
    lab.sync(CPU0);
    lab.sched.wake_up_new_task(task, CPU0);
    task
}

/// A task alone, 0.8 ms into a request of 5 ms that was due after 2.5. One that comes at V, 0.8 ms, is due at 1.15 (new) or 1.5 ms (woken).
#[test]
fn forks_do_not_preempt_by_deadline_any_more() {
    // Without RUN_TO_PARITY no task is protected (6.12), or for 0.7 ms (6.18).
    let knobs = [("feature.RUN_TO_PARITY", "0"), ("feature.PREEMPT_SHORT", "0")];
    let lone = |release: &str| {
        let mut lab = Lab::new(release, &knobs);
        let sleeper = lab.task();
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        let running = with_slice(&mut lab, Policy::Other, 5 * MS);
        assert_eq!(lab.schedule(CPU0), running);
        lab.run(CPU0, 800 * US);
        (lab, sleeper)
    };
    for (release, forks) in [("6.12", true), ("6.18.32", true), ("6.18.33", false), ("7.2", false), ("7.3", false)] {
        let (mut lab, _) = lone(release);
        lab.task();
        assert_eq!(lab.sched.need_resched(CPU0), forks, "{release}");
        let (mut lab, sleeper) = lone(release);
        assert!(lab.wake(sleeper), "{release}");
    }
    // A shorter slice preempts by being new, too.
    for release in ["6.12", "6.18.33", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        with_slice(&mut lab, Policy::Other, 5 * MS);
        lab.schedule(CPU0);
        lab.task();
        assert!(lab.sched.need_resched(CPU0), "{release}");
    }
}

/// A delayed task that would be picked is dequeued at a wake-up from 6.18.33 on, not only at a pick.
#[test]
fn a_wake_up_dequeues_a_delayed_task() {
    for (release, queued) in [("6.12", 3), ("6.18.32", 3), ("6.18.33", 2), ("7.2", 2), ("7.3", 2)] {
        let mut lab = Lab::new(release, &[("feature.RUN_TO_PARITY", "0"), ("base_slice", "1ms")]);
        let sleeper = with_slice(&mut lab, Policy::Other, 100 * US);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        let delayed = with_slice(&mut lab, Policy::Other, 800 * US);
        let running = lab.task();
        assert_eq!(lab.schedule(CPU0), delayed, "due at 0.4 ms, before 0.5");
        lab.advance(300 * US);
        assert_eq!(lab.sleep(CPU0), running);
        assert!(lab.entity(delayed).sched_delayed);
        // At 0.45 ms the running one is ahead of V, 0.375 ms. The delayed task is eligible, and due first, at 0.4 ms: the woken
        // task, at V, is due at 0.475 ms.
        lab.run(CPU0, 450 * US);
        lab.wake(sleeper);
        assert_eq!(lab.queue(CPU0).nr_running, queued, "{release}");
        assert_eq!(lab.entity(delayed).on_rq, queued == 3, "{release}");
    }
}

/// A running task that is put off its queue and back, as its affinity changes, keeps its protection from 6.18.17 on.
#[test]
fn only_a_pick_begins_protection() {
    // Picked alone it is protected until it is due, 2.5 ms. A BATCH task with a slice of 0.1 ms comes, which does not preempt. Begun anew at
    // 0.05 ms, protection ends 0.1 ms later. On 7.3 each wake-up that does not preempt ends it after the shortest slice of the queue, here from V = 0.
    for (release, ends) in [("6.18.16", 150_000), ("6.18.17", 2_500_000), ("7.2", 2_500_000), ("7.3", 100_000)] {
        let mut lab = Lab::new(release, &[]);
        let running = with_slice(&mut lab, Policy::Other, 5 * MS);
        lab.schedule(CPU0);
        with_slice(&mut lab, Policy::Batch, 100 * US);
        lab.run(CPU0, 50 * US);
        let slice = lab.sched.attributes(running).slice;
        lab.sched.sched_setattr(running, &Attributes { slice, ..pinned(&[0]) });
        assert_eq!(lab.vruntime(running), 50_000);
        assert_eq!(lab.entity(running).vprot.since(ORIGIN), ends, "{release}");
    }
}

/// A task that sleeps, and one with a slice of 5 ms that has just been picked.
fn beside_a_sleeper(release: &str) -> (Lab, TaskId, TaskId) {
    let mut lab = Lab::new(release, &[]);
    let sleeper = lab.task();
    lab.schedule(CPU0);
    lab.sleep(CPU0);
    let running = with_slice(&mut lab, Policy::Other, 5 * MS);
    assert_eq!(lab.schedule(CPU0), running);
    (lab, sleeper, running)
}

/// A task with a slice of 5 ms runs alone, due after 2.5 ms, until when it is protected. One with 0.7 ms wakes 1 ms later at V, due at 1.7 ms, and is
/// what is picked without protection: it preempts and ends it, on 6.12 as the task's deadline is not that of its pick any more.
#[test]
fn a_shorter_slice_that_preempts_ends_protection() {
    for (release, ends) in [("6.12", 2_500_001), ("6.18.16", MS), ("6.18.32", MS), ("6.18.33", MS), ("7.2", MS)] {
        let (mut lab, sleeper, running) = beside_a_sleeper(release);
        let came = lab.entity(running).vruntime;
        lab.run(CPU0, MS);
        assert!(lab.wake(sleeper), "{release}");
        assert_eq!(lab.entity(running).vprot.since(came) as u64, ends, "{release}");
    }
}

/// The same with a BATCH task of 0.1 ms that waits since the running one was picked, due after 0.05 ms: that is picked without protection, and the
/// woken task does not preempt. On 6.12 it ends protection all the same, for it is eligible and due before the running one; since 9de74a9850b9
/// (6.17) protection only lasts no longer than the shortest slice that waits.
#[test]
fn a_shorter_slice_that_is_not_picked_leaves_protection() {
    for (release, ends) in [("6.12", 2_500_001), ("6.18.16", 100_000), ("6.18.32", 100_000), ("7.2", 100_000)] {
        let (mut lab, sleeper, running) = beside_a_sleeper(release);
        let came = lab.entity(running).vruntime;
        with_slice(&mut lab, Policy::Batch, 100 * US);
        assert!(!lab.wake(sleeper), "{release}");
        assert_eq!(lab.entity(running).vprot.since(came) as u64, ends, "{release}");
    }
}

/// Five tasks come at V in the order of their deadlines, each to the right of the one before: with 10 ms at nice -20, 2 ms, 1 ms at nice 5, 4 ms and
/// 4.5 ms. As the third comes the second takes the first one's place as the root, which is computed once more with the fourth. As the fifth
/// comes the fourth takes the third one's place, and knows of 4 ms and 4.5 ms alone. The first one is picked and leaves: the root is computed
/// with 2 ms and that 4 ms. Then a black node is missing on its left, and the fourth takes its place, still with 4 ms, though the third one, now
/// below it, has 1 ms. So long the picked task is protected until 51b0e68cfa0a (7.3, 7.2.7, 6.18.53); 4 ms are 4 ms · 1024/88761 of its
/// virtual time.
#[test]
fn a_rotated_tree_misses_the_shortest_slice() {
    let known = [("6.18.15", 4), ("6.18.17", 4), ("6.18.52", 4), ("6.18.53", 1), ("7.2.6", 4), ("7.2.7", 1)];
    for (release, shortest) in known {
        let mut lab = Lab::new(release, &[]);
        let tasks = [(-20, 10_000), (0, 2_000), (5, 1_000), (0, 4_000), (0, 4_500)].map(|(nice, slice)| {
            let slice = Some(Time::from_micros(slice));
            let task = lab.sched.new_task(&Attributes { slice, ..attributes(Policy::Other, nice) });
            lab.sched.wake_up_new_task(task, CPU0);
            task
        });
        let deadlines = tasks.map(|task| lab.entity(task).deadline.since(ORIGIN));
        assert!(deadlines.is_sorted(), "{deadlines:?}");
        assert_eq!(lab.schedule(CPU0), tasks[0]);
        assert_eq!(lab.entity(tasks[0]).vprot.since(ORIGIN) as u64, shortest * MS * 1024 / 88_761, "{release}");
    }
}

/// Three tasks come to a group in the order of their deadlines, so that the second becomes the root of its queue without a look at the first, which
/// has the shortest slice. The group's slice is what the root says. It makes no difference whether the queue was made before a task
/// asked for a slice of its own or after that.
#[test]
fn a_rotated_tree_of_a_group_misses_the_shortest_slice() {
    for (release, shortest) in [("6.12", 2), ("6.18.15", 2), ("7.2.6", 2), ("7.2.7", 1)] {
        for made_before in [true, false] {
            let mut lab = Lab::new(release, &[]);
            let above = group(&mut lab, GroupId::ROOT, 100);
            if made_before {
                lab.sched.ids_of_group(above, CPU0);
            }
            let tasks = [MS, 2 * MS, 3 * MS].map(|slice| with_slice(&mut lab, Policy::Other, slice));
            for task in tasks {
                lab.sched.sched_move_task(task, above);
            }
            let entity = lab.sched.group_entity(above, CPU0).expect("with tasks");
            assert_eq!(entity.slice, shortest * MS, "{release}, {made_before}");
        }
    }
}

/// A running group's entity that is reweighted keeps what is left of its protection in real time since 7.0: at twice the weight that is half of it in
/// virtual time. Alone the entity stands at V, which nothing moves, and is protected for its request. On 6.18 its lag, 0, is written to where the end
/// of its protection stands: a virtual time long past, unless virtual time is still below 0. Then, from 6.18.17 on, what that leaves is halved.
#[test]
fn protection_follows_a_reweighted_entity() {
    for (release, apart, halves) in [("6.18.16", false, false), ("6.18.17", false, true), ("7.2", true, true)] {
        let mut lab = Lab::new(release, &[("feature.DELAY_DEQUEUE", "0")]);
        let heavier = group(&mut lab, GroupId::ROOT, 100);
        let task = member(&mut lab, heavier);
        lab.schedule(CPU0);
        let (_, se) = lab.sched.ids_of_group(heavier, CPU0);
        let se = se.expect("a group's");
        for shares in [2048, 4096] {
            let picked = lab.sched.entity_at(se);
            let (ends, due) = (picked.vprot, picked.deadline);
            assert_eq!(ends, due, "{release}");
            lab.run(CPU0, 100 * US);
            lab.sched.set_group_shares(heavier, shares).expect("shares in range");
            let entity = lab.sched.entity_at(se);
            let now = entity.vruntime;
            assert!(ends.since(now) > 100_000, "{release}");
            let (first, lag) = (shares == 2048, Vruntime(0));
            assert_eq!(lag.since(now) > 0, first, "{release}");
            let expected = match (apart, halves && first) {
                (true, _) => now.plus(ends.since(now) as u64 / 2),
                (false, true) => now.plus(lag.since(now) as u64 / 2),
                (false, false) => lag,
            };
            assert_eq!(entity.vprot, expected, "{release}, {shares}");
            // Beyond 0 another task runs for a moment, after which it is picked anew.
            lab.run(CPU0, 5 * MS);
            let urgent = lab.spawn(Policy::Other, -20);
            assert_eq!(lab.schedule(CPU0), urgent, "{release}");
            lab.advance(100 * US);
            assert_eq!(lab.sleep(CPU0), task, "{release}");
        }
    }
}

/// A task that left its fair queue for another class 1 ms into a first request of 2.5 ms keeps a relative deadline of 1.5 ms. A child that is set
/// back to a fair task took that over until 6.12.91 and 6.18.33; since then it is due after half a request, as other new tasks are.
#[test]
fn a_child_took_over_its_parents_relative_deadline() {
    for (release, takes_over) in
        [("6.12.90", true), ("6.12.91", false), ("6.18.32", true), ("6.18.33", false), ("7.2", false), ("7.3", false)]
    {
        let mut lab = Lab::new(release, &[]);
        let parent = with_slice(&mut lab, Policy::Other, 5 * MS);
        lab.schedule(CPU0);
        lab.run(CPU0, MS);
        lab.sched.sched_setattr(parent, &attributes(Policy::Fifo(1), 0));
        let child = lab.sched.sched_fork_reset(parent, &attributes(Policy::Other, 0));
        lab.sync(CPU0);
        lab.sched.wake_up_new_task(child, CPU0);
        let entity = lab.entity(child);
        let half = entity.slice as i64 / 2;
        assert_ne!(half, 1_500_000, "{release}");
        assert_eq!(entity.deadline.since(entity.vruntime), if takes_over { 1_500_000 } else { half }, "{release}");
    }
}

/// 7.2 weighs with all bits. Weight 1024 at 1 ms and a third of it, 349525 / 1024, at 0: V is 1 ms · 1024 / (1024 + 341) = 750183, or
/// 1 ms · 1048576 / (1048576 + 349525) = 750000.
#[test]
fn the_average_takes_all_bits_of_weights() {
    for (release, average) in [("6.12", 750_183), ("6.18", 750_183), ("7.2", 750_000), ("7.3", 750_000)] {
        let mut lab = Lab::new(release, &[("feature.DELAY_DEQUEUE", "0")]);
        let heavy = lab.task();
        assert_eq!(lab.schedule(CPU0), heavy);
        let light = lab.sched.new_task(&attributes(Policy::Other, 0));
        let light_entity = lab.sched.entity_mut(light);
        (light_entity.load, light_entity.weight) = (Weight { scaled: 349_525, inverse: 0 }, 349_525);
        lab.sched.wake_up_new_task(light, CPU0);
        lab.advance(MS);
        lab.sleep(CPU0);
        assert_eq!(lab.entity(heavy).vlag, average - 1_000_000, "{release}");
    }
}

/// A delayed task does not fall further into debt on 7.2, whatever V does.
#[test]
fn a_delayed_task_s_debt_does_not_grow() {
    for (release, placed) in [("6.12", 300_000), ("6.18", 300_000), ("7.2", -375_000), ("7.3", -375_000)] {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, _) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.advance(300 * US);
        lab.sleep(CPU0);
        // It is delayed at 0.3 ms of V = 0.15. One with a lag of 0.9 ms comes at 0.15 − 0.9 · 3/2 = −1.2 ms: V = −0.3 ms.
        let owed = lab.sched.new_task(&attributes(Policy::Other, 0));
        lab.sched.entity_mut(owed).vlag = 900_000;
        lab.sched.wake_up_new_task(owed, CPU0);
        assert_eq!(lab.vruntime(owed), -1_200_000);
        // Its debt of 0.15 ms is 0.6 ms now. On 7.2 it stays 0.15: without it V is −0.6 ms, and −0.6 + 0.15 · 3/2 = −0.375 ms.
        lab.wake(sleeper);
        assert_eq!(lab.vruntime(sleeper), placed, "{release}");
    }
}

/// Before 6.12.63 a yield only put the deadline a slice off.
#[test]
fn an_early_6_12_s_yield_forfeits_nothing() {
    for (release, at, deadline) in [("6.12.62", 0, 1_050_000), ("6.12.63", 350_000, 1_050_000)] {
        let mut lab = Lab::new(release, &[]);
        let (running, waiting) = (lab.task(), lab.task());
        assert_eq!(lab.schedule(CPU0), running);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
        assert_eq!((lab.vruntime(running), lab.entity(running).deadline.since(ORIGIN)), (at, deadline), "{release}");
    }
}

/// Under NEXT_BUDDY a task that is woken by one about to sleep (`WF_SYNC`) waits for that, from 6.18.33 on (`preempt_sync`): it preempts only
/// where it is due earlier and the waker was last charged `migration_cost` ago, which with the charge just before it takes one of 0.
/// Without the hint the buddy is picked at once. Before, `pick_next_entity` alone takes the buddy, and a wake-up finds the waker protected
/// (`__pick_eevdf`, to which e837456fdca8 brings the buddy). Of nice −20 its 0.7 ms are 8 µs of virtual time: due before the waker, which
/// has 0.6 ms of its own left.
#[test]
fn a_buddy_waits_for_a_waker_that_is_about_to_sleep() {
    for (release, sync, cost, preempts) in [
        ("6.18.32", true, "500us", false),
        ("6.18.32", false, "500us", false),
        ("6.18.33", false, "500us", true),
        ("6.18.33", true, "500us", false),
        ("7.2", false, "500us", true),
        ("7.2", true, "500us", false),
        ("7.2", true, "0ns", true),
    ] {
        let mut lab = Lab::new(release, &[("feature.NEXT_BUDDY", "1"), ("migration_cost", cost)]);
        let wakee = lab.spawn(Policy::Other, -20);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        let waker = lab.task();
        assert_eq!(lab.schedule(CPU0), waker);
        lab.run(CPU0, 100 * US);
        lab.place(wakee, CPU0, WakeKind::Wakeup { sync });
        assert_eq!(lab.wake(wakee), preempts, "{release}, sync {sync}, {cost}");
    }
}
