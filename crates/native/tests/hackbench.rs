//! Our hackbench and rt-tests' do the same work.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::process::Command;

use common::outcome;

/// The numbers in what hackbench prints before it starts: groups, descriptors a group, tasks; messages of each sender, bytes.
fn announced(options: &[&str]) -> Option<(String, Vec<u64>)> {
    let output = Command::new("hackbench").args(options).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.lines().take(2).flat_map(|line| line.split(|c: char| !c.is_ascii_digit()));
    let numbers = words.filter_map(|word| word.parse().ok()).collect();
    Some((text, numbers))
}

#[test]
fn tasks_messages_and_bytes_are_the_real_programs() {
    for (options, text) in [
        (vec!["-g", "1", "-f", "3", "-l", "7", "-s", "100"], "hackbench:groups=1,fds=3,loops=7,datasize=100"),
        (
            vec!["-g", "2", "-f", "2", "-l", "5", "-s", "1000", "-p"],
            "hackbench:groups=2,fds=2,loops=5,datasize=1000,pipe",
        ),
        (vec!["-g", "2", "-f", "3", "-l", "4", "-s", "8", "-T"], "hackbench:groups=2,fds=3,loops=4,datasize=8,threads"),
    ] {
        let Some((printed, numbers)) = announced(&options) else {
            eprintln!("SKIPPED: rt-tests' hackbench is not installed (apt install rt-tests)");
            return;
        };
        let [groups, descriptors, tasks, loops, bytes] = numbers[..] else {
            unreachable!("hackbench printed something else: {printed}")
        };
        let ours = outcome(text, &[]);
        assert_eq!(ours.tasks.len() as u64, tasks + 1, "the workers, and main: {printed}");
        // Half of a group's descriptors (writing and reading ends) are its receivers; each sender sends `loops` messages to each,
        // and there are as many senders. Every worker says once, in one byte, that it is ready.
        let receivers = descriptors / 2;
        let messages = groups * receivers * receivers * loops;
        assert_eq!(ours.messages, messages + tasks, "{printed}");
        assert_eq!(ours.bytes, messages * bytes + tasks, "{printed}");
        assert_eq!(printed.contains("threaded mode"), text.ends_with("threads"), "{printed}");
    }
}
