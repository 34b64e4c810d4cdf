//! Where in files a task's accesses begin.

use schedlab_model::{Offset, Time};

use crate::FileOp;
use crate::random::{Stream, name_key, path_key};

/// Where a task's next access of each file begins, and what its accesses anywhere in a file are drawn from.
///
/// The runner and the simulator ask the same, so that a task with the same key goes to the same places in both.
#[derive(Debug, Clone)]
pub struct Places {
    next: Vec<u64>,
    stream: Stream,
}

impl Places {
    /// Of a task that has accessed nothing; `key` is its [`crate::Cursor::key`].
    pub fn new(key: u64) -> Self {
        // Not the stream that its durations are drawn from.
        Self { next: Vec::new(), stream: Stream::new(path_key(key, name_key("places"), 0)) }
    }

    /// The first byte of the next access to a file of `size` bytes: where the last one ended, from the beginning again where it would
    /// go past the end, or at any multiple of what it accesses.
    ///
    /// ```
    /// use schedlab_model::Offset;
    /// use schedlab_program::{FileOp, FileVerb, Places};
    ///
    /// let mut places = Places::new(1);
    /// let mut op = FileOp { file: 0, verb: FileVerb::Read, bytes: 4, offset: Offset::Next };
    /// assert_eq!([(); 4].map(|()| places.next(op, 10)), [0, 4, 0, 4]); // 8 + 4 would go past the end
    /// op.offset = Offset::Random;
    /// assert!([0, 4].contains(&places.next(op, 10)));
    /// ```
    pub fn next(&mut self, op: FileOp, size: u64) -> u64 {
        let bytes = u64::from(op.bytes);
        match op.offset {
            Offset::Next => {
                let file = op.file as usize;
                if self.next.len() <= file {
                    self.next.resize(file + 1, 0);
                }
                let begin = if self.next[file] + bytes > size { 0 } else { self.next[file] };
                self.next[file] = begin + bytes;
                begin
            }
            Offset::Random => {
                let last = Time::from_nanos((size / bytes).saturating_sub(1));
                self.stream.between(Time::ZERO, last).as_nanos() * bytes
            }
        }
    }
}
