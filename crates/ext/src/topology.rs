//! Which CPUs share a last-level cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::ExtError;
use crate::shared::MOST_CPUS;

/// How CPUs are divided among shared queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Queues {
    /// One queue for all CPUs that share a last-level cache.
    Llc,
    /// One queue a CPU.
    Cpu,
}

/// The shared queue of each possible CPU, numbered from 0 in the order of their first CPUs.
///
/// # Errors
///
/// [`ExtError::Kernel`] on more CPUs than the scheduler's tables have room for.
pub fn domains(queues: Queues) -> Result<Vec<u32>, ExtError> {
    let root = Path::new("/sys/devices/system/cpu");
    let possible = fs::read_to_string(root.join("possible")).unwrap_or_default();
    let count = count(&possible);
    if count > MOST_CPUS {
        return Err(ExtError::Kernel(format!("this machine may have {count} CPUs; the scheduler knows {MOST_CPUS}")));
    }
    Ok(match queues {
        Queues::Cpu => (0..count).collect(),
        Queues::Llc => number((0..count).map(|cpu| last_level(&root.join(format!("cpu{cpu}")))).collect()),
    })
}

/// CPUs of a list such as `0-3` or `0,2-5`, counted up to the last.
fn count(list: &str) -> u32 {
    list.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok()).map_or(1, |last| last + 1)
}

/// Who shares the highest level of cache with a CPU, as the kernel writes it; empty where it does not say.
fn last_level(cpu: &Path) -> String {
    let caches = fs::read_dir(cpu.join("cache")).into_iter().flatten().flatten().map(|entry| entry.path());
    let level = |path: &Path| fs::read_to_string(path.join("level")).ok()?.trim().parse::<u32>().ok();
    caches
        .filter_map(|path| Some((level(&path)?, fs::read_to_string(path.join("shared_cpu_list")).ok()?)))
        .max_by_key(|(level, _)| *level)
        .map(|(_, list)| list.trim().to_owned())
        .unwrap_or_default()
}

/// Number groups by their names in the order in which they appear.
fn number(names: Vec<String>) -> Vec<u32> {
    let mut known = BTreeMap::new();
    names
        .into_iter()
        .map(|name| {
            let next = u32::try_from(known.len()).unwrap_or(0);
            *known.entry(name).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_up_to_the_last_possible() {
        for (list, expected) in [("0", 1), ("0-3\n", 4), ("0,2-5", 6), ("", 1)] {
            assert_eq!(count(list), expected, "{list}");
        }
    }

    #[test]
    fn cpus_of_one_cache_have_one_queue() {
        // Two caches of two CPUs each, numbered alternately as some machines have it.
        let names = ["0,2", "1,3", "0,2", "1,3"].map(str::to_owned).to_vec();
        assert_eq!(number(names), [0, 1, 0, 1]);
    }
}
