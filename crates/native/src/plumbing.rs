//! Pipes and sockets of a run, and which of them each kind of task may close.

use std::collections::BTreeSet;
use std::os::fd::RawFd;

use schedlab_model::ChannelKind;
use schedlab_program::{Op, Program, TemplateId};

use crate::NativeError;
use crate::error::during;
use crate::system::{close_range, limit, pipe, set_limit, socket_pair};

/// Descriptors that a process has besides the run's own: standard streams, and a few for reading `/proc`.
const SPARE: u64 = 16;

/// Where to read and where to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) read: RawFd,
    pub(crate) write: RawFd,
}

/// All descriptors of a run.
///
/// The supervisor keeps every end open until the run is over, so that a writer never meets a closed pipe.
#[derive(Debug)]
pub(crate) struct Plumbing {
    pub(crate) channels: Vec<Ends>,
    /// A latch is a pipe that all waiting tasks poll and no task reads; to open it, one byte is written.
    pub(crate) latches: Vec<Ends>,
    /// Of each template that makes no tasks: the ranges of descriptors between those it uses.
    unused: Vec<Vec<(RawFd, RawFd)>>,
}

impl Plumbing {
    /// Makes the descriptors, raising the soft limit as far as the hard one allows.
    pub(crate) fn lay(program: &Program) -> Result<Self, NativeError> {
        let needed = 2 * (program.channels().len() + program.latches()) as u64 + SPARE;
        let (soft, hard) = limit(libc::RLIMIT_NOFILE);
        if needed > hard {
            return Err(NativeError::Limit(format!(
                "workload '{}' needs {needed} file descriptors; allowed: at most {hard} (ulimit -Hn)",
                program.name()
            )));
        }
        if needed > soft {
            set_limit(libc::RLIMIT_NOFILE, needed, hard).map_err(during("raising the limit of file descriptors"))?;
        }
        let open = |kind: ChannelKind| {
            let (read, write) = match kind {
                ChannelKind::Pipe => pipe(),
                ChannelKind::Socket => socket_pair(),
            }
            .map_err(during("opening a channel"))?;
            Ok(Ends { read, write })
        };
        let channels = program.channels().iter().map(|kind| open(*kind)).collect::<Result<Vec<_>, NativeError>>()?;
        let latches =
            (0..program.latches()).map(|_| open(ChannelKind::Pipe)).collect::<Result<Vec<_>, NativeError>>()?;
        let mut plumbing = Self { channels, latches, unused: Vec::new() };
        plumbing.unused =
            (0..program.templates().len() as u32).map(|id| plumbing.unused_by(program, TemplateId(id))).collect();
        Ok(plumbing)
    }

    fn unused_by(&self, program: &Program, template: TemplateId) -> Vec<(RawFd, RawFd)> {
        let mut used = BTreeSet::new();
        for op in program.operations(template) {
            match op {
                Op::Write { channel, .. } => used.insert(self.channels[channel as usize].write),
                Op::Read { channel, .. } => used.insert(self.channels[channel as usize].read),
                Op::OpenLatch(latch) => used.insert(self.latches[latch as usize].write),
                Op::AwaitLatch(latch) => used.insert(self.latches[latch as usize].read),
                // Its children may need any of them.
                Op::Fork { .. } => return Vec::new(),
                _ => false,
            };
        }
        // What else lies between the run's first and last descriptor is nothing that a task should hold either.
        let ends = || self.channels.iter().chain(&self.latches).flat_map(|ends| [ends.read, ends.write]);
        let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return Vec::new() };
        let mut gaps = Vec::new();
        let mut next = first;
        for used in used {
            if next < used {
                gaps.push((next, used - 1));
            }
            next = used + 1;
        }
        if next <= last {
            gaps.push((next, last));
        }
        gaps
    }

    /// Closes what a process of this template does not use, as hackbench's workers have few descriptors too: an ending process has
    /// to close each.
    pub(crate) fn close_unused(&self, template: TemplateId) {
        for (first, last) in &self.unused[template.index()] {
            close_range(*first, *last);
        }
    }
}
