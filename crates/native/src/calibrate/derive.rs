//! From what was measured to costs.

use std::collections::BTreeMap;

use schedlab_model::{Costs, Time};

use super::fork_cost::{COMPUTATION, FIRST_WORK};
use super::labels::{
    BURST, BURST_HERE, BURST_THERE, DELAYS, FEW_HOP, FLOWS, LATE_LONG, LATE_LONGER, LATE_SHORT, MORE_HOP, NORMAL_HOP,
    READ_IN_A_FLOW, SEMAPHORE_HOP, WAKES, WRITE_IN_A_FLOW, WRITES, hop, message, sizes,
};
use super::messages::{PAGE, PAGES};
use super::stats::Spread;
use super::switching::{RINGS, refill};

/// Costs, and how sure they are.
pub(crate) struct Derived {
    pub(crate) costs: Costs,
    pub(crate) spread: BTreeMap<&'static str, Spread>,
    pub(crate) notes: Vec<String>,
}

/// Takes apart what was measured on a machine of `cpus` CPUs: each cost is a measurement without the parts that are other costs.
pub(crate) fn derive(measured: &BTreeMap<String, Spread>, cpus: u32, hz: u32) -> Derived {
    let mut found = Found { measured, spread: BTreeMap::new(), notes: Vec::new(), unknown: Vec::new() };
    messages(&mut found);
    switching(&mut found);
    waking(&mut found);
    idling(&mut found, 1_000_000_000.0 / f64::from(hz.max(1)));
    found.cost("reap", found.direct("collecting_a_process"), 0.0);
    let [switch, wakeup, reap] = ["switch", "wakeup", "reap"].map(|name| found.get(name));
    // What the kernel counts as a task's CPU time begins with the switch to it.
    found.cost("grace_period", found.direct("run_of_rcu_s_thread"), switch);
    let round = found.direct("runner_s_exchange_of_a_byte").map(|round| round.less(found.exchange()).times(0.5));
    found.cost("operation", round, 0.0);
    for name in [
        "tcp_connect",
        "tcp_accept",
        "tcp_write",
        "tcp_read",
        "tcp_client_closes",
        "tcp_client_closes_last",
        "tcp_server_closes",
        "tcp_server_closes_last",
    ] {
        found.cost(name, found.direct(name), 0.0);
    }
    // A pipe's reader is woken as the write ends.
    if let Some(end) = found.direct("wait_for_a_pipe_s_writer") {
        for (name, from) in
            [("tcp_connect_tail", "wait_for_a_connecting_client"), ("tcp_write_tail", "wait_for_a_connection_s_writer")]
        {
            found.cost(name, found.direct(from), end.median_ns);
        }
    }
    // Each operation of the parents that make tasks costs what it costs anywhere.
    let operation = found.get("operation");
    for (name, from, part) in [
        // The parent wakes each process, too.
        ("fork_process", "making_a_process", reap + operation + wakeup),
        ("fork_thread", "making_a_thread", operation),
        ("exit_process", "ending_of_a_process", wakeup + switch + reap),
        ("exit_thread", "ending_of_a_thread", wakeup + switch + reap),
        ("tick", "tick", 0.0),
        ("steal", "hypervisor_s_tick", 0.0),
        ("steal_period", "hypervisor_s_tick_period", 0.0),
        ("migration", "migration", 0.0),
        ("newidle", "newidle_balance", 0.0),
    ] {
        let whole = if from.starts_with("ending") { found.undisturbed(from) } else { found.direct(from) };
        found.cost(name, whole, part);
    }
    // Interrupts of other work only ever make it longer.
    found.cost("compute", found.undisturbed("computation"), COMPUTATION as f64 + operation);
    let compute = found.get("compute");
    sleeping(&mut found);
    // The signal is a wake-up; the signalling task goes on, or goes to sleep.
    let [call, schedule, futex_wake] = ["system_call", "schedule", "futex_wake"].map(|name| found.get(name));
    let signal = call + futex_wake + wakeup + schedule + switch;
    let first = signal + FIRST_WORK as f64 + operation + compute;
    found.cost("begin_process", found.undisturbed("beginning_of_a_process"), first);
    // A task writes, waits and ends, and comes twice, each time after all others.
    let [block, write, limit] = ["block", "pipe_write", "cache_refill_limit"].map(|name| found.get(name));
    let does = 3.0 * operation + 2.0 * call + write + block + 2.0 * (switch + limit);
    for (name, from) in [("start_process", "start_of_a_process"), ("start_thread", "start_of_a_thread")] {
        found.cost(name, found.undisturbed(from), does);
    }
    found.find_unknown();
    if cpus == 1 {
        found.notes.push(format!("one CPU: what lies between CPUs cannot be measured ({})", found.unknown.join(", ")));
    }
    Derived { costs: found.costs(), spread: found.spread, notes: found.notes }
}

/// More nanoseconds than starting a tick takes anywhere, some microseconds: sleepers that come later by more waited for other tasks.
const NO_TICK: f64 = 100_000.0;

/// Fewer interrupts that were found alone in the interrupted task's time may not have been interrupts.
const FEWEST_ALONE: usize = 5;

/// Costs between CPUs: zero only where they were measured to be.
const BETWEEN: [&str; 6] = ["wakeup_remote", "ipi", "ipi_idle", "ipi_taken", "idle_exit", "migration"];

/// Those of them that take some time on any machine: below zero they were not seen beside the other parts of their measurement.
const NEVER_NOTHING: [&str; 3] = ["ipi", "ipi_idle", "ipi_taken"];

struct Found<'a> {
    measured: &'a BTreeMap<String, Spread>,
    spread: BTreeMap<&'static str, Spread>,
    notes: Vec<String>,
    /// Names of costs that could not be measured.
    unknown: Vec<&'static str>,
}

impl Found<'_> {
    fn direct(&self, name: &str) -> Option<Spread> {
        self.measured.get(name).copied()
    }

    /// A measurement that is not CPU time. Other work only ever makes it longer, and its median would show how busy the machine is: the
    /// least disturbed quarter of its batches counts.
    fn undisturbed(&self, name: &str) -> Option<Spread> {
        self.direct(name).map(|spread| Spread { median_ns: spread.p25_ns, ..spread })
    }

    /// Notes a cost: a measurement without other costs' parts, in nanoseconds.
    fn cost(&mut self, name: &'static str, whole: Option<Spread>, parts: f64) {
        let Some(spread) = whole.map(|whole| whole.less(parts)) else { return };
        if spread.median_ns < 0.0 {
            let taken = if NEVER_NOTHING.contains(&name) { "so it is unknown" } else { "taken as zero" };
            self.notes.push(format!("{name}: {:.0} ns, {taken}", spread.median_ns));
        }
        self.spread.insert(name, spread);
    }

    /// Notes which costs between CPUs are unknown.
    fn find_unknown(&mut self) {
        let unknown = |name: &&'static str| match self.spread.get(name) {
            None => true,
            Some(spread) => NEVER_NOTHING.contains(name) && spread.median_ns < 0.5,
        };
        self.unknown = BETWEEN.into_iter().filter(unknown).collect();
    }

    /// A cost found so far, in nanoseconds, not below zero.
    fn get(&self, name: &str) -> f64 {
        self.spread.get(name).map_or(0.0, |spread| spread.median_ns.max(0.0))
    }

    /// A write and a read of one byte, system calls included.
    fn exchange(&self) -> f64 {
        self.direct("exchange_of_a_byte").map_or(0.0, |spread| spread.median_ns)
    }

    fn costs(&self) -> Costs {
        let time = |name: &str| self.spread.get(name).map_or(Time::ZERO, |spread| spread.time());
        Costs {
            switch: time("switch"),
            schedule: time("schedule"),
            // Which part of it a CPU that leaves idle does not take, only a recording tells.
            put_prev: Time::ZERO,
            cache_refill: time("cache_refill"),
            cache_refill_limit: time("cache_refill_limit"),
            // Told apart from a migration only where there are two last-level caches.
            cache_refill_llc: Time::ZERO,
            wakeup: time("wakeup"),
            wakeup_preempt: time("wakeup_preempt"),
            wakeup_select: time("wakeup_select"),
            lingering: time("lingering"),
            wakeup_remote: time("wakeup_remote"),
            wakeup_far: time("wakeup_far"),
            schedule_far: time("schedule_far"),
            ipi: time("ipi"),
            ipi_idle: time("ipi_idle"),
            ipi_halted: time("ipi_halted"),
            ipi_taken: time("ipi_taken"),
            idle_exit: time("idle_exit"),
            halt_exit: time("halt_exit"),
            halt_deeper: time("halt_deeper"),
            idle_charged: time("idle_charged"),
            // What of an interrupt lies before a switch cannot be told from without.
            idle_switch: Time::ZERO,
            tick_restart: time("tick_restart"),
            tick: time("tick"),
            steal: time("steal"),
            steal_period: time("steal_period"),
            system_call: time("system_call"),
            pipe_write: time("pipe_write"),
            pipe_read: time("pipe_read"),
            socket_write: time("socket_write"),
            socket_read: time("socket_read"),
            pipe_empty: time("pipe_empty"),
            pipe_far: time("pipe_far"),
            pipe_far_message: time("pipe_far_message"),
            socket_far: time("socket_far"),
            socket_far_write: time("socket_far_write"),
            socket_far_read: time("socket_far_read"),
            file_reference: time("file_reference"),
            copy_per_kib: time("copy_per_kib"),
            copy_far_per_kib: time("copy_far_per_kib"),
            skb_per_kib: time("skb_per_kib"),
            slab: time("slab"),
            slab_free: time("slab_free"),
            page: time("page"),
            page_free: time("page_free"),
            block: time("block"),
            sleep_timer: time("sleep_timer"),
            next_timer: time("next_timer"),
            interrupt: time("interrupt"),
            timer_taken: time("timer_taken"),
            timer_switch: Time::ZERO,
            futex_wake: time("futex_wake"),
            futex_wait: time("futex_wait"),
            clock: time("clock"),
            migration: time("migration"),
            // Lost in what else a wake-up costs.
            balance: Time::ZERO,
            newidle: time("newidle"),
            operation: time("operation"),
            // Where it was measured the runner computes by clocks, which the simulator knows by this.
            compute: if self.spread.contains_key("compute") {
                time("compute").max(Time::from_nanos(1))
            } else {
                Time::ZERO
            },
            tcp_connect: time("tcp_connect"),
            tcp_accept: time("tcp_accept"),
            tcp_write: time("tcp_write"),
            tcp_read: time("tcp_read"),
            tcp_connect_tail: time("tcp_connect_tail"),
            tcp_write_tail: time("tcp_write_tail"),
            tcp_client_closes: time("tcp_client_closes"),
            tcp_client_closes_last: time("tcp_client_closes_last"),
            tcp_server_closes: time("tcp_server_closes"),
            tcp_server_closes_last: time("tcp_server_closes_last"),
            start_process: time("start_process"),
            start_thread: time("start_thread"),
            fork_process: time("fork_process"),
            fork_thread: time("fork_thread"),
            begin_process: time("begin_process"),
            exit_process: time("exit_process"),
            exit_thread: time("exit_thread"),
            reap: time("reap"),
            grace_period: time("grace_period"),
            unknown: self.unknown.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// What a call and a message take besides where another CPU has used a channel, from messages of one byte that are read on it one by one and in bursts:
/// of a burst the first call alone finds that it has.
fn far(found: &Found<'_>, kind: &str) -> Option<[Spread; 2]> {
    let beyond = |place: &str| {
        let of = |verb: &str| {
            let here = found.direct(&message(kind, verb, 1, "here"))?;
            Some((found.direct(&message(kind, verb, 1, place))?.less(here.median_ns), 1.0))
        };
        Spread::mean(&[of("write")?, of("read")?])
    };
    let (each, of_burst) = (beyond("there")?, beyond(BURST_THERE)?);
    let first = each.less(of_burst.median_ns).times(BURST as f64 / (BURST - 1) as f64);
    Some([first, each.less(first.median_ns.max(0.0))])
}

fn messages(found: &mut Found<'_>) {
    found.cost("system_call", found.direct("system_call"), 0.0);
    let system_call = found.get("system_call");
    let (mut copies, mut fills) = (Vec::new(), None);
    for (name, kind, verb) in [
        ("pipe_write", "pipe", "write"),
        ("pipe_read", "pipe", "read"),
        ("socket_write", "socket", "write"),
        ("socket_read", "socket", "read"),
    ] {
        let sizes = sizes(kind);
        let [small, large] = sizes.map(|bytes| found.direct(&message(kind, verb, bytes, "here")));
        if let (Some(small), Some(large)) = (small, large) {
            let copy = large.less(small.median_ns).times(1024.0 / (sizes[1] - sizes[0]) as f64);
            match name {
                "pipe_write" | "pipe_read" => copies.push((copy, 1.0)),
                "socket_write" => fills = Some(copy),
                _ => {}
            }
        }
        found.cost(name, small, system_call);
    }
    if let Some([first, message]) = far(found, "pipe") {
        found.cost("pipe_far", Some(first), 0.0);
        found.cost("pipe_far_message", Some(message), 0.0);
    }
    if let Some([first, by_turns]) = far(found, "socket") {
        found.cost("socket_far", Some(first), 0.0);
        // A call of so many finds the channel as the other CPU has left it.
        let first = found.get("socket_far") / FLOWS as f64;
        for (name, flow, verb) in
            [("socket_far_write", WRITE_IN_A_FLOW, "write"), ("socket_far_read", READ_IN_A_FLOW, "read")]
        {
            let near = found.direct(&message("socket", verb, 1, "here")).map_or(0.0, |spread| spread.median_ns);
            // Where CPUs have turns no flow is measured, but the mean of a write and a read of messages that each CPU handles in its turn.
            match found.direct(flow) {
                Some(each) => found.cost(name, Some(each), near + first),
                None => found.cost(name, Some(by_turns), 0.0),
            }
        }
    }
    // Two ways of copying alone, one cost: their mean. A socket takes memory for each message besides, and reading from one varies by more than copying takes.
    found.cost("copy_per_kib", Spread::mean(&copies), 0.0);
    // Pages that one CPU takes and another gives back are far, too: as many as there are bytes. One of a burst finds the pipe as another CPU has left it.
    let first = found.get("pipe_far") / PAGES as f64 + found.get("pipe_far_message");
    let far_copies = ["write", "read"].into_iter().filter_map(|verb| {
        let [here, there] = [BURST_HERE, BURST_THERE].map(|place| found.direct(&message("pipe", verb, PAGE, place)));
        Some((there?.less(here?.median_ns + first).times(1024.0 / PAGE as f64), 1.0))
    });
    let far_copies: Vec<_> = far_copies.collect();
    found.cost("copy_far_per_kib", Spread::mean(&far_copies), 0.0);
    found.cost("skb_per_kib", fills, found.get("copy_per_kib"));
    let small =
        |kind: &str, verb: &str| found.direct(&message(kind, verb, 1, "here")).map_or(0.0, |spread| spread.median_ns);
    let [[write, read], [sends, receives]] =
        ["pipe", "socket"].map(|kind| ["write", "read"].map(|verb| small(kind, verb)));
    found.cost("pipe_empty", found.direct("exchange_of_a_byte"), write + read);
    let shared = found.direct("exchange_among_threads").map(|spread| spread.less(found.exchange()).times(0.5));
    found.cost("file_reference", shared, 0.0);
    found.cost("slab", found.direct("write_behind_a_backlog"), sends);
    found.cost("slab_free", found.direct("read_before_a_backlog"), receives);
    found.cost("page", found.direct("fresh_page"), 0.0);
    found.cost("page_free", found.direct("page_given_back"), 0.0);
}

fn switching(found: &mut Found<'_>) {
    found.cost("switch", found.direct("switch"), 0.0);
    found.cost("schedule", found.direct("yield_alone"), found.get("system_call"));
    let exchange = found.exchange();
    found.cost("wakeup", found.direct("write_that_wakes_here"), exchange / 2.0);
    if let Some(batch) = found.direct(&hop(RINGS[0])) {
        found.cost("wakeup_preempt", found.direct(NORMAL_HOP), batch.median_ns);
    }
    if let Some(few) = found.direct(FEW_HOP) {
        found.cost("lingering", found.direct(MORE_HOP), few.median_ns);
    }
    let hops: Vec<Spread> = RINGS.iter().filter_map(|length| found.direct(&hop(*length))).collect();
    found.cost("block", hops.first().copied(), exchange + found.get("switch") + found.get("wakeup"));
    let samples = hops.iter().map(|hop| hop.samples).sum();
    let line = |value: fn(&Spread) -> f64| refill(&hops.iter().map(value).collect::<Vec<_>>());
    let [middle, low, high] = [line(|hop| hop.median_ns), line(|hop| hop.p25_ns), line(|hop| hop.p75_ns)];
    let spread = |median_ns: f64, low: f64, high: f64| {
        Some(Spread { median_ns, p25_ns: low.min(high), p75_ns: low.max(high), samples })
    };
    found.cost("cache_refill", spread(middle.0, low.0, high.0), 0.0);
    found.cost("cache_refill_limit", spread(middle.1, low.1, high.1), 0.0);
}

/// What sleeping until a timer expires and waiting for a futex take beyond sleeping in a read.
fn sleeping(found: &mut Found<'_>) {
    let [call, block, switch, wakeup] = ["system_call", "block", "switch", "wakeup"].map(|name| found.get(name));
    found.cost("clock", found.direct("look_at_the_clock"), 0.0);
    found.cost("futex_wake", found.direct("post_that_wakes_here"), call + wakeup);
    let others = found.get("futex_wake") + wakeup + 2.0 * call + block + switch;
    found.cost("futex_wait", found.direct(SEMAPHORE_HOP), others);
    // Woken by an interrupt, a sleeper preempts a CPU-bound task and sleeps again, and that task is switched in again. Other tasks seldom
    // run within such a round, and most rounds are as long: the median counts.
    let schedule = found.get("schedule");
    let round = wakeup + schedule + 2.0 * switch + call + block;
    found.cost("interrupt", found.direct("interrupt_that_wakes_here"), wakeup);
    // A round contains the timer's interrupt, which costs as much as where the interrupted task continues, but no more than the other
    // parts leave of the round. Setting the timer is the rest.
    let by_turns = found.direct("sleep_by_turns");
    let left = by_turns.map_or(0.0, |spread| (spread.median_ns - round).max(0.0));
    let beyond = (found.get("interrupt") - left).max(0.0);
    found.cost("timer_taken", by_turns.and(found.direct("interrupt_that_wakes_here")), wakeup + beyond);
    let taken = found.get("timer_taken");
    found.cost("sleep_timer", by_turns, round + taken);
    let timer = found.get("sleep_timer");
    found.cost("next_timer", found.direct("sleep_alone"), round + taken + timer);
}

fn waking(found: &mut Found<'_>) {
    if let Some(bound) = found.direct(WAKES[0]) {
        found.cost("wakeup_select", found.direct(WAKES[1]), bound.median_ns);
    }
    // A pipe's reader on the other CPU has used it last, and finds then that its writer has.
    let (exchange, pipe) = (found.exchange(), found.get("pipe_far"));
    let busy = found.direct("write_that_wakes_on_a_busy_cpu");
    found.cost("wakeup_remote", busy, exchange / 2.0 + pipe + found.get("wakeup"));
    let far = exchange / 2.0 + pipe + found.get("wakeup") + found.get("wakeup_remote");
    found.cost("wakeup_far", found.direct("write_that_wakes_on_a_switching_cpu"), far);
    // The waker pays for the interrupt: it is in its CPU time.
    found.cost("ipi", found.direct("write_that_preempts_on_a_busy_cpu"), far + found.get("wakeup_far"));
    found.cost("ipi_idle", found.direct("write_that_wakes_on_an_idle_cpu"), far);
    // What a hypervisor takes besides, of the waker and until the woken task runs.
    let further = |names: [&str; 2]| {
        let [idle, halted] = names.map(|name| found.direct(name));
        Some(halted?.less(idle?.median_ns))
    };
    let [writes, delay] = [WRITES, DELAYS].map(further);
    found.cost("ipi_halted", writes, 0.0);
    found.cost("halt_exit", delay, found.get("ipi_halted"));
    // The woken task went to sleep in its read before: it ends that and sleeps in the next.
    let visit = found.get("switch") + exchange / 2.0 + pipe + found.get("block");
    found.cost("schedule_far", found.direct("run_of_a_task_woken_on_a_switching_cpu"), visit);
    // A task that is preempted there and comes back: a pass, the visit, and a switch back.
    let away = found.get("schedule") + found.get("schedule_far") + visit + found.get("switch");
    // Where a CPU is held up all the time, as by others' turns, hardly any interrupt is found alone.
    let alone = found.direct("preemption_on_a_busy_cpu").filter(|spread| spread.samples >= FEWEST_ALONE);
    found.cost("ipi_taken", alone, away);
    let parts = ["switch", "schedule", "wakeup", "wakeup_remote", "ipi_idle"].map(|name| found.get(name));
    // Back on its CPU the reader ends its call.
    let back = (found.get("system_call") + found.get("pipe_read")) / 2.0;
    let half = exchange / 2.0 + back + 2.0 * pipe + parts.iter().sum::<f64>();
    found.cost("idle_exit", found.undisturbed("half_round_trip_there"), half);
    // Turns of the waker's CPU, where it has such, only ever make that longer.
    found.cost("idle_charged", found.undisturbed("run_of_a_task_woken_on_an_idle_cpu"), visit);
}

/// What the length of an idle period changes, with a tick each `period` nanoseconds.
fn idling(found: &mut Found<'_>, period: f64) {
    // All come by a timer on an idle CPU, two of them after half a period more and less.
    let [short, longer, long] = [LATE_SHORT, LATE_LONGER, LATE_LONG].map(|name| found.undisturbed(name));
    let (Some(short), Some(longer), Some(long)) = (short, longer, long) else { return };
    found.cost("halt_deeper", Some(longer.less(short.median_ns).times(2_000_000.0 / period)), 0.0);
    // And one after two periods more, with its tick stopped, too.
    let deeper = found.get("halt_deeper") * 2.0 * period / 1_000_000.0;
    let restart = long.less(short.median_ns + deeper);
    let others = restart.median_ns > NO_TICK;
    if others {
        let why = "others kept the CPU from idling, so it is taken as zero";
        found.notes.push(format!("tick_restart: {:.0} ns: {why}", restart.median_ns));
    }
    found.cost("tick_restart", Some(if others { restart.times(0.0) } else { restart }), 0.0);
}

#[cfg(test)]
mod tests;
