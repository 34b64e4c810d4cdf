//! Files of a run: made without a name, so that they are gone with the last process that has them, and read and written at once or
//! through the kernel's asynchronous interface.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use schedlab_model::Opening;
use schedlab_program::{FileOp, FileVerb, Places, Program};

use crate::NativeError;
use crate::system::{check_long, limit};

/// What `O_DIRECT` wants buffers, offsets and sizes to be multiples of, on every common disk.
const ALIGNED: u32 = 4096;

/// One file of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// As the workload opens it.
    plain: RawFd,
    /// Past the page cache, where an operation needs that.
    direct: Option<RawFd>,
    size: u64,
}

/// Makes the program's files below `directory`, as long as they are to be, with what is read written first.
pub(crate) fn make(program: &Program, directory: &Path) -> Result<Vec<Stored>, NativeError> {
    let mut files = Vec::new();
    for (index, (name, file)) in program.files().iter().enumerate() {
        let wrong = |error: io::Error| NativeError::File {
            file: directory.display().to_string(),
            why: format!(
                "file '{name}' of {} bytes cannot be made: {error} (--directory names another place)",
                file.size
            ),
        };
        let accesses = || program.file_accesses().iter().filter(|access| access.file == index as u32);
        let reads = accesses().any(|access| matches!(access.verb, FileVerb::Read | FileVerb::SubmitRead(_)));
        let submits =
            accesses().any(|access| matches!(access.verb, FileVerb::SubmitRead(_) | FileVerb::SubmitWrite(_)));
        let past_cache = submits || file.open == Opening::Direct;
        if let Some(access) = accesses().find(|access| past_cache && access.bytes % ALIGNED != 0) {
            let why = format!(
                "{} bytes past the page cache are not a multiple of {ALIGNED}, which O_DIRECT needs",
                access.bytes
            );
            return Err(NativeError::File { file: format!("file '{name}'"), why });
        }
        let plain = nameless(directory, file.size, reads).map_err(wrong)?;
        let reopened = |flags| reopen(&plain, flags).map_err(wrong);
        let direct = if past_cache { Some(reopened(libc::O_DIRECT | libc::O_SYNC)?) } else { None };
        let plain = match file.open {
            Opening::Cached => plain.into_raw_fd(),
            Opening::Sync => reopened(libc::O_SYNC)?,
            Opening::Direct => direct.unwrap_or(-1),
        };
        files.push(Stored { plain, direct, size: file.size });
    }
    Ok(files)
}

/// A file without a name, its space taken; filled where it will be read, so that reads find what a disk has to fetch.
fn nameless(directory: &Path, size: u64, filled: bool) -> io::Result<File> {
    let (most, _) = limit(libc::RLIMIT_FSIZE);
    if size > most {
        return Err(io::Error::other(format!("the limit of a file's size is {most} bytes (ulimit -f)")));
    }
    let mut file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(directory)?;
    // SAFETY: plain integers; the descriptor is the file's.
    let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as libc::off_t) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    if filled {
        let block = vec![b'-'; 1 << 20];
        let mut left = size;
        while left > 0 {
            let part = left.min(block.len() as u64);
            file.write_all(&block[..part as usize])?;
            left -= part;
        }
        file.sync_all()?;
    }
    Ok(file)
}

/// The same file, opened with further flags.
fn reopen(file: &File, flags: libc::c_int) -> io::Result<RawFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?.into_raw_fd())
}

/// A task's dealings with files.
pub(crate) struct Storage {
    places: Places,
    buffer: Aligned,
    queue: Option<Queue>,
}

/// A buffer that `O_DIRECT` takes.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let bytes = vec![b'-'; length + ALIGNED as usize];
        let begin = bytes.as_ptr().align_offset(ALIGNED as usize);
        Self { bytes, begin }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes[self.begin..].as_mut_ptr()
    }
}

/// `io_context_t`, and how many accesses are under way.
struct Queue {
    context: libc::c_ulong,
    under_way: u32,
    depth: u32,
}

/// `struct iocb`, little-endian, as `io_submit(2)` reads it.
#[repr(C)]
#[derive(Default)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    eventfd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    second: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;

impl Storage {
    /// For a task that accesses at most `longest` bytes at once.
    pub(crate) fn new(longest: u32, seed: u64) -> Self {
        Self { places: Places::new(seed), buffer: Aligned::new(longest as usize), queue: None }
    }

    /// Does one access, or begins it.
    pub(crate) fn access(&mut self, files: &[Stored], op: FileOp) -> io::Result<()> {
        let file = files[op.file as usize];
        let offset = self.places.next(op, file.size);
        match op.verb {
            FileVerb::Write | FileVerb::Read => self.at_once(file.plain, op, offset),
            FileVerb::SubmitWrite(depth) => self.submit(file, WRITE, op, offset, depth),
            FileVerb::SubmitRead(depth) => self.submit(file, READ, op, offset, depth),
        }
    }

    fn at_once(&mut self, descriptor: RawFd, op: FileOp, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < op.bytes as usize {
            let left = op.bytes as usize - done;
            let offset = (offset + done as u64) as libc::off_t;
            // SAFETY: the buffer has room for the task's longest access, of which `left` bytes lie behind `done`.
            let moved = unsafe {
                let pointer = self.buffer.pointer().add(done).cast();
                match op.verb {
                    FileVerb::Write => libc::pwrite(descriptor, pointer, left, offset),
                    _ => libc::pread(descriptor, pointer, left, offset),
                }
            };
            match usize::try_from(moved) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(moved) => done += moved,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn submit(&mut self, file: Stored, opcode: u16, op: FileOp, offset: u64, depth: u32) -> io::Result<()> {
        let buffer = self.buffer.pointer() as u64;
        let descriptor = file.direct.unwrap_or(file.plain) as u32;
        let queue = match &mut self.queue {
            Some(queue) => queue,
            none => none.insert(Queue::new(1024)?),
        };
        queue.depth = depth;
        let bytes = u64::from(op.bytes);
        let mut control = Control { opcode, descriptor, buffer, bytes, offset: offset as i64, ..Control::default() };
        queue.begin(&mut control)?;
        let most = queue.depth.saturating_sub(1);
        if queue.under_way > most { queue.wait(queue.under_way - most) } else { Ok(()) }
    }

    /// Waits for all that was begun.
    pub(crate) fn wait_all(&mut self) -> io::Result<()> {
        match &mut self.queue {
            Some(queue) => queue.wait(queue.under_way),
            None => Ok(()),
        }
    }
}

impl Queue {
    fn new(events: libc::c_long) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's name to `context`, which is zero before.
        check_long(unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut context) })?;
        Ok(Self { context, under_way: 0, depth: 1 })
    }

    fn begin(&mut self, control: &mut Control) -> io::Result<()> {
        let mut list = [std::ptr::from_mut(control)];
        // SAFETY: one control block; its buffer outlives the access, which is waited for before the task ends. What several accesses
        // under way read or write there does not matter.
        check_long(unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) })?;
        self.under_way += 1;
        Ok(())
    }

    fn wait(&mut self, mut least: u32) -> io::Result<()> {
        while least > 0 {
            let mut events = [Event::default(); 64];
            let at_least = least.min(64);
            let no_timeout: *const libc::timespec = std::ptr::null();
            // SAFETY: room for 64 events; no timeout.
            let found = check_long(unsafe {
                let [low, high] = [libc::c_long::from(at_least as i32), 64];
                libc::syscall(libc::SYS_io_getevents, self.context, low, high, events.as_mut_ptr(), no_timeout)
            });
            let found = match found {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if let Some(failed) = events[..found as usize].iter().find(|event| event.result < 0) {
                return Err(io::Error::from_raw_os_error(-failed.result as i32));
            }
            self.under_way -= found as u32;
            least = least.saturating_sub(found as u32);
        }
        Ok(())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // The kernel writes to the buffer until all is done.
        let _ = self.wait_all();
        if let Some(queue) = &self.queue {
            // SAFETY: our own context.
            unsafe { libc::syscall(libc::SYS_io_destroy, queue.context) };
        }
    }
}
