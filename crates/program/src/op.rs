//! Primitive operations: what a task asks of the kernel, one at a time.

use schedlab_model::{Duration, Time};

/// A task template of a program, from 0 in the order in which the workload lists its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(pub u32);

impl TemplateId {
    /// As an index into [`Program::templates`](crate::Program::templates).
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One primitive operation. What it names is given by indices into the program's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Use so much CPU time.
    Run(Time),
    /// Use CPUs until so much time has passed.
    Busy(Time),
    /// Sleep so long.
    Sleep(Time),
    /// Sleep until so long after the run's start.
    Delay(Time),
    /// Put a timer off by a period and sleep until it expires.
    Timer {
        /// The timer.
        timer: u32,
        /// From one expiry to the next.
        period: Time,
    },
    /// `sched_yield(2)`.
    Yield,
    /// Write one message, blocking while the channel is full.
    Write {
        /// The channel.
        channel: u32,
        /// Its bytes, at least 1.
        bytes: u32,
    },
    /// Read one message, in as many `read(2)` calls as that takes.
    Read {
        /// The channel.
        channel: u32,
        /// Its bytes, at least 1.
        bytes: u32,
    },
    /// Open a latch and wake every task that waits on it.
    OpenLatch(u32),
    /// Go on once the latch is open.
    AwaitLatch(u32),
    /// Take a mutex.
    Lock(u32),
    /// Give it back.
    Unlock(u32),
    /// Give a mutex back, sleep until a condition is signalled, and take the mutex again.
    Wait {
        /// The condition.
        condition: u32,
        /// The mutex.
        mutex: u32,
    },
    /// Wake one task that waits for a condition.
    Signal(u32),
    /// Wake all tasks that wait for a condition.
    Broadcast(u32),
    /// Wait at a barrier until all are there.
    Barrier(u32),
    /// Count a semaphore up.
    Post(u32),
    /// Count several up, with no preemption in between: an index into [`Program::post_lists`](crate::Program::post_lists).
    PostAll(u32),
    /// Count it down, waiting while it is 0.
    Acquire(u32),
    /// Touch memory.
    Memory {
        /// The buffer.
        buffer: u32,
        /// Bytes or pointers.
        count: u64,
    },
    /// Write to the workload's device.
    Device {
        /// Bytes of one call.
        chunk: u32,
        /// Bytes in all.
        bytes: u64,
    },
    /// Read or write a file: an index into [`Program::file_accesses`](crate::Program::file_accesses).
    File(u32),
    /// Wait until what this task began to read and write is done.
    AwaitFiles,
    /// Complete a write that the disk has done, as a kernel thread, waiting for one.
    CompleteWrite,
    /// Hand an access to the disk, as a kernel thread, waiting for one.
    Dispatch,
    /// End the writeback of a block's first synchronous write, as a kernel thread, waiting for one.
    EndWriteback,
    /// Begin or end a grace period, as RCU's kernel thread, waiting until there is one to begin or to end.
    GracePeriod,
    /// Hand a flush of the disk's write cache to the disk, as a kernel thread, waiting for one.
    DispatchFlush,
    /// Send a request and wait for its reply: an index into [`Program::requests`](crate::Program::requests).
    Request(u32),
    /// Take a request.
    Accept {
        /// The port.
        port: u32,
        /// Bytes of the request.
        bytes: u32,
    },
    /// Answer the request that was taken last with so many bytes.
    Reply(u32),
    /// Change how the scheduler treats the task: an index into [`Program::changes`](crate::Program::changes).
    Set(u32),
    /// Start a stopwatch.
    Start(u32),
    /// Stop it.
    Stop(u32),
    /// Make one task; its cursor is [`Cursor::child`](crate::Cursor::child).
    Fork {
        /// What the child does.
        template: TemplateId,
        /// The child's number, from 0, among those of this template that its parent makes.
        instance: u32,
    },
    /// Wait until every task this one made has ended.
    Join,
    /// Note the time under a name.
    Mark(u32),
    /// End. Once a task is here it stays here.
    Exit,
}

impl Op {
    /// Whether the timers of a task in this operation are those of the disk's accesses.
    pub const fn is_of_disk(self) -> bool {
        matches!(
            self,
            Self::File(_) | Self::AwaitFiles | Self::CompleteWrite | Self::EndWriteback | Self::DispatchFlush
        )
    }
}

/// Rounds of a loop, aligned as 32 bits so that an instruction stays two words long.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
pub(crate) struct Rounds(pub(crate) u64);

/// What the compiler emits: operations, and the control flow that a cursor resolves by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Instruction {
    /// Hand this out and go on.
    Do(Op),
    /// Set the loop counter of this depth and go on.
    Begin { depth: u32, count: Rounds },
    /// Count down; back to `body` while rounds are left.
    End { depth: u32, body: u32 },
    /// Back to `body`, for ever.
    Jump { body: u32 },
    /// Draw a time from the program's durations and run so long.
    RunDrawn(u32),
    /// Draw a time from the program's durations and use CPUs until it has passed.
    BusyDrawn(u32),
    /// Draw a time from the program's durations and sleep so long.
    SleepDrawn(u32),
    /// Sleep for a time drawn uniformly: for one of so many nanoseconds, the first of which is `low`. The most frequent of drawn times, so it is not
    /// looked up; `SleepDrawn` where they do not fit.
    SleepAmong { low: u32, number: u32 },
    /// Make a child; `slot` counts this template's children of this parent.
    Fork { template: TemplateId, slot: u32 },
    /// The end.
    Exit,
}

impl Instruction {
    /// [`Instruction::SleepAmong`], where this is so drawn and fits.
    pub(crate) fn sleep_among(duration: Duration) -> Option<Self> {
        let Duration::Uniform { low, high } = duration else { return None };
        let number = high.as_nanos().checked_sub(low.as_nanos())?.checked_add(1)?;
        Some(Self::SleepAmong { low: low.as_nanos().try_into().ok()?, number: number.try_into().ok()? })
    }
}

/// An instruction in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) instruction: Instruction,
    /// Where it goes on: after it, or where a jump there leads, so that none is ever carried out.
    pub(crate) next: u32,
}

/// The code with its jumps followed.
pub(crate) fn link(code: &[Instruction]) -> Vec<Placed> {
    // A loop's body begins with what is done, never with a jump.
    let target = |place: u32| match code.get(place as usize) {
        Some(Instruction::Jump { body }) => *body,
        _ => place,
    };
    (1..).zip(code).map(|(after, instruction)| Placed { instruction: *instruction, next: target(after) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_instructions_stay_small() {
        // Two machine words: an 8-byte time or two 4-byte indices beside the tag.
        assert!(size_of::<Op>() <= 16);
        assert!(size_of::<Instruction>() <= 16);
    }
}
