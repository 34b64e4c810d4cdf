//! The form of the table of changes between kernels, and which rows a release has.

use crate::Release;

/// How a row may be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// An independent rule: may be switched on or off alone.
    Flag,
    /// A rule that others build on: switched with all that require it.
    Structure,
    /// A property of a kernel's records or of its configuration, or the limit of what is modelled: never switched.
    Fact,
}

/// A kernel commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The first twelve digits of its hash.
    pub hash: &'static str,
    /// Its subject.
    pub subject: &'static str,
}

/// One change of the scheduler between kernels.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name of the rule, that of its field in [`RuleSet`](super::RuleSet).
    pub name: &'static str,
    /// What the rule does, in a sentence.
    pub does: &'static str,
    /// How it may be switched.
    pub kind: RowKind,
    /// The first release with it: the mainline release of its commit, or where that is not known the first series read that has it.
    pub since: Release,
    /// The first release without it again.
    pub until: Option<Release>,
    /// The stable releases that it was backported to.
    pub backports: &'static [Release],
    /// The commit that brought it, if one is named.
    pub commit: Option<Commit>,
    /// Why no commit is named; empty where one is.
    pub no_commit: &'static str,
    /// The structures that it is a part of.
    pub requires: &'static [&'static str],
    /// The structures that took its place.
    pub excludes: &'static [&'static str],
}

impl Row {
    /// Whether a kernel of `release` has the rule.
    pub fn is_in(&self, release: Release) -> bool {
        let mainline = release.mainline();
        let came = mainline >= self.since || self.backports.iter().any(|point| release.has_backport(*point));
        came && self.until.is_none_or(|until| mainline < until)
    }
}
