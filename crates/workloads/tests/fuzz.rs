//! The reader under 300,000 mutated files: it never panics and never hangs, and what it refuses it says in one line.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedlab_program::Program;
use schedlab_workloads::rtapp;

const FILES: u32 = 300_000;

/// Files that between them have every word of the language and every freedom of its JSON.
const SEEDS: [&str; 4] = [
    r#"{ /* c */ "tasks": {"t": {"instance": 2, "policy": "SCHED_FIFO", "priority": 5, "cpus": [0, 1], "delay": 10, "loop": 3,
        "phases": {"a": {"loop": 2, "run": 10, "run": {"exponential": 5}, "timer": {"ref": "unique", "period": 100, "mode": "absolute"},},
        "b": {"policy": "SCHED_OTHER", "taskgroup": "/g/h", "util_min": 10, "nodes_membind": [0], "suspend", "sleep": "5us"}}}},
        "global": {"duration": 2, "default_policy": "SCHED_RR", "pi_enabled": true, "calibration": "CPU0", "ftrace": true}}"#,
    r#"{"tasks": {"x": {"loop": -1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "signal": "c", "broad": "c",
        "sync": {"ref": "c", "mutex": "m"}, "barrier": "b", "sem_wait": "s", "sem_post": "s", "resume": "y", "yield": "", "fork": "y",
        "mem": 100, "iorun": 10, "memrun": {"type": "chase", "size": 4096, "count": 9, "pattern": "sequential", "stride": 64, "ref": "r"}},
        "y": {"instance": 0, "runtime": 5, "policy": "SCHED_DEADLINE", "dl-runtime": 5000, "dl-period": 10000, "dl-deadline": 9000}}}"#,
    r#"{"name": "n", "resources": {"c": {"type": "pipe"}, "l": {"type": "latch"}, "f": {"type": "file", "size": 9999, "open": "sync"}},
        "groups": {"/g": {"weight": 5, "max": {"quota": 20000}}}, "tasks": {"t": {"kind": "process", "session": "s", "steps": {
        "send": {"channel": "c", "bytes": 7}, "receive": {"channel": "c", "bytes": 7}, "open": "l", "await": "l",
        "write_file": {"file": "f", "bytes": 4, "offset": "random"}, "submit_read": {"file": "f", "bytes": 9, "depth": 3}, "await_files": 0,
        "repeat": {"loop": 3, "request": {"port": "p", "bytes": 3, "reply": 4}, "start": "w", "stop": "w", "mark": "m"},
        "accept": {"port": "p", "bytes": 3}, "reply": 4, "join": "", "set": {"nice": 3, "policy": "SCHED_BATCH"}}}}, "turnaround_from": "m"}"#,
    r#"{"tasks": {"t": {"loop": 1, 'run': 1, // line
        "run1": {"uniform": [1, 2]}, "sleep": {"normal": ["1ms", 3]}, "repeat": {"repeat": {"repeat": {"yield": "\u00e4\n"}}}}}}"#,
];

/// Pieces that readers trip over.
const PIECES: &[&str] = &[
    "18446744073709551616",
    "-1",
    "-",
    "1e999",
    "0x1",
    "99999999999999999999999",
    "\"",
    "'",
    "\\",
    "\\u",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "/*",
    "*/",
    "//",
    "null",
    "true",
    "\u{0}",
    "é",
    "\u{feff}",
    "\n",
    "\"loop\": -1,",
    "\"loop\": 9223372036854775807,",
    "\"instance\": 1000000,",
    "\"run\": -5,",
    "\"fork\": \"t\",",
    "\"lock\": \"m\",",
    "\"phases\": {},",
    "\"steps\": {}",
    "\"5 s\"",
    "{\"repeat\":",
    "[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
];

fn mutate(seed: &str, random: &mut Xoshiro256PlusPlus) -> String {
    let mut bytes = seed.as_bytes().to_vec();
    for _ in 0..1 + random.random_range(0..3) {
        let at = random.random_range(0..bytes.len() + 1);
        let end = (at + random.random_range(0..40)).min(bytes.len());
        match random.random_range(0..9) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            2 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                bytes.splice(at..end, piece.bytes());
            }
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.random_range(0..bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            4 if at < bytes.len() => bytes[at] = random.random(),
            5 => bytes.truncate(at.max(1)),
            // Another number or name where one was: the file stays JSON.
            _ => {
                let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) else { continue };
                let number = ["0", "7", "-1", "99", "18446744073709551615", "20", "1024"][random.random_range(0..7)];
                bytes.splice(at + digit..at + digit + 1, number.bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn no_file_panics_or_hangs() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
    let (mut read, mut compiled) = (0u32, 0u32);
    for file in 0..FILES {
        let text = mutate(SEEDS[file as usize % SEEDS.len()], &mut random);
        match rtapp::read(&text, "fuzz") {
            Ok(imported) => {
                read += 1;
                // What is read is written and read again, and compiled or refused.
                let again = rtapp::import(&rtapp::export(&imported.workload), "").map(|again| again.workload);
                assert_eq!(again.as_ref(), Ok(&imported.workload), "{text}");
                match Program::compile(&imported.workload) {
                    Ok(_) => compiled += 1,
                    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
                }
            }
            Err(error) => {
                let line = error.to_string();
                assert!(!line.is_empty() && !line.contains('\n'), "a refusal says why in a line: {line}");
            }
        }
    }
    // The mutations are mild enough that both ways through the reader are taken.
    assert!(read > FILES / 50 && read < FILES / 2 && compiled > 0, "{read} read, {compiled} compiled");
}
