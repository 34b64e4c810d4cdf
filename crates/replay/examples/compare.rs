//! Replays a recording and prints the comparison: `compare FILE [RELEASE] [LEVEL] [SNAPSHOT]`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::path::Path;

use schedlab_replay::{Settings, replay};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("a recording is needed")?;
    let release = arguments.next().unwrap_or_else(|| "6.1".to_owned());
    let level = arguments.next();
    let mut settings = match arguments.next() {
        Some(snapshot) => Settings::from_snapshot(std::fs::read_to_string(snapshot)?.parse()?)?,
        None => Settings::defaults(release.parse()?)?,
    };
    settings.level = level.map(|level| level.parse()).transpose()?;
    let report = replay(schedlab_trace::open(Path::new(&file))?, &settings)?;
    println!("{report:#?}");
    Ok(())
}
