//! Changes of a running task's scheduling: attributes, clamps, group and memory nodes.

use serde::{Deserialize, Serialize};

use crate::{Attributes, Policy, Time};

/// The bounds of a task's utilisation, 0 to 1024 of the fastest CPU (`sched_util_min` and `sched_util_max`).
///
/// They affect frequency selection, and CPU selection where CPUs differ in capacity; nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clamp {
    /// Lower bound: the utilisation counts as at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u16>,
    /// Upper bound: the utilisation counts as at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u16>,
}

impl Clamp {
    /// Whether no bound is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What is wrong with the bounds, if anything.
    ///
    /// ```
    /// use schedlab_model::Clamp;
    /// assert!(Clamp { min: Some(600), max: Some(500) }.fault().is_some());
    /// ```
    pub fn fault(self) -> Option<String> {
        for (name, value) in [("util_min", self.min), ("util_max", self.max)] {
            if let Some(value) = value.filter(|value| *value > 1024) {
                return Some(format!("{name} = {value} is out of range; allowed: 0 to 1024"));
            }
        }
        let (low, high) = (self.min.unwrap_or(0), self.max.unwrap_or(1024));
        (low > high).then(|| format!("util_min = {low} is above util_max = {high}"))
    }
}

/// A change of a task's scheduling; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// The policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The nice level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i8>,
    /// The slice asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Time>,
    /// The CPUs it may run on; all where the list is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Vec<u32>>,
    /// The path of its group, `/` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taskgroup: Option<String>,
    /// The bounds of its utilisation.
    #[serde(skip_serializing_if = "Clamp::is_none")]
    pub clamp: Clamp,
    /// The NUMA nodes its memory comes from; any where the list is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<u32>>,
}

impl Change {
    /// `attributes` after the change.
    ///
    /// ```
    /// use schedlab_model::{Attributes, Change, Policy};
    /// let change = Change { policy: Some(Policy::Fifo(10)), ..Change::default() };
    /// let before = Attributes { nice: 3, ..Attributes::default() };
    /// assert_eq!(change.apply(&before), Attributes { policy: Policy::Fifo(10), nice: 3, ..Attributes::default() });
    /// ```
    #[must_use]
    pub fn apply(&self, attributes: &Attributes) -> Attributes {
        Attributes {
            policy: self.policy.unwrap_or(attributes.policy),
            nice: self.nice.unwrap_or(attributes.nice),
            slice: self.slice.or(attributes.slice),
            affinity: self.affinity.clone().unwrap_or_else(|| attributes.affinity.clone()),
        }
    }

    /// Whether the policy or one of its parameters changes.
    pub const fn changes_policy(&self) -> bool {
        self.policy.is_some() || self.nice.is_some() || self.slice.is_some()
    }
}
