//! Files: through the page cache at the price of copying, past it at the disk's.
//!
//! The disk is one: accesses take turns for the time that their bytes need, and overlap in its latency. Everything that was not
//! opened to bypass it is in the page cache, as it is after the file was made.

use schedlab_model::{EventSink, Opening, TaskState};
use schedlab_program::{FileVerb, Op};

use crate::engine::Engine;
use crate::task::Stage;

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that an access of a file takes before it has its effect.
    pub(crate) fn plan_file(&self, task: u32, access: u32) -> u64 {
        if self.arena.tasks[task as usize].moved > 0 {
            return 0;
        }
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        let copied = match (op.verb, opening) {
            (FileVerb::Write | FileVerb::Read, Opening::Cached | Opening::Sync) => self.prices.copy(op.bytes),
            _ => 0,
        };
        self.prices.system_call.saturating_add(copied)
    }

    /// The access takes place, and the task sleeps where it has to wait for the disk.
    pub(crate) fn access_file(&mut self, task: u32, cpu: u32, access: u32) {
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        let disk = self.prices.disk(op.bytes);
        let now = self.now;
        let record = &mut self.arena.tasks[task as usize];
        if record.moved > 0 {
            record.done();
            return;
        }
        match (op.verb, opening) {
            (FileVerb::Write, Opening::Sync | Opening::Direct) | (FileVerb::Read, Opening::Direct) => {
                let done = self.arena.objects.access_disk(now, disk);
                self.sleep_until(task, cpu, done);
            }
            (FileVerb::Write | FileVerb::Read, _) => record.done(),
            (FileVerb::SubmitWrite(depth) | FileVerb::SubmitRead(depth), _) => {
                let done = self.arena.objects.access_disk(now, disk);
                let under_way = &mut self.arena.objects.luggage(task).under_way;
                while under_way.front().is_some_and(|done| *done <= now) {
                    under_way.pop_front();
                }
                // The disk takes them in turn, so the last one asked for is done last.
                under_way.push_back(done);
                let wait = if under_way.len() >= depth as usize { under_way.pop_front() } else { None };
                match wait {
                    Some(done) => self.sleep_until(task, cpu, done),
                    None => record.done(),
                }
            }
        }
    }

    /// Waits for all that the task began.
    pub(crate) fn await_files(&mut self, task: u32, cpu: u32) {
        let under_way = &mut self.arena.objects.luggage(task).under_way;
        let last = under_way.back().copied();
        under_way.clear();
        match last {
            Some(done) if self.arena.tasks[task as usize].moved == 0 => self.sleep_until(task, cpu, done),
            _ => self.arena.tasks[task as usize].done(),
        }
    }

    /// Sleeps for the disk; when it is woken nothing is left of the operation.
    fn sleep_until(&mut self, task: u32, cpu: u32, done: u64) {
        let record = &mut self.arena.tasks[task as usize];
        if done <= self.now {
            record.done();
            return;
        }
        debug_assert!(matches!(record.op, Op::File(_) | Op::AwaitFiles), "only files are waited for so");
        (record.moved, record.stage) = (1, Stage::Retry);
        self.set_timer(task, done - self.now);
        self.switch(cpu, TaskState::Uninterruptible);
    }
}
