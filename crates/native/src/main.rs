//! `schedlab-native`: runs workloads on the running kernel, and measures what that kernel's operations cost.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use schedlab_model::{Time, Workload};
use schedlab_native::{
    GuardOptions, Level, NativeError, RecordOptions, RunOptions, Scenario, background, calibrate, guard, play, probe,
    record, run,
};
use schedlab_program::Program;
use schedlab_workloads::{BUILDERS, rtapp};

/// Runs workloads on the running kernel, and measures what that kernel's operations cost.
///
/// Results are JSON on standard output, errors one line on standard error. Exit codes: 0 done, 1 unexpected failure or time limit,
/// 2 bad input or not permitted, 130 interrupted.
#[derive(Parser)]
#[command(name = "schedlab-native", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a workload and print its outcome.
    ///
    /// Example: schedlab-native run hackbench:groups=1,loops=10
    Run {
        /// A built-in workload, a file of a workload as JSON, or - for standard input.
        workload: String,
        /// Seed of every random stream.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long the run may take before all its tasks are killed.
        ///
        /// A minute where nothing is said, or ten seconds more than the workload's own duration.
        #[arg(long)]
        timeout: Option<Time>,
        /// Where the workload's files are made, without names.
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
        /// Measure how long each task waited for a CPU; takes a few microseconds a task.
        #[arg(long)]
        delays: bool,
    },
    /// Measure what this machine's operations cost.
    ///
    /// Example: schedlab-native calibrate --quick
    Calibrate {
        /// Take about one second instead of five.
        #[arg(long)]
        quick: bool,
        /// Measure the disk below this directory too, with a nameless file of 16 MiB.
        #[arg(long, value_name = "DIRECTORY")]
        disk: Option<PathBuf>,
    },
    /// Watch what else runs on this machine, as it is and under load.
    ///
    /// Needs root and tracefs. Example: schedlab-native background --time 2s
    Background {
        /// How long it watches the machine as it is, and as long under load.
        #[arg(long, default_value = "3s")]
        time: Time,
    },
    /// Record what the kernel's scheduler does while a command runs.
    ///
    /// Example: schedlab-native record -o trace.txt.gz -- schedlab-native run hackbench
    Record {
        /// The file to write; gzipped if its name ends in .gz. Without one nothing is kept: the command runs as if it were recorded.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// What to record; as much as this kernel allows where it is not given.
        #[arg(long)]
        level: Option<Level>,
        /// Size of each CPU's buffer in KiB; it must hold the whole recording.
        #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
        buffer: u64,
        /// How long the command may take before it is killed.
        #[arg(long, default_value = "60s")]
        timeout: Time,
        /// The command and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
    /// Play a small world of tasks in which the scheduler has to decide something of a kind.
    ///
    /// Example: schedlab-native record -o trace.txt.gz -- schedlab-native scenario hogs
    Scenario {
        /// What there is to be decided.
        scenario: Scenario,
        /// How long it goes on.
        #[arg(long, default_value = "2s")]
        length: Time,
    },
    /// Say what this kernel is, and what it lets this user set.
    Probe,
    /// Run a command, and end all that it started when it or the caller ends.
    #[command(hide = true)]
    Guard {
        /// The caller's process id.
        #[arg(long)]
        parent: i32,
        /// The descriptor to which the report goes.
        #[arg(long)]
        report: i32,
        /// How long the command may take to end once it was asked to.
        #[arg(long, default_value = "3s")]
        patience: Time,
        /// Stay in the caller's process group.
        #[arg(long)]
        foreground: bool,
        /// The command and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command.execute() {
        Ok(json) if json.is_empty() => ExitCode::SUCCESS,
        Ok(json) => {
            let mut output = std::io::stdout().lock();
            match writeln!(output, "{json}").and_then(|()| output.flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            // One line, whatever a library said.
            let line = error.to_string().replace('\n', " ");
            eprintln!("schedlab-native: {line}");
            ExitCode::from(error.exit_code())
        }
    }
}

impl Command {
    fn execute(self) -> Result<String, NativeError> {
        let json = match self {
            Self::Run { workload, seed, timeout, delays, directory } => {
                let program = Program::compile(&read(&workload)?)?;
                let default = RunOptions::default();
                let timeout = timeout.unwrap_or_else(|| {
                    let own = program.duration().map(|duration| duration.saturating_add(Time::from_millis(10_000)));
                    own.map_or(default.timeout, |own| own.max(default.timeout))
                });
                let directory = directory.unwrap_or_else(|| default.directory.clone());
                serde_json::to_string(&run(program, &RunOptions { seed, timeout, delays, directory, ..default })?)
            }
            Self::Record { output, level, buffer, timeout, command } => {
                serde_json::to_string(&record(&RecordOptions { output, level, buffer, timeout, command })?)
            }
            Self::Background { time } => serde_json::to_string(&background(time)?),
            Self::Scenario { scenario, length } => serde_json::to_string(&play(scenario, length)?),
            Self::Guard { parent, report, patience, foreground, command } => {
                guard(&GuardOptions { parent, report, patience, foreground, command })?;
                return Ok(String::new());
            }
            Self::Probe => serde_json::to_string(&probe()),
            Self::Calibrate { quick, disk } => serde_json::to_string(&calibrate(quick, disk.as_deref())?),
        };
        json.map_err(|error| NativeError::System { what: "writing the result", source: error.into() })
    }
}

/// The workload that the user means.
fn read(argument: &str) -> Result<Workload, NativeError> {
    let name = argument.split(':').next().unwrap_or_default();
    if BUILDERS.iter().any(|builder| builder.name == name) {
        return Ok(schedlab_workloads::parse(argument)?);
    }
    let file = if argument == "-" { "standard input" } else { argument };
    let wrong = |why: String| NativeError::File { file: file.to_owned(), why };
    let text = if argument == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(argument)
    };
    let builders = BUILDERS.iter().map(|builder| builder.name).collect::<Vec<_>>().join(", ");
    let text = text.map_err(|error| wrong(format!("{error} (a workload is a file, - or one of {builders})")))?;
    let name = argument.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    let imported = rtapp::read(&text, name).map_err(|error| wrong(error.to_string()))?;
    for note in imported.notes {
        eprintln!("schedlab-native: note: {note}");
    }
    Ok(imported.workload)
}
