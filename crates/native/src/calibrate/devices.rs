//! What memory and the disk take, as the simulator charges them.

use std::collections::BTreeMap;

use schedlab_model::{Access, Costs, Time};
use schedlab_program::Memory;

use super::bench::timed;
use super::disk::{LARGE, SMALL};
use super::stats::{Samples, Spread};
use crate::memory::Stretch;

/// Bytes that are touched: more than the caches of most machines hold for one CPU.
const STRETCH: u64 = 16 << 20;

/// Bytes from one pointer to the next: two cache lines, which some machines fetch together.
const STRIDE: u32 = 128;

/// Pointers that are followed in a batch; KiB are all of the stretch.
const FOLLOWED: u64 = 1 << 14;

/// Batches of each kind. They are long: a translated guest takes a second for all.
const BATCHES: usize = 5;

/// Measures memory as `memrun` touches it: KiB one after the other, written and read by turns, and pointers in no order.
pub(crate) fn memory(samples: &mut Samples) {
    for (name, access) in [
        ("memory_write_of_1_kib", Access::Write),
        ("memory_read_of_1_kib", Access::Read),
        ("memory_chase", Access::ChaseRandom),
    ] {
        let chases = access.chases();
        let memory = Memory { access, bytes: STRETCH, stride: if chases { STRIDE } else { 0 }, shared: None };
        let mut stretch = Stretch::prepare(&memory, None);
        let (count, units) = if chases { (FOLLOWED, FOLLOWED) } else { (STRETCH, STRETCH / 1024) };
        let batches = (0..BATCHES).map(|_| timed(1, || stretch.touch(access, count)) / units as f64);
        samples.add(name, batches.collect());
    }
}

/// What [`schedlab_model::Devices`] has fields for, by their names: those that were measured.
///
/// An access of the simulated disk costs its task CPU time, beyond the system call and copying; then its latency, and a time for each
/// KiB: the straight line through what a small and a large access were waited for. A wait ends with a wake-up and a pass of the scheduler,
/// which are `costs` of their own. The disk knows no difference between reads and writes, so each is the mean of the two.
pub(crate) fn devices(
    measured: &BTreeMap<String, Spread>,
    costs: &Costs,
    notes: &mut Vec<String>,
) -> BTreeMap<&'static str, Time> {
    let mean = |names: [&str; 2]| {
        let found: Vec<_> = names.iter().filter_map(|name| Some((*measured.get(*name)?, 1.0))).collect();
        (found.len() == 2).then(|| Spread::mean(&found)).flatten()
    };
    let mut devices = BTreeMap::new();
    let per_kib = mean(["memory_write_of_1_kib", "memory_read_of_1_kib"]);
    devices.extend(per_kib.map(|spread| ("memory_per_kib", spread.time())));
    devices.extend(measured.get("memory_chase").map(|spread| ("memory_chase", spread.time())));
    let ns = |time: Time| time.as_nanos() as f64;
    let of = |size: &str, end: &str| {
        mean(["write", "read"].map(|verb| format!("disk_{verb}_of_{size}{end}")).each_ref().map(String::as_str))
    };
    let [small, large] = ["4_kib", "1_mib"].map(|size| Some((of(size, "")?, of(size, "_cpu")?)));
    if let (Some((small, busy)), Some((large, busy_long))) = (small, large) {
        let [small_kib, large_kib] = [SMALL, LARGE].map(|bytes| bytes as f64 / 1024.0);
        let flush = Flush::of(measured, costs);
        // One of the two, the write, ends with a flush.
        let small = small.less(flush.total() / 2.0);
        let busy = busy.less(flush.cpu / 2.0);
        let [waited, waited_long] =
            [small.less(busy.median_ns), large.less(flush.total() / 2.0 + busy_long.median_ns - flush.cpu / 2.0)];
        let per_kib = waited_long.less(waited.median_ns).times(1.0 / (large_kib - small_kib));
        let latency = waited.less(per_kib.median_ns.max(0.0) * small_kib + ns(costs.wakeup) + ns(costs.schedule));
        let access = busy.less(ns(costs.system_call) + ns(costs.copy_per_kib) * small_kib);
        for (name, spread) in [("disk_access", access), ("disk_per_kib", per_kib), ("disk_latency", latency)] {
            if spread.median_ns < 0.0 {
                notes.push(format!("{name}: {:.0} ns, taken as zero", spread.median_ns));
            }
            devices.insert(name, spread.time());
        }
        let handing = handing_over(measured, &flush);
        if handing > 0.0 {
            devices.insert("dispatch", Time::from_nanos((handing - ns(costs.switch)).max(0.0).round() as u64));
            devices.insert("disk_latency", latency.less(handing + ns(costs.schedule)).time());
        }
        devices.extend(flush.devices(costs));
        let interrupt = measured.get("disk_interrupt").filter(|spread| spread.median_ns >= LEAST_COMPLETION);
        devices.extend(interrupt.map(|spread| ("disk_interrupt", spread.time())));
        devices.extend(completions(measured, &flush, costs, handing).unwrap_or_default());
        let table = devices.get("completion_access").map_or(access.median_ns.max(0.0), |time| ns(*time));
        devices.extend(first_synchronous_writes(measured, &flush, costs, table).unwrap_or_default());
    }
    devices
}

/// The CPU time that a kernel thread takes to hand an access over, in nanoseconds: all that threads take for a synchronous overwrite, for which there is
/// nothing else to do but its flush. Zero where the task that asks hands it over.
fn handing_over(measured: &BTreeMap<String, Spread>, flush: &Flush) -> f64 {
    let thread = measured.get("sync_overwrite_completion").map_or(0.0, |spread| spread.median_ns - flush.thread);
    if thread >= LEAST_COMPLETION { thread } else { 0.0 }
}

/// A flush of the disk's write cache, with which every synchronous write ends: all zero where there is no such cache, so that none is waited for.
#[derive(Default)]
struct Flush {
    /// CPU time of its task, of the kernel's thread that hands it to the disk, and for how long both wait for the disk.
    cpu: f64,
    thread: f64,
    waited: f64,
    /// How often the thread runs.
    runs: f64,
}

impl Flush {
    /// What was measured of one.
    fn of(measured: &BTreeMap<String, Spread>, costs: &Costs) -> Self {
        let of = |end: &str| measured.get(&format!("disk_flush{end}")).map(|spread| spread.median_ns);
        let [Some(time), Some(cpu), Some(thread), Some(runs)] = ["", "_cpu", "_completion", "_runs"].map(of) else {
            return Self::default();
        };
        let flush = Self { cpu, thread, waited: time - cpu - thread, runs };
        if flush.latency(costs) < LEAST_FLUSH { Self::default() } else { flush }
    }

    /// From when the disk has it until it has done it: a wait ends with a wake-up and a pass of the scheduler.
    fn latency(&self, costs: &Costs) -> f64 {
        self.waited - costs.wakeup.as_nanos() as f64 - costs.schedule.as_nanos() as f64
    }

    fn total(&self) -> f64 {
        self.cpu + self.thread + self.waited
    }

    /// The fields of [`schedlab_model::Devices`], if there are flushes.
    fn devices(&self, costs: &Costs) -> BTreeMap<&'static str, Time> {
        if self.waited == 0.0 {
            return BTreeMap::new();
        }
        let ns = |time: Time| time.as_nanos() as f64;
        let exactly = |ns: f64| Time::from_nanos(ns.max(0.0).round() as u64);
        let mut devices = BTreeMap::from([
            ("flush", exactly(self.cpu - ns(costs.system_call))),
            ("flush_latency", exactly(self.latency(costs))),
        ]);
        if self.thread >= LEAST_COMPLETION {
            devices.insert("flush_dispatch", exactly(self.thread - self.runs * ns(costs.switch)));
        }
        devices
    }
}

/// Nanoseconds below which nothing of the disk's was waited for.
const LEAST_FLUSH: f64 = 2_000.0;

/// What kernel threads take that complete writes which tasks begin; nothing where no thread does.
///
/// A block's first write is waited for longer than another one's, by as many accesses of the disk as the thread waits for. Its further CPU time is that
/// of one step more than there are accesses, the change of the block itself, which are taken to be alike. The thread's CPU time contains a switch as it
/// begins, the wake-up of the task, and what another thread takes to hand each access over; an access is taken with the switch after it, as a task's is.
/// Both kinds of writes end with a flush.
fn completions(
    measured: &BTreeMap<String, Spread>,
    flush: &Flush,
    costs: &Costs,
    handing: f64,
) -> Option<BTreeMap<&'static str, Time>> {
    let ns = |time: Time| time.as_nanos() as f64;
    let of = |name: &str| Some(["", "_cpu", "_completion"].map(|end| measured.get(&format!("{name}{end}")).copied()));
    let [Some(time), Some(cpu), Some(first)] = of("begun_write")? else { return None };
    let [Some(time_again), Some(cpu_again), Some(again)] = of("begun_overwrite")? else { return None };
    if again.median_ns - handing < LEAST_COMPLETION + flush.thread {
        return None;
    }
    // There is a thread, however little it does beside the flush.
    let alone = again.median_ns - handing - flush.cpu - flush.thread - ns(costs.switch) - ns(costs.wakeup);
    let again_alone = again.less(again.median_ns - alone.max(LEAST_COMPLETION));
    let waited = |time: Spread, cpu: Spread, completion: Spread| {
        time.median_ns - cpu.median_ns - completion.median_ns - flush.waited
    };
    let accesses = (waited(time, cpu, first) / waited(time_again, cpu_again, again)).round() - 1.0;
    let accesses = accesses.max(1.0);
    let step = first.less(again.median_ns + accesses * handing).times(1.0 / (accesses + 1.0));
    Some(BTreeMap::from([
        ("begun_write", cpu_again.less(ns(costs.system_call)).time()),
        ("first_write", cpu.less(cpu_again.median_ns).time()),
        ("completion", again_alone.time()),
        ("first_completion", step.time()),
        ("completion_access", step.time()),
    ]))
}

/// What a block's first synchronous write takes beyond an overwrite, and the kernel thread that ends its writeback, where one does.
///
/// The first write is waited for longer than an overwrite by as many accesses of the disk as it takes more, each of which costs the task what any access
/// does. The thread's CPU time contains a switch each time it ran, a pass of the scheduler where it was preempted by the task that it woke, and that
/// wake-up.
fn first_synchronous_writes(
    measured: &BTreeMap<String, Spread>,
    flush: &Flush,
    costs: &Costs,
    access: f64,
) -> Option<BTreeMap<&'static str, Time>> {
    let of =
        |name: &str| ["", "_cpu", "_completion", "_runs"].map(|end| measured.get(&format!("{name}{end}")).copied());
    let [Some(time), Some(cpu), Some(thread), Some(runs)] = of("sync_write") else { return None };
    let [Some(time_again), Some(cpu_again), Some(thread_again), Some(runs_again)] = of("sync_overwrite") else {
        return None;
    };
    let waited =
        |time: Spread, cpu: Spread, thread: Spread| time.median_ns - cpu.median_ns - thread.median_ns - flush.waited;
    let accesses = (waited(time, cpu, thread) / waited(time_again, cpu_again, thread_again)).round() - 1.0;
    let first = cpu.less(cpu_again.median_ns + accesses.max(0.0) * access);
    let mut devices = BTreeMap::from([("first_sync_write", first.time())]);
    let thread = thread.less(thread_again.median_ns);
    // A thread that hands accesses over may take more for a first write's.
    let another = thread_again.median_ns < LEAST_COMPLETION || runs.median_ns > runs_again.median_ns;
    if thread.median_ns >= LEAST_COMPLETION && another {
        let runs = (runs.median_ns - runs_again.median_ns).max(1.0);
        let ns = |time: Time| time.as_nanos() as f64;
        let switches = runs * ns(costs.switch) + (runs - 1.0) * ns(costs.schedule);
        devices.insert("first_writeback", thread.less(switches + ns(costs.wakeup)).time());
    }
    Some(devices)
}

/// Nanoseconds of CPU time below which no kernel thread takes part in a write, and no interrupt was seen.
const LEAST_COMPLETION: f64 = 500.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(times: &[(&str, f64)]) -> BTreeMap<String, Spread> {
        let exactly = |ns: f64| Spread { median_ns: ns, p25_ns: ns, p75_ns: ns, samples: 1 };
        times.iter().map(|(name, ns)| ((*name).to_owned(), exactly(*ns))).collect()
    }

    /// Times of a small and a large read and write, of which so much is CPU time.
    fn of_disk(times: [f64; 4], cpu: [f64; 4]) -> BTreeMap<String, Spread> {
        let names = ["read_of_4_kib", "write_of_4_kib", "read_of_1_mib", "write_of_1_mib"];
        let mut all = BTreeMap::new();
        for ((name, time), cpu) in names.iter().zip(times).zip(cpu) {
            all.extend(measured(&[(&format!("disk_{name}"), time), (&format!("disk_{name}_cpu"), cpu)]));
        }
        all
    }

    #[test]
    fn a_disk_s_work_latency_and_bandwidth_are_found_again() {
        // Waited for are 100 µs and 2 µs a KiB to read, 300 µs and 4 µs to write: 108 and 316 µs for 4 KiB, 2,148 and 4,396 µs for
        // 1024. The one disk of the simulator has their means, 200 µs and 3 µs, the first less a wake-up (7 µs) and a pass of the
        // scheduler (1 µs). Of the CPU a small access takes 40 and 60 µs, of which a system call is 2 and copying 4 KiB 4 × 3.
        let waits = [108_000.0, 316_000.0, 2_148_000.0, 4_396_000.0];
        let cpu = [40_000.0, 60_000.0, 500_000.0, 700_000.0];
        let times = [0, 1, 2, 3].map(|kind| waits[kind] + cpu[kind]);
        let micros = Time::from_micros;
        let (wakeup, schedule, system_call, copy_per_kib) = (micros(7), micros(1), micros(2), micros(3));
        let costs = Costs { wakeup, schedule, system_call, copy_per_kib, ..Costs::ideal() };
        let mut all = of_disk(times, cpu);
        all.extend(measured(&[
            ("memory_write_of_1_kib", 80.0),
            ("memory_read_of_1_kib", 40.0),
            ("memory_chase", 95.0),
        ]));
        let mut notes = Vec::new();
        let expected = [
            ("disk_access", micros(50 - 2 - 12)),
            ("disk_latency", micros(200 - 7 - 1)),
            ("disk_per_kib", micros(3)),
            ("memory_chase", Time::from_nanos(95)),
            ("memory_per_kib", Time::from_nanos(60)),
        ];
        assert_eq!(devices(&all, &costs, &mut notes), BTreeMap::from(expected));
        assert!(notes.is_empty(), "{notes:?}");
        // A thread that hands each access over takes 10 µs, of which a switch is 3, before the disk begins, and a pass (1) brings it on.
        all.extend(measured(&[("sync_overwrite_completion", 10_000.0)]));
        let found = devices(&all, &Costs { switch: micros(3), ..costs }, &mut notes);
        assert_eq!(["dispatch", "disk_latency"].map(|name| found[name]), [micros(7), micros(200 - 7 - 1 - 11)]);
    }

    #[test]
    fn a_first_write_takes_a_step_more_than_the_disk_s_accesses_that_its_completion_waits_for() {
        // An overwrite takes its task 30 µs, the thread 20 and the disk 100; a first write 70, 74 and three times 100, two of which the thread
        // asked for: 54 µs more in three steps. Of the task's 30 µs a system call takes 2, of the thread's 20 a switch 3 and a wake-up 4.
        let begun = [
            ("begun_overwrite", 150_000.0),
            ("begun_overwrite_cpu", 30_000.0),
            ("begun_overwrite_completion", 20_000.0),
            ("begun_write", 444_000.0),
            ("begun_write_cpu", 70_000.0),
            ("begun_write_completion", 74_000.0),
        ];
        let micros = Time::from_micros;
        let costs = Costs { system_call: micros(2), switch: micros(3), wakeup: micros(4), ..Costs::ideal() };
        let expected = BTreeMap::from([
            ("begun_write", micros(28)),
            ("first_write", micros(40)),
            ("completion", micros(13)),
            ("first_completion", micros(18)),
            ("completion_access", micros(18)),
        ]);
        assert_eq!(completions(&measured(&begun), &Flush::default(), &costs, 0.0), Some(expected));
        // With one access it is 54 µs in two steps.
        let mut fewer = measured(&begun);
        fewer.extend(measured(&[("begun_write", 344_000.0)]));
        let found = completions(&fewer, &Flush::default(), &costs, 0.0).unwrap();
        assert_eq!([found["first_completion"], found["completion_access"]], [micros(27); 2]);
        // Where a thread takes 7 µs to hand each access over, they are 47 µs, and the completion 7 less.
        let found = completions(&fewer, &Flush::default(), &costs, 7_000.0).unwrap();
        assert_eq!(["first_completion", "completion"].map(|name| found[name]), [Time::from_nanos(23_500), micros(6)]);
        // No thread takes part.
        fewer.extend(measured(&[("begun_overwrite_completion", 100.0)]));
        assert_eq!(completions(&fewer, &Flush::default(), &costs, 0.0), None);
        assert_eq!(completions(&measured(&begun[..5]), &Flush::default(), &costs, 0.0), None);
    }

    #[test]
    fn a_first_synchronous_write_costs_what_its_further_accesses_and_its_thread_s_switches_do_not() {
        // An overwrite takes its task 50 µs and the disk 100. A first write has one access more, for which the task pays 36 µs, and takes it 20 µs
        // beyond: 106; the thread 25 µs, beside two switches of 4, a pass of 1 in between and a wake-up of 7: 41; and the disk twice 100.
        let micros = Time::from_micros;
        let costs = Costs { switch: micros(4), schedule: micros(1), wakeup: micros(7), ..Costs::ideal() };
        let written = [
            ("sync_overwrite", 150_000.0),
            ("sync_overwrite_cpu", 50_000.0),
            ("sync_overwrite_completion", 0.0),
            ("sync_overwrite_runs", 0.0),
            ("sync_write", 347_000.0),
            ("sync_write_cpu", 106_000.0),
            ("sync_write_completion", 41_000.0),
            ("sync_write_runs", 2.0),
        ];
        let expected = BTreeMap::from([("first_sync_write", micros(20)), ("first_writeback", micros(25))]);
        assert_eq!(first_synchronous_writes(&measured(&written), &Flush::default(), &costs, 36_000.0), Some(expected));
        // Without the thread the disk's interrupt ends the writeback; without a further access the task pays for none.
        let mut alone = measured(&written);
        alone.extend(measured(&[
            ("sync_write", 170_000.0),
            ("sync_write_cpu", 70_000.0),
            ("sync_write_completion", 0.0),
        ]));
        let expected = BTreeMap::from([("first_sync_write", micros(20))]);
        assert_eq!(first_synchronous_writes(&alone, &Flush::default(), &costs, 36_000.0), Some(expected));
        assert_eq!(first_synchronous_writes(&measured(&written[..7]), &Flush::default(), &costs, 36_000.0), None);
        // A thread that runs for an overwrite, too, and no more often for a first write, hands accesses over: none ends the writeback.
        let mut hands = measured(&written);
        hands.extend(measured(&[("sync_overwrite_completion", 20_000.0), ("sync_overwrite_runs", 2.0)]));
        assert!(
            !first_synchronous_writes(&hands, &Flush::default(), &costs, 36_000.0)
                .unwrap()
                .contains_key("first_writeback")
        );
    }

    #[test]
    fn writes_and_the_flush_that_ends_them_are_told_apart() {
        // As in `a_disk_s_work_latency_and_bandwidth_are_found_again`, but each write ends with a flush: 5 µs of its task, 14 of the kernel's thread,
        // of which a switch is 4, and 64 of waiting, of which a wake-up is 7 and a pass 1. All else is found as without it.
        let waits = [108_000.0, 316_000.0, 2_148_000.0, 4_396_000.0];
        let cpu = [40_000.0, 60_000.0, 500_000.0, 700_000.0];
        let flush = [0.0, 5_000.0, 0.0, 5_000.0];
        let off = [0.0, 78_000.0, 0.0, 78_000.0];
        let times = [0, 1, 2, 3].map(|kind| waits[kind] + cpu[kind] + flush[kind] + off[kind]);
        let mut all = of_disk(times, [0, 1, 2, 3].map(|kind| cpu[kind] + flush[kind]));
        let micros = Time::from_micros;
        let (wakeup, schedule, system_call, switch) = (micros(7), micros(1), micros(2), micros(4));
        let costs = Costs { wakeup, schedule, system_call, switch, ..Costs::ideal() };
        let mut notes = Vec::new();
        let flushed = [("", 83_000.0), ("_cpu", 5_000.0), ("_completion", 14_000.0), ("_runs", 1.0)];
        all.extend(flushed.map(|(end, value)| (format!("disk_flush{end}"), measured(&[("", value)])[""])));
        let expected = BTreeMap::from([
            ("disk_access", micros(50 - 2)),
            ("disk_latency", micros(200 - 7 - 1)),
            ("disk_per_kib", micros(3)),
            ("flush", micros(5 - 2)),
            ("flush_dispatch", micros(14 - 4)),
            ("flush_latency", micros(64 - 7 - 1)),
        ]);
        assert_eq!(devices(&all, &costs, &mut notes), expected);
        // A disk without a write cache has nothing to flush: the call returns at once.
        let mut without = of_disk([0, 1, 2, 3].map(|kind| waits[kind] + cpu[kind]), cpu);
        let at_once = [("", 5_400.0), ("_cpu", 5_000.0), ("_completion", 0.0), ("_runs", 0.0)];
        without.extend(at_once.map(|(end, value)| (format!("disk_flush{end}"), measured(&[("", value)])[""])));
        let expected: BTreeMap<_, _> = expected.into_iter().filter(|(name, _)| !name.starts_with("flush")).collect();
        assert_eq!(devices(&without, &costs, &mut notes), expected);
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut notes = Vec::new();
        let all = measured(&[("memory_chase", 95.0), ("disk_read_of_4_kib", 108_000.0)]);
        let found = devices(&all, &Costs::ideal(), &mut notes);
        assert_eq!(found, BTreeMap::from([("memory_chase", Time::from_nanos(95))]));
    }

    #[test]
    fn a_large_access_that_takes_no_longer_is_all_latency_and_said() {
        // 4 KiB take 200 µs and 1 MiB 98 µs: −100 ns a KiB, which is none.
        let mut notes = Vec::new();
        let all = of_disk([200_000.0, 200_000.0, 98_000.0, 98_000.0], [0.0; 4]);
        let found = devices(&all, &Costs::ideal(), &mut notes);
        let expected =
            [("disk_access", Time::ZERO), ("disk_latency", Time::from_micros(200)), ("disk_per_kib", Time::ZERO)];
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(notes, ["disk_per_kib: -100 ns, taken as zero"]);
    }
}
