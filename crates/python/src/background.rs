//! Work that Ctrl-C can interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long a signal may wait to be seen.
const POLL: Duration = Duration::from_millis(50);

/// Runs `work` without the GIL on a thread of its own, looking out for signals meanwhile. It is given a flag that becomes true once
/// nobody waits for it any more.
///
/// # Errors
/// `KeyboardInterrupt`, or whatever a signal handler raises: `work` is abandoned then, and ends when it sees the flag, by itself or with
/// the process.
pub fn run<T: Send + 'static>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = channel();
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&abandoned);
    thread::Builder::new()
        .name("schedlab".to_owned())
        .spawn(move || {
            // Nobody listens any more after an interrupt.
            let _ = sender.send(work(&flag));
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
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| abandoned.store(true, Relaxed))?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the core failed; please report this with what it was given"));
            }
        }
    }
}
