//! Costs that were put together from their parts are found again.

use super::*;

/// What the benchmarks would measure on a machine of two CPUs with these costs, each benchmark being the sum of its parts.
fn measured(costs: &Costs) -> BTreeMap<String, Spread> {
    let ns = |time: Time| time.as_nanos() as f64;
    let call = ns(costs.system_call);
    let exchange = 2.0 * call + ns(costs.pipe_write) + ns(costs.pipe_read) + ns(costs.pipe_empty);
    let wakes = exchange / 2.0 + ns(costs.wakeup);
    let half = exchange + ns(costs.wakeup) + ns(costs.block) + ns(costs.switch);
    let mut all = BTreeMap::new();
    let mut add = |name: &str, value: f64| {
        all.insert(name.to_owned(), Spread { median_ns: value, p25_ns: value, p75_ns: value, samples: 8 })
    };
    add("system_call", call);
    add("exchange_of_a_byte", exchange);
    add("exchange_among_threads", exchange + 2.0 * ns(costs.file_reference));
    for (kind, verb, cost) in [
        ("pipe", "write", costs.pipe_write),
        ("pipe", "read", costs.pipe_read),
        ("socket", "write", costs.socket_write),
        ("socket", "read", costs.socket_read),
    ] {
        let filled = if cost == costs.socket_write { ns(costs.skb_per_kib) } else { 0.0 };
        let (first, each) = match (kind, verb) {
            ("pipe", _) => (costs.pipe_far, costs.pipe_far_message),
            (_, "write") => (costs.socket_far, costs.socket_far_write),
            _ => (costs.socket_far, costs.socket_far_read),
        };
        for bytes in sizes(kind) {
            let kib = (bytes - 1) as f64 / 1024.0;
            let near = call + ns(cost) + (ns(costs.copy_per_kib) + filled) * kib;
            add(&message(kind, verb, bytes, "here"), near);
            add(&message(kind, verb, bytes, "there"), near + ns(first) + ns(each));
        }
        if kind == "pipe" {
            // Sixteen pages, of 4 KiB each, the first of which finds the pipe as another CPU has left it.
            add(&message(kind, verb, PAGE, BURST_HERE), 1_000.0);
            let far = ns(first) / 16.0 + ns(each) + 4.0 * ns(costs.copy_far_per_kib);
            add(&message(kind, verb, PAGE, BURST_THERE), 1_000.0 + far);
        }
        // The first of eight finds the channel as another CPU has left it, and all do the messages.
        add(&message(kind, verb, 1, BURST_THERE), call + ns(cost) + ns(first) / 8.0 + ns(each));
    }
    for (flow, near, far) in [
        (WRITE_IN_A_FLOW, costs.socket_write, costs.socket_far_write),
        (READ_IN_A_FLOW, costs.socket_read, costs.socket_far_read),
    ] {
        add(flow, call + ns(near) + ns(far) + ns(costs.socket_far) / 8.0);
    }
    add("write_behind_a_backlog", call + ns(costs.socket_write) + ns(costs.slab));
    add("read_before_a_backlog", call + ns(costs.socket_read) + ns(costs.slab_free));
    add("fresh_page", ns(costs.page));
    add("page_given_back", ns(costs.page_free));
    add("switch", ns(costs.switch));
    add("yield_alone", call + ns(costs.schedule));
    add("write_that_wakes_here", wakes);
    // Beside another CPU that computes.
    add(WAKES[0], wakes + 40.0);
    add(WAKES[1], wakes + 40.0 + ns(costs.wakeup_select));
    // The writer finds a pipe that the other CPU has used, and so does the reader.
    let far = wakes + ns(costs.pipe_far) + ns(costs.wakeup_remote);
    add("write_that_wakes_on_a_busy_cpu", far);
    add("write_that_wakes_on_an_idle_cpu", far + ns(costs.ipi_idle));
    for (place, halted, exit) in [(0, 0.0, 0.0), (1, ns(costs.ipi_halted), ns(costs.halt_exit))] {
        let write = far + ns(costs.ipi_idle) + halted;
        add(WRITES[place], write);
        add(DELAYS[place], write + 2_000.0 + exit);
    }
    add("write_that_preempts_on_a_busy_cpu", far + ns(costs.wakeup_far) + ns(costs.ipi));
    add("write_that_wakes_on_a_switching_cpu", far + ns(costs.wakeup_far));
    let visited = ns(costs.switch) + exchange / 2.0 + ns(costs.pipe_far) + ns(costs.block);
    add("run_of_a_task_woken_on_a_switching_cpu", visited + ns(costs.schedule_far));
    let visit = ns(costs.schedule) + ns(costs.schedule_far) + visited + ns(costs.switch);
    add("preemption_on_a_busy_cpu", visit + ns(costs.ipi_taken));
    add(NORMAL_HOP, half + ns(costs.wakeup_preempt));
    add(MORE_HOP, half + 2_000.0);
    add(FEW_HOP, half + 2_000.0 - ns(costs.lingering));
    for length in RINGS {
        let refill = ns(costs.cache_refill) * (length - RINGS[0]) as f64;
        add(&hop(length), half + refill.min(ns(costs.cache_refill_limit)));
    }
    let there =
        ns(costs.wakeup_remote) + ns(costs.ipi_idle) + ns(costs.idle_exit) + ns(costs.schedule) + ns(costs.switch);
    // Back on its CPU, the reader ends the half of its read that is left.
    let back = (call + ns(costs.pipe_read)) / 2.0;
    add("half_round_trip_there", wakes + back + 2.0 * ns(costs.pipe_far) + there);
    add("run_of_a_task_woken_on_an_idle_cpu", visited + ns(costs.idle_charged));
    add(LATE_SHORT, 30_000.0);
    // With a tick each 4 ms: of sleeps of 1, 3 and 9 ms.
    add(LATE_LONGER, 30_000.0 + 2.0 * ns(costs.halt_deeper));
    add(LATE_LONG, 30_000.0 + 8.0 * ns(costs.halt_deeper) + ns(costs.tick_restart));
    let (operation, around) = (ns(costs.operation), ns(costs.switch) + ns(costs.reap));
    add("runner_s_exchange_of_a_byte", exchange + 2.0 * operation);
    add("computation", COMPUTATION as f64 + operation + ns(costs.compute));
    add("tcp_connect", ns(costs.tcp_connect));
    add("tcp_accept", ns(costs.tcp_accept));
    add("tcp_write", ns(costs.tcp_write));
    add("tcp_read", ns(costs.tcp_read));
    add("tcp_client_closes", ns(costs.tcp_client_closes));
    add("tcp_client_closes_last", ns(costs.tcp_client_closes_last));
    add("tcp_server_closes", ns(costs.tcp_server_closes));
    add("tcp_server_closes_last", ns(costs.tcp_server_closes_last));
    // A reader waits for what is left of the call, and for its writer to sleep.
    add("wait_for_a_pipe_s_writer", 6_000.0);
    add("wait_for_a_connecting_client", 6_000.0 + ns(costs.tcp_connect_tail));
    add("wait_for_a_connection_s_writer", 6_000.0 + ns(costs.tcp_write_tail));
    // The maker of processes wakes and collects them, and threads are collected for nothing.
    add("making_a_process", operation + ns(costs.fork_process) + ns(costs.wakeup) + ns(costs.reap));
    add("making_a_thread", operation + ns(costs.fork_thread));
    for (kind, start, exit) in
        [("process", costs.start_process, costs.exit_process), ("thread", costs.start_thread, costs.exit_thread)]
    {
        add(&format!("ending_of_a_{kind}"), ns(exit) + ns(costs.wakeup) + around);
        // A write, a wait and the end, each of two turns after many others.
        let waits = ns(costs.block) + call;
        let turns = 2.0 * (ns(costs.switch) + ns(costs.cache_refill_limit));
        let does = call + ns(costs.pipe_write) + waits + 3.0 * operation + turns;
        add(&format!("start_of_a_{kind}"), ns(start) + does);
    }
    let signal = call + ns(costs.futex_wake) + ns(costs.wakeup) + ns(costs.schedule) + ns(costs.switch);
    let first = FIRST_WORK as f64 + operation + ns(costs.compute);
    add("beginning_of_a_process", signal + ns(costs.begin_process) + first);
    add("collecting_a_process", ns(costs.reap));
    add("run_of_rcu_s_thread", ns(costs.switch) + ns(costs.grace_period));
    add("look_at_the_clock", ns(costs.clock));
    let post = call + ns(costs.futex_wake) + ns(costs.wakeup);
    add("post_that_wakes_here", post);
    add(SEMAPHORE_HOP, post + call + ns(costs.futex_wait) + ns(costs.block) + ns(costs.switch));
    // Woken, switched to, asleep again, and back to the other one.
    let around = ns(costs.wakeup) + ns(costs.schedule) + 2.0 * ns(costs.switch);
    let sleep = around + ns(costs.timer_taken) + call + ns(costs.sleep_timer) + ns(costs.block);
    add("sleep_alone", sleep + ns(costs.next_timer));
    add("sleep_by_turns", sleep);
    add("interrupt_that_wakes_here", ns(costs.wakeup) + ns(costs.interrupt));
    add("tick", ns(costs.tick));
    add("hypervisor_s_tick", ns(costs.steal));
    add("hypervisor_s_tick_period", ns(costs.steal_period));
    add("migration", ns(costs.migration));
    add("newidle_balance", ns(costs.newidle));
    all
}

fn example() -> Costs {
    let ns = Time::from_nanos;
    Costs {
        switch: ns(900),
        schedule: ns(450),
        put_prev: Time::ZERO,
        cache_refill: ns(10),
        cache_refill_limit: ns(300),
        cache_refill_llc: Time::ZERO,
        wakeup: ns(800),
        wakeup_preempt: ns(70),
        wakeup_select: ns(450),
        lingering: ns(300),
        wakeup_remote: ns(200),
        wakeup_far: ns(1_700),
        schedule_far: ns(2_100),
        ipi: ns(2_300),
        ipi_idle: ns(3_100),
        ipi_halted: ns(15_300),
        ipi_taken: ns(1_300),
        idle_exit: ns(18_000),
        halt_exit: ns(8_200),
        halt_deeper: ns(1_400),
        idle_charged: ns(9_500),
        idle_switch: Time::ZERO,
        tick_restart: ns(2_100),
        tick: ns(1_500),
        steal: ns(27_000),
        steal_period: ns(1_000_000),
        system_call: ns(160),
        pipe_write: ns(140),
        pipe_read: ns(180),
        socket_write: ns(820),
        socket_read: ns(1_000),
        pipe_empty: ns(34),
        pipe_far: ns(180),
        pipe_far_message: ns(20),
        socket_far: ns(240),
        socket_far_write: ns(160),
        socket_far_read: ns(220),
        file_reference: ns(26),
        copy_per_kib: ns(120),
        copy_far_per_kib: ns(60),
        skb_per_kib: ns(40),
        slab: ns(45),
        slab_free: ns(65),
        page: ns(350),
        page_free: ns(110),
        block: ns(950),
        sleep_timer: ns(610),
        next_timer: ns(430),
        interrupt: ns(240),
        timer_taken: ns(240),
        timer_switch: Time::ZERO,
        futex_wake: ns(330),
        futex_wait: ns(520),
        clock: ns(25),
        migration: ns(5_000),
        newidle: ns(20_000),
        balance: Time::ZERO,
        operation: ns(50),
        compute: ns(900),
        tcp_connect: ns(40_000),
        tcp_accept: ns(9_000),
        tcp_write: ns(12_000),
        tcp_read: ns(2_000),
        tcp_connect_tail: ns(15_000),
        tcp_write_tail: ns(7_000),
        tcp_client_closes: ns(11_000),
        tcp_client_closes_last: ns(13_000),
        tcp_server_closes: ns(10_000),
        tcp_server_closes_last: ns(4_000),
        start_process: ns(60_000),
        start_thread: ns(5_000),
        fork_process: ns(35_000),
        fork_thread: ns(16_000),
        begin_process: ns(30_000),
        exit_process: ns(40_000),
        exit_thread: ns(18_000),
        reap: ns(1_700),
        grace_period: ns(4_100),
        unknown: Vec::new(),
    }
}

#[test]
fn computing_by_clocks_costs_at_least_a_nanosecond() {
    // Reading the clocks is a part of the computing: what is left is too little to be told from nothing.
    let with = |beyond: f64| {
        let mut measured = measured(&Costs { compute: Time::ZERO, ..Costs::ideal() });
        let whole = COMPUTATION as f64 + beyond;
        let spread = Spread { median_ns: whole, p25_ns: whole, p75_ns: whole, samples: 8 };
        measured.insert("computation".to_owned(), spread);
        derive(&measured, 2, 250).costs.compute
    };
    assert_eq!([-49.0, 0.4, 45.0].map(with), [1, 1, 45].map(Time::from_nanos));
    assert_eq!(derive(&BTreeMap::new(), 2, 250).costs.compute, Time::ZERO);
}

#[test]
fn the_parts_are_found_again() {
    let costs = example();
    let derived = derive(&measured(&costs), 2, 250);
    assert_eq!(derived.costs, costs);
    assert_eq!(derived.spread.len(), 73);
    assert!(derived.notes.is_empty(), "{:?}", derived.notes);
}

#[test]
fn without_flows_a_socket_s_messages_take_what_they_do_in_bursts() {
    let mut measured = measured(&example());
    measured.retain(|name, _| name != WRITE_IN_A_FLOW && name != READ_IN_A_FLOW);
    let derived = derive(&measured, 2, 250).costs;
    let Costs { socket_far, socket_far_write, socket_far_read, .. } = example();
    // Of a write and a read together only the sum is known.
    let mean = Time::from_nanos((socket_far_write + socket_far_read).as_nanos() / 2);
    assert_eq!([derived.socket_far, derived.socket_far_write, derived.socket_far_read], [socket_far, mean, mean]);
}

#[test]
fn what_is_not_measured_is_unknown_and_said() {
    let mut measured = measured(&example());
    measured.retain(|name, _| {
        !["there", "busy", "idle_cpu", "migration", "here_beside"].iter().any(|of_several| name.contains(of_several))
    });
    let derived = derive(&measured, 1, 250);
    assert_eq!(derived.costs.unknown, BETWEEN);
    let zero = [derived.costs.wakeup_remote, derived.costs.idle_exit, derived.costs.migration];
    assert_eq!(zero, [Time::ZERO; 3]);
    let said = "one CPU: what lies between CPUs cannot be measured (wakeup_remote, ipi, ipi_idle,";
    assert!(derived.notes.iter().any(|note| note.contains(said)), "{:?}", derived.notes);
}

#[test]
fn an_interrupt_that_took_nothing_was_not_measured() {
    let mut measured = measured(&example());
    // A write to an idle CPU takes less than its parts: 3,100 − 3,200 ns are left for the interrupt.
    if let Some(idle) = measured.get_mut("write_that_wakes_on_an_idle_cpu") {
        *idle = idle.less(3_200.0);
    }
    let derived = derive(&measured, 2, 250);
    assert_eq!(derived.costs.unknown, ["ipi_idle"]);
    assert!(derived.notes.iter().any(|note| note == "ipi_idle: -100 ns, so it is unknown"), "{:?}", derived.notes);
}

#[test]
fn a_timer_s_interrupt_takes_no_more_than_a_round_has_left() {
    let mut measured = measured(&example());
    // A round has 240 ns for the interrupt and 610 for setting the timer; 700 less leave 150, less than an interrupt takes elsewhere.
    if let Some(round) = measured.get_mut("sleep_by_turns") {
        *round = round.less(700.0);
    }
    let Costs { interrupt, timer_taken, sleep_timer, .. } = derive(&measured, 2, 250).costs;
    assert_eq!([interrupt, timer_taken, sleep_timer].map(Time::as_nanos), [240, 150, 0]);
}

#[test]
fn a_cpu_that_others_keep_busy_starts_no_tick() {
    let mut measured = measured(&example());
    // Sleepers come 30 us and 4 ms late, which is another task's slice, and of that 8 * 1.4 us are from a longer idle period.
    let late = Spread { median_ns: 4e6, p25_ns: 4e6, p75_ns: 9e6, samples: 8 };
    measured.insert(LATE_LONG.to_owned(), late);
    let derived = derive(&measured, 2, 250);
    assert_eq!(derived.costs.tick_restart, Time::ZERO);
    assert!(derived.notes.iter().any(|note| note.contains("tick_restart: 3958800 ns")), "{:?}", derived.notes);
    assert_eq!(derived.spread["tick_restart"].samples, 8);
}

#[test]
fn a_part_larger_than_its_whole_is_zero_and_said() {
    let mut measured = measured(&example());
    // The write that wakes elsewhere takes 100 ns less than the one here: 200 − 300.
    if let Some(busy) = measured.get_mut("write_that_wakes_on_a_busy_cpu") {
        *busy = busy.less(300.0);
    }
    let derived = derive(&measured, 2, 250);
    assert_eq!(derived.costs.wakeup_remote, Time::ZERO);
    assert!(derived.notes.iter().any(|note| note.contains("wakeup_remote: -100 ns")), "{:?}", derived.notes);
}
