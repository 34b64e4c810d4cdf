//! The period in which each task runs once, and each task's slice of it (`__sched_period`, `sched_slice`).

use schedlab_model::Policy;

use crate::lab::{CPU0, Lab, MS, rules};

/// `count` nice-0 tasks that came in together, the first of them running.
fn crowd(release: &str, knobs: &[(&str, &str)], count: u32) -> Lab {
    let mut lab = Lab::new(release, knobs);
    for _ in 0..count {
        lab.task();
    }
    lab.schedule(CPU0);
    lab
}

/// `sched_nr_latency` = ⌈latency / min_granularity⌉ (DIV_ROUND_UP).
#[test]
fn nr_latency_is_rounded_up() {
    let nr_latency = |release, latency, granularity| {
        rules(release, 250, &[("latency", latency), ("min_granularity", granularity)]).nr_latency
    };
    // Defaults: 20 ms / 4 ms = 5, 6 ms / 0.75 ms = 8.
    assert_eq!(rules("2.6.24", 250, &[]).nr_latency, 5);
    assert_eq!(rules("5.10", 250, &[]).nr_latency, 8);
    assert_eq!(rules("6.1", 250, &[]).nr_latency, 8);
    // 10 / 3 = 3.33; 9 / 3 = 3; less than one is still one.
    for release in ["2.6.24", "5.10"] {
        assert_eq!(nr_latency(release, "10ms", "3ms"), 4);
        assert_eq!(nr_latency(release, "9ms", "3ms"), 3);
        assert_eq!(nr_latency(release, "1ms", "5ms"), 1);
    }
}

/// From 5.13 on `latency_ns` and `min_granularity_ns` are plain numbers in debugfs: nr_latency stays 8, whatever is written to them.
#[test]
fn nr_latency_is_not_computed_where_the_knobs_are_in_debugfs() {
    let knobs = [("latency", "10ms"), ("min_granularity", "3ms")];
    assert_eq!(rules("6.1", 250, &knobs).nr_latency, 8);
    // So 5 tasks share 10 ms, a fifth of which BASE_SLICE lifts to 3 ms, and 8 do; nice −5 beside four of nice 0 has 3121 of 7217, as 5 ≤ 8: inverse
    // ⌊4294967295 / 7217⌋ = 595118; × 3121 = 1857363278; 10 ms × that / 2^32 = 4324510.9 → 4324510. On 5.10, where 5 > 4, it is that of 15 ms.
    let with_one_heavy = |release| {
        let mut lab = Lab::new(release, &knobs);
        lab.spawn(Policy::Other, -5);
        (0..4).for_each(|_| {
            lab.task();
        });
        lab.schedule(CPU0);
        lab
    };
    with_one_heavy("6.1").assert_slice(CPU0, 4_324_510);
    // 15 ms × 1857363278 / 2^32 = 6486766.4 → 6486766.
    with_one_heavy("5.10").assert_slice(CPU0, 6_486_766);
}

/// 2.6.24: period = latency up to nr_latency tasks, beyond latency × nr / nr_latency; slice = period × weight / load.
#[test]
fn the_first_kernel_stretches_latency_by_nr_over_nr_latency() {
    // 2 of 5 tasks: 20 ms / 2.
    crowd("2.6.24", &[], 2).assert_slice(CPU0, 10 * MS);
    // 5 of 5: 20 ms / 5.
    crowd("2.6.24", &[], 5).assert_slice(CPU0, 4 * MS);
    // 6: 20 ms × 6 / 5 = 24 ms, / 6 = 4 ms; the slice stays from here on.
    crowd("2.6.24", &[], 6).assert_slice(CPU0, 4 * MS);
    crowd("2.6.24", &[], 11).assert_slice(CPU0, 4 * MS);
}

/// With ⌈10 / 3⌉ = 4 the stretched slice is 10 ms / 4 = 2.5 ms: below the granularity, which is 2.6.24's rule and no slip.
#[test]
fn the_first_kernel_s_slices_may_fall_below_the_granularity() {
    let knobs = [("latency", "10ms"), ("min_granularity", "3ms")];
    // 5 tasks: 10 ms × 5 / 4 = 12.5 ms; / 5 = 2.5 ms.
    crowd("2.6.24", &knobs, 5).assert_slice(CPU0, 2_500_000);
}

/// Both divisions of 2.6.24 truncate (`do_div`).
#[test]
fn the_first_kernel_truncates_period_and_slice() {
    let knobs = [("latency", "1000003ns"), ("min_granularity", "300us")];
    // ⌈1000003 / 300000⌉ = 4. 5 tasks: 1000003 × 5 / 4 = 1250003.75 → 1250003; × 1024 / 5120 = 250000.6 → 250000.
    crowd("2.6.24", &knobs, 5).assert_slice(CPU0, 250_000);
    // 3 tasks: 1000003 × 1024 / 3072 = 333334.33 → 333334.
    crowd("2.6.24", &knobs, 3).assert_slice(CPU0, 333_334);
}

/// 5.10 and 6.1: period = latency up to nr_latency tasks; the slice by `__calc_delta` with the load's own inverse.
#[test]
fn later_kernels_divide_latency_by_the_load_s_inverse() {
    for release in ["5.10", "6.1"] {
        // Load 2048: inverse ⌊(2^32 − 1) / 2048⌋ = 2097151; × 1024 = 2147482624; 6 ms × that / 2^32 = 2999998.6 → 2999998.
        crowd(release, &[], 2).assert_slice(CPU0, 2_999_998);
    }
    // Load 8192: inverse 524287; × 1024 = 536869888; 7 ms × that / 2^32 = 874998.3 → 874998.
    crowd("5.10", &[("latency", "7ms")], 8).assert_slice(CPU0, 874_998);
}

/// 5.10 and 6.1: beyond nr_latency = 8 tasks the period is nr × min_granularity.
#[test]
fn later_kernels_stretch_the_period_to_a_granularity_each() {
    // 9 tasks: 9 × 0.75 = 6.75 ms. Load 9216: inverse ⌊4294967295 / 9216⌋ = 466033; × 1024 = 477217792; 6.75 ms × that / 2^32 =
    // 749998.8 → 749998, which BASE_SLICE lifts to 0.75 ms.
    crowd("5.10", &[], 9).assert_slice(CPU0, 750_000);
    // Nice −5 beside eight of nice 0: 3121 of 11313 of 6.75 ms. Inverse ⌊4294967295 / 11313⌋ = 379648; × 3121 = 1184881408;
    // 6.75 ms × that / 2^32 = 1862167.7 → 1862167.
    let mut lab = Lab::new("5.10", &[]);
    lab.spawn(Policy::Other, -5);
    (0..8).for_each(|_| {
        lab.task();
    });
    lab.schedule(CPU0);
    lab.assert_slice(CPU0, 1_862_167);
    // latency 10 ms, granularity 3 ms, 5 tasks > ⌈10/3⌉ = 4: 15 ms, not 12.5 ms, whose part would be 2.5 ms.
    crowd("5.10", &[("latency", "10ms"), ("min_granularity", "3ms")], 5).assert_slice(CPU0, 3_000_000);
}

/// Exactly nr_latency tasks still share a latency; BASE_SLICE gives each a granularity all the same where nr_latency was rounded up.
#[test]
fn the_period_stretches_only_beyond_nr_latency() {
    // ⌈10 / 3⌉ = 4: nice 0 beside three of nice −5 has 1024 of 10387 of 10 ms, lifted to 3 ms; nice −5 has 3121 of 10387. Inverse
    // ⌊4294967295 / 10387⌋ = 413494; × 3121 = 1290514774; 10 ms × that / 2^32 = 3004713.9 → 3004713.
    let mut lab = Lab::new("5.10", &[("latency", "10ms"), ("min_granularity", "3ms")]);
    lab.spawn(Policy::Other, -5);
    lab.spawn(Policy::Other, -5);
    lab.spawn(Policy::Other, -5);
    lab.task();
    lab.schedule(CPU0);
    lab.assert_slice(CPU0, 3_004_713);
    crowd("2.6.24", &[("latency", "10ms"), ("min_granularity", "3ms")], 4).assert_slice(CPU0, 2_500_000);
}

/// BASE_SLICE: a slice is at least the granularity, so the few nanoseconds that truncation takes come back.
#[test]
fn a_slice_is_no_shorter_than_the_granularity() {
    for release in ["5.10", "6.1"] {
        crowd(release, &[], 8).assert_slice(CPU0, 750_000);
        crowd(release, &[], 9).assert_slice(CPU0, 750_000);
    }
}

/// 5.10.37 took ALT_PERIOD and BASE_SLICE over: as recorded, a task of nice 5 beside three of nice 0 runs for 0.75 ms, not for its
/// 6 ms × 335 / 3407 = 0.59 ms.
#[test]
fn base_slice_came_to_5_10_by_a_backport() {
    let light_runs = |release| {
        let mut lab = Lab::new(release, &[]);
        lab.spawn(Policy::Other, 5);
        (0..3).for_each(|_| {
            lab.task();
        });
        lab.schedule(CPU0);
        lab
    };
    for (release, lifted) in [("5.10.36", false), ("5.10.37", true), ("5.10.223", true), ("5.10", true)] {
        assert_eq!(light_runs(release).would_preempt_after(CPU0, 600_000), !lifted, "{release}");
    }
}

/// A light task's slice is its part of the period, 86 us here, but BASE_SLICE lifts it to the granularity.
#[test]
fn a_light_task_s_slice_is_lifted_to_the_granularity() {
    let light_runs = |release| {
        let mut lab = Lab::new(release, &[]);
        lab.spawn(Policy::Other, 19);
        lab.task();
        lab.schedule(CPU0);
        lab
    };
    for release in ["5.10", "6.1"] {
        // Then it goes at once, for its virtual time ran 68 times as fast.
        assert!(!light_runs(release).would_preempt_after(CPU0, 749_999), "{release}");
        assert!(light_runs(release).would_preempt_after(CPU0, 750_000), "{release}");
    }
}

/// 6.1 gives SCHED_IDLE tasks a granularity of their own (0.75 ms) while a task of another policy is there; among themselves the usual one.
#[test]
fn idle_tasks_of_6_1_have_their_own_granularity() {
    let knobs = [("latency", "20ms"), ("min_granularity", "4ms")];
    let idle_runs = |release, other| {
        let mut lab = Lab::new(release, &knobs);
        lab.spawn(Policy::Idle, 0);
        lab.spawn(other, 0);
        lab.schedule(CPU0);
        lab
    };
    // 20 ms × 3 / 1027 = 58 µs, lifted to 0.75 ms.
    idle_runs("6.1", Policy::Batch).assert_slice(CPU0, 750_000);
    // 5.10 has one granularity for all; with it the first is too far ahead at once, for its virtual time runs 341 times as fast.
    assert!(!idle_runs("5.10", Policy::Batch).would_preempt_after(CPU0, 3_999_999));
    assert!(idle_runs("5.10", Policy::Batch).would_preempt_after(CPU0, 4_000_000));
    // Two idle ones: the usual granularity, 4 ms, and then the first is too far ahead, for its virtual time runs 341 times as fast.
    assert!(!idle_runs("6.1", Policy::Idle).would_preempt_after(CPU0, 3_999_999));
    assert!(idle_runs("6.1", Policy::Idle).would_preempt_after(CPU0, 4_000_000));
}

/// The slice follows the weight: nice −5 beside nice 0 has 3121 / 4145 of the period.
#[test]
fn a_slice_is_the_weight_s_part_of_the_period() {
    let heavy_runs = |release| {
        let mut lab = Lab::new(release, &[]);
        lab.spawn(Policy::Other, -5);
        lab.task();
        lab.schedule(CPU0);
        lab
    };
    // 5.10, 6.1: load 4145: inverse ⌊4294967295 / 4145⌋ = 1036180; × 3121 = 3233917780; 6 ms × that / 2^32 = 4517730.9 → 4517730.
    heavy_runs("5.10").assert_slice(CPU0, 4_517_730);
    heavy_runs("6.1").assert_slice(CPU0, 4_517_730);
    // 2.6.24: 20 ms × 3121 / 4145 = 15059107.4 → 15059107.
    heavy_runs("2.6.24").assert_slice(CPU0, 15_059_107);
}
