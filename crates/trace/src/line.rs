//! The columns before an event's name, in the layouts of trace-cmd, of the kernel and of perf.

use schedlab_model::Time;

use crate::fields::Pid;
use crate::fields::parse_pid;
use crate::record::{Context, Flags};

/// A line cut into its columns.
pub(crate) struct Columns<'a> {
    pub(crate) name: &'a str,
    pub(crate) pid: Pid,
    pub(crate) cpu: u32,
    pub(crate) flags: Flags,
    pub(crate) time: Time,
    pub(crate) event: &'a str,
    pub(crate) text: &'a str,
}

/// What a line must look like; part of every error about its columns.
pub(crate) const LAYOUT: &str = "'TASK-PID CPUFLAGS SECONDS.FRACTION: EVENT: FIELDS' (trace-cmd report -t -l), 'TASK-PID [CPU] FLAGS SECONDS.FRACTION: \
     EVENT: FIELDS' (ftrace) or 'TASK PID [CPU] SECONDS.FRACTION: EVENT: FIELDS' (perf script)";

/// CPUs that a recording may have, numbered from 0: what follows keeps something of each.
pub(crate) const MAX_CPUS: u32 = 4096;

/// Nanoseconds, 146 years, up to which times are taken: sums of two stay within their type.
pub(crate) const LATEST: u64 = 1 << 62;

/// Cuts one line; `Err` says what was expected.
pub(crate) fn split(line: &str) -> Result<Columns<'_>, String> {
    let layout = || LAYOUT.to_owned();
    let mut words = Words { line, at: 0 };
    // The task's name may hold blanks, so the columns are found by the first word that is a time and follows flags.
    let mut before: [Option<(usize, &str)>; 2] = [None, None];
    while let Some((start, word)) = words.next() {
        if let Some(time) = parse_time(word)
            && let [second_last, Some((flags_start, flags_word))] = before
        {
            let bracketed = second_last.and_then(|(at, text)| Some((at, parse_bracketed_cpu(text)?)));
            let columns = match (bracketed, parse_bracketed_cpu(flags_word)) {
                (_, Some(cpu)) => Some((flags_start, cpu, Flags::default())),
                (Some((at, cpu)), None) => parse_flags(flags_word).map(|flags| (at, cpu, flags)),
                (None, None) => parse_cpu_and_flags(flags_word).map(|(cpu, flags)| (flags_start, cpu, flags)),
            };
            if let Some((task_end, cpu, flags)) = columns {
                if cpu >= MAX_CPUS {
                    return Err(format!("a CPU below {MAX_CPUS}"));
                }
                let task = line[..task_end].trim();
                let by_perf = if flags.shown { None } else { parse_task_of_perf(task) };
                let named = by_perf.or_else(|| parse_task(task));
                let (name, pid) = named.ok_or_else(|| "a task as NAME-PID".to_owned())?;
                let mut rest = line[start + word.len()..].trim_start();
                if by_perf.is_some() {
                    rest = rest.strip_prefix("sched:").unwrap_or(rest);
                }
                let (event, text) = rest.split_once(':').ok_or_else(|| "an event's name and a colon".to_owned())?;
                if event.is_empty() || event.contains(char::is_whitespace) {
                    return Err("an event's name and a colon".to_owned());
                }
                return Ok(Columns { name, pid, cpu, flags, time, event, text: text.trim() });
            }
        }
        before = [before[1], Some((start, word))];
    }
    Err(layout())
}

struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let word = self.line[start..].split_whitespace().next()?;
        self.at = start + word.len();
        Some((start, word))
    }
}

/// `15.098514113:`, to the nanosecond; fewer digits are decimals all the same.
fn parse_time(word: &str) -> Option<Time> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let part = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    let whole = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole.checked_add(part).filter(|time| *time < LATEST).map(Time::from_nanos)
}

/// `[003]`.
fn parse_bracketed_cpu(word: &str) -> Option<u32> {
    word.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// `0dN.2.`: the CPU's number, then the flags.
fn parse_cpu_and_flags(word: &str) -> Option<(u32, Flags)> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    Some((word[..digits].parse().ok()?, parse_flags(&word[digits..])?))
}

/// `dN.2.`: interrupts, need_resched, context, preempt depth, and from 5.17 on migrate-disable depth.
fn parse_flags(word: &str) -> Option<Flags> {
    let mut letters = word.chars();
    let interrupts_off = match letters.next()? {
        '.' | 'b' => false,
        'd' | 'D' | 'X' => true,
        _ => return None,
    };
    let (need_resched, need_resched_lazy) = match letters.next()? {
        'N' | 'n' => (true, false),
        'B' | 'b' => (true, true),
        'L' | 'l' => (false, true),
        '.' | 'p' => (false, false),
        _ => return None,
    };
    let context = match letters.next()? {
        '.' => Context::Task,
        's' => Context::SoftInterrupt,
        'h' => Context::HardInterrupt,
        'H' => Context::HardInSoftInterrupt,
        'z' | 'Z' => Context::NonMaskable,
        _ => return None,
    };
    let preempt_depth = match letters.next()? {
        '.' => 0,
        depth => depth.to_digit(16)? as u8,
    };
    match (letters.next(), letters.next()) {
        (None, _) | (Some('.' | '0'..='9' | 'a'..='f'), None) => {
            Some(Flags { interrupts_off, need_resched, need_resched_lazy, context, preempt_depth, shown: true })
        }
        _ => None,
    }
}

/// `kworker/0:1    17`, and `name  PID/TID` of which the thread counts.
fn parse_task_of_perf(text: &str) -> Option<(&str, Pid)> {
    let (name, pid) = text.rsplit_once(char::is_whitespace)?;
    let pid = pid.rsplit_once('/').map_or(pid, |(_, thread)| thread);
    Some((name.trim_end(), parse_pid(pid)?))
}

/// `kworker/0:1-17`: the pid follows the last hyphen.
fn parse_task(text: &str) -> Option<(&str, Pid)> {
    let (name, pid) = text.rsplit_once('-')?;
    Some((name, parse_pid(pid.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_say_the_same() {
        for line in [
            "kworker/-17      3dNh2.    15.000000042: k_tick:  (ffff) pid=17",
            "     kworker/-17      [003] dNh2.    15.000000042: k_tick:  (ffff) pid=17",
            "     kworker/-17      [003] dNh2    15.000000042: k_tick:  (ffff) pid=17",
        ] {
            let columns = split(line).unwrap();
            assert_eq!((columns.name, columns.pid, columns.cpu), ("kworker/", 17, 3), "{line}");
            assert_eq!(columns.time, Time::from_nanos(15_000_000_042));
            let context = Context::HardInterrupt;
            let flags = Flags {
                interrupts_off: true,
                need_resched: true,
                context,
                preempt_depth: 2,
                shown: true,
                ..Flags::default()
            };
            assert_eq!(columns.flags, flags);
            assert_eq!((columns.event, columns.text), ("k_tick", "(ffff) pid=17"));
        }
    }

    /// The layouts of `perf script` (`tools/perf/builtin-script.c`, `perf_sample__fprintf_start`) and of `trace-cmd report` without `-l`.
    #[test]
    fn layouts_without_flags_say_so() {
        for (line, name) in [
            (" kworker/0:1 17    17 [003] 15.000042: sched:sched_waking: comm=a", "kworker/0:1 17"),
            (" a-b    5/17 [003] 15.000042:       sched:sched_waking: comm=a", "a-b"),
            (" a b-17    [003] 15.000042: sched_waking:   comm=a", "a b"),
        ] {
            let columns = split(line).unwrap();
            assert_eq!(
                (columns.name, columns.pid, columns.cpu, columns.flags),
                (name, 17, 3, Flags::default()),
                "{line}"
            );
            assert_eq!((columns.event, columns.text), ("sched_waking", "comm=a"));
            assert!(!columns.flags.shown);
        }
        assert!(split("a-1 [000] d..2. 1.0: x: y").unwrap().flags.shown);
    }

    #[test]
    fn microseconds_are_decimals_too() {
        // 1.000002 s = 1,000,002,000 ns.
        let columns = split("a b-1 [000] ..... 1.000002: x: y").unwrap();
        assert_eq!((columns.name, columns.time), ("a b", Time::from_nanos(1_000_002_000)));
    }

    #[test]
    fn wrong_columns_say_what_is_expected() {
        for (line, expected) in [
            ("", "TASK-PID"),
            ("bash-1 0d..2. 15.1", "TASK-PID"),
            ("bash 0d..2. 15.1: x: y", "NAME-PID"),
            ("bash-1 0d..2. 15.1: x", "event's name"),
            ("bash-1 0d..2. 15.1: a b: c", "event's name"),
            ("bash-1 0q..2. 15.1: x: y", "TASK-PID"),
            ("bash-1 0d..2. 99999999999999999999.1: x: y", "TASK-PID"),
        ] {
            let message = split(line).err().unwrap();
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
