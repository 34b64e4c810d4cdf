//! The cost of going to sleep, by the cause that ends the sleep, in microseconds worked out here.

use crate::common;

use common::{fifo, micros, microseconds, run, run_with, scheduler, shares, switches, task, workload};
use schedlab_model::{Attributes, Costs, Event, EventKind, Machine, Policy, Step, TaskId, Time};
use schedlab_sim::Options;

const IDLE: u32 = u32::MAX;

/// A system call takes 1, setting a timer 3, the clock device 2 more, and then going to sleep 5.
fn timers() -> Costs {
    Costs { system_call: micros(1), block: micros(5), sleep_timer: micros(3), next_timer: micros(2), ..Costs::ideal() }
}

#[test]
fn who_sets_the_next_timer_pays_for_the_clock_device() {
    // 'first' has set its timer at 1 + 3 + 2 = 6, for 106, and goes to sleep at 11. 'second' goes then; it sets its timer at 15 for 215, after
    // that: it goes at 20. 'first' sleeps again from 117 on, its 10 from 112 ending at 122, before 215, and ends then. The next tick would
    // be at 4000. All but 1 of going to sleep is the dequeue, for which the next task is charged, if there is one: 'second' for that of 'first'.
    let sleep = |time| Step::Sleep(microseconds(time));
    let first = task("first", 1, fifo(2), vec![sleep(100), sleep(10)]);
    let second = task("second", 1, fifo(1), vec![sleep(200)]);
    let (outcome, events) = run(&workload(vec![first, second]), "6.1", &Machine::new(1, timers()));
    let times: Vec<u64> = switches(&events).iter().map(|(time, _, _)| *time).collect();
    assert_eq!(times, [0, 11, 20, 106, 117, 122, 122, 215, 215]);
    assert_eq!([shares(&outcome, 0)[1], shares(&outcome, 1)[1]], [22 - 4, 9 + 4]);
}

#[test]
fn a_timer_after_the_next_tick_leaves_the_clock_device_as_it_is() {
    // As before, but the sleep ends after the tick at 4000: 1 + 5 + 3.
    let alone = workload(vec![task("alone", 1, Attributes::default(), vec![Step::Sleep(microseconds(5000))])]);
    let (outcome, _) = run(&alone, "6.1", &Machine::new(1, timers()));
    assert_eq!(shares(&outcome, 0)[1], 9);
}

#[test]
fn an_interrupt_costs_the_task_that_goes_on_after_it() {
    // 'computes' is woken at 50 on an idle CPU, which takes 7, and computes from 57 until 157. At 100 the timer of 'sleeps' expires: waking it takes 7, and
    // what it interrupts goes on 2 later unless that one preempts it.
    let costs = Costs { wakeup: micros(7), interrupt: micros(2), ..Costs::ideal() };
    let ends = |policy| {
        let computes = vec![Step::Sleep(microseconds(50)), Step::Run(microseconds(100))];
        let sleeps = Attributes { policy, ..Attributes::default() };
        let tasks = vec![
            task("computes", 1, fifo(2), computes),
            task("sleeps", 1, sleeps, vec![Step::Sleep(microseconds(100))]),
        ];
        let (_, events) = run(&workload(tasks), "6.1", &Machine::new(1, costs.clone()));
        switches(&events).iter().filter(|(time, _, _)| *time >= 50).map(|(time, _, _)| *time).collect::<Vec<_>>()
    };
    // It waits until 'computes' has computed, at 157 + 7 + 2.
    for patient in [Policy::Fifo(1), Policy::Batch, Policy::Other] {
        assert_eq!(ends(patient), [57, 166, 166], "{patient:?}");
    }
    // It comes after the wake-up, at 107, and ends at once; of what 'computes' had to do 57 are left, which it does until 164.
    assert_eq!(ends(Policy::Fifo(3)), [57, 107, 107, 164]);
}

#[test]
fn a_part_of_a_timer_s_interrupt_comes_before_the_switch() {
    // In microseconds: a wake-up takes 7 and the timer's interrupt 9, of which 4 are between the wake-up and the switch, and 3 more after an
    // idle period of 200 or longer. The task comes at 0 and sleeps for 100: it comes at 100 + 7 + 4 = 111 and pays the other 5, until 116. It
    // sleeps for 300 until 416, comes at 416 + 7 + 4 + 3 = 430, and pays the other 2, until 432. It is charged for all of the interrupts, twice 9.
    let costs = Costs {
        wakeup: micros(7),
        timer_taken: micros(9),
        timer_switch: micros(4),
        idle_switch: micros(3),
        ..Costs::ideal()
    };
    let sleep = |time| Step::Sleep(microseconds(time));
    let sleeps = vec![sleep(100), sleep(300)];
    let alone = workload(vec![task("alone", 1, Attributes::default(), sleeps.clone())]);
    for release in common::RELEASES {
        let (outcome, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        let times: Vec<u64> = switches(&events).iter().map(|(time, _, _)| *time).collect();
        assert_eq!(times, [0, 0, 111, 116, 430, 432], "{release}");
        assert_eq!(shares(&outcome, 0)[1], 9 + 9, "{release}");
    }
    // Where it preempts a task that computes, the 7 and the 4 come before the switch: 111, and 116 + 300 + 11. It is charged for them.
    let hog = task("hog", 1, fifo(1), vec![Step::Run(microseconds(500))]);
    let both = workload(vec![hog, task("sleeper", 1, fifo(2), sleeps)]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(1, costs));
    let times: Vec<u64> = switches(&events).iter().map(|(time, _, _)| *time).collect();
    assert_eq!(times, [0, 0, 111, 116, 427, 432, 532]);
    assert_eq!([shares(&outcome, 0)[1], shares(&outcome, 1)[1]], [500, 2 * (11 + 5)]);
}

#[test]
fn a_cpu_that_leaves_idle_has_no_task_to_put_back() {
    // Waking the sleeper takes 7 and the pass before the switch 10, of which 4 are for the task that is preempted. The CPU idles at first, so that
    // the sleeper comes at 6 and its timer expires at 106: it comes at 106 + 7 + 10 = 123 where it preempts a task, and at 106 + 7 + 6 = 119 on
    // an idle CPU.
    let costs = Costs { wakeup: micros(7), schedule: micros(10), put_prev: micros(4), ..Costs::ideal() };
    for release in common::RELEASES {
        let comes = |others: &[schedlab_model::Task]| {
            let sleeper = task("sleeper", 1, fifo(2), vec![Step::Sleep(microseconds(100))]);
            let all = workload([sleeper].into_iter().chain(others.iter().cloned()).collect());
            let (_, events) = run(&all, release, &Machine::new(1, costs.clone()));
            switches(&events).iter().find(|(time, _, next)| *time >= 100 && *next == 0).map(|(time, _, _)| *time)
        };
        let hog = task("hog", 1, fifo(1), vec![Step::Run(microseconds(500))]);
        assert_eq!([comes(&[]), comes(&[hog])], [Some(119), Some(123)], "{release}");
    }
}

#[test]
fn a_cpu_that_leaves_idle_sets_its_clock_device_for_its_tick_as_other_timers_have_it() {
    // 'first' sleeps from 0 until 5000, and the CPU idles through the tick at 4000. Waking 'first' takes 7. To start its tick, which is next due at
    // 8000, the CPU sets its device twice where no other timer is pending, once where one is pending after the tick, and not where one is pending
    // before it: of the 6 that it takes then 0, 1 or 2 are saved.
    let costs = Costs { wakeup: micros(7), tick_restart: micros(6), next_timer: micros(1), ..Costs::ideal() };
    let sleep = |time| vec![Step::Sleep(microseconds(time))];
    for (other, settings) in [(None, 2), (Some(9000), 1), (Some(6000), 0)] {
        let first = task("first", 1, fifo(2), sleep(5000));
        let others = other.map(|time| task("other", 1, fifo(1), sleep(time)));
        let all = workload([first].into_iter().chain(others).collect());
        let (_, events) = run(&all, "6.1", &Machine::new(1, costs.clone()));
        let comes = switches(&events).iter().find(|(time, _, next)| *time > 1 && *next == 0).map(|(time, _, _)| *time);
        assert_eq!(comes, Some(5000 + 7 + 6 - (2 - settings)), "{other:?}");
    }
}

#[test]
fn a_timer_s_interrupt_costs_the_woken_task_where_no_other_continues() {
    // 'computes' is woken at 50 on an idle CPU, which takes 7: it comes at 57, pays 4 for its timer's interrupt and computes until 161. At
    // 100 the timer of 'sleeps' expires; waking it takes 7.
    let costs = Costs { wakeup: micros(7), interrupt: micros(2), timer_taken: micros(4), ..Costs::ideal() };
    let run_times = |policy| {
        let computes = vec![Step::Sleep(microseconds(50)), Step::Run(microseconds(100))];
        let sleeps = Attributes { policy, ..Attributes::default() };
        let tasks = vec![
            task("computes", 1, fifo(2), computes),
            task("sleeps", 1, sleeps, vec![Step::Sleep(microseconds(100))]),
        ];
        let (outcome, events) = run(&workload(tasks), "6.1", &Machine::new(1, costs.clone()));
        let times = switches(&events).into_iter().map(|(time, _, _)| time).filter(|time| *time >= 50);
        (times.collect::<Vec<_>>(), [shares(&outcome, 0)[1], shares(&outcome, 1)[1]])
    };
    // 'computes' continues, and pays for the interrupt: 161 + 7 + 2, so that it has run for 113. 'sleeps' comes then, and has nothing to pay.
    assert_eq!(run_times(Policy::Fifo(1)), (vec![57, 170, 170], [113, 0]));
    // 'sleeps' preempts it at 107, and pays 4 until 111; it is charged for the 7 before that as well. Of the 4 + 100 + 7 that 'computes' has to
    // do 50 are done, so that it ends 61 later.
    assert_eq!(run_times(Policy::Fifo(3)), (vec![57, 107, 111, 172], [111 - 7, 7 + 4]));
}

#[test]
fn an_interrupt_costs_the_interrupted_task_though_its_sleeper_wakes_elsewhere() {
    // All sleep at first, 'other' on CPU 1 and the rest on CPU 0. At 2000 'computes' wakes on CPU 0. Timers of 'first' and 'second' expire there at 2010 and 2050, but each wakes on CPU 1, which idles: so two interrupts leave
    // the CPU to 'computes', 2 each, and it ends at 2000 + 100 + 4. On 5.10 that is so, too.
    let costs = Costs { interrupt: micros(2), ..Costs::ideal() };
    let sleeper = |name: &str, sleep, run| {
        task(name, 1, Attributes::default(), vec![Step::Sleep(microseconds(sleep)), Step::Run(microseconds(run))])
    };
    let tasks = vec![
        sleeper("computes", 2000, 100),
        sleeper("other", 3000, 20),
        sleeper("first", 2010, 20),
        sleeper("second", 2050, 20),
    ];
    for release in ["5.10", "6.1", "6.12"] {
        for no_tick_skip in [false, true] {
            let options = Options { no_tick_skip, ..Options::default() };
            let machine = Machine::new(2, costs.clone());
            let (_, events) =
                run_with(&workload(tasks.clone()), &scheduler(release), &machine, &options).expect("it runs");
            let ended = |event: &&Event| matches!(event.kind, EventKind::Exit { task } if task == TaskId(0));
            let end = events.iter().find(ended).map(|event| event.time);
            assert_eq!(end, Some(Time::from_micros(2104)), "{release}, every tick: {no_tick_skip}");
        }
    }
}

#[test]
fn semaphores_cost_what_futexes_and_clocks_do() {
    // A system call takes 1, going to sleep 5, waiting for a futex 4 more, waking a task that waits for one 6, a wake-up 7, and a look at
    // the clock 10. 'waits' is first, and sleeps at 1 + 5 + 4 = 10. 'posts' looks at the clock, and posts: 10 + 1 + 6, and at 27 'waits' is
    // woken, for which 'posts' pays 7 more, and comes at 34. It looks at the clock: 44. No task waits for what 'posts' posts then: 10,
    // until 54.
    let costs = Costs {
        system_call: micros(1),
        block: micros(5),
        futex_wait: micros(4),
        futex_wake: micros(6),
        wakeup: micros(7),
        clock: micros(10),
        ..Costs::ideal()
    };
    let post = Step::Post("s".into());
    let waits = task("waits", 1, fifo(2), vec![Step::Acquire("s".into())]);
    let posts = task("posts", 1, fifo(1), vec![post.clone(), post]);
    let (_, events) = run(&workload(vec![waits, posts]), "6.1", &Machine::new(1, costs.clone()));
    assert_eq!(switches(&events), [(0, 0, 0), (10, 0, 1), (34, 0, 0), (44, 0, 1), (54, 0, IDLE)]);
    // A stopwatch is looked at twice.
    let watch = vec![Step::Start("w".into()), Step::Stop("w".into())];
    let (outcome, _) = run(&workload(vec![task("times", 1, fifo(1), watch)]), "6.1", &Machine::new(1, costs));
    assert_eq!(shares(&outcome, 0)[1], 20);
}

#[test]
fn a_task_back_on_an_idle_cpu_pays_for_a_switch() {
    // A switch takes 8, each other task's 3 more, up to 5: the first one, of a task that ran nowhere, takes 13. It sleeps for 100, and the
    // CPU idles; back at 113 it finds all as it was, and takes 8.
    let costs = Costs { switch: micros(8), cache_refill: micros(3), cache_refill_limit: micros(5), ..Costs::ideal() };
    let alone = workload(vec![task("alone", 1, Attributes::default(), vec![Step::Sleep(microseconds(100))])]);
    for release in common::RELEASES {
        let (outcome, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        assert_eq!(switches(&events), [(0, 0, 0), (13, 0, IDLE), (113, 0, 0), (121, 0, IDLE)], "{release}");
        assert_eq!(shares(&outcome, 0)[1], 21, "{release}");
    }
}
