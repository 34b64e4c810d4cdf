//! rt-app's JSON is read as rt-app and workgen read it, written so that it is read back the same, and refused in one clear line.

use schedlab_model::{Change, Duration, Policy, Step, TaskKind, Time};
use schedlab_program::Program;
use schedlab_workloads::rtapp::{self, Imported};

#[track_caller]
fn import(text: &str) -> Imported {
    rtapp::import(text, "test").unwrap_or_else(|error| unreachable!("{error}"))
}

/// The steps of the only task.
#[track_caller]
fn steps(text: &str) -> Vec<Step> {
    import(text).workload.tasks.remove(0).steps
}

fn run(micros: u64) -> Step {
    Step::Run(Duration::Fixed(Time::from_micros(micros)))
}

fn repeat(count: u64, steps: Vec<Step>) -> Step {
    Step::Loop { count, steps }
}

#[test]
fn what_json_c_and_workgen_take_is_taken() {
    let text = r#"{
        /* a comment, and // another in it */
        "tasks" : { // to the end of the line
            "thread0" : {
                "loop" : 2,
                'run' : 10,
                "suspend",
                "run" : 20,
                "run" : 30,
            },
        },
    }
    "#;
    let suspend = [
        Step::Lock("thread0".into()),
        Step::Wait { condition: "thread0".into(), mutex: "thread0".into() },
        Step::Unlock("thread0".into()),
    ];
    let expected: Vec<Step> = [run(10)].into_iter().chain(suspend).chain([run(20), run(30)]).collect();
    assert_eq!(steps(text), [repeat(2, expected)]);
}

#[test]
fn phases_and_loops_nest_as_rt_app_does() {
    // tutorial.txt: a task's loop is −1 where nothing is said, a phase's 1; without phases the loop is the phase's.
    let phases =
        r#"{"tasks": {"t": {"phases": {"a": {"loop": 3, "run": 1}, "b": {"run": 2}}}}, "global": {"duration": 2}}"#;
    assert_eq!(steps(phases), [Step::Forever(vec![repeat(3, vec![run(1)]), repeat(1, vec![run(2)])])]);
    assert_eq!(import(phases).workload.duration, Some(Time::from_millis(2000)));
    let once = r#"{"tasks": {"t": {"loop": 1, "phases": {"a": {"run": 1}}}}}"#;
    assert_eq!(steps(once), [repeat(1, vec![repeat(1, vec![run(1)])])]);
    assert_eq!(import(once).workload.duration, None);
    // For ever, without a duration: ours sets one, and says so.
    let endless = import(r#"{"tasks": {"t": {"run": 1}}}"#);
    assert_eq!(endless.workload.duration, Some(Time::from_millis(5000)));
    assert!(endless.notes[0].contains("5s"), "{:?}", endless.notes);
}

#[test]
fn events_are_recognised_by_how_their_names_begin() {
    let text = r#"{"tasks": {"t": {"loop": 1, "runtime2": 5, "run_b": 6, "memrun1": {"type": "read", "size": 64, "count": 9},
        "mem7": 8, "sem_post0": "s", "sem_wait0": "s", "sleep9": 0}}}"#;
    let [Step::Loop { steps, .. }] = &steps(text)[..] else { unreachable!("one loop") };
    assert!(matches!(steps[0], Step::Busy(_)));
    assert_eq!(steps[1], run(6));
    assert!(matches!(steps[2], Step::Memory { count: 9, .. }) && matches!(steps[3], Step::Memory { count: 8, .. }));
    assert_eq!(steps[4..6], [Step::Post("s".into()), Step::Acquire("s".into())]);
}

#[test]
fn policies_follow_rt_apps_defaults() {
    let task = |keys: &str, default: &str| {
        let text = format!(
            r#"{{"tasks": {{"t": {{"loop": 1, {keys} "run": 1}}}}, "global": {{"default_policy": "{default}"}}}}"#
        );
        import(&text).workload.tasks[0].attributes.clone().unwrap()
    };
    // DEFAULT_THREAD_PRIORITY is 10, DEFAULT_THREAD_NICE 0; the period is the runtime's where nothing is said, the deadline the period's.
    assert_eq!(task("", "SCHED_FIFO").policy, Policy::Fifo(10));
    assert_eq!(task(r#""priority": -7,"#, "SCHED_OTHER").nice, -7);
    assert_eq!(task(r#""policy": "SCHED_RR", "priority": 3,"#, "SCHED_OTHER").policy, Policy::Rr(3));
    let ms = Time::from_millis;
    let deadline = r#""policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000,"#;
    let expected = Policy::Deadline { runtime: ms(2), deadline: ms(10), period: ms(10) };
    assert_eq!(task(deadline, "SCHED_OTHER").policy, expected);
    // __setparam_fair keeps a slice within 0.1 and 100 ms.
    assert_eq!(task(r#""dl-runtime": 200000,"#, "SCHED_OTHER").slice, Some(ms(100)));
    assert_eq!(import(r#"{"tasks": {"t": {"loop": 1, "run": 1}}}"#).workload.tasks[0].kind, TaskKind::Thread);
}

#[test]
fn a_phase_changes_what_it_says_and_has_its_tasks_cpus_else() {
    // tutorial.txt's example: the first phase on CPUs 0 and 1, the second on 2, the third on its task's.
    let text = r#"{"tasks": {"t": {"cpus": [4, 5], "loop": 1, "phases": {
        "a": {"cpus": [0, 1], "run": 1}, "b": {"policy": "SCHED_FIFO", "run": 1}, "c": {"priority": 4, "taskgroup": "/g", "run": 1}}}}}"#;
    let [Step::Loop { steps, .. }] = &steps(text)[..] else { unreachable!("one loop") };
    let change = |index: usize| match &steps[index] {
        Step::Loop { steps, .. } => match &steps[0] {
            Step::Set(change) => change.clone(),
            other => unreachable!("{other:?}"),
        },
        other => unreachable!("{other:?}"),
    };
    let on = |cpus: &[u32]| Change { affinity: Some(cpus.to_vec()), ..Change::default() };
    assert_eq!(change(0), on(&[0, 1]));
    assert_eq!(change(1), Change { policy: Some(Policy::Fifo(10)), ..on(&[4, 5]) });
    assert_eq!(change(2), Change { policy: Some(Policy::Fifo(4)), taskgroup: Some("/g".into()), ..on(&[4, 5]) });
    assert!(import(text).workload.groups.contains_key("/g"));
}

#[test]
fn extensions_say_what_rt_app_cannot() {
    let text = r#"{"tasks": {"t": {"loop": 1, "run": {"exponential": 5}, "sleep": {"uniform": [1, "1500ns"]}, "run2": {"normal": [9, 3]},
        "repeat": {"loop": 2, "send": {"channel": "c", "bytes": 7}, "repeat": {"loop": -1, "yield": ""}}}},
        "resources": {"c": {"type": "pipe"}}, "global": {"duration": 1}}"#;
    let micros = Time::from_micros;
    let expected = vec![
        Step::Run(Duration::Exponential { mean: micros(5) }),
        Step::Sleep(Duration::Uniform { low: micros(1), high: Time::from_nanos(1500) }),
        Step::Run(Duration::Normal { mean: micros(9), deviation: micros(3) }),
        repeat(2, vec![Step::Write { channel: "c".into(), bytes: 7 }, Step::Forever(vec![Step::Yield])]),
    ];
    assert_eq!(steps(text), [repeat(1, expected)]);
    Program::compile(&import(text).workload).unwrap();
}

#[test]
fn bad_files_get_one_clear_line() {
    let event = |event: &str| format!("{{\"tasks\": {{\"t\": {{\"loop\": 1,\n {event}}}}}}}");
    for (text, parts) in [
        ("", &["line 1, column 1", "expected a value"][..]),
        ("{", &["expected a key in quotes or '}'", "the end of the file"]),
        ("{\"tasks\": {\"t\": {\"sem_post\": []}}}", &["tasks.t.sem_post", "a list of at least one text"]),
        ("{\"tasks\": {\"t\": {\"sem_post\": [\"a\", 1]}}}", &["tasks.t.sem_post.1", "expected a text"]),
        ("{\"tasks\": {\"t\": {\"run\" 10}}}", &["expected ':'", "'1'"]),
        ("{\"tasks\": {\"t\": {\"run\": 10 \"sleep\": 3}}}", &["expected ',' or '}'"]),
        ("/* never closed", &["line 1, column 1", "no end"]),
        ("{\"a\": \"x}", &["no end"]),
        ("{\"a\": nope}", &["'nope'"]),
        (&"[".repeat(500), &["nested deeper than 160"]),
        ("[]", &["expected an object"]),
        ("{}", &["'tasks' is missing"]),
        ("{\"tasks\": {}, \"task\": {}}", &["task", "no such key at the top", "tasks"]),
        (&event("\"rum\": 1"), &["tasks.t.rum (line 2", "no such event or key of a task"]),
        (&event("\"run\": -5"), &["tasks.t.run", "-5", "negative"]),
        (&event("\"run\": 99999999999999999999"), &["tasks.t.run", "too long"]),
        (&event("\"run\": 18446744073709552"), &["tasks.t.run", "too long"]),
        (&event("\"run\": 1.5"), &["tasks.t.run", "whole microseconds"]),
        (&event("\"run\": \"5 parsecs\""), &["tasks.t.run", "unit"]),
        (&event("\"lock_order\": [\"r0\"]"), &["tasks.t.lock_order", "expected a text", "an array"]),
        (&event("\"timer\": {\"ref\": \"x\", \"mode\": \"odd\"}"), &["tasks.t.timer.mode", "relative, absolute"]),
        (&event("\"wait\": {\"ref\": \"x\"}"), &["'mutex' is missing"]),
        (&event("\"instance\": 1000001, \"run\": 1"), &["tasks.t.instance", "0 to 1000000"]),
        (&event("\"priority\": 20, \"run\": 1"), &["priority 20", "-20 to 19"]),
        (&event("\"policy\": \"SCHED_FIFO\", \"priority\": 0, \"run\": 1"), &["priority 0", "1 to 99"]),
        (&event("\"policy\": \"SCHED_NONE\", \"run\": 1"), &["SCHED_OTHER", "SCHED_NONE"]),
        (&event("\"policy\": \"SCHED_DEADLINE\", \"run\": 1"), &["dl-runtime"]),
        (&event("\"taskgroup\": \"tg\", \"run\": 1"), &["begins with '/'"]),
        (&event("\"inherit\": true, \"cpus\": [0], \"run\": 1"), &["tasks.t.cpus", "inherits", "leave out this key"]),
        (&event("\"inherit\": true, \"policy\": \"SCHED_FIFO\", \"run\": 1"), &["tasks.t.policy", "inherits"]),
        (&event("\"priority\": 1"), &["no events"]),
        ("{\"tasks\": {\"t\": {\"phases\": {\"p\": {}}}}}", &["tasks.t.phases.p", "no events"]),
        (
            "{\"tasks\": {\"t\": {\"phases\": {\"p\": {\"loop\": 0, \"run\": 1}}}}}",
            &["tasks.t.phases.p.loop", "1 or more"],
        ),
        (
            "{\"tasks\": {\"a\": {\"instance\": 600000, \"run\": 1}, \"b\": {\"instance\": 600000, \"run\": 1}}}",
            &["1200000 tasks", "1 to 1000000"],
        ),
        ("{\"tasks\": {\"t\": {\"run\": 1}}, \"global\": {\"duratoin\": 1}}", &["global.duratoin", "known: duration"]),
        (
            "{\"tasks\": {\"t\": {\"run\": 1}}, \"resources\": {\"r\": {\"type\": \"door\"}}}",
            &["resources.r.type", "mutex"],
        ),
    ] {
        let error = rtapp::import(text, "test").map(|_| ()).expect_err(text).to_string();
        assert!(!error.contains('\n'), "{error}");
        for part in parts {
            assert!(error.contains(part), "{text}: '{part}' is not in: {error}");
        }
    }
}

#[test]
fn what_would_wait_for_ever_is_refused_when_it_is_compiled() {
    for (events, parts) in [
        (r#""lock": "m", "run": 1"#, &["task 't'", "mutex 'm'"][..]),
        (r#""lock": "m", "lock1": "m", "unlock": "m""#, &["step 1.2", "'m'", "which it holds"]),
        (r#""unlock": "m""#, &["step 1.1", "without holding it"]),
        (r#""wait": {"ref": "c", "mutex": "m"}"#, &["waits for 'c' without holding mutex 'm'"]),
        (r#""fork": "t""#, &["forks lead back to itself"]),
        (r#""fork": "x""#, &["no task is called 'x'"]),
    ] {
        let text = format!(r#"{{"tasks": {{"t": {{"loop": 2, {events}}}}}}}"#);
        let error = Program::compile(&import(&text).workload).map(|_| ()).expect_err(&text).to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: '{part}' is not in: {error}");
        }
    }
}
