//! Requests of the live page and their answers.

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_web::message::{Array, read};
use serde_json::{Value, json};

type Answer = (Value, BTreeMap<String, Array>);

fn ask(request: &Value) -> Answer {
    read(&schedlab_web::answer(request.to_string().as_bytes())).expect("every answer is a message")
}

fn run(workload: &Value, release: &str, more: &Value) -> Answer {
    let mut request = json!({
        "op": "run", "workload": workload, "machine": {"cpus": 1}, "scheduler": {"release": release}
    });
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    ask(&request)
}

#[test]
fn spans_add_up_to_the_work_and_the_waits() {
    // Two hogs of 10 ms on one CPU: it is busy for 20 ms, and while one runs the other waits.
    let (head, arrays) = run(&json!({"builtin": "hogs:tasks=2,time=10ms"}), "6.1", &json!({}));
    assert_eq!(head["outcome"]["elapsed_ns"], 20_000_000);
    let lengths = |name: &str| -> Vec<f64> {
        let (starts, ends) = (arrays[&format!("{name}_start")].f64s(), arrays[&format!("{name}_end")].f64s());
        starts.iter().zip(ends).map(|(start, end)| end - start).collect()
    };
    assert_eq!(lengths("slice").iter().sum::<f64>(), 20e6);
    let states = arrays["segment_state"].whole();
    let of = |state: u32| -> f64 {
        lengths("segment").iter().zip(states).filter(|(_, is)| **is == state).map(|(length, _)| length).sum()
    };
    assert_eq!(of(0), 20e6);
    // All of the time but what is left when the first has ended.
    let waited: u64 =
        head["outcome"]["tasks"].as_array().unwrap().iter().map(|task| task["wait_ns"].as_u64().unwrap()).sum();
    assert_eq!(of(1), waited as f64);
}

#[test]
fn a_mistake_is_told_at_its_place() {
    let text = "{\n \"tasks\": {\n  \"a\": {\"rum\": 1}\n }\n}";
    let (head, _) = ask(&json!({"op": "workload", "workload": {"text": text}}));
    assert_eq!((&head["part"], &head["line"]), (&json!("workload"), &json!(3)));
    assert!(head["error"].as_str().unwrap().contains("tasks.a.rum"), "{head}");
    let (head, _) = ask(&json!({"op": "workload", "workload": {"text": "{\n\"tasks\" 1}"}}));
    assert_eq!(head["line"], 2);
    let (head, _) = run(&json!({"builtin": "hogs"}), "6.1", &json!({"machine": {"cpus": 0}}));
    assert!(head["error"].as_str().unwrap().contains("allowed: 1 to"), "{head}");
}

#[test]
fn no_request_panics() {
    for request in ["", "{", "[]", "null", "{\"op\": \"run\"}", "{\"op\": \"replay\", \"text\": \"what\"}", "\u{fffd}"]
    {
        let (head, _) = read(&schedlab_web::answer(request.as_bytes())).unwrap();
        assert!(!head["error"].as_str().unwrap().contains('\n'), "{head}");
    }
}

#[test]
fn more_events_than_a_page_has_memory_for_are_an_error() {
    let workload = json!({"builtin": "pipe:loops=1000"});
    let (head, arrays) = run(&workload, "6.1", &json!({"event_limit": 100}));
    assert!(head["error"].as_str().unwrap().starts_with("more than 100 events before "), "{head}");
    assert!(arrays.is_empty());
    let (head, _) = run(&workload, "6.1", &json!({}));
    assert!(head["event_count"].as_u64().unwrap() > 100);
}

#[test]
fn standings_have_deadlines_under_eevdf_alone() {
    let workload = json!({"builtin": "hogs:tasks=2,time=10ms"});
    for (release, eevdf) in [("6.1", false), ("6.12", true)] {
        let (_, arrays) = run(&workload, release, &json!({"standings": null}));
        let (vruntimes, deadlines) = (arrays["standing_vruntime"].f64s(), arrays["standing_deadline"].f64s());
        assert!(!deadlines.is_empty());
        // A request is served when the deadline is reached: no task stands behind its own, but by the tick that is late.
        let behind = |(vruntime, deadline): (&f64, &f64)| deadline - vruntime > -4e6;
        assert!(deadlines.iter().all(|deadline| deadline.is_nan() != eevdf));
        assert!(!eevdf || vruntimes.iter().zip(deadlines).all(behind));
        let (_, arrays) = run(&workload, release, &json!({}));
        assert!(arrays["standing_time"].f64s().is_empty());
    }
}

#[test]
fn throttled_real_time_tasks_are_told_apart_from_waiting_ones() {
    let text = r#"{"global": {"duration": 2}, "tasks": {
        "realtime": {"policy": "SCHED_FIFO", "priority": 50, "loop": -1, "run": 1000}, "shell": {"loop": -1, "run": 1000}}}"#;
    let time_in = |release: &str, knobs: Value, state: u32| -> f64 {
        let scheduler = json!({"release": release, "hz": 250, "knobs": knobs});
        let (head, arrays) = run(&json!({"text": text}), release, &json!({"scheduler": scheduler}));
        assert_eq!(head["outcome"]["tasks"][0]["name"], "realtime", "{head}");
        let (starts, ends) = (arrays["segment_start"].f64s(), arrays["segment_end"].f64s());
        let own = arrays["segment_offset"].whole()[1] as usize;
        let states = &arrays["segment_state"].whole()[..own];
        states.iter().zip(starts.iter().zip(ends)).filter(|(is, _)| **is == state).map(|(_, (a, b))| b - a).sum()
    };
    // `sched_rt_runtime_exceeded`: 950 ms of each second, noticed by a tick, at most 4 ms late, and made up for in the next period.
    let throttled = time_in("6.1", json!({}), 2);
    assert!((92e6..=100e6).contains(&throttled), "{throttled}");
    assert_eq!(time_in("6.1", json!({}), 1), 0.0);
    // Without a limit, and where the fair server has taken its place, it is never throttled.
    assert_eq!(time_in("6.1", json!({"rt_runtime": "unlimited"}), 2), 0.0);
    assert_eq!(time_in("6.12", json!({}), 2), 0.0);
    assert!(time_in("6.12", json!({}), 1) > 0.0);
}

#[test]
fn an_answer_without_its_timeline_says_the_same() {
    let workload = json!({"builtin": "hogs:tasks=3,time=20ms"});
    let (whole, arrays) = run(&workload, "6.12", &json!({}));
    let (head, none) = run(&workload, "6.12", &json!({"drawn": false}));
    assert!(none.is_empty() && !arrays.is_empty());
    for part in ["outcome", "delays", "label", "kinds"] {
        assert_eq!(head[part], whole[part]);
    }
}

#[test]
fn decisions_come_from_the_window_that_is_asked_for() {
    let run = json!({
        "workload": {"builtin": "hogs:tasks=3,time=20ms"}, "machine": {"cpus": 1}, "scheduler": {"release": "6.12"}
    });
    let explain = |from: u64, to: u64, limit: u64| {
        ask(&json!({"op": "explain", "run": run, "window": {"from": from, "to": to, "limit": limit}}))
    };
    let (head, arrays) = explain(5_000_000, 25_000_000, 1000);
    let times = arrays["decision_time"].f64s();
    assert!(!times.is_empty() && times.iter().all(|time| (5e6..=25e6).contains(time)));
    assert_eq!(head["texts"].as_array().unwrap().len(), times.len());
    assert_eq!(head["more"], false);
    let (head, arrays) = explain(0, 60_000_000, 3);
    assert_eq!((arrays["decision_time"].f64s().len(), &head["more"]), (3, &json!(true)));
}

#[test]
fn a_task_is_treated_as_the_page_says() {
    let workload = json!({"builtin": "hogs:tasks=2,time=10ms"});
    let (head, _) = ask(&json!({
        "op": "workload", "workload": workload, "duration": "5ms",
        "tasks": {"hog": {"policy": "fifo:7", "affinity": [0]}}, "groups": ["/a:weight=300,tasks=1"]
    }));
    assert_eq!(head["tasks"][0]["policy"], "fifo:7", "{head}");
    assert_eq!(head["groups"], json!(["/a"]));
    let (head, _) = run(&workload, "6.1", &json!({"duration": "5ms"}));
    assert_eq!(head["outcome"]["elapsed_ns"], 5_000_000);
}

#[test]
fn a_recordings_schedule_and_ours_are_equal_where_the_replay_is_exact() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/fixtures/hogs-6.12.txt.gz");
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()),
        &mut text,
    )
    .unwrap();
    let schedule = |ours: bool| ask(&json!({"op": "replay", "text": text, "ours": ours}));
    let ((kernels, first), (ours, second)) = (schedule(false), schedule(true));
    assert_eq!(kernels["replay"]["exact"], true, "{kernels}");
    assert!(ours["label"].as_str().unwrap().starts_with("our rules of 6.12"));
    for name in ["slice_start", "slice_end"] {
        assert!(!first[name].f64s().is_empty());
        assert_eq!(first[name], second[name]);
    }
    let recording = json!({"text": text});
    let window = json!({"from": 0, "to": 1_000_000_000_u64});
    let (head, arrays) = ask(&json!({"op": "explain_replay", "recording": recording, "window": window}));
    assert!(!arrays["decision_time"].f64s().is_empty(), "{head}");
}
