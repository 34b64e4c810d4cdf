//! How a machine's CPUs share cores, caches and memory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Which CPUs are threads of one core, share a last-level cache, and are near the same memory.
///
/// As text `smt=2,llc=8,node=16`: two threads a core, eight CPUs a cache, sixteen CPUs a node; what is left out is one thread a core,
/// one cache a node, one node. CPUs are numbered core after core; `siblings=last` numbers the first threads of all cores first, as
/// most firmware does.
///
/// ```
/// use schedlab_model::Topology;
/// let topology: Topology = "smt=2,llc=4".parse()?;
/// topology.validate(8)?;
/// assert_eq!((topology.core(5, 8), topology.cache(5, 8), topology.node_of(5, 8)), (2, 1, 0));
/// assert_eq!(topology.to_string(), "smt=2,llc=4");
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form")]
pub struct Topology {
    /// CPUs (hardware threads) of a core.
    pub smt: u32,
    /// CPUs that share a last-level cache; all of a node if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<u32>,
    /// CPUs of a NUMA node; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Second threads of cores are numbered after all first ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub siblings_last: bool,
    /// How far nodes are from one another (`/sys/devices/system/node/nodeN/distance`): 10 within a node. 20 from any to any other
    /// if absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Vec<u32>>,
}

/// The forms in which it is written: as text, or field by field.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Fields(Fields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default = "one")]
    smt: u32,
    llc: Option<u32>,
    node: Option<u32>,
    #[serde(default)]
    siblings_last: bool,
    #[serde(default)]
    distances: Vec<Vec<u32>>,
}

const fn one() -> u32 {
    1
}

impl TryFrom<Form> for Topology {
    type Error = ModelError;

    fn try_from(form: Form) -> Result<Self, ModelError> {
        match form {
            Form::Text(text) => text.parse(),
            Form::Fields(Fields { smt, llc, node, siblings_last, distances }) => {
                Ok(Self { smt, llc, node, siblings_last, distances })
            }
        }
    }
}

impl Default for Topology {
    /// One thread a core, one cache, one node.
    fn default() -> Self {
        Self { smt: 1, llc: None, node: None, siblings_last: false, distances: Vec::new() }
    }
}

/// The distance of a node from itself (`LOCAL_DISTANCE`), and of others where nothing is said (`REMOTE_DISTANCE`).
const LOCAL_DISTANCE: u32 = 10;
const REMOTE_DISTANCE: u32 = 20;

impl Topology {
    /// Whether no topology is given: CPUs that are all alike and near.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the description for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// [`ModelError::Machine`] for sizes that do not divide one another, and for invalid distances.
    pub fn validate(&self, cpus: u32) -> Result<(), ModelError> {
        let wrong = |why: String| Err(ModelError::Machine(format!("topology: {why}")));
        let sizes = [("smt", self.smt), ("llc", self.cache_size(cpus)), ("node", self.node_size(cpus)), ("cpus", cpus)];
        for [(inner, small), (outer, large)] in [[sizes[0], sizes[1]], [sizes[1], sizes[2]], [sizes[2], sizes[3]]] {
            if small == 0 || large % small != 0 {
                return wrong(format!("{inner} = {small} does not divide {outer} = {large}"));
            }
        }
        if self.distances.is_empty() {
            return Ok(());
        }
        let nodes = self.nodes(cpus) as usize;
        if self.distances.len() != nodes || self.distances.iter().any(|row| row.len() != nodes) {
            return wrong(format!("distances must be {nodes} rows of {nodes}, one for each node"));
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, distance) in row.iter().enumerate() {
                let allowed = if from == to { LOCAL_DISTANCE..=LOCAL_DISTANCE } else { LOCAL_DISTANCE + 1..=255 };
                if !allowed.contains(distance) {
                    let (low, high) = (allowed.start(), allowed.end());
                    return wrong(format!("distance of node {from} to {to} = {distance}; allowed: {low} to {high}"));
                }
            }
        }
        Ok(())
    }

    fn node_size(&self, cpus: u32) -> u32 {
        self.node.unwrap_or(cpus)
    }

    fn cache_size(&self, cpus: u32) -> u32 {
        self.llc.unwrap_or_else(|| self.node_size(cpus))
    }

    /// A CPU's place where threads of a core stand side by side.
    fn place(&self, cpu: u32, cpus: u32) -> u32 {
        let cores = cpus / self.smt;
        if self.siblings_last { cpu % cores * self.smt + cpu / cores } else { cpu }
    }

    /// The core of a CPU, from 0.
    pub fn core(&self, cpu: u32, cpus: u32) -> u32 {
        self.place(cpu, cpus) / self.smt
    }

    /// The last-level cache of a CPU, from 0.
    pub fn cache(&self, cpu: u32, cpus: u32) -> u32 {
        self.place(cpu, cpus) / self.cache_size(cpus)
    }

    /// The node of a CPU, from 0.
    pub fn node_of(&self, cpu: u32, cpus: u32) -> u32 {
        self.place(cpu, cpus) / self.node_size(cpus)
    }

    /// How many nodes there are.
    pub fn nodes(&self, cpus: u32) -> u32 {
        cpus / self.node_size(cpus)
    }

    /// How far two nodes are from one another.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        let said = self.distances.get(from as usize).and_then(|row| row.get(to as usize));
        said.copied().unwrap_or(if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE })
    }
}

impl fmt::Display for Topology {
    /// The text form, without distances.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "smt={}", self.smt)?;
        if let Some(llc) = self.llc {
            write!(f, ",llc={llc}")?;
        }
        if let Some(node) = self.node {
            write!(f, ",node={node}")?;
        }
        if self.siblings_last {
            write!(f, ",siblings=last")?;
        }
        Ok(())
    }
}

impl FromStr for Topology {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut topology = Self::default();
        for part in text.split(',') {
            let wrong = || {
                let allowed = "allowed: smt=N, llc=N, node=N, siblings=last|adjacent, with commas between";
                ModelError::Machine(format!("topology: '{part}'; {allowed}"))
            };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            if name == "siblings" {
                topology.siblings_last = match value {
                    "last" => true,
                    "adjacent" => false,
                    _ => return Err(wrong()),
                };
                continue;
            }
            let number = value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
            match name {
                "smt" => topology.smt = number,
                "llc" => topology.llc = Some(number),
                "node" => topology.node = Some(number),
                _ => return Err(wrong()),
            }
        }
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(text: &str) -> Topology {
        text.parse().unwrap()
    }

    #[test]
    fn numberings() {
        // Four cores of two threads. Side by side core 1 is CPUs 2 and 3; firmware numbers them 1 and 5.
        let adjacent: Vec<u32> = (0..8).map(|cpu| topology("smt=2").core(cpu, 8)).collect();
        assert_eq!(adjacent, [0, 0, 1, 1, 2, 2, 3, 3]);
        let last: Vec<u32> = (0..8).map(|cpu| topology("smt=2,siblings=last").core(cpu, 8)).collect();
        assert_eq!(last, [0, 1, 2, 3, 0, 1, 2, 3]);
        let nodes: Vec<u32> = (0..8).map(|cpu| topology("smt=2,node=4,siblings=last").node_of(cpu, 8)).collect();
        assert_eq!(nodes, [0, 0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn text_goes_there_and_back() {
        for text in ["smt=1", "smt=2,llc=8", "smt=2,llc=8,node=16,siblings=last"] {
            assert_eq!(topology(text).to_string(), text);
            let json = serde_json::to_string(&topology(text)).unwrap();
            assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology(text));
            assert_eq!(serde_json::from_str::<Topology>(&format!("\"{text}\"")).unwrap(), topology(text));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, said) in [
            ("smt=3", "smt = 3 does not divide llc = 8"),
            ("llc=2,smt=4", "smt = 4 does not divide llc = 2"),
            ("llc=8,node=4", "llc = 8 does not divide node = 4"),
            ("node=5", "node = 5 does not divide cpus = 8"),
        ] {
            let error = topology(text).validate(8).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let two = topology("node=4");
        for (distances, said) in [
            (vec![vec![10, 20]], "2 rows of 2"),
            (vec![vec![10, 20], vec![20, 11]], "node 1 to 1 = 11; allowed: 10 to 10"),
            (vec![vec![10, 10], vec![20, 10]], "node 0 to 1 = 10; allowed: 11 to 255"),
        ] {
            let error = Topology { distances, ..two.clone() }.validate(8).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for text in ["", "smt", "smt=0", "cores=4", "siblings=first"] {
            let error = text.parse::<Topology>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
