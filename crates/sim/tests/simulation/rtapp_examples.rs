//! Every example that Debian's rt-app ships is simulated, unless rt-app itself rejects it.

use std::path::{Path, PathBuf};

use schedlab_model::{Machine, NoEvents, Outcome, Scheduler};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};
use schedlab_workloads::rtapp;

const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";

/// What rt-app (with workgen) rejects: pieces of files for `merge.py`, in the language of its first releases (`lock_order` where
/// today's has `lock`, no tasks, no events).
const REJECTED: [&str; 6] = [
    "merge/global.json",
    "merge/resources.json",
    "merge/thread0.json",
    "merge/thread1.json",
    "merge/thread2.json",
    "merge/thread3.json",
];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

fn examples() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(Path::new(EXAMPLES), &mut found);
    found.sort();
    if found.is_empty() {
        eprintln!("SKIPPED: rt-app's examples are not installed (apt install rt-app)");
    }
    found
}

fn run(path: &Path) -> Result<Outcome, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let imported = rtapp::import(&text, "example").map_err(|error| error.to_string())?;
    let program = Program::compile(&imported.workload).map_err(|error| error.to_string())?;
    let scheduler = Scheduler::new("6.1".parse().expect("a release"));
    // Four CPUs: tutorial/example8.json binds tasks to CPU 2.
    simulate(&program, &scheduler, &Machine::ideal(4), &Options::default(), &mut NoEvents)
        .map_err(|error| error.to_string())
}

#[test]
fn every_example_runs_unless_rt_app_rejects_it() {
    for path in examples() {
        let name = path.strip_prefix(EXAMPLES).expect("it is below").to_string_lossy().into_owned();
        match run(&path) {
            Ok(outcome) => {
                assert!(!REJECTED.contains(&name.as_str()), "{name} runs, though rt-app rejects it");
                assert!(outcome.tasks.iter().any(|task| task.run_ns > 0), "{name}: nobody ran");
            }
            Err(error) => {
                assert!(!error.contains('\n'), "{name}: {error}");
                assert!(REJECTED.contains(&name.as_str()), "{name}: {error}");
            }
        }
    }
}

#[test]
fn an_example_that_is_rewritten_says_the_same() {
    for path in examples() {
        let text = std::fs::read_to_string(&path).expect("it is readable");
        let strict = rtapp::rewrite(&text).expect("it is JSON");
        // Strict JSON, without duplicate keys.
        let _: serde_json::Value = serde_json::from_str(&strict).expect("it is strict JSON");
        assert_eq!(rtapp::rewrite(&strict).expect("it is JSON"), strict, "{}", path.display());
        let (Ok(first), Ok(second)) = (rtapp::import(&text, "x"), rtapp::import(&strict, "x")) else { continue };
        assert_eq!(first, second, "{}", path.display());
        let again = rtapp::import(&rtapp::export(&first.workload), "").expect("what is written is read");
        assert_eq!(first.workload, again.workload, "{}", path.display());
    }
}
