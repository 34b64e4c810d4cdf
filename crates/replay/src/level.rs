//! How much recordings tell.

use schedlab_trace::{Probe, Record, RecordKind};
use serde::Serialize;

use crate::ReplayError;

/// How much a recording tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Tracepoints alone.
    L0,
    /// Tracepoints and `place_entity`.
    #[serde(rename = "L0k")]
    L0Place,
    /// Tracepoints and probes on what the classes do.
    L1,
}

impl Level {
    /// What these records amount to.
    pub fn of(records: &[Record]) -> Self {
        let mut level = Self::L0;
        for record in records {
            match record.kind {
                RecordKind::Probe(ref probe) if is_placement(probe) => level = level.max(Self::L0Place),
                RecordKind::Probe(_) => return Self::L1,
                _ => {}
            }
        }
        level
    }

    /// Whether a recording of this level has such a record.
    pub(crate) const fn has(self, kind: &RecordKind) -> bool {
        match kind {
            RecordKind::Probe(probe) if is_placement(probe) => !matches!(self, Self::L0),
            RecordKind::Probe(_) => matches!(self, Self::L1),
            RecordKind::Snap(_) => !matches!(self, Self::L0),
            _ => true,
        }
    }
}

/// Whether L0k has the probe: where tasks are placed, and what they are from then on.
const fn is_placement(probe: &Probe) -> bool {
    matches!(probe, Probe::Place { .. } | Probe::PlaceEevdf { .. } | Probe::Parameters { .. })
}

impl std::str::FromStr for Level {
    type Err = ReplayError;

    fn from_str(text: &str) -> Result<Self, ReplayError> {
        let levels = [Self::L0, Self::L0Place, Self::L1];
        let found = levels.into_iter().find(|level| level.to_string().eq_ignore_ascii_case(text));
        found.ok_or_else(|| ReplayError::Settings(format!("'{text}' is no level; allowed: L0, L0k, L1")))
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::L0 => "L0",
            Self::L0Place => "L0k",
            Self::L1 => "L1",
        })
    }
}
