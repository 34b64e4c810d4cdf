//! Load averages of all tasks and queues at one moment, as `/proc/PID/sched` and `sched/debug` show them.

use std::fmt::Write;
use std::fs;

use super::state;

/// What is shown of each: load, runnable time, utilisation.
const AVERAGES: [&str; 3] = ["load_avg", "runnable_avg", "util_avg"];

/// A table of them: `PID LOAD RUNNABLE UTIL` for a task, `cpuN …` for a CPU's queue without groups.
pub(super) fn table(text: &mut String, name: &str) {
    let mut lines = vec![format!("of {}", AVERAGES.join(" "))];
    lines.extend(state::debug_text().iter().flat_map(|(_, debug)| queues(debug)));
    for (process, pid) in state::pids() {
        let shown = fs::read_to_string(format!("/proc/{process}/task/{pid}/sched")).unwrap_or_default();
        if let Some(values) = values(shown.lines(), "se.avg.") {
            lines.push(format!("{pid} {values}"));
        }
    }
    state::section(text, &format!("table: {name}"), &lines.join("\n"));
}

/// The three values after their names in lines such as `se.avg.load_avg : 12`.
fn values<'a>(lines: impl Iterator<Item = &'a str>, prefix: &str) -> Option<String> {
    let mut found = [None; 3];
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let Some(name) = name.trim().strip_prefix(prefix) else { continue };
        if let Some(at) = AVERAGES.iter().position(|known| *known == name) {
            found[at] = value.trim().parse::<u64>().ok();
        }
    }
    let [load, runnable, util] = found;
    Some(format!("{} {} {}", load?, runnable?, util?))
}

/// The queues of `sched/debug` that are no group's: a block begins `cfs_rq[N]:/` and ends with an empty line.
fn queues(debug: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for block in debug.split("\n\n") {
        let block = block.trim_start();
        let Some((head, rest)) = block.split_once('\n') else { continue };
        let Some(cpu) = head.trim().strip_prefix("cfs_rq[").and_then(|head| head.strip_suffix("]:/")) else { continue };
        let mut text = String::new();
        if let Some(values) = values(rest.lines(), ".") {
            let _ = write!(text, "cpu{cpu} {values}");
            lines.push(text);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_without_groups_are_found() {
        let block = |head: &str| {
            format!(
                "{head}\n  .load                          : 1048576\n  .load_avg      : 14\n  .runnable_avg : 15\n  .util_avg  : 0\n"
            )
        };
        let debug = format!("cpu#0\n\n{}\n{}\n{}", block("cfs_rq[0]:/a"), block("cfs_rq[0]:/"), block("cfs_rq[11]:/"));
        assert_eq!(queues(&debug), ["cpu0 14 15 0", "cpu11 14 15 0"]);
    }

    #[test]
    fn a_task_that_shows_none_is_left_out() {
        assert_eq!(values("se.avg.load_avg : 3\nse.avg.util_avg : 4".lines(), "se.avg."), None);
        let all = "se.avg.load_sum : 9\nse.avg.load_avg : 3\nse.avg.runnable_avg : 2\nse.avg.util_avg : 4";
        assert_eq!(values(all.lines(), "se.avg.").as_deref(), Some("3 2 4"));
    }
}
