//! Work that Ctrl-C can interrupt.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

thread_local! {
    /// What the last panic of this thread said, and where.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the messages of panics in the threads below for Python's exceptions, instead of printing them.
pub fn keep_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(NAME) {
            let payload = info.payload();
            let text = payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("no message");
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            LAST_PANIC.set(format!("{text} ({place})"));
        } else {
            before(info);
        }
    }));
}

/// The name of those threads.
const NAME: &str = "schedlab";

/// How long a signal may wait to be seen.
const POLL: Duration = Duration::from_millis(50);

/// Runs `work` without the GIL on a separate thread, and checks for signals meanwhile. `work` is given a flag that becomes true once no
/// caller waits for it any more.
///
/// # Errors
/// `KeyboardInterrupt`, or whatever a signal handler raises: `work` is abandoned then, and ends when it sees the flag, by itself or with
/// the process.
pub fn run<T: Send + 'static>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = channel();
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&abandoned);
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || {
            // A panic is a mistake of ours: it is reported as one, and the process goes on.
            let done = catch_unwind(AssertUnwindSafe(|| work(&flag))).map_err(|_| LAST_PANIC.take());
            // No caller listens any more after an interrupt.
            let _ = sender.send(done);
        })
        .map_err(|error| PyRuntimeError::new_err(format!("no thread to work on: {error}")))?;
    // The receiver may not cross threads while the GIL is released by reference, so it goes in and out by value.
    let mut receiver = Some(receiver);
    loop {
        let current = receiver.take();
        let (received, back) = py.detach(move || match current {
            Some(current) => (current.recv_timeout(POLL), Some(current)),
            None => (Err(RecvTimeoutError::Disconnected), None),
        });
        receiver = back;
        match received {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(said)) => {
                return Err(PyRuntimeError::new_err(format!("the core failed: {said}")));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| abandoned.store(true, Relaxed))?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the core failed"));
            }
        }
    }
}
