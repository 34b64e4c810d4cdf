//! A cursor yields what a naive interpreter yields, and its random streams depend on seed and path alone.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schedlab_model::{Channel, ChannelKind, Duration, Step, Task, TaskKind, Time, Workload};
use schedlab_program::{Cursor, Op, Program, TemplateId};

fn task(name: &str, instances: u32, steps: Vec<Step>) -> Task {
    Task { name: name.into(), instances, kind: TaskKind::Process, attributes: None, steps, ..Task::default() }
}

fn workload(tasks: Vec<Task>) -> Workload {
    let channel = Channel { kind: ChannelKind::Pipe };
    let channels = BTreeMap::from([("c".to_owned(), channel.clone()), ("d".to_owned(), channel)]);
    Workload { name: "test".into(), channels, latches: vec!["go".into()], tasks, ..Workload::default() }
}

/// The definition: a loop is its body over and over.
fn naive(steps: &[Step], made: &mut BTreeMap<String, u32>, found: &mut Vec<Op>) {
    for step in steps {
        match step {
            Step::Run(Duration::Fixed(time)) => found.push(Op::Run(*time)),
            Step::Sleep(Duration::Fixed(time)) => found.push(Op::Sleep(*time)),
            Step::Yield => found.push(Op::Yield),
            Step::Write { channel, bytes } => {
                found.push(Op::Write { channel: u32::from(channel == "d"), bytes: *bytes })
            }
            Step::OpenLatch(_) => found.push(Op::OpenLatch(0)),
            Step::AwaitLatch(_) => found.push(Op::AwaitLatch(0)),
            Step::Fork { task, count } => {
                for _ in 0..*count {
                    let instance = made.entry(task.clone()).or_default();
                    let template = TemplateId(if task == "child" { 1 } else { 2 });
                    found.push(Op::Fork { template, instance: *instance });
                    *instance += 1;
                }
            }
            Step::Join => found.push(Op::Join),
            Step::Loop { count, steps } => (0..*count).for_each(|_| naive(steps, made, found)),
            other => unreachable!("{other:?} is not generated"),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        (0..9u64).prop_map(|n| Step::Run(Duration::Fixed(Time::from_micros(n)))),
        (0..9u64).prop_map(|n| Step::Sleep(Duration::Fixed(Time::from_micros(n)))),
        Just(Step::Yield),
        Just(Step::Join),
        Just(Step::OpenLatch("go".into())),
        (any::<bool>(), 1..99u32)
            .prop_map(|(c, bytes)| Step::Write { channel: if c { "c" } else { "d" }.into(), bytes }),
        (any::<bool>(), 0..3u32)
            .prop_map(|(c, count)| Step::Fork { task: if c { "child" } else { "other" }.into(), count }),
    ];
    let step = leaf.prop_recursive(6, 40, 4, |inner| {
        (0..4u64, prop::collection::vec(inner, 0..4)).prop_map(|(count, steps)| Step::Loop { count, steps })
    });
    prop::collection::vec(step, 0..6)
}

fn walk(program: &Program, mut cursor: Cursor) -> Vec<Op> {
    let mut found = Vec::new();
    loop {
        match cursor.next(program) {
            Op::Exit => break,
            op => found.push(op),
        }
    }
    assert_eq!(cursor.next(program), Op::Exit, "the end is for ever");
    found
}

proptest! {
    #[test]
    fn a_cursor_yields_what_a_naive_interpreter_yields(steps in steps()) {
        let workload = workload(vec![task("main", 1, steps.clone()), task("child", 0, vec![]), task("other", 0, vec![])]);
        let program = Program::compile(&workload).unwrap();
        let mut expected = Vec::new();
        naive(&steps, &mut BTreeMap::new(), &mut expected);
        prop_assert_eq!(walk(&program, Cursor::root(&program, TemplateId(0), 0, 1)), expected.clone());

        // One task for main and one for each fork; a write sends its bytes.
        let forks = expected.iter().filter(|op| matches!(op, Op::Fork { .. })).count() as u64;
        prop_assert_eq!(program.total_tasks(), 1 + forks);
        let written = |wanted: u32| -> u64 {
            expected.iter().map(|op| match op {
                Op::Write { channel, bytes } if *channel == wanted => u64::from(*bytes),
                _ => 0,
            }).sum()
        };
        for channel in 0..2 {
            prop_assert_eq!(program.traffic()[channel as usize].bytes_written, written(channel));
        }
    }
}

fn random_run() -> Step {
    Step::Run(Duration::Exponential { mean: Time::from_micros(100) })
}

fn draws(count: u64) -> Vec<Step> {
    vec![Step::Loop { count, steps: vec![random_run()] }]
}

fn fork(name: &str, count: u32) -> Step {
    Step::Fork { task: name.into(), count }
}

/// What the children called "child" draw, in the order in which "main" makes them.
fn children(workload: &Workload, seed: u64) -> Vec<Vec<Op>> {
    let program = Program::compile(workload).expect("the workload compiles");
    let mut main = Cursor::root(&program, TemplateId(0), 0, seed);
    let mut found = Vec::new();
    loop {
        match main.next(&program) {
            Op::Exit => return found,
            Op::Fork { template, instance } if program.template(template).name == "child" => {
                found.push(walk(&program, main.child(&program, template, instance)));
            }
            _ => {}
        }
    }
}

#[test]
fn a_stream_depends_on_seed_and_path_alone() {
    let alone = workload(vec![task("main", 1, vec![fork("child", 3)]), task("child", 0, draws(5))]);
    // The same children, but their parent draws and makes others before and between them.
    let crowded = workload(vec![
        task("main", 1, vec![random_run(), fork("other", 2), fork("child", 1), random_run(), fork("child", 2)]),
        task("other", 0, draws(2)),
        task("child", 0, draws(5)),
    ]);
    let first = children(&alone, 42);
    assert_eq!(first.len(), 3);
    assert_eq!(first, children(&alone, 42), "the same seed, the same times");
    assert_eq!(first, children(&crowded, 42), "others do not matter");
    assert_ne!(first, children(&alone, 43), "another seed, other times");
    assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2], "instances differ");
}

#[test]
fn roots_come_in_the_order_of_the_text() {
    let workload = workload(vec![task("a", 2, vec![]), task("b", 0, vec![]), task("c", 1, vec![])]);
    let program = Program::compile(&workload).unwrap();
    let roots: Vec<_> = program.roots().collect();
    assert_eq!(roots, [(TemplateId(0), 0), (TemplateId(0), 1), (TemplateId(2), 0)]);
    assert_eq!(program.task_name(TemplateId(0), 1), "a[1]");
    assert_eq!(program.task_name(TemplateId(2), 0), "c");
}

#[test]
fn loops_deeper_than_the_inline_counters_work() {
    // Two rounds at each of 10 depths: 2^10 runs.
    let nested = (0..10).fold(vec![Step::Yield], |steps, _| vec![Step::Loop { count: 2, steps }]);
    let program = Program::compile(&workload(vec![task("a", 1, nested)])).unwrap();
    assert_eq!(walk(&program, Cursor::root(&program, TemplateId(0), 0, 0)).len(), 1024);
}

#[test]
fn endless_loops_around_nothing_are_nothing() {
    let nothing = Step::Loop { count: u64::MAX, steps: vec![Step::Loop { count: u64::MAX, steps: vec![] }] };
    let program = Program::compile(&workload(vec![task("a", 1, vec![nothing])])).unwrap();
    assert_eq!(walk(&program, Cursor::root(&program, TemplateId(0), 0, 0)), []);
}

/// A task's stream knows nothing of what its times are for: a task that runs for drawn times draws those for which one of the same name sleeps, however
/// sleeping is compiled. 2³² - 1 nanoseconds are the most that stand in an instruction, and so is the first of them.
#[test]
fn sleeps_are_drawn_as_runs_are() {
    let word = u64::from(u32::MAX);
    for (low, high) in
        [(0, 0), (500, 1_500_000), (0, word - 1), (0, word), (word, word), (word + 1, word + 9), (0, u64::MAX)]
    {
        let drawn = Duration::Uniform { low: Time::from_nanos(low), high: Time::from_nanos(high) };
        let [runs, sleeps] = [Step::Run(drawn), Step::Sleep(drawn)].map(|step| {
            let steps = vec![Step::Loop { count: 50, steps: vec![step] }];
            Program::compile(&workload(vec![task("same", 1, steps)])).expect("a workload")
        });
        let [mut run, mut sleep] = [&runs, &sleeps].map(|program| Cursor::root(program, TemplateId(0), 0, 9));
        let mut expected = sleep.clone();
        for _ in 0..50 {
            let Op::Run(time) = run.next(&runs) else { panic!("it runs 50 times") };
            assert!((low..=high).contains(&time.as_nanos()), "{low} to {high}: {time}");
            assert_eq!(sleep.next(&sleeps), Op::Sleep(time), "{low} to {high}");
            assert_eq!(expected.next_sleep(&sleeps), Ok(time), "{low} to {high}");
        }
    }
}
