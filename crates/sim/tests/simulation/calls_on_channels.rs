//! What calls on pipes and sockets take beyond their plain costs: by what is in them, by which CPU used them last, and by which tasks they wake. In
//! microseconds: a system call takes 1, and a write 2 and a read 3 beyond it.

use crate::common;

use common::{fifo, micros, microseconds, run, shares, task, workload};
use schedlab_model::{Attributes, Channel, ChannelKind, Costs, Machine, Policy, Step, Task, TaskKind, Workload};

fn costs() -> Costs {
    let [system_call, write, read] = [1, 2, 3].map(micros);
    Costs { system_call, pipe_write: write, pipe_read: read, socket_write: write, socket_read: read, ..Costs::ideal() }
}

fn write(bytes: u32) -> Step {
    Step::Write { channel: "c".into(), bytes }
}

fn read(bytes: u32) -> Step {
    Step::Read { channel: "c".into(), bytes }
}

fn with_channel(mut workload: Workload, kind: ChannelKind) -> Workload {
    workload.channels = [("c".to_owned(), Channel { kind })].into();
    workload
}

fn on(cpu: u32) -> Attributes {
    Attributes { affinity: vec![cpu], ..fifo(1) }
}

/// The CPU time of each task in microseconds.
fn ran(tasks: Vec<Task>, kind: ChannelKind, cpus: u32, costs: Costs) -> Vec<u64> {
    let (outcome, _) = run(&with_channel(workload(tasks), kind), "6.12", &Machine::new(cpus, costs));
    (0..outcome.tasks.len()).map(|task| shares(&outcome, task)[1]).collect()
}

#[test]
fn a_message_that_finds_a_pipe_empty_and_leaves_it_so_takes_longer() {
    // Two writes and two reads: 2 · 3 + 2 · 4. The first write finds it empty and the second read leaves it so, 3 of 6 each.
    let steps = || vec![write(1), write(1), read(1), read(1)];
    let with = |kind| {
        let costs = Costs { pipe_empty: micros(6), ..costs() };
        ran(vec![task("alone", 1, Attributes::default(), steps())], kind, 1, costs)
    };
    assert_eq!(with(ChannelKind::Pipe), [14 + 6]);
    assert_eq!(with(ChannelKind::Socket), [14]);
}

#[test]
fn threads_that_share_their_files_count_references_to_them() {
    // A write and a read, 3 + 4, and 7 for each where there is another thread.
    let steps = || vec![write(1), read(1)];
    let of = |kind| Task { kind, ..task("one", 1, Attributes::default(), steps()) };
    let costs = || Costs { file_reference: micros(7), ..costs() };
    assert_eq!(ran(vec![of(TaskKind::Process)], ChannelKind::Pipe, 1, costs()), [7]);
    assert_eq!(ran(vec![of(TaskKind::Thread)], ChannelKind::Pipe, 1, costs()), [7 + 14]);
    // A process that makes a thread has two of them until that one ends: here it waits for that before its calls.
    let maker = vec![Step::Fork { task: "other".into(), count: 1 }, Step::Join, write(1), read(1)];
    let other = Task { kind: TaskKind::Thread, ..task("other", 0, Attributes::default(), vec![]) };
    let joined = vec![task("maker", 1, Attributes::default(), maker), other];
    assert_eq!(ran(joined, ChannelKind::Pipe, 1, costs())[0], 7);
}

#[test]
fn pages_that_a_pipe_does_not_keep_are_given_back_by_the_reader() {
    // Three pages are fetched, 10 each; the reader gives back all but the one that the pipe keeps, 4 each.
    let costs = Costs { page: micros(10), page_free: micros(4), ..costs() };
    let writer = task("writer", 1, fifo(2), vec![write(3 * 4096)]);
    let reader = task("reader", 1, fifo(1), vec![read(3 * 4096)]);
    assert_eq!(ran(vec![writer, reader], ChannelKind::Pipe, 1, costs), [3 + 3 * 10, 4 + 2 * 4]);
}

#[test]
fn messages_of_a_backlog_are_given_back_to_another_slab() {
    // A slab of skbs has 16 (a page of 256 bytes each). Of 18 messages the last two find 16 or more before them, 5 each; of their readings the first two
    // leave so many, 7 each.
    let costs = Costs { slab: micros(5), slab_free: micros(7), ..costs() };
    let times = |step| vec![Step::Loop { count: 18, steps: vec![step] }];
    let writer = task("writer", 1, fifo(2), times(write(1)));
    let reader = task("reader", 1, fifo(1), times(read(1)));
    let both = ran(vec![writer, reader], ChannelKind::Socket, 1, costs);
    assert_eq!(both, [18 * 3 + 2 * 5, 18 * 4 + 2 * 7]);
}

#[test]
fn what_another_cpu_has_used_takes_longer() {
    // The writer's first message comes to what no CPU has used. The reader comes once at 1000 and once at 3000, and the writer again at 2000: to what the
    // other one has used last, 10 each, and each time there is a message of the other CPU, or it has read one. 1024 bytes take 8 besides.
    let sleep = || Step::Sleep(microseconds(1000));
    let far = Costs {
        pipe_far: micros(10),
        pipe_far_message: micros(5),
        socket_far: micros(10),
        socket_far_write: micros(6),
        socket_far_read: micros(9),
        copy_far_per_kib: micros(8),
        ..costs()
    };
    let tasks = |reader| {
        let twice = Step::Sleep(microseconds(2000));
        vec![
            task("writer", 1, on(0), vec![write(1024), twice.clone(), write(1024)]),
            task("reader", 1, on(reader), vec![sleep(), read(1024), twice, read(1024)]),
        ]
    };
    // A sleep is a system call.
    let near = [3 + 1 + 3, 1 + 4 + 1 + 4];
    assert_eq!(ran(tasks(0), ChannelKind::Pipe, 2, far.clone()), near);
    let each = 10 + 5 + 8;
    assert_eq!(ran(tasks(1), ChannelKind::Pipe, 2, far.clone()), [near[0] + each, near[1] + 2 * each]);
    let [written, found] = [10 + 6 + 8, 10 + 9 + 8];
    assert_eq!(ran(tasks(1), ChannelKind::Socket, 2, far), [near[0] + written, near[1] + 2 * found]);
}

#[test]
fn a_pipe_has_one_call_at_a_time() {
    // A call of 2 and a write of 10 beyond it have the pipe from 1 to 11. The second CPU's begins at the same time and gets it then, 10 later than
    // it would; to a socket both write at once.
    let costs = Costs { system_call: micros(2), pipe_write: micros(10), socket_write: micros(10), ..Costs::ideal() };
    let writers = || vec![task("one", 1, on(0), vec![write(1)]), task("other", 1, on(1), vec![write(1)])];
    let mut of_pipe = ran(writers(), ChannelKind::Pipe, 2, costs.clone());
    of_pipe.sort_unstable();
    assert_eq!(of_pipe, [12, 12 + 10]);
    assert_eq!(ran(writers(), ChannelKind::Socket, 2, costs), [12, 12]);
}

#[test]
fn a_task_that_may_preempt_its_waker_is_compared_with_it() {
    // The waker sleeps first, a call, until the other one does; then it writes (3) and wakes (4). Whether the woken task preempts it is found out, 9, but not of a batch task, nor beside a FIFO task.
    let with = |waker: Policy, woken: Policy| {
        let costs = Costs { wakeup: micros(4), wakeup_preempt: micros(9), ..costs() };
        let of = |policy| Attributes { policy, ..Attributes::default() };
        let writer =
            task("writer", 1, of(waker), vec![Step::Sleep(microseconds(50)), Step::Run(microseconds(100)), write(1)]);
        let reader = task("reader", 1, of(woken), vec![read(1)]);
        ran(vec![reader, writer], ChannelKind::Pipe, 1, costs)[1]
    };
    assert_eq!(with(Policy::Other, Policy::Other), 108 + 9);
    assert_eq!(with(Policy::Batch, Policy::Other), 108 + 9);
    assert_eq!(with(Policy::Other, Policy::Batch), 108);
    assert_eq!(with(Policy::Fifo(1), Policy::Other), 108);
}

#[test]
fn a_cpu_is_chosen_for_a_woken_task_that_may_run_on_several() {
    // As before on the first of two CPUs, of which a task computes on the other; choosing takes 9. For a bound task there is no choice, and an
    // interrupt (the writer's timer) looks no further.
    let with = |affinity: Vec<u32>| {
        let costs = Costs { wakeup: micros(4), wakeup_select: micros(9), ..costs() };
        let of = |affinity| Attributes { affinity, ..Attributes::default() };
        let sleeps = vec![Step::Sleep(microseconds(50)), Step::Run(microseconds(100)), write(1)];
        let reader = task("reader", 1, Attributes { policy: Policy::Batch, ..of(affinity) }, vec![read(1)]);
        let beside = task("beside", 1, of(vec![1]), vec![Step::Run(microseconds(10_000))]);
        ran(vec![reader, task("writer", 1, of(vec![0]), sleeps), beside], ChannelKind::Pipe, 2, costs)[1]
    };
    assert_eq!(with(vec![]), 108 + 9);
    assert_eq!(with(vec![0, 1]), 108 + 9);
    assert_eq!(with(vec![0]), 108);
}

#[test]
fn a_run_queue_that_another_cpu_has_used_takes_longer() {
    // Two readers sleep on CPU 1, on which a third task computes that they do not preempt; the writer on CPU 0 wakes both, one after the other. The
    // first wake-up finds the queue as CPU 1 has used it, 5; the second does not. The first switch there finds it as CPU 0 has, 7, the next ones do not.
    let with = |wakeup_far: u64, schedule_far: u64| {
        let [wakeup_far, schedule_far] = [wakeup_far, schedule_far].map(micros);
        let costs = Costs { wakeup: micros(4), wakeup_remote: micros(6), wakeup_far, schedule_far, ..costs() };
        let of = |channel: &str| Step::Read { channel: channel.into(), bytes: 1 };
        let to = |channel: &str| Step::Write { channel: channel.into(), bytes: 1 };
        let tasks = vec![
            task("first", 1, on(1), vec![of("c")]),
            task("second", 1, on(1), vec![of("d")]),
            task("computing", 1, on(1), vec![Step::Run(microseconds(1000))]),
            task("writer", 1, on(0), vec![Step::Sleep(microseconds(500)), to("c"), to("d")]),
        ];
        let mut all = with_channel(workload(tasks), ChannelKind::Pipe);
        all.channels.insert("d".to_owned(), Channel { kind: ChannelKind::Pipe });
        let (outcome, _) = run(&all, "6.12", &Machine::new(2, costs));
        let ran = |task| shares(&outcome, task)[1];
        (ran(3), ran(0) + ran(1) + ran(2))
    };
    let (writer, others) = with(0, 0);
    assert_eq!(writer, 1 + 2 * (3 + 4 + 6));
    assert_eq!(with(5, 7), (writer + 5, others + 7));
}
