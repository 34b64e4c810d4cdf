//! Groups of tasks: cgroups with a weight, a limit, or a rank below the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Time;

/// `min_cfs_quota_period` and `max_cfs_quota_period`, and the least quota.
const PERIODS: (Time, Time) = (Time::from_millis(1), Time::from_millis(1_000));

/// How deep groups may be nested; the kernel allows more.
const MAX_DEPTH: usize = 16;

/// The settings of a cgroup's `cpu` controller. A group without any weighs as much as one task of nice 0.
///
/// ```
/// use schedlab_model::Group;
/// let group: Group = serde_json::from_str(r#"{"weight": 300, "max": {"quota": "20ms", "period": "100ms"}}"#)?;
/// assert_eq!(group.fault(), None);
/// let wrong = Group { weight: Some(0), ..Group::default() };
/// assert_eq!(wrong.fault().as_deref(), Some("weight = 0 is out of range; allowed: 1 to 10000"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// `cpu.weight`, 1 to 10000; 100 where neither this nor `shares` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// The same as `cpu.shares` of cgroup v1, 2 to 262144; 1024 is a weight of 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u64>,
    /// `cpu.max`; no limit where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<GroupMax>,
    /// `cpu.idle`: to its siblings the group is like a `SCHED_IDLE` task (5.15 on).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
}

/// `cpu.max` and `cpu.max.burst`: CPU time over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMax {
    /// CPU time that its tasks may use in each period, 1 ms or more; more than the period means several CPUs.
    pub quota: Time,
    /// From refill to refill, 1 ms to 1 s.
    #[serde(default = "default_period")]
    pub period: Time,
    /// How much of what earlier periods left may be used in one besides its quota (5.14 on), at most the quota.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub burst: Time,
}

const fn default_period() -> Time {
    Time::from_millis(100)
}

fn is_zero(time: &Time) -> bool {
    *time == Time::ZERO
}

impl Group {
    /// What is wrong with the settings, if anything, and what is allowed.
    ///
    /// Source: `cpu_weight_write_u64`, `sched_group_set_idle` and `tg_set_cfs_bandwidth` (`kernel/sched/core.c`).
    pub fn fault(&self) -> Option<String> {
        match (self.weight, self.shares) {
            (Some(_), Some(_)) => return Some("weight and shares are two names of one thing; set one".to_owned()),
            (Some(weight), _) if !(1..=10_000).contains(&weight) => {
                return Some(format!("weight = {weight} is out of range; allowed: 1 to 10000"));
            }
            (_, Some(shares)) if !(2..=1 << 18).contains(&shares) => {
                return Some(format!("shares = {shares} is out of range; allowed: 2 to 262144"));
            }
            _ => {}
        }
        if self.idle && (self.weight.is_some() || self.shares.is_some()) {
            return Some("an idle group has a weight of its own; leave weight and shares out".to_owned());
        }
        self.max.and_then(|max| max.fault())
    }
}

impl GroupMax {
    fn fault(self) -> Option<String> {
        let Self { quota, period, burst } = self;
        if quota < PERIODS.0 {
            return Some(format!("quota = {quota} is out of range; allowed: {} or more", PERIODS.0));
        }
        if period < PERIODS.0 || period > PERIODS.1 {
            return Some(format!("period = {period} is out of range; allowed: {} to {}", PERIODS.0, PERIODS.1));
        }
        (burst > quota).then(|| format!("burst = {burst} is more than the quota, which is {quota}"))
    }
}

/// What is wrong with a group's path, if anything: `/users/alice` is right.
pub(crate) fn path_fault(path: &str) -> Option<String> {
    let form = "write / and names of letters, digits, '_', '-', '.', '@' and ':', as in /users/alice";
    let Some(names) = path.strip_prefix('/') else { return Some(format!("a path begins with '/'; {form}")) };
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.@:".contains(letter);
    let good = |name: &str| !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(letter);
    if !names.split('/').all(good) {
        return Some(format!("it is not a path; {form}"));
    }
    (names.split('/').count() > MAX_DEPTH).then(|| format!("groups are nested deeper than {MAX_DEPTH}"))
}

/// A group in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNode {
    /// Its path, as `/users/alice`.
    pub path: String,
    /// The group above it, as an index into the tree; none below the root.
    pub parent: Option<usize>,
    /// Its settings.
    pub settings: Group,
}

/// The groups as a tree, parents before their children, each level in the order of the paths. Groups that are only named as part of a path
/// (`/users` of `/users/alice`) have no settings.
///
/// # Errors
/// The path that is wrong, and why.
pub fn group_tree(groups: &BTreeMap<String, Group>) -> Result<Vec<GroupNode>, (String, String)> {
    let mut settings: BTreeMap<&str, Group> = BTreeMap::new();
    for (path, group) in groups {
        if let Some(fault) = path_fault(path).or_else(|| group.fault()) {
            return Err((path.clone(), fault));
        }
        settings.insert(path, group.clone());
        for (end, _) in path.match_indices('/').skip(1) {
            settings.entry(&path[..end]).or_default();
        }
    }
    // A parent's path is the beginning of its child's, so it sorts before it.
    let order: Vec<&str> = settings.keys().copied().collect();
    let place = |path: &str| order.binary_search(&path).ok();
    let node = |(path, settings): (&&str, &Group)| GroupNode {
        path: (*path).to_owned(),
        parent: path.rsplit_once('/').and_then(|(above, _)| place(above)),
        settings: settings.clone(),
    };
    Ok(settings.iter().map(node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(quota: u64, period: u64, burst: u64) -> Group {
        let [quota, period, burst] = [quota, period, burst].map(Time::from_micros);
        Group { max: Some(GroupMax { quota, period, burst }), ..Group::default() }
    }

    #[test]
    fn settings_are_refused_with_what_is_allowed() {
        let weigh = |weight, shares, idle| Group { weight, shares, idle, max: None };
        for (group, said) in [
            (weigh(Some(10_001), None, false), "1 to 10000"),
            (weigh(None, Some(1), false), "2 to 262144"),
            (weigh(Some(100), Some(1024), false), "set one"),
            (weigh(Some(100), None, true), "leave weight"),
            (limited(999, 100_000, 0), "1ms or more"),
            (limited(20_000, 999, 0), "1ms to 1s"),
            (limited(20_000, 1_000_001, 0), "1ms to 1s"),
            (limited(20_000, 100_000, 20_001), "more than the quota, which is 20ms"),
        ] {
            let fault = group.fault().unwrap_or_default();
            assert!(fault.contains(said), "{group:?}: {fault}");
        }
        for group in [weigh(Some(1), None, false), weigh(None, None, true), limited(200_000, 100_000, 200_000)] {
            assert_eq!(group.fault(), None);
        }
    }

    #[test]
    fn the_tree_has_parents_first_and_makes_those_that_are_only_named() {
        let weight = |weight| Group { weight: Some(weight), ..Group::default() };
        let groups = BTreeMap::from([
            ("/b/c/d".to_owned(), weight(3)),
            ("/b".to_owned(), weight(2)),
            ("/a".to_owned(), weight(1)),
        ]);
        let tree = group_tree(&groups).unwrap();
        let told: Vec<_> = tree.iter().map(|node| (node.path.as_str(), node.parent, node.settings.weight)).collect();
        let expected =
            [("/a", None, Some(1)), ("/b", None, Some(2)), ("/b/c", Some(1), None), ("/b/c/d", Some(2), Some(3))];
        assert_eq!(told, expected);
    }

    #[test]
    fn paths_that_are_none_are_refused() {
        for path in ["", "/", "a", "/a/", "//a", "/a/../b", "/a b", "/.", "/ä", &"/a".repeat(17)] {
            let groups = BTreeMap::from([(path.to_owned(), Group::default())]);
            let (named, why) = group_tree(&groups).unwrap_err();
            assert!(named == path && !why.is_empty(), "{path}: {why}");
        }
    }

    #[test]
    fn groups_survive_json() {
        let group = Group { idle: true, ..limited(20_000, 100_000, 5_000) };
        let json = serde_json::to_string(&group).unwrap();
        assert_eq!(json, r#"{"max":{"quota":"20ms","period":"100ms","burst":"5ms"},"idle":true}"#);
        assert_eq!(serde_json::from_str::<Group>(&json).unwrap(), group);
        let short: Group = serde_json::from_str(r#"{"max":{"quota":"20ms"}}"#).unwrap();
        assert_eq!(short, limited(20_000, 100_000, 0));
        assert!(serde_json::from_str::<Group>(r#"{"wait":1}"#).unwrap_err().to_string().contains("unknown field"));
    }
}
