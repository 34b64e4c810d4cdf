//! Bad workloads get one line that says what was wrong, where, and what is allowed.

use std::collections::BTreeMap;

use schedlab_model::{Attributes, Channel, ChannelKind, Duration, Group, Policy, Step, Task, TaskKind, Time, Workload};
use schedlab_program::{MAX_MESSAGE, Program};

fn task(name: &str, instances: u32, steps: Vec<Step>) -> Task {
    Task { name: name.into(), instances, kind: TaskKind::Process, attributes: None, steps, ..Task::default() }
}

fn workload(tasks: Vec<Task>) -> Workload {
    let channels = BTreeMap::from([("c".to_owned(), Channel { kind: ChannelKind::Pipe })]);
    Workload { name: "test".into(), channels, latches: vec!["go".into()], tasks, ..Workload::default() }
}

fn write(channel: &str, bytes: u32) -> Step {
    Step::Write { channel: channel.into(), bytes }
}

fn read(bytes: u32) -> Step {
    Step::Read { channel: "c".into(), bytes }
}

fn fork(name: &str, count: u32) -> Step {
    Step::Fork { task: name.into(), count }
}

fn repeat(count: u64, steps: Vec<Step>) -> Step {
    Step::Loop { count, steps }
}

#[track_caller]
fn refused(workload: &Workload, parts: &[&str]) {
    let message = Program::compile(workload).map(|_| ()).expect_err("it is refused").to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[track_caller]
fn steps_refused(steps: Vec<Step>, parts: &[&str]) {
    refused(&workload(vec![task("a", 1, steps)]), parts);
}

#[test]
fn unknown_names_are_refused_where_they_stand() {
    steps_refused(vec![Step::Yield, write("x", 1)], &["'test'", "task 'a', step 2", "channel", "'x'", "declared: c"]);
    steps_refused(vec![repeat(2, vec![Step::Join, fork("b", 1)])], &["step 1.2", "'b'", "declared: a"]);
    steps_refused(vec![Step::OpenLatch("gone".into())], &["latch", "'gone'", "declared: go"]);
    let mut marked = workload(vec![task("a", 1, vec![Step::Mark("start".into())])]);
    marked.turnaround_from = Some("begin".into());
    refused(&marked, &["turnaround_from", "'begin'", "declared: start"]);
}

#[test]
fn names_given_twice_are_refused() {
    refused(&workload(vec![task("a", 1, vec![]), task("a", 1, vec![])]), &["task 'a'", "two tasks"]);
    let mut latches = workload(vec![task("a", 1, vec![])]);
    latches.latches.push("go".into());
    refused(&latches, &["latch 'go'", "two latches"]);
}

#[test]
fn message_sizes_have_a_range() {
    steps_refused(vec![write("c", 0)], &["0 bytes", "1 to 16777216"]);
    steps_refused(vec![repeat(0, vec![write("c", MAX_MESSAGE + 1)])], &["step 1.1", "1 to 16777216"]);
}

#[test]
fn waiting_for_ever_is_refused() {
    // 3 × 10 bytes are read, 2 × 10 + 5 written.
    let steps = vec![repeat(2, vec![write("c", 10)]), write("c", 5), repeat(3, vec![read(10)])];
    steps_refused(steps, &["channel 'c'", "30 bytes", "only 25"]);
    // Forked tasks count: 4 children write 10 bytes each, and 40 are read.
    let balanced = |bytes| {
        workload(vec![
            task("a", 1, vec![repeat(2, vec![fork("b", 2)]), read(bytes)]),
            task("b", 0, vec![write("c", 10)]),
        ])
    };
    assert!(Program::compile(&balanced(40)).is_ok());
    refused(&balanced(41), &["41 bytes", "only 40"]);
    steps_refused(vec![Step::AwaitLatch("go".into())], &["latch 'go'", "task 'a' awaits", "no task opens"]);
}

#[test]
fn too_many_tasks_are_refused() {
    refused(&workload(vec![task("a", 0, vec![])]), &["none is there from the start"]);
    refused(&workload(vec![task("a", 1_000_001, vec![])]), &["1000001 tasks", "1 to 1000000"]);
    // 1 + 1000 + 1000·1000 tasks.
    let tree = vec![task("a", 1, vec![fork("b", 1000)]), task("b", 0, vec![fork("c", 1000)]), task("c", 0, vec![])];
    refused(&workload(tree), &["1001001 tasks"]);
    // 2^64 loops of 2^32 − 1 forks overflow any counter.
    let many = repeat(u64::MAX, vec![repeat(u64::MAX, vec![fork("b", u32::MAX)])]);
    refused(&workload(vec![task("a", 1, vec![many]), task("b", 0, vec![])]), &["more than 2^64 tasks"]);
}

#[test]
fn forks_without_end_are_refused() {
    steps_refused(vec![fork("a", 1)], &["task 'a'", "lead back to itself"]);
    let cycle =
        vec![task("a", 1, vec![fork("b", 1)]), task("b", 0, vec![fork("c", 1)]), task("c", 0, vec![fork("b", 1)])];
    refused(&workload(cycle), &["task 'b'", "lead back"]);
}

#[test]
fn loops_have_a_depth_limit() {
    let nested = |depth| (0..depth).fold(vec![Step::Yield], |steps, _| vec![repeat(2, steps)]);
    assert!(Program::compile(&workload(vec![task("a", 1, nested(64))])).is_ok());
    steps_refused(nested(65), &["deeper than 64"]);
}

#[test]
fn durations_and_attributes_have_ranges() {
    let backwards = Duration::Uniform { low: Time::from_millis(2), high: Time::from_millis(1) };
    steps_refused(vec![Step::Sleep(backwards)], &["step 1", "2ms to 1ms"]);
    for (attributes, part) in [
        (Attributes { nice: 20, ..Attributes::default() }, "-20 to 19"),
        (Attributes { policy: Policy::Fifo(0), ..Attributes::default() }, "1 to 99"),
        (Attributes { slice: Some(Time::from_micros(99)), ..Attributes::default() }, "100us to 100ms"),
        (Attributes { affinity: vec![0, 4096], ..Attributes::default() }, "0 to 4095"),
    ] {
        let tasks = vec![Task { attributes: Some(attributes), ..task("a", 1, vec![]) }];
        refused(&workload(tasks), &["task 'a'", part]);
    }
}

#[test]
fn a_group_that_is_not_there_or_cannot_be_is_refused() {
    let member = |path: &str| Task { taskgroup: Some(path.into()), ..task("a", 1, vec![]) };
    let with = |task: Task, path: &str, group: Group| {
        let mut workload = workload(vec![task]);
        workload.groups.insert(path.into(), group);
        workload
    };
    let missing = with(member("/users/bob"), "/users/alice", Group::default());
    refused(&missing, &["task 'a'", "no group is called '/users/bob'", "declared: /users, /users/alice"]);
    refused(&with(member("/"), "users", Group::default()), &["group 'users'", "begins with '/'"]);
    let heavy = Group { weight: Some(10_001), ..Group::default() };
    refused(&with(member("/a"), "/a", heavy), &["group '/a'", "weight = 10001", "1 to 10000"]);
    let nameless = Task { session: Some(" ".into()), ..task("a", 1, vec![]) };
    refused(&workload(vec![nameless]), &["task 'a'", "session has no name"]);
}

#[test]
fn background_tasks_share_nothing_with_the_others() {
    let beside = |own: Vec<Step>, others: Vec<Step>| {
        let other = Task { background: true, ..task("other", 1, others) };
        workload(vec![task("a", 1, own), other])
    };
    refused(&beside(vec![write("c", 1)], vec![repeat(2, vec![read(1)])]), &["channel 'c'", "background"]);
    let open = Step::OpenLatch("go".into());
    refused(&beside(vec![Step::AwaitLatch("go".into())], vec![open]), &["latch 'go'", "background"]);
    refused(&beside(vec![fork("other", 1)], vec![Step::Yield]), &["task 'other'", "background"]);
    refused(&beside(vec![Step::Yield], vec![fork("a", 1)]), &["task 'a'", "background"]);
    Program::compile(&beside(vec![write("c", 1), read(1)], vec![Step::Yield])).expect("nothing is shared");
}
