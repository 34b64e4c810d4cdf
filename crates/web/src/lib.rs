//! The simulator behind the live page.
//!
//! One function, [`answer`]: a request as JSON in, a message out. A message is a head in JSON and flat arrays, which a browser views
//! without parsing ([`message`]). The same function is exported to WebAssembly through a C ABI ([`abi`]) and gives the same bytes
//! natively.
//!
//! ```
//! let request = r#"{
//!     "op": "run", "workload": {"builtin": "hogs:tasks=2,time=10ms"},
//!     "machine": {"cpus": 1}, "scheduler": {"release": "6.12"}
//! }"#;
//! let message = schedlab_web::answer(request.as_bytes());
//! let (head, arrays) = schedlab_web::message::read(&message).expect("a message of ours is well formed");
//! assert_eq!(head["outcome"]["elapsed_ns"], 20_000_000);
//! assert!(arrays.contains_key("slice_start"));
//! ```

pub mod abi;
mod catalogue;
mod collect;
mod density;
mod error;
mod explain;
mod latency;
pub mod message;
mod recording;
mod request;
mod run;
mod setup;
mod timeline;

use message::Message;
use request::Request;

pub use error::WebError;

/// Answers a request. An error is in the message's head as `error`, with `line` and `column` where the text has a place for it.
pub fn answer(request: &[u8]) -> Vec<u8> {
    let answered = serde_json::from_slice(request).map_err(WebError::from).and_then(dispatch);
    answered.unwrap_or_else(|error| error.message()).into_bytes()
}

fn dispatch(request: Request) -> Result<Message, WebError> {
    match request {
        Request::Catalogue { release, cpus, rules } => catalogue::catalogue(&release, cpus, rules),
        Request::Workload { setup } => setup::workload(&setup),
        Request::Run(request) => run::run(&request),
        Request::Replay(recording) => recording::replay(&recording),
        Request::ExplainReplay { recording, window } => recording::explain(&recording, &window),
        Request::Explain { run, window } => explain::explain(&run, &window),
    }
}
