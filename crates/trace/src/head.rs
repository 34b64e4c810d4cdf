//! The head of an own recording: facts of the kernel, its files, and tables of tasks and groups, all on lines that begin with `#`.

use crate::fields::Pid;

/// What a recording says of the kernel it was made on, before the first event.
///
/// ```
/// use schedlab_trace::Reader;
/// let text = "# schedlab recording 1\n# kernel: 6.1.176\n# file: /proc/cmdline\n#| quiet\n# events\n# end: events=0\n";
/// let mut reader = Reader::new(text.as_bytes());
/// assert!(reader.next().is_none());
/// let head = reader.head().unwrap();
/// assert_eq!((head.fact("kernel"), head.file("/proc/cmdline")), (Some("6.1.176"), Some("quiet\n")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    facts: Vec<(String, String)>,
    /// Files by their paths, and tables as `table NAME`.
    texts: Vec<(String, String)>,
}

/// The line every own recording begins with.
pub(crate) const FORM: &str = "schedlab recording ";
/// With the number of the form that is known.
pub(crate) const MAGIC: &str = "schedlab recording 1";
/// The most text a head may hold, so that a file that is no recording does not fill the memory.
const LONGEST_HEAD: usize = 64 << 20;

impl Head {
    /// A fact by its key: `kernel`, `release`, `hz`, `level`, ….
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The text of a file by its path on the recorded machine.
    pub fn file(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == path).map(|(_, text)| text.as_str())
    }

    /// The rows of a table by its name, without its heading, each cut into words.
    pub fn table(&self, name: &str) -> impl Iterator<Item = Vec<&str>> {
        let text = self.texts.iter().find(|(known, _)| known.strip_prefix("table ") == Some(name));
        text.into_iter().flat_map(|(_, text)| text.lines().skip(1)).map(|row| row.split_whitespace().collect())
    }

    /// The pids of the recorder itself: the one that sleeps meanwhile, and the one that becomes the command.
    pub fn recorder(&self) -> Vec<Pid> {
        let pids = self.fact("recorder").unwrap_or("");
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Takes in a line without its `#`; `Err` says what was expected.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), String> {
        if let Some(text) = line.strip_prefix('|') {
            let (_, all) = self.texts.last_mut().ok_or_else(|| "'# file: PATH' before its text".to_owned())?;
            if all.len() + text.len() > LONGEST_HEAD {
                return Err(format!("at most {LONGEST_HEAD} bytes of a file"));
            }
            all.push_str(text.strip_prefix(' ').unwrap_or(text));
            all.push('\n');
            return Ok(());
        }
        let Some((key, value)) = line.trim().split_once(':') else { return Ok(()) };
        let value = value.trim().to_owned();
        match key {
            "file" => self.texts.push((value, String::new())),
            "table" => self.texts.push((format!("table {value}"), String::new())),
            _ => self.facts.push((key.to_owned(), value)),
        }
        Ok(())
    }
}
