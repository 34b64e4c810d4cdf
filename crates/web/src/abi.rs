//! The exports of the WebAssembly module: bytes in, bytes out, no generated glue.
//!
//! `request(length)` makes room and returns its address; `answer()` answers what was written there and returns 0;
//! `address()` and `length()` tell where the answer lies until the next call. A run that shall be abandoned ends with its worker.
//! A panic ends the instance: what it said is the answer then.

use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::Message;

/// The one request and the one answer that an instance holds.
#[derive(Debug)]
struct Buffers {
    request: Vec<u8>,
    answer: Vec<u8>,
}

static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers { request: Vec::new(), answer: Vec::new() });

fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes room for a request of `length` bytes and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_request(length: usize) -> *mut u8 {
    let mut buffers = buffers();
    buffers.request = vec![0; length];
    buffers.request.as_mut_ptr()
}

/// Answers the request that was written.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_answer() {
    panic::set_hook(Box::new(|info| {
        let said = serde_json::json!({"error": format!("schedlab itself failed: {info}"), "part": "schedlab"});
        buffers().answer = Message::new(said).into_bytes();
    }));
    let request = {
        let mut buffers = buffers();
        buffers.answer = Vec::new();
        std::mem::take(&mut buffers.request)
    };
    let answer = crate::answer(&request);
    buffers().answer = answer;
}

/// The address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_address() -> *const u8 {
    buffers().answer.as_ptr()
}

/// The length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_length() -> usize {
    buffers().answer.len()
}
