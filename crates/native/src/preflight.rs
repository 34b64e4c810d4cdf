//! What cannot be done on this machine, in words: before anything is made, and when a task cannot go on.

use std::io;

use schedlab_model::Attributes;
use schedlab_program::{FORKS_WITHOUT_END, Op, Program, TemplateId};

use crate::NativeError;
use crate::attributes::{affinity_refusal, policy_refusal, slice_refusal, slices_supported};
use crate::capacity::{check_tasks, kernel_bytes};
use crate::sessions::check_sessions;
use crate::shared::{Failure, Wanted};
use crate::system::{self, abnormal};

/// Checks what can be seen not to be possible here before anything is made.
pub(crate) fn check(program: &Program) -> Result<(), NativeError> {
    check_background(program)?;
    check_slices(program)?;
    check_tasks(program)?;
    check_memory(program)?;
    check_sessions(program)
}

/// A real machine has other work of its own, and a real run would wait for the workload's.
fn check_background(program: &Program) -> Result<(), NativeError> {
    program.templates().iter().find(|template| template.background).map_or(Ok(()), |template| {
        let what = "it is background, which only simulations have; leave it out";
        Err(NativeError::Refused { task: template.name.clone(), what: what.to_owned() })
    })
}

/// Memory that tasks touch, and that the kernel needs for them, must be there.
fn check_memory(program: &Program) -> Result<(), NativeError> {
    let mut needed = 0u64;
    for (id, template) in (0..).zip(program.templates()) {
        let touched = program.operations(TemplateId(id)).filter_map(|op| match op {
            Op::Memory { buffer, .. } => Some(buffer),
            _ => None,
        });
        let touched: std::collections::BTreeSet<u32> = touched.collect();
        let bytes = touched.iter().map(|buffer| program.memories()[*buffer as usize].bytes);
        needed = needed.saturating_add(bytes.sum::<u64>().saturating_mul(template.total));
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match available.map(|kib| kib * 1024) {
        Some(available) if needed > available => Err(NativeError::Limit(format!(
            "workload '{}' touches {needed} bytes of memory in all its tasks; available: {available}",
            program.name()
        ))),
        Some(available) if needed.saturating_add(kernel_bytes(program)) > available => {
            Err(NativeError::Limit(format!(
                "workload '{}' starts {} tasks at once, for which the kernel needs {} bytes of memory; available: {available}",
                program.name(),
                program.roots().count(),
                kernel_bytes(program)
            )))
        }
        _ => Ok(()),
    }
}

fn check_slices(program: &Program) -> Result<(), NativeError> {
    let wanted = program.templates().iter().find_map(|template| {
        let attributes = template.attributes.as_ref()?;
        attributes.slice.filter(|_| !attributes.policy.is_realtime()).map(|slice| (template, slice))
    });
    match wanted {
        Some((template, slice)) if !slices_supported() => {
            let what = slice_refusal(slice, &system::kernel().0);
            Err(NativeError::Refused { task: template.name.clone(), what })
        }
        _ => Ok(()),
    }
}

/// A failure in words.
pub(crate) fn explain(program: &Program, failure: Failure) -> NativeError {
    let Failure { wanted, number, template } = failure;
    let task = program.template(template).name.clone();
    let attributes: Attributes = program.template(template).attributes.clone().unwrap_or_default();
    let error = io::Error::from_raw_os_error(number);
    let refused = |what: String| NativeError::Refused { task: task.clone(), what };
    let failed = |doing: &str| NativeError::Task { task: task.clone(), what: format!("{doing}: {error}") };
    match wanted {
        Wanted::Attributes => NativeError::Refused { task: task.clone(), what: policy_refusal(&attributes, &error) },
        Wanted::Affinity => NativeError::Refused { task: task.clone(), what: affinity_refusal(&attributes, &error) },
        Wanted::Fork | Wanted::Thread => NativeError::Limit(format!(
            "workload '{}' needs {} tasks, but no more '{task}' could be made: {error} (ulimit -u, the cgroup's pids.max and \
             free memory set the limit)",
            program.name(),
            program.total_tasks()
        )),
        Wanted::Write => failed("writing"),
        Wanted::Read => failed("reading"),
        Wanted::Poll => failed("waiting at a latch"),
        Wanted::Wait => failed("collecting a child"),
        Wanted::File => failed("reading or writing a file"),
        Wanted::Device => failed("writing to the io_device"),
        Wanted::Network => failed("a connection to a port"),
        Wanted::Session => failed("beginning its session"),
        Wanted::TooMany => NativeError::Task {
            what: format!(
                "it forks without end: it has made {FORKS_WITHOUT_END} tasks with one fork step (rt-app's limit too)"
            ),
            task,
        },
        Wanted::Group => refused(format!("moving to its cgroup failed: {error}")),
        Wanted::Clamp => refused(match number {
            libc::EOPNOTSUPP | libc::EINVAL | libc::E2BIG => {
                format!(
                    "setting util_min and util_max failed: {error}; this kernel is built without CONFIG_UCLAMP_TASK"
                )
            }
            _ => format!("setting util_min and util_max failed: {error}"),
        }),
        Wanted::Nodes => refused(match number {
            libc::ENOSYS => "binding its memory failed: this kernel is built without CONFIG_NUMA".to_owned(),
            _ => format!("binding its memory to NUMA nodes failed: {error}; these nodes may not be there"),
        }),
        Wanted::LockPages => refused(format!(
            "locking its memory (\"lock_pages\") failed: {error}; it needs CAP_IPC_LOCK or a higher RLIMIT_MEMLOCK"
        )),
        Wanted::Child => NativeError::Task {
            task,
            what: format!("a child was {}", abnormal(number).unwrap_or_else(|| "lost".to_owned())),
        },
    }
}
