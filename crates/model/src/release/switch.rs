//! Rules switched on or off against what a release has.

use std::collections::BTreeMap;

use super::{Row, RowKind, RuleSet, Series};
use crate::{ModelError, Release};

impl RuleSet {
    /// The rules of `release` with some of them switched on (true) or off.
    ///
    /// A structure is switched with its parts: all rules that require it are switched off with it, and on as the first known release
    /// with the structure has them; rules that it took the place of go the other way. A rule may also be switched within a
    /// structure that is switched too.
    ///
    /// # Errors
    /// [`ModelError::Rule`] for an unknown rule, a fact, and a rule whose structure the release does not have.
    ///
    /// ```
    /// use schedlab_model::RuleSet;
    /// let release = "6.12".parse()?;
    /// let switched = RuleSet::switched(release, &[("yield_forfeits".to_owned(), false)].into())?;
    /// assert!(RuleSet::of(release).yield_forfeits && !switched.yield_forfeits);
    /// let cfs = RuleSet::switched(release, &[("eevdf".to_owned(), false)].into())?;
    /// assert!(cfs.wakeup_preempt_entity && !cfs.yield_forfeits);
    /// # Ok::<(), schedlab_model::ModelError>(())
    /// ```
    pub fn switched(release: Release, switches: &BTreeMap<String, bool>) -> Result<Self, ModelError> {
        let mut set = Self::of(release);
        let rows = switches.iter().map(|(name, on)| Ok((row(name)?, *on))).collect::<Result<Vec<_>, _>>()?;
        for (row, on) in rows.iter().filter(|(row, _)| row.kind == RowKind::Structure) {
            set.switch_structure(row, *on);
        }
        for (row, on) in rows.iter().filter(|(row, _)| row.kind == RowKind::Flag) {
            set.set(row.name, *on);
        }
        for (row, _) in rows.iter().filter(|(_, on)| *on) {
            let has = |name: &&&str| set.get(name) == Some(true);
            let said = |why: String| Err(ModelError::Rule { name: row.name.to_owned(), why });
            if let Some(missing) = row.requires.iter().find(|name| !has(name)) {
                return said(format!("it is part of '{missing}', which {release} does not have: add {missing}=on"));
            }
            if let Some(present) = row.excludes.iter().find(has) {
                return said(format!("'{present}', which {release} has, took its place: add {present}=off"));
            }
        }
        Ok(set)
    }

    fn switch_structure(&mut self, structure: &Row, on: bool) {
        if self.get(structure.name) == Some(on) {
            return;
        }
        // The known releases on either side of the change.
        let known = || Series::ALL.map(Series::newest_known).into_iter();
        let with = known().find(|release| structure.is_in(*release));
        let without = known().rfind(|release| !structure.is_in(*release));
        let Some(like) = (if on { with } else { without }) else { return };
        self.set(structure.name, on);
        for row in Self::ROWS {
            let concerned = row.requires.contains(&structure.name) || row.excludes.contains(&structure.name);
            if concerned && row.kind == RowKind::Structure && !on {
                self.switch_structure(row, false);
            } else if concerned && row.kind != RowKind::Structure {
                let keeps = row.requires.contains(&structure.name) == on;
                self.set(row.name, keeps && row.is_in(like));
            }
        }
    }

    /// The switches that change something of `release`, as `name=on` or `name=off` with commas between; none where no switch does.
    ///
    /// # Errors
    /// As [`RuleSet::switched`].
    pub fn hybrid(release: Release, switches: &BTreeMap<String, bool>) -> Result<Option<String>, ModelError> {
        let set = Self::switched(release, switches)?;
        let is_structure = |name: &str| row(name).is_ok_and(|row| row.kind == RowKind::Structure);
        let structures = switches.iter().filter(|(name, _)| is_structure(name));
        let structures: BTreeMap<String, bool> = structures.map(|(name, on)| (name.clone(), *on)).collect();
        let (kernels, alone) = (Self::of(release), Self::switched(release, &structures)?);
        let before = |name: &str| if is_structure(name) { kernels.get(name) } else { alone.get(name) };
        let changed = switches.iter().filter(|(name, _)| set.get(name) != before(name));
        let changed: Vec<String> =
            changed.map(|(name, on)| format!("{name}={}", if *on { "on" } else { "off" })).collect();
        Ok((!changed.is_empty()).then(|| changed.join(",")))
    }
}

/// The row of a rule that may be switched.
fn row(name: &str) -> Result<&'static Row, ModelError> {
    let said = |why: String| ModelError::Rule { name: name.to_owned(), why };
    let found = RuleSet::ROWS.iter().find(|row| row.name == name);
    match found {
        None => {
            let words: Vec<&str> = name.split('_').filter(|word| word.len() > 3).collect();
            let like = |row: &&Row| row.kind != RowKind::Fact && words.iter().any(|word| row.name.contains(word));
            let near: Vec<&str> = RuleSet::ROWS.iter().filter(like).map(|row| row.name).take(4).collect();
            let near = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) };
            Err(said(format!("there is no such rule{near}; 'schedlab kernels rules RELEASE' lists them")))
        }
        Some(row) if row.kind == RowKind::Fact => {
            Err(said(format!("it is a fact of a kernel and cannot be switched: {}", row.does.trim())))
        }
        Some(row) => Ok(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switched(release: &str, switches: &[(&str, bool)]) -> Result<RuleSet, String> {
        let switches = switches.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        RuleSet::switched(release.parse().unwrap(), &switches).map_err(|error| error.to_string())
    }

    fn hybrid(release: &str, switches: &[(&str, bool)]) -> Option<String> {
        let switches = switches.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        RuleSet::hybrid(release.parse().unwrap(), &switches).unwrap()
    }

    #[test]
    fn a_rule_that_the_release_has_already_makes_no_hybrid() {
        assert_eq!(hybrid("6.12", &[("yield_forfeits", true), ("eevdf", true)]), None);
        assert_eq!(hybrid("6.12", &[("yield_forfeits", false)]).as_deref(), Some("yield_forfeits=off"));
    }

    #[test]
    fn a_structure_takes_its_parts_with_it_and_the_label_names_it_alone() {
        let cfs = switched("7.2", &[("eevdf", false)]).unwrap();
        // What 6.1 has of CFS, what 7.2 has of all else: throttling by task came as part of EEVDF's kernels.
        assert!(
            cfs.relative_vruntime && cfs.period_of_granularities && !cfs.throttles_tasks && !cfs.throttles_when_charged
        );
        assert!(!cfs.full_weights && cfs.picks_before_put);
        assert_eq!(hybrid("7.2", &[("eevdf", false)]).as_deref(), Some("eevdf=off"));
        let eevdf = switched("6.1", &[("eevdf", true)]).unwrap();
        assert!(eevdf.eevdf && !eevdf.relative_vruntime && eevdf.yield_forfeits && !eevdf.protects_for_time);
        assert_eq!(
            hybrid("6.1", &[("eevdf", true), ("protects_for_time", true), ("yield_forfeits", true)]).as_deref(),
            Some("eevdf=on,protects_for_time=on")
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (release, name, on, said) in [
            ("6.1", "protects_for_time", true, "part of 'eevdf', which 6.1.192 does not have: add eevdf=on"),
            ("6.12", "alt_period", true, "'eevdf', which 6.12.95 has, took its place: add eevdf=off"),
            ("6.12", "wide_weights", false, "fact of a kernel"),
            ("6.12", "yield_forfeit", true, "similar: yield_by_skip_buddy, yield_forfeits"),
        ] {
            let error = switched(release, &[(name, on)]).unwrap_err();
            assert!(error.contains(said), "{release} {name}: {error}");
        }
        assert!(switched("6.1", &[("protects_for_time", true), ("eevdf", true)]).is_ok());
    }
}
