//! Recordings cut, doubled and scrambled: the answer is always a workload that compiles or one line that says why not.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::io::Read;
use std::path::Path;

use proptest::prelude::*;
use schedlab_infer::{Ending, InferError, Options, infer};
use schedlab_model::{Costs, Step, Time};
use schedlab_program::Program;
use schedlab_trace::{Reader, open};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/fixtures").join(name)
}

/// The lines of a recording.
fn lines(name: &str) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(fixture(name)).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn whole(options: &Options, text: &str) -> Result<(), String> {
    match infer(Reader::new(text.as_bytes()), options) {
        Ok(inferred) => {
            Program::compile(&inferred.workload).map(|_| ()).map_err(|error| format!("no program: {error}"))
        }
        Err(error) if error.to_string().contains('\n') => Err(format!("more than a line: {error}")),
        Err(_) => Ok(()),
    }
}

#[derive(Debug, Clone)]
enum Wound {
    Drop(usize),
    Double(usize),
    Swap(usize, usize),
    Cut(usize),
    Replace(usize, &'static str, &'static str),
}

fn wounds() -> impl Strategy<Value = Vec<Wound>> {
    let words = prop::sample::select(vec![
        ("sched_switch", "sched_waking"),
        ("sched_waking", "sched_switch"),
        (" S ", " X "),
        ("prev_state=S", "prev_state=X"),
        ("prev_state=R", "prev_state=S"),
        ("pid=", "pid=4194303"),
        ("pid=1", "pid=0"),
        ("prio=120", "prio=-1"),
        ("prio=120", "prio=2147483647"),
        ("child_pid=", "child_pid=1"),
        ("target_cpu=0", "target_cpu=4095"),
        (" 0 0 0 ", " 0 6 0 "),
        ("# hz: 250", "# hz: 4294967295"),
        ("# cpus: 0", "# cpus: 0-4000"),
        ("# recorder: ", "# recorder: 1 2 3 "),
        ("schedlab: begin", "schedlab: end"),
    ]);
    let at = 0usize..5000;
    prop::collection::vec(
        prop_oneof![
            at.clone().prop_map(Wound::Drop),
            at.clone().prop_map(Wound::Double),
            (at.clone(), at.clone()).prop_map(|(one, other)| Wound::Swap(one, other)),
            at.clone().prop_map(Wound::Cut),
            (at, words).prop_map(|(at, (old, new))| Wound::Replace(at, old, new)),
        ],
        1..8,
    )
}

fn wounded(mut lines: Vec<String>, wounds: &[Wound]) -> String {
    for wound in wounds {
        let length = lines.len().max(1);
        match *wound {
            Wound::Drop(at) if !lines.is_empty() => drop(lines.remove(at % length)),
            Wound::Double(at) if !lines.is_empty() => lines.insert(at % length, lines[at % length].clone()),
            Wound::Swap(one, other) if !lines.is_empty() => lines.swap(one % length, other % length),
            Wound::Cut(at) => lines.truncate(at % length),
            // From there on, so that it meets something.
            Wound::Replace(at, old, new) => {
                lines.iter_mut().skip(at % length).take(60).for_each(|line| *line = line.replace(old, new));
            }
            _ => {}
        }
    }
    // What was counted is not what is told here.
    let events = lines.iter().filter(|line| !line.starts_with('#')).count();
    lines.retain(|line| !line.starts_with("# end"));
    lines.push(format!("# end: events={events}"));
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_recording_gives_a_workload_or_a_line(
        wounds in wounds(),
        name in prop::sample::select(vec!["sleepers-7.2.txt.gz", "groups-6.1.txt.gz", "changes-6.12.txt.gz", "deadline-6.1.txt.gz"]),
        (time, from) in (any::<bool>(), 0u64..300),
    ) {
        let options = Options {
            name: "broken".into(),
            costs: Costs { switch: Time::from_micros(3), tick: Time::from_micros(2), ..Costs::ideal() },
            from: Some(Time::from_millis(from)),
            ending: Some(if time { Ending::Time } else { Ending::Work }),
            ..Options::default()
        };
        prop_assert_eq!(whole(&options, &wounded(lines(name), &wounds)), Ok(()));
    }

    #[test]
    fn text_that_is_none_is_refused(text in "\\PC{0,300}") {
        prop_assert_eq!(whole(&Options::default(), &text), Ok(()));
    }
}

#[test]
fn every_kept_recording_gives_a_workload() {
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        let inferred = infer(open(&path).unwrap(), &Options::default()).unwrap();
        Program::compile(&inferred.workload).unwrap();
        assert!(inferred.counts.tasks > 3 && inferred.counts.steps > 10, "{}", path.display());
    }
}

#[test]
fn what_recordings_say_of_tasks_is_in_the_workload() {
    let of = |name: &str| infer(open(&fixture(name)).unwrap(), &Options::default()).unwrap().workload;
    // The recorded scenarios are told in crates/native/src/scenario.rs: groups with weights, a limit, tasks that move into them.
    let groups = of("groups-6.1.txt.gz");
    let paths: Vec<&str> = groups.groups.keys().map(|path| path.rsplit_once('/').unwrap().1).collect();
    assert!(["light", "heavy", "limited", "free"].iter().all(|name| paths.contains(name)), "{paths:?}");
    let moves = |step: &Step| matches!(step, Step::Set(change) if change.taskgroup.is_some());
    assert!(groups.tasks.iter().any(|task| somewhere(&task.steps, &moves)));
    // Tasks that become real-time ones on the way.
    let realtime = of("realtime-6.1.txt.gz");
    let becomes =
        |step: &Step| matches!(step, Step::Set(change) if change.policy.is_some_and(|policy| policy.is_realtime()));
    assert!(realtime.tasks.iter().any(|task| somewhere(&task.steps, &becomes)));
}

fn somewhere(steps: &[Step], is: &dyn Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop { steps, .. } | Step::Forever(steps) => somewhere(steps, is),
        step => is(step),
    })
}

#[test]
fn parts_of_a_recording_are_within_it() {
    let part = |from: Option<u64>, to: Option<u64>| {
        let time = |millis: u64| Some(Time::from_millis(millis));
        let options = Options { from: from.and_then(time), to: to.and_then(time), ..Options::default() };
        infer(open(&fixture("sleepers-7.2.txt.gz")).unwrap(), &options)
    };
    let (all, half) = (part(None, None).unwrap(), part(Some(20), Some(60)).unwrap());
    assert_eq!(half.counts.span_ns, 40_000_000);
    assert!(half.counts.events < all.counts.events && half.counts.tasks <= all.counts.tasks);
    for (from, to) in [(Some(60_000), None), (Some(20), Some(10)), (Some(20), Some(20)), (None, Some(0))] {
        assert!(matches!(part(from, to), Err(InferError::Window { .. })), "{from:?} to {to:?}");
    }
}
