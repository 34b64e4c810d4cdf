//! What the running kernel offers, and what runs on it now.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::ExtError;

const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// What `status` tells.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// `uname -r`.
    pub release: String,
    /// Whether this kernel and user could load the scheduler.
    pub possible: bool,
    /// Why not, and what would help.
    pub why: Option<String>,
    /// `enabled`, `disabled`, `enabling` or `disabling`; None without sched_ext.
    pub state: Option<String>,
    /// The scheduler that runs.
    pub scheduler: Option<String>,
    /// How many schedulers were loaded since boot.
    pub loaded_since_boot: Option<u64>,
}

impl Status {
    /// Ask the kernel.
    pub fn read() -> Self {
        let why = missing().err().map(|error| error.to_string());
        let state = word(STATE);
        let scheduler = state.as_ref().filter(|state| *state != "disabled").and_then(|_| word(NAME));
        Self {
            release: release(),
            possible: why.is_none(),
            why,
            scheduler,
            loaded_since_boot: word("/sys/kernel/sched_ext/enable_seq").and_then(|text| text.parse().ok()),
            state,
        }
    }
}

/// Say what is missing before anything is tried.
///
/// # Errors
///
/// [`ExtError::Kernel`] without sched_ext or BTF, [`ExtError::Permission`] without the capabilities.
pub fn missing() -> Result<(), ExtError> {
    let release = release();
    if !Path::new(STATE).exists() {
        return Err(ExtError::Kernel(format!(
            "kernel {release} has no sched_ext (CONFIG_SCHED_CLASS_EXT, 6.12 on): boot one that has it, such as Debian's 7.2, \
             or use a guest: --on vm:7.2"
        )));
    }
    if !Path::new(BTF).exists() {
        return Err(ExtError::Kernel(format!(
            "kernel {release} does not describe its types ({BTF} is missing): it needs CONFIG_DEBUG_INFO_BTF"
        )));
    }
    if !capable() {
        return Err(ExtError::Permission(
            "loading a scheduler needs root, with the capabilities BPF and PERFMON or SYS_ADMIN: run it as root"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Refuse to load where another scheduler runs.
///
/// # Errors
///
/// [`ExtError::Busy`] with its name.
pub fn free() -> Result<(), ExtError> {
    match word(STATE) {
        Some(state) if state != "disabled" => {
            Err(ExtError::Busy(word(NAME).unwrap_or_else(|| format!("one that is {state}"))))
        }
        _ => Ok(()),
    }
}

/// `uname -r`.
pub fn release() -> String {
    word("/proc/sys/kernel/osrelease").unwrap_or_else(|| "of unknown release".to_owned())
}

fn word(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether the effective capabilities have SYS_ADMIN, or BPF and PERFMON.
fn capable() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    held & SYS_ADMIN != 0 || held & PERFMON_AND_BPF == PERFMON_AND_BPF
}
