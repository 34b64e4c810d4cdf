//! From the table of probes to what this kernel can be asked.

use super::level::Level;
use super::probes::{PROBES, Probe, Rules};
use super::types::Types;

/// A field as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Its name.
    pub(super) name: String,
    /// Whether it is printed in hexadecimal.
    pub(super) hexadecimal: bool,
    /// Names of fetched values that make it 0 when they are 0: pointers to what it is in.
    pub(super) needs: Vec<String>,
    /// The name of a fetched value that makes it 0 when it is not 0.
    pub(super) unless: Option<String>,
}

/// A probe as this kernel can have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Built {
    /// The event's name.
    pub(super) name: &'static str,
    /// The function.
    pub(super) function: &'static str,
    /// The lowest level that has it.
    pub(super) level: Level,
    /// Whether recordings of its level cannot do without it.
    pub(super) essential: bool,
    /// Whether it tells something only where there are several CPUs.
    pub(super) several: bool,
    /// What is printed.
    pub(super) fields: Vec<Field>,
    /// Fetch arguments by name; some serve other fields only.
    pub(super) arguments: Vec<(String, String)>,
}

/// A probe that this kernel cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// The event's name.
    pub(super) name: &'static str,
    /// Why.
    pub(super) why: String,
    /// The lowest level that would have it.
    pub(super) level: Level,
    /// Whether that level cannot do without it.
    pub(super) essential: bool,
}

impl Built {
    /// The line that defines it in `kprobe_events`.
    pub(super) fn definition(&self, group: &str) -> String {
        let kind = if self.arguments.iter().any(|(_, fetch)| fetch.starts_with('$')) { 'r' } else { 'p' };
        let mut line = format!("{kind}:{group}/{} {}", self.name, self.function);
        for (name, fetch) in &self.arguments {
            line.push_str(&format!(" {name}={fetch}"));
        }
        line
    }
}

/// Every probe of the table that belongs to this kernel's rules; for each, one candidate a function that BTF knows.
pub(super) fn build(types: &Types) -> (Vec<Vec<Built>>, Vec<Missing>) {
    let rules = if types.has("sched_entity", "vlag") { Rules::Eevdf } else { Rules::Cfs };
    let (mut built, mut missing) = (Vec::new(), Vec::new());
    for probe in PROBES.iter().filter(|probe| probe.rules.is_none_or(|of| of == rules)) {
        let candidates: Vec<Built> = probe
            .functions
            .iter()
            .filter_map(|function| build_one(types, probe, function))
            .flat_map(variants)
            .collect();
        if candidates.is_empty() {
            missing.push(absent(probe, &format!("{} not in this kernel's BTF", probe.functions.join(", "))));
        } else {
            built.push(candidates);
        }
    }
    (built, missing)
}

/// Every probe, where types are unknown.
pub(super) fn all_missing(why: &str) -> Vec<Missing> {
    PROBES.iter().map(|probe| absent(probe, why)).collect()
}

/// That a probe is missing.
fn absent(probe: &Probe, why: &str) -> Missing {
    Missing { name: probe.name, why: why.to_owned(), level: probe.level, essential: probe.essential }
}

fn build_one(types: &Types, probe: &Probe, function: &'static str) -> Option<Built> {
    let mut arguments: Vec<(String, String)> = Vec::new();
    let mut fields = Vec::new();
    for field in probe.fields.split_whitespace() {
        let (name, paths) = field.split_once('=')?;
        if let Some(register) = paths.strip_prefix('$') {
            arguments.push((name.to_owned(), format!("${register}:s32")));
            fields.push(Field { name: name.to_owned(), hexadecimal: false, needs: vec![], unless: None });
            continue;
        }
        if paths.starts_with('@') {
            arguments.push((name.to_owned(), format!("{paths}:u64")));
            fields.push(Field { name: name.to_owned(), hexadecimal: false, needs: vec![], unless: None });
            continue;
        }
        let tried =
            paths.split('|').map(|path| path.split_once('!').map_or((path, None), |(path, not)| (path, Some(not))));
        let found = tried.into_iter().find_map(|(path, unless)| Some((types.fetch(function, path)?, unless)));
        let Some((fetch, unless)) = found else { continue };
        let needs = fetch.guards.iter().map(|guard| hidden(&mut arguments, guard)).collect();
        let unless =
            unless.and_then(|path| types.fetch(function, path)).map(|fetch| hidden(&mut arguments, &fetch.text));
        let hexadecimal = fetch.pointer || fetch.text.rsplit(':').next().is_some_and(|kind| kind.starts_with('x'));
        arguments.push((name.to_owned(), fetch.text));
        fields.push(Field { name: name.to_owned(), hexadecimal, needs, unless });
    }
    // A function of this kernel that has none of the parameters is not the one that is meant.
    (!fields.is_empty()).then_some(Built {
        name: probe.name,
        function,
        level: probe.level,
        essential: probe.essential,
        several: probe.several,
        fields,
        arguments,
    })
}

/// The probe, and, where it asks for variables, which kernels without the names of all of them (KALLSYMS_ALL) refuse, the same without.
fn variants(built: Built) -> Vec<Built> {
    let is_variable = |fetch: &str| fetch.starts_with('@');
    let variables: Vec<String> =
        built.arguments.iter().filter(|(_, fetch)| is_variable(fetch)).map(|(name, _)| name.clone()).collect();
    if variables.is_empty() {
        return vec![built];
    }
    let mut without = built.clone();
    without.fields.retain(|field| !variables.contains(&field.name));
    without.arguments.retain(|(_, fetch)| !is_variable(fetch));
    vec![built, without]
}

/// The name of a fetched value that is not printed; the same value is fetched once.
fn hidden(arguments: &mut Vec<(String, String)>, fetch: &str) -> String {
    let known = arguments.iter().find(|(name, known)| name.starts_with("h_") && known == fetch);
    if let Some((name, _)) = known {
        return name.clone();
    }
    let name = format!("h_{}", arguments.len());
    arguments.push((name.clone(), fetch.to_owned()));
    name
}
