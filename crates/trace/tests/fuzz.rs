//! The reader under 200,000 mutated lines and 2,000 mutated files: it never panics and never hangs, and what it refuses it names.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedlab_trace::{Reader, Snapshot, TraceError};

const LINES: u32 = 200_000;
const FILES: u32 = 2_000;

fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/fixtures").join(name);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Pieces that parsers trip over: limits of numbers, separators, things that look like other parts of a line.
const PIECES: &[&str] = &[
    "18446744073709551616",
    "-1",
    "0x",
    "0xffffffffffffffffff",
    " ==> ",
    "pid=",
    "=",
    ":",
    "[",
    "]",
    "\t",
    "é",
    "\u{0}",
    "99999999999.999999999:",
    "k_set:",
    "k_snap: pid=1",
    "# schedlab recording 1",
    "# end: events=9",
    "#| ",
    "CPU:0 [LOST 1 EVENTS]",
    "cpus=",
    "comm=a b pid=",
    "\u{202e}",
];

/// Changes bytes, cuts, doubles and exchanges parts.
fn mutate(random: &mut Xoshiro256PlusPlus, text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.random_range(0..4) {
        let at = random.random_range(0..text.len().max(1));
        let length = random.random_range(0..12).min(text.len() - at);
        match random.random_range(0..6) {
            0 if !text.is_empty() => text[at] = random.random(),
            1 => drop(text.drain(at..at + length)),
            2 => {
                let part = text[at..at + length].to_vec();
                text.splice(at..at, part);
            }
            3 => text.truncate(at),
            4 => drop(text.splice(at..at + length, PIECES[random.random_range(0..PIECES.len())].bytes())),
            _ => drop(text.splice(at..at, random.random::<i64>().to_string().bytes())),
        }
    }
    text
}

/// Every error is one line and says where, unless it concerns the whole.
fn judge(found: Result<(), TraceError>) {
    let Err(error) = found else { return };
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text:?}");
    assert!(text.starts_with("line ") || matches!(error, TraceError::Missing { .. }), "{text:?}");
}

fn read(bytes: &[u8]) -> Result<(), TraceError> {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    let mut reader = Reader::new(bytes);
    let mut records = 0;
    for record in &mut reader {
        record?;
        records += 1;
    }
    assert!(records <= lines, "no line gives two events");
    Ok(())
}

#[test]
fn mutated_lines_neither_panic_nor_hang() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let text = recorded("k61-hackbench.txt.gz") + &recorded("k612-hogs.txt.gz") + FURTHER;
    let lines: Vec<&str> = text.lines().collect();
    for _ in 0..LINES {
        let line = lines[random.random_range(0..lines.len())];
        judge(read(&mutate(&mut random, line.as_bytes())));
    }
}

#[test]
fn mutated_files_neither_panic_nor_hang() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let text = HEAD.to_owned() + FURTHER + "# end: events=6\n";
    read(text.as_bytes()).unwrap();
    for _ in 0..FILES {
        judge(read(&mutate(&mut random, text.as_bytes())));
    }
}

#[test]
fn mutated_snapshots_neither_panic_nor_hang() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for name in ["k61-hogs.snap1", "k612-hogs.snap1"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/fixtures").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        for _ in 0..FILES / 2 {
            let bytes = mutate(&mut random, text.as_bytes());
            judge(String::from_utf8_lossy(&bytes).parse::<Snapshot>().map(drop));
        }
    }
}

const HEAD: &str = "\
# schedlab recording 1
# kernel: 6.1.176
# recorder: 123 124
# file: /proc/cmdline
#| BOOT_IMAGE=/vmlinuz noautogroup
# table: tasks
#| pid tgid ppid state cpu prio nice policy flags rt_priority slice_or_runtime deadline period affinity autogroup cgroup comm
#| 1 1 0 S 0 120 0 0 0 0 0 0 0 0 - / init
# events
cpus=1
";

const FURTHER: &str = "\
 a-1 0d..2. 1.1: k_snap: pid=9 pol=0 sp=120 nprio=120 onrq=1 vr=7 w=1048576 xs=1 sum=2 tg=0xa ptg=0x0 cfs=0xb dl=9 vlag=-1 sl=700000 rel=0 del=0 zv=5 av=-3 al=1024
 a-1 0d..2. 1.2: k_enq: pid=9 fl=0x9 ct=5 c=6 pol=3 sp=125
 a-1 0d..2. 1.3: k_rtcur: pid=9 xs=1 ct=2 thr=0 rtt=3 rtr=950000000
 a-1 0d..2. 1.4: k_dlse: se=0x1 srv=1 rt=-5 dl=7 delta=3 ct=9
 a-1 0d..2. 1.5: k_quota: tg=0x1 period=100000000 quota=18446744073709551615 burst=0
 a-1 0d..2. 1.6: k_uc: cfs=0x1 cse=0x2 my=0x0 pid=9 vr=7 xs=1 ct=2
";
