//! Files of decisions with their reasons: a line each, as text or as JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use schedlab_model::{Candidate, Decision};

/// Writes `decisions` to `path`: as JSON lines where `json` is true, else as text that begins with the time and the CPU.
///
/// `hybrid` says which rules decided if no kernel has them all: in a comment at the head of text, in each JSON object.
pub(crate) fn write(
    path: &Path,
    json: bool,
    hybrid: Option<&str>,
    decisions: &[Decision],
    name: &dyn Fn(Candidate) -> String,
) -> io::Result<()> {
    let mut output = BufWriter::new(File::create(path)?);
    if let (false, Some(rules)) = (json, hybrid) {
        writeln!(output, "# rules: {rules}")?;
    }
    for decision in decisions {
        let text = decision.reason.text(name);
        if json {
            let mut value = serde_json::to_value(decision)?;
            if let Some(object) = value.as_object_mut() {
                object.insert("time".to_owned(), decision.time.as_nanos().into());
                object.insert("text".to_owned(), text.into());
                if let Some(rules) = hybrid {
                    object.insert("rules".to_owned(), rules.into());
                }
            }
            writeln!(output, "{value}")?;
        } else {
            let nanoseconds = decision.time.as_nanos();
            let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            writeln!(output, "{seconds}.{rest:09} [{:03}] {text}", decision.cpu.0)?;
        }
    }
    output.flush()
}
