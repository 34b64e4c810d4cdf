//! The worked examples of the kernel's own documentation, `Documentation/scheduler`: `sched-design-CFS`, `sched-nice-design`,
//! `sched-eevdf` and what `sched-bwc` says beside its four examples (those are in `bandwidth.rs`). `sched-rt-group` and
//! `sched-deadline`, whose examples are runs of a machine, are in `crates/sim/tests/simulation/realtime_bandwidth.rs` and `deadline*.rs`.

use schedlab_model::{CpuId, Policy, TaskId, Time};
use schedlab_sched::GroupId;

use crate::bandwidth::{limit, run, throttled, time};
use crate::groups::{group, member};
use crate::lab::{CPU0, CPU1, Lab, MS, US, rules};

const ALL: [&str; 7] = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];
const GROUPED: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];
const EEVDF: [&str; 4] = ["6.12", "6.18", "7.2", "7.3"];

/// The parts of the CPU, in per cent, of tasks that always run, over `seconds` at 1000 Hz.
fn parts(lab: &mut Lab, tasks: &[TaskId], seconds: u64) -> Vec<f64> {
    lab.schedule(CPU0);
    let before: Vec<u64> = tasks.iter().map(|task| lab.sched.sum_exec_runtime(*task)).collect();
    for _ in 0..seconds * 1_000 {
        if lab.tick_after(CPU0, MS) {
            lab.schedule(CPU0);
        }
    }
    let ran = tasks.iter().zip(before).map(|(task, before)| lab.sched.sum_exec_runtime(*task) - before);
    ran.map(|ran| ran as f64 / (seconds * 10 * MS) as f64).collect()
}

fn assert_parts(found: &[f64], expected: &[f64], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 0.5, "{what}: {found:.2} % instead of {expected:.2} %");
    }
}

fn hogs(release: &str, policies: &[(Policy, i8)]) -> (Lab, Vec<TaskId>) {
    let mut lab = Lab::with_rules(rules(release, 1000, &[]), 1);
    let tasks = policies.iter().map(|(policy, nice)| lab.spawn(*policy, *nice)).collect();
    (lab, tasks)
}

/// sched-design-CFS, 1: "if there are 2 tasks running, then it runs each at 50 % physical power", each at 1/nr_running speed.
#[test]
fn an_ideal_cpu_runs_each_task_at_one_nth() {
    for release in ALL {
        for count in [2usize, 3, 5] {
            let (mut lab, tasks) = hogs(release, &vec![(Policy::Other, 0); count]);
            let expected = vec![100.0 / count as f64; count];
            assert_parts(&parts(&mut lab, &tasks, 10), &expected, release);
        }
    }
}

/// sched-design-CFS, 2 and 3: the task with the smallest `vruntime` runs, and what it ran is added to that.
#[test]
fn the_leftmost_task_runs() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let (mut lab, _) = hogs(release, &[(Policy::Other, 0), (Policy::Other, 0), (Policy::Other, 0)]);
        lab.schedule(CPU0);
        for _ in 0..300 {
            let runs = lab.curr(CPU0);
            let before = lab.vruntime(runs);
            if lab.tick_after(CPU0, MS) {
                // Nice 0: virtual time is real time.
                assert_eq!(lab.vruntime(runs) - before, MS as i64, "{release}");
                let next = lab.schedule(CPU0);
                let others = (0..3).map(TaskId).filter(|task| *task != next).map(|task| lab.vruntime(task));
                assert!(others.min().is_some_and(|least| lab.vruntime(next) <= least), "{release}");
            }
        }
    }
}

/// sched-design-CFS, 4: "no heuristics": a task that sleeps just before each tick (the fiftyp.c, ring-test.c kind of attack on the older
/// scheduler) gets no more than the half that is its share, beside one task that always runs.
#[test]
fn sleeping_before_the_tick_earns_nothing() {
    for release in ALL {
        let (mut lab, tasks) = hogs(release, &[(Policy::Other, 0), (Policy::Other, 0)]);
        let attacker = tasks[0];
        lab.schedule(CPU0);
        let start = lab.now;
        let before = lab.sched.sum_exec_runtime(attacker);
        for _ in 0..20_000 {
            // It runs 0.9 ms of each ms where it may, and is asleep as the tick comes.
            lab.advance(900 * US);
            if lab.curr(CPU0) == attacker {
                lab.sleep(CPU0);
            } else {
                lab.sync(CPU0);
                lab.sched.update_curr(CPU0);
            }
            if lab.tick_after(CPU0, 50 * US) {
                lab.schedule(CPU0);
            }
            lab.advance(50 * US);
            lab.sync(CPU0);
            if lab.sched.try_to_wake_up(attacker, CPU0) && lab.sched.need_resched(CPU0) {
                lab.schedule(CPU0);
            }
        }
        let share = (lab.sched.sum_exec_runtime(attacker) - before) as f64 / (lab.now - start) as f64;
        assert!(share < 0.505, "{release}: {share}");
    }
}

/// sched-design-CFS, 5: SCHED_IDLE "is even weaker than nice 19": weights 3 and 15, so 1/6 beside it (2 and 15 on 2.6.24: 2/17).
#[test]
fn an_idle_task_is_weaker_than_nice_19() {
    for release in ALL {
        let (mut lab, tasks) = hogs(release, &[(Policy::Other, 19), (Policy::Idle, 0)]);
        let idle = if release == "2.6.24" { 200.0 / 17.0 } else { 100.0 / 6.0 };
        // Turns are long in the virtual time of such light tasks: 100 s.
        assert_parts(&parts(&mut lab, &tasks, 100), &[100.0 - idle, idle], release);
    }
}

/// sched-design-CFS, 5: SCHED_BATCH "does not preempt nearly as often": by waking never, where a SCHED_OTHER task in its place does.
#[test]
fn a_batch_task_does_not_preempt_by_waking() {
    for release in ALL {
        for (policy, preempts) in [(Policy::Other, true), (Policy::Batch, false)] {
            let mut lab = Lab::new(release, &[]);
            let sleeper = lab.spawn(policy, 0);
            lab.schedule(CPU0);
            lab.sleep(CPU0);
            // No other task was there to run up a distance, and it is a long one: 500 ms; EEVDF: past every request.
            lab.spawn(Policy::Other, 0);
            lab.schedule(CPU0);
            lab.run(CPU0, 500 * MS);
            lab.schedule(CPU0);
            lab.advance(MS);
            let woken = lab.wake(sleeper);
            if preempts && EEVDF.contains(&release) {
                // EEVDF promises it nothing at its wake-up: its slice is not shorter.
                continue;
            }
            assert_eq!(woken, preempts, "{release} {policy:?}");
        }
    }
}

/// sched-design-CFS, 7: the multimedia group with 2048 shares gets twice the CPU of the browser's with 1024, whatever runs in them.
#[test]
fn multimedia_gets_twice_the_browser_s_cpu() {
    for release in GROUPED {
        for browsers in [1, 4] {
            let mut lab = Lab::with_rules(rules(release, 1000, &[]), 1);
            let [multimedia, browser] = [2048, 1024].map(|shares| {
                let group = lab.sched.create_group(GroupId::ROOT).expect("a release with groups");
                lab.sched.set_group_shares(group, shares).expect("shares in range");
                group
            });
            let player = member(&mut lab, multimedia);
            let mut tasks = vec![player];
            tasks.extend((0..browsers).map(|_| member(&mut lab, browser)));
            let found = parts(&mut lab, &tasks, 20);
            assert_parts(&[found[0], found[1..].iter().sum()], &[200.0 / 3.0, 100.0 / 3.0], release);
        }
    }
}

/// sched-nice-design: nice +10 and +11 divide the CPU as nice −5 and −4 do: "one will get 55 % of the CPU, the other 45 %". By the table
/// 110/197 = 55.84 %, and 3121/5622 = 55.51 %.
#[test]
fn nice_levels_are_relative() {
    for release in ALL {
        for (nices, first) in [([10, 11], 11_000.0 / 197.0), ([-5, -4], 312_100.0 / 5622.0)] {
            assert!((first - 55.5f64).abs() < 0.5, "the document's 55 %");
            let (mut lab, tasks) = hogs(release, &nices.map(|nice| (Policy::Other, nice)));
            assert_parts(&parts(&mut lab, &tasks, 40), &[first, 100.0 - first], release);
        }
    }
}

/// sched-nice-design: "nice +19 tasks get a HZ-independent 1.5 %" (15/1039 = 1.44 % by the table), instead of 3, 5 or 9 %.
#[test]
fn nice_19_gets_one_and_a_half_per_cent_at_any_hz() {
    for release in ALL {
        for hz in [100, 250, 1000] {
            let mut lab = Lab::with_rules(rules(release, hz, &[]), 1);
            let tasks = [lab.spawn(Policy::Other, 0), lab.spawn(Policy::Other, 19)];
            lab.schedule(CPU0);
            let start = lab.now;
            while lab.now < start + 200_000 * MS {
                if lab.tick_after(CPU0, 1_000_000_000 / u64::from(hz)) {
                    lab.schedule(CPU0);
                }
            }
            let share = lab.sched.sum_exec_runtime(tasks[1]) as f64 / (lab.now - start) as f64;
            assert!((share - 15.0 / 1039.0).abs() < 0.001, "{release} {hz}: {share}");
        }
    }
}

/// sched-eevdf: of those "with lag greater or equal to zero" the one "with the earliest VD" is picked. Three at V: requests of 3, 1 and 2 ms.
/// The one of 1 ms runs first; having run 0.4 ms it owes, and the next by deadline among those who do not is the one of 2 ms.
#[test]
fn the_earliest_virtual_deadline_among_those_owed_runs() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[("feature.PLACE_DEADLINE_INITIAL", "0")]);
        let [_, short, middle] = [3 * MS, MS, 2 * MS].map(|slice| {
            let attributes = schedlab_model::Attributes { slice: Some(Time::from_nanos(slice)), ..Default::default() };
            let task = lab.sched.new_task(&attributes);
            lab.sched.wake_up_new_task(task, CPU0);
            task
        });
        assert_eq!(lab.schedule(CPU0), short, "{release}");
        lab.run(CPU0, 400 * US);
        // Lags: V = 0.4/3 ms, so −0.267 ms of the running one and +0.133 ms of the others.
        lab.sched.sched_yield(CPU0);
        assert_eq!(lab.schedule(CPU0), middle, "{release}");
    }
}

/// sched-eevdf: "this prevents tasks from exploiting the system by sleeping briefly to reset their negative lag". A task that runs 0.3 ms
/// ahead, sleeps for 1 µs and wakes has its lag still; after a long sleep it has none: "long-sleeping tasks eventually have their lag
/// reset".
#[test]
fn a_short_sleep_does_not_reset_negative_lag_a_long_one_does() {
    for release in EEVDF {
        for (sleep, forgiven) in [(US, false), (100 * MS, true)] {
            let mut lab = Lab::new(release, &[]);
            let (sleeper, other) = (lab.task(), lab.task());
            assert_eq!(lab.schedule(CPU0), sleeper, "{release}");
            lab.advance(300 * US);
            assert_eq!(lab.sleep(CPU0), other, "{release}");
            lab.run(CPU0, sleep);
            // Time decays the lag, and a pick, as each tick may ask for one, dequeues a task that has none left.
            lab.schedule(CPU0);
            lab.schedule(CPU0);
            let average = (lab.vruntime(other) + lab.vruntime(sleeper)) / 2;
            let lag = average - lab.vruntime(sleeper);
            assert_eq!(lab.entity(sleeper).sched_delayed, !forgiven, "{release}: {lag}");
            lab.wake(sleeper);
            // 0.3 ms against 1 µs: V is half of their distance below it, −149.5 µs; or placed at V.
            let lag = (lab.vruntime(other) - lab.vruntime(sleeper)) / 2;
            assert_eq!(lag, if forgiven { 0 } else { -149_500 }, "{release}");
        }
    }
}

/// sched-eevdf: "tasks with shorter time slices" are "prioritized": a waking task with a slice of 0.1 ms preempts one with 3 ms that has run
/// 0.5 ms of it, one with the same 3 ms does not.
#[test]
fn a_short_slice_helps_an_urgent_task() {
    for release in EEVDF {
        for (slice, preempts) in [(100 * US, true), (3 * MS, false)] {
            let mut lab = Lab::new(release, &[("base_slice", "3ms"), ("feature.PLACE_DEADLINE_INITIAL", "0")]);
            let attributes = schedlab_model::Attributes { slice: Some(Time::from_nanos(slice)), ..Default::default() };
            let woken = lab.sched.new_task(&attributes);
            lab.sched.wake_up_new_task(woken, CPU0);
            lab.schedule(CPU0);
            lab.sleep(CPU0);
            lab.task();
            lab.schedule(CPU0);
            lab.advance(500 * US);
            assert_eq!(lab.wake(woken), preempts, "{release} {slice}");
        }
    }
}

/// sched-bwc, "Management": "Any updates to a group's bandwidth specification will result in it becoming unthrottled", and a negative quota
/// "will remove the bandwidth limit".
#[test]
fn a_new_limit_unthrottles() {
    for release in GROUPED {
        for quota in [Some(Time::from_millis(7)), None] {
            let (mut lab, limited, task) = throttled(release);
            lab.sync(CPU0);
            lab.sched.set_group_bandwidth(limited, quota, Time::from_millis(100), Time::ZERO).expect("in range");
            assert!(!lab.sched.is_throttled(task) && lab.sched.need_resched(CPU0), "{release}");
            assert_eq!(lab.schedule(CPU0), task, "{release}");
            let before = time(&lab, task);
            run(&mut lab, 60);
            let used = time(&lab, task) - before;
            let expected = if quota.is_some() { 7 * MS..=8 * MS } else { 60 * MS..=60 * MS };
            assert!(expected.contains(&used), "{release} {quota:?}: {used}");
        }
    }
}

/// sched-bwc, "Hierarchical considerations", b: "even though the child may have runtime remaining it will not be allowed to until the parent's
/// runtime is refreshed": 50 of 100 ms for the child, 10 for its parent.
#[test]
fn a_parent_s_quota_ends_its_children_s_turn() {
    for release in GROUPED {
        let mut lab = Lab::new(release, &[]);
        let parent = group(&mut lab, GroupId::ROOT, 100);
        let child = group(&mut lab, parent, 100);
        limit(&mut lab, parent, 10, 100, 0);
        limit(&mut lab, child, 50, 100, 0);
        let task = member(&mut lab, child);
        lab.schedule(CPU0);
        run(&mut lab, 90);
        assert!(lab.sched.is_throttled(task), "{release}");
        // Charged each millisecond: 10 ms, seen at the 10th or, with 1 ns more than nothing left, the 11th.
        assert!((10 * MS..=11 * MS).contains(&time(&lab, task)), "{release}: {}", time(&lab, task));
        assert_eq!(lab.sched.bandwidth_stats(child).nr_throttled, 0, "{release}");
        run(&mut lab, 15);
        assert!(time(&lab, task) > 11 * MS, "{release}: refreshed");
    }
}

/// sched-bwc, "Caveats": a CPU whose group's threads all become unrunnable returns all but 1 ms of its slice. Where others wait for it the
/// slack timer hands it out 5 ms later (`start_cfs_slack_bandwidth`), unless the next period is less than 7 ms away.
///
/// Three CPUs take slices of 5, 5 and 4 of 14 ms. A real-time task keeps the first two from using theirs; the third is throttled after
/// 4 ms. When the waiting two leave the group, 4 ms each come back: 8 ms, more than a slice. 5 ms later the third goes on with them.
///
/// From 6.18 on a queue begins with a nanosecond (`tg_set_cfs_bandwidth`), so that a queue whose tasks only wait takes no slice: there the
/// real-time tasks come a millisecond later. The first two have taken 6 ms each then, what they ran included, 2 are left, and the third is
/// throttled after 3 ms, when it owes one less a nanosecond; of the 8 ms it can use 7 then, a nanosecond and what it is charged late.
#[test]
fn slack_goes_to_throttled_queues() {
    let cpu2 = CpuId(2);
    for release in GROUPED {
        for (leaves, handed_out) in [(6, true), (93, true), (94, false)] {
            let mut lab = Lab::with_cpus(release, 3, &[]);
            let limited = group(&mut lab, GroupId::ROOT, 100);
            limit(&mut lab, limited, 14, 100, 0);
            let start = lab.now;
            let mut tasks = Vec::new();
            let late = ["6.18", "7.2", "7.3"].contains(&release);
            for cpu in [CPU0, CPU1, cpu2] {
                if cpu != cpu2 && !late {
                    lab.spawn_on(cpu, Policy::Fifo(1), 0);
                    lab.schedule(cpu);
                }
                let task = lab.spawn_on(cpu, Policy::Other, 0);
                lab.sched.sched_move_task(task, limited);
                tasks.push(task);
            }
            assert_eq!(lab.schedule(cpu2), tasks[2], "{release}");
            if late {
                for cpu in [CPU0, CPU1] {
                    lab.schedule(cpu);
                }
                run(&mut lab, 1);
                for cpu in [CPU0, CPU1] {
                    lab.spawn_on(cpu, Policy::Fifo(1), 0);
                    lab.schedule(cpu);
                }
            }
            run(&mut lab, leaves - u64::from(late));
            let first = if late { 3 } else { 4 } * MS;
            assert_eq!(time(&lab, tasks[2]), first, "{release}");
            assert!(lab.sched.is_throttled(tasks[2]), "{release}");
            for task in &tasks[..2] {
                lab.sched.sched_move_task(*task, GroupId::ROOT);
            }
            let next = lab.sched.bandwidth_timer().expect("a period").at.as_nanos() - start;
            assert_eq!(next, if handed_out { leaves + 5 } else { 100 } * MS, "{release} at {leaves} ms");
            run(&mut lab, 99 - leaves);
            // 8 ms more, or what is left until the period ends.
            let more = if handed_out { (99 - leaves - 5).min(8) } else { 0 } * MS;
            assert_eq!(time(&lab, tasks[2]), first + more, "{release} at {leaves} ms");
        }
    }
}
