//! Weights by the number of threads: the factors, and tasks that are re-weighted on and off their queues.

use proptest::prelude::*;
use schedlab_model::{Attributes, Beta, CpuId, Policy, RuleSet, Scheduler, TaskId, TaskState, ThreadWeights, Time};
use schedlab_sched::thread_fairness::{
    FACTOR_ONE, FACTOR_SHIFT, MIN_WEIGHT, factor, factor_fixed, factor_table, weigh,
};
use schedlab_sched::{Clocks, Ours, Rules, Sched, Vruntime, Weight};

const CPU0: CpuId = CpuId(0);
const CPU1: CpuId = CpuId(1);
const RELEASES: [&str; 7] = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

fn rule(text: &str) -> ThreadWeights {
    text.parse().expect("a rule")
}

fn dw_cfs(thousandths: u32) -> ThreadWeights {
    ThreadWeights::DwCfs { beta: Beta::from_thousandths(thousandths).expect("above 1, at most 16"), cpus: None }
}

fn real(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(FACTOR_ONE)
}

/// Figure 4 of the paper, β = 1.1 on four CPUs: c = 1.2, k = 11 · 4 − 12 = 32, so f(n) = 1.1 − |1.2 · 33 / (n + 32) − 1.1|.
#[test]
fn figure_4_of_the_paper() {
    let rule = rule("dw-cfs:beta=1.1");
    let published = [
        // 39.6 / 33 = 1.2: 1.1 − 0.1.
        (1, 1.0),
        // 39.6 / 36 = 1.1: 1.1 − 0.
        (4, 1.1),
        // 39.6 / 40 = 0.99: 1.1 − 0.11.
        (8, 0.99),
    ];
    for (threads, expected) in published {
        assert!((factor(rule, threads, 4) - expected).abs() < 1e-12, "{threads}");
        // The fixed-point form is the nearest multiple of 2⁻²⁰.
        assert_eq!(factor_fixed(rule, threads, 4), (expected * f64::from(FACTOR_ONE)).round() as u32, "{threads}");
    }
}

/// Where the fixed-point form ends up: rounded once, so within half of 2⁻²⁰ of the real value. The real value as computed here has an
/// error of its own: a dozen roundings of at most β · 2⁻⁵³ each, enlarged by what the subtraction from β cancels (k up to some
/// thousands / (β − 1) ≤ 256 · 16 / 0.001 ≈ 2²²): below β 2⁻⁵³ · 2²⁶ < 2⁻²³ even so, and in fact far below.
#[test]
fn the_fixed_point_form_is_within_half_a_unit() {
    let unit = 1.0 / f64::from(1u32 << FACTOR_SHIFT);
    let slack = unit / 2.0 + unit / 8.0;
    for beta in [1001, 1010, 1100, 1250, 1333, 1500, 2000, 3700, 16_000] {
        let rule = dw_cfs(beta);
        for online in 2..=256 {
            let table = factor_table(rule, online, 512);
            for threads in 1..=512u32 {
                let (fixed, float) = (table[threads as usize], factor(rule, threads, online));
                assert_eq!(fixed, factor_fixed(rule, threads, online));
                assert!(
                    (real(fixed) - float).abs() <= slack,
                    "β {beta}, {threads} threads, {online} CPUs: {fixed} {float}"
                );
            }
        }
    }
    for threads in 1..=512 {
        let (fixed, float) = (factor_fixed(ThreadWeights::Pfs, threads, 4), factor(ThreadWeights::Pfs, threads, 4));
        assert!((real(fixed) - float).abs() <= slack, "pfs, {threads} threads: {fixed} {float}");
    }
}

/// Nothing overflows at the ends: the largest β on as many CPUs as a kernel can be built for, and more threads than there can be.
#[test]
fn the_fixed_point_form_holds_at_its_limits() {
    let rule = dw_cfs(Beta::MAX.thousandths());
    assert_eq!(factor_fixed(rule, 1, 8192), FACTOR_ONE);
    assert_eq!(factor_fixed(rule, 8192, 8192), 16 << FACTOR_SHIFT);
    // 31 · 16 · 8191 / (15 · (2³² − 1) + 16 · 8192 − 31) = 4062736 / 64424640482 = 6.306 · 10⁻⁵; · 2²⁰ = 66.1.
    assert_eq!(factor_fixed(rule, u32::MAX, 8192), 66);
    assert_eq!(factor_fixed(ThreadWeights::Pfs, u32::MAX, 1), 0);
}

/// On one CPU DW-CFS is 0/0: it divides by the number of threads as PFS does, and says so.
#[test]
fn one_cpu_has_no_dynamic_weight() {
    let rule = rule("dw-cfs:beta=1.1");
    for threads in 1..100 {
        assert_eq!(factor_fixed(rule, threads, 1), factor_fixed(ThreadWeights::Pfs, threads, 1));
        assert!((factor(rule, threads, 1) - 1.0 / f64::from(threads)).abs() < 1e-15);
    }
    assert!(rule.remark(1).is_some_and(|remark| remark.contains("one CPU")));
    assert_eq!(rule.remark(2), None);
    assert_eq!(ThreadWeights::Pfs.remark(1), None);
}

/// A rule that names its CPUs weighs threads as on a machine that has so many, whatever is on line.
#[test]
fn a_rule_may_name_the_cpus_that_it_goes_by() {
    let (named, plain) = (rule("dw-cfs:beta=1.1:cpus=4"), rule("dw-cfs:beta=1.1"));
    for online in [1, 2, 64] {
        for threads in 1..100 {
            assert_eq!(factor_fixed(named, threads, online), factor_fixed(plain, threads, 4));
            assert_eq!(factor(named, threads, online).to_bits(), factor(plain, threads, 4).to_bits());
        }
        assert_eq!(named.remark(online), None);
    }
    assert!(rule("dw-cfs:beta=1.1:cpus=1").remark(4).is_some());
}

/// MIN_SHARES is 2: with ten more bits 2048. 15 (nice 19) over 100 threads would be 0.15.
#[test]
fn no_weight_falls_below_the_kernel_s_least() {
    let nineteen = |rules: &RuleSet| schedlab_sched::weight_of_nice(rules, Policy::Other, 19);
    for release in RELEASES {
        let rules = RuleSet::of(release.parse().expect("a release"));
        let least = if release == "2.6.24" { MIN_WEIGHT } else { MIN_WEIGHT << 10 };
        let weight = weigh(&rules, nineteen(&rules), factor_fixed(ThreadWeights::Pfs, 100, 1));
        assert_eq!(weight, Weight { scaled: least, inverse: 0 });
    }
}

proptest! {
    /// f(1) = 1 exactly, up to β at as many threads as CPUs, then down; never above β, never negative, and towards zero: beyond No it
    /// is r = (2β − 1) β (No − 1) / ((β − 1) Nt + …) < (2β − 1) β No / ((β − 1) Nt).
    #[test]
    fn the_factor_rises_to_beta_and_falls_after(beta in 1001u32..=16_000, online in 2u32..=1024, threads in 1u32..=5000) {
        let rule = dw_cfs(beta);
        prop_assert_eq!(factor_fixed(rule, 1, online), FACTOR_ONE);
        prop_assert!((factor(rule, 1, online) - 1.0).abs() < 1e-6);
        let most = factor_fixed(rule, online, online);
        prop_assert!((real(most) - f64::from(beta) / 1000.0).abs() <= 0.5 / f64::from(FACTOR_ONE));
        let (now, next) = (factor_fixed(rule, threads, online), factor_fixed(rule, threads + 1, online));
        if threads < online {
            prop_assert!(now <= next && factor(rule, threads, online) < factor(rule, threads + 1, online));
        } else {
            prop_assert!(now >= next && factor(rule, threads, online) > factor(rule, threads + 1, online));
        }
        prop_assert!(now <= most);
        let beta = f64::from(beta) / 1000.0;
        let bound = (2.0 * beta - 1.0) * beta * f64::from(online) / ((beta - 1.0) * f64::from(threads));
        prop_assert!(threads <= online || factor(rule, threads, online) < bound);
    }
}

struct Machine {
    sched: Sched<Ours>,
    now: u64,
    cpus: u32,
}

impl Machine {
    fn new(release: &str, weights: &str, cpus: u32) -> Self {
        let mut scheduler = Scheduler::new(release.parse().expect("a release"));
        scheduler.weights = rule(weights);
        let rules = Rules::new(&scheduler, cpus).expect("rules");
        let mut machine = Self { sched: Sched::new(rules, cpus, Ours::default()), now: 1_000_000_000, cpus };
        machine.sync();
        machine
    }

    fn sync(&mut self) {
        for cpu in 0..self.cpus {
            self.sched.set_clocks(CpuId(cpu), Clocks::all(Time::from_nanos(self.now)));
        }
    }

    fn advance(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        self.sync();
    }

    fn spawn(&mut self, nice: i8, cpu: CpuId) -> TaskId {
        let task = self.sched.new_task(&Attributes { nice, ..Attributes::default() });
        self.sched.wake_up_new_task(task, cpu);
        task
    }

    fn fork(&mut self, parent: TaskId, same_process: bool, cpu: CpuId) -> TaskId {
        let child = self.sched.sched_fork(parent, same_process);
        self.sched.wake_up_new_task(child, cpu);
        child
    }

    /// Every thread of the task's process gets its weight.
    fn follow(&mut self, task: TaskId) {
        let mut next = self.sched.first_thread(task);
        while let Some(thread) = next {
            self.sched.reweight_task(thread);
            next = self.sched.next_thread(thread);
        }
    }

    fn weight(&self, task: TaskId) -> u64 {
        let scaled = self.sched.entity(task).weight;
        if self.sched.rules().wide_weights { scaled >> 10 } else { scaled }
    }

    fn queue_weight(&self, cpu: CpuId) -> u64 {
        let scaled = self.sched.cfs_rq(cpu).load.scaled;
        if self.sched.rules().wide_weights { scaled >> 10 } else { scaled }
    }
}

/// 1024 alone; 1024 / 2 = 512 and 1024 / 4 = 256 as threads come; back as they end. A process of its own has its own weight.
#[test]
fn weights_follow_threads_that_come_and_end() {
    for release in RELEASES {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        assert_eq!(machine.sched.schedule(CPU0, TaskState::Running).next, first);
        let second = machine.fork(first, true, CPU1);
        machine.follow(first);
        assert_eq!((machine.weight(first), machine.weight(second)), (512, 512), "{release}");
        let third = machine.fork(second, true, CPU0);
        let fourth = machine.fork(first, true, CPU1);
        let other = machine.fork(first, false, CPU1);
        machine.follow(first);
        for thread in [first, second, third, fourth] {
            assert_eq!((machine.weight(thread), machine.sched.nr_threads(thread)), (256, 4), "{release}");
        }
        assert_eq!((machine.weight(other), machine.sched.nr_threads(other)), (1024, 1), "{release}");
        // The queues' sums are of what is on them: two threads here, two and the other process there.
        assert_eq!((machine.queue_weight(CPU0), machine.queue_weight(CPU1)), (512, 512 + 1024), "{release}");

        machine.advance(1_000_000);
        machine.sched.schedule(CPU0, TaskState::Dead);
        assert_eq!(machine.sched.nr_threads(second), 3);
        assert_eq!(machine.sched.first_thread(first), Some(second), "{release}: the first has ended");
        machine.follow(second);
        // 1024 / 3 = 341.33: of 2.6.24's whole numbers the nearest is 341; later 349525 / 1024, shown in whole ones too.
        for thread in [second, third, fourth] {
            assert_eq!(machine.weight(thread), 341, "{release}");
        }
    }
}

/// DW-CFS with β = 1.1 of four threads: f(4, 4) = 1.1 and 1024 · 1.1 = 1126.4; with two CPUs left, k = 22 − 12 = 10 and
/// f(4, 2) = 1.2 · 11 / 14 = 0.942857, so 965.49; with one 1 / 4: 256; with four again as at first.
#[test]
fn weights_follow_cpus_that_go_off_line_and_come_back() {
    for release in RELEASES {
        let mut machine = Machine::new(release, "dw-cfs:beta=1.1", 4);
        let first = machine.spawn(0, CPU0);
        machine.sched.schedule(CPU0, TaskState::Running);
        let asleep = machine.fork(first, true, CPU1);
        machine.sched.schedule(CPU1, TaskState::Running);
        machine.sched.schedule(CPU1, TaskState::Interruptible);
        let (third, fourth) = (machine.fork(first, true, CPU0), machine.fork(first, true, CPU1));
        let nice = machine.spawn(5, CPU1);
        machine.follow(first);
        for (online, expected) in [(4, 1126), (2, 965), (1, 256), (4, 1126)] {
            machine.sched.set_online_cpus(online);
            for thread in [first, asleep, third, fourth] {
                assert_eq!(machine.weight(thread), expected, "{release} {online}");
            }
            // One thread alone has factor 1 on any number of CPUs: nice 5 stays 335, with the table's own inverse. 7.3 divides by what a task weighs
            // in its timeline, and has no inverse of it (`update_load_set`).
            let inverse = if release == "7.3" { 0 } else { 12_820_798 };
            assert_eq!((machine.weight(nice), machine.sched.entity(nice).load.inverse), (335, inverse), "{release}");
        }
    }
}

/// A nice level is looked up in the table and then multiplied: nice 5 is 335, halved 167.5 (2.6.24 rounds to nearest, up).
#[test]
fn nice_levels_and_threads_go_together() {
    for (release, expected) in [("2.6.24", 168), ("6.1", 167), ("6.12", 167)] {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        let second = machine.fork(first, true, CPU1);
        machine.follow(first);
        machine.sched.set_user_nice(second, 5);
        assert_eq!((machine.weight(first), machine.weight(second)), (512, expected), "{release}");
        machine.sched.set_user_nice(second, 0);
        assert_eq!(machine.weight(second), 512, "{release}");
        // SCHED_IDLE weighs 3 (2 in 2.6.24) whatever the number of threads.
        machine.sched.sched_setattr(second, &Attributes { policy: Policy::Idle, ..Attributes::default() });
        assert_eq!(machine.weight(second), if release == "2.6.24" { 2 } else { 3 }, "{release}");
    }
}

/// CFS re-weights where the entity stands: time until now counts by the old weight, time from now on by the new one.
#[test]
fn cfs_charges_by_the_weight_that_held() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        machine.sched.schedule(CPU0, TaskState::Running);
        let start = machine.sched.entity(first).vruntime;
        machine.advance(1_000_000);
        machine.fork(first, true, CPU1);
        machine.follow(first);
        machine.advance(1_000_000);
        machine.sched.update_curr(CPU0);
        // 1 ms at weight 1024, then 1 ms at 512, which is 2 ms of virtual time. The inverse 2³² / 512 is exact in 2.6.24 and one
        // short of 2²³ later (it divides 2³² − 1): then 1 ms · 1024 · 8388607 / 2³² = 1999999.8, truncated.
        let late = if release == "2.6.24" { 2_000_000 } else { 1_999_999 };
        assert_eq!(machine.sched.entity(first).vruntime.since(start), 1_000_000 + late, "{release}");
    }
}

/// EEVDF keeps lag in real time and the rest of the request: both distances from V double as the weight halves.
#[test]
fn eevdf_keeps_lag_and_request() {
    for release in ["6.12", "6.18", "7.2", "7.3"] {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        let other = machine.spawn(0, CPU0);
        let runs = machine.sched.schedule(CPU0, TaskState::Running).next;
        assert_eq!(runs, first, "{release}");
        // After 1 ms the running one is 1 ms on, the other where it was: V is halfway, their lags are −0.5 ms and +0.5 ms.
        machine.advance(1_000_000);
        machine.sched.update_curr(CPU0);
        let (one, two) = (machine.sched.entity(first).clone(), machine.sched.entity(other).clone());
        assert_eq!(one.vruntime.since(two.vruntime), 1_000_000);
        let average = two.vruntime.plus(500_000);
        machine.fork(other, true, CPU1);
        machine.follow(other);
        let after = machine.sched.entity(other);
        // V − v' = (V − v) · 1024 / 512.
        assert_eq!(average.since(after.vruntime), 1_000_000, "{release}");
        if release != "6.18" {
            // d' = V + (d − V) · 1024 / 512.
            assert_eq!(after.deadline.since(average), 2 * two.deadline.since(average), "{release}");
        }
        // And the running one, which was left alone.
        let same = machine.sched.entity(first);
        assert_eq!((same.vruntime, same.deadline), (one.vruntime, one.deadline), "{release}");
    }
}

/// 6.18 places the entity anew (`place_entity`). A waiting one with lag 0.5 ms beside one of weight 1024 whose weight halves: its
/// lag becomes 1 ms, inflated by (1024 + 512) / 1024 to 1.5 ms before V of those that are left, which is the running one's v.
#[test]
fn from_6_13_a_reweighted_entity_is_placed_anew() {
    let mut machine = Machine::new("6.18", "pfs", 2);
    let first = machine.spawn(0, CPU0);
    let other = machine.spawn(0, CPU0);
    assert_eq!(machine.sched.schedule(CPU0, TaskState::Running).next, first);
    machine.advance(1_000_000);
    machine.sched.update_curr(CPU0);
    let (one, two) = (machine.sched.entity(first).clone(), machine.sched.entity(other).clone());
    assert_eq!(one.vruntime.since(two.vruntime), 1_000_000);
    machine.fork(other, true, CPU1);
    machine.follow(other);
    let after = machine.sched.entity(other);
    assert_eq!(one.vruntime.since(after.vruntime), 1_500_000);
    // The rest of its request is as long in real time: twice as long in virtual time.
    assert_eq!(after.deadline.since(after.vruntime), 2 * two.deadline.since(two.vruntime));
}

/// A sleeper's lag is scaled where it sleeps, so that weight × lag stays.
#[test]
fn a_sleeper_keeps_its_lag_in_real_time() {
    for release in ["6.12", "6.18", "7.2", "7.3"] {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        let other = machine.spawn(0, CPU0);
        assert_eq!(machine.sched.schedule(CPU0, TaskState::Running).next, first);
        // The other one is owed and goes to sleep as soon as it runs: its lag is positive, so its dequeue is not delayed.
        machine.advance(2_000_000);
        machine.sched.sched_tick(CPU0);
        machine.advance(2_000_000);
        machine.sched.sched_tick(CPU0);
        assert_eq!(machine.sched.schedule(CPU0, TaskState::Running).next, other, "{release}");
        machine.sched.schedule(CPU0, TaskState::Interruptible);
        let lag = machine.sched.entity(other).vlag;
        assert!(lag > 0, "{release}: {lag}");
        machine.fork(first, false, CPU1);
        let thread = machine.sched.sched_fork(other, true);
        machine.follow(other);
        if release == "7.3" {
            // There as it is queued.
            assert_eq!(machine.sched.entity(other).vlag, lag, "{release}");
            machine.sched.try_to_wake_up(other, CPU0);
        }
        assert_eq!(machine.sched.entity(other).vlag, 2 * lag, "{release}");
        assert_eq!(machine.weight(thread), 512, "{release}");
    }
}

/// The running task's slice stays protected for as long in real time: as the weight halves, what is left of its protection doubles, on 7.2 by its
/// distance from V. On 6.18 the lag overwrites the end of protection, and what that leaves, ahead of a virtual time below 0, doubles. 6.12
/// protects while the deadline is that of the pick, which it is no more.
#[test]
fn protection_follows_the_weight() {
    for release in ["6.12", "6.18", "7.2", "7.3"] {
        let mut machine = Machine::new(release, "pfs", 2);
        let first = machine.spawn(0, CPU0);
        let other = machine.spawn(0, CPU0);
        assert_eq!(machine.sched.schedule(CPU0, TaskState::Running).next, first);
        machine.advance(200_000);
        machine.sched.update_curr(CPU0);
        let before = machine.sched.entity(first).clone();
        // Two of equal weight: V is halfway between them.
        let average = machine.sched.entity(other).vruntime.plus(100_000);
        machine.fork(first, true, CPU1);
        machine.follow(first);
        let after = machine.sched.entity(first);
        assert_eq!(after.load.scaled, 512 << 10);
        if release == "6.12" {
            assert_eq!(before.vprot, before.deadline);
            assert_eq!(after.vprot, before.vprot);
            assert_ne!(after.vprot, after.deadline);
            assert_eq!(after.vruntime.since(average), 2 * 100_000);
        } else if release.starts_with("7.") {
            assert_eq!(after.vprot.since(average), 2 * before.vprot.since(average));
        } else {
            let lag = Vruntime(average.since(before.vruntime) as u64);
            assert_eq!(after.vprot.since(after.vruntime), 2 * lag.since(before.vruntime));
        }
    }
}
