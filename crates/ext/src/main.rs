//! `schedlab-ext`: loads the sched_ext scheduler, shows what it does, and hands scheduling back.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command as Process, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use schedlab_ext::kernel::Status;
use schedlab_ext::scheduler::{Options, Scheduler, words};
use schedlab_ext::topology::Queues;
use schedlab_ext::watch::{Look, Row, lines};
use schedlab_ext::{ExtError, kernel};
use schedlab_model::{ThreadWeights, Time};
use serde::Serialize;

/// Thread-fair weights inside this kernel, as a sched_ext scheduler.
///
/// Exit codes: that of the command, or 0; 1 the kernel took scheduling back; 2 bad input, or this kernel or user cannot.
#[derive(Parser)]
#[command(name = "schedlab-ext", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Schedule while a command runs, or until Ctrl-C.
    ///
    /// Example: schedlab-ext run --weights pfs -- make -j8
    Run(Run),
    /// Say what schedules now, and whether this kernel could load ours.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Run {
    /// none, pfs, or dw-cfs:beta=1.1.
    #[arg(long)]
    weights: String,
    /// How long a thread runs before others are looked at; timer ticks end slices.
    #[arg(long, default_value = "5ms")]
    slice: Time,
    /// A thread is put back by no more virtual time than passes in this time, and waits no longer for its turn.
    #[arg(long, default_value = "10s")]
    lag_cap: Time,
    /// The kernel takes scheduling back if a thread waits longer.
    #[arg(long, default_value = "30s")]
    watchdog: Time,
    /// One queue a last-level cache, or one a CPU.
    #[arg(long, value_enum, default_value = "llc")]
    queues: Queues,
    /// How often shares are shown.
    #[arg(long, default_value = "1s")]
    every: Time,
    /// For a program that starts us: print the line "ready" on standard output once it schedules, and end with that program.
    #[arg(long)]
    ready: bool,
    /// Show nothing while it runs.
    #[arg(long)]
    quiet: bool,
    /// Write a report as JSON at the end.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show all that the kernel's verifier says of a rejection.
    #[arg(long)]
    verbose: bool,
    /// Load another object in place of the embedded one.
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Look at the options alone.
    #[arg(long, hide = true)]
    check: bool,
    /// What to run meanwhile.
    #[arg(last = true)]
    command: Vec<String>,
}

/// What `--report` writes.
#[derive(Serialize)]
struct Summary {
    weights: String,
    release: String,
    online: u32,
    queues: u32,
    seconds: f64,
    hotplugs: u64,
    kept: u64,
    strayed: u64,
    relieved: u64,
    ejected: Option<String>,
    processes: Vec<Row>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            // Its first line; hints and the usage follow it.
            eprintln!("schedlab-ext: {}", text.lines().next().unwrap_or_default().trim_start_matches("error: "));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let result = match arguments.command {
        Command::Run(run) => run.execute(),
        Command::Status { json } => status(json),
    };
    result.unwrap_or_else(|error| {
        eprintln!("schedlab-ext: {}", error.to_string().replace('\n', " "));
        ExitCode::from(error.exit_code())
    })
}

fn status(json: bool) -> Result<ExitCode, ExtError> {
    let status = Status::read();
    if json {
        println!("{}", serde_json::to_string(&status).unwrap_or_default());
        return Ok(ExitCode::SUCCESS);
    }
    match (&status.state, &status.scheduler) {
        (Some(_), Some(name)) => println!("the sched_ext scheduler '{name}' schedules on kernel {}", status.release),
        _ => println!("the kernel's own class schedules on kernel {}", status.release),
    }
    println!("{}", status.why.as_deref().unwrap_or("a sched_ext scheduler can be loaded here"));
    Ok(ExitCode::SUCCESS)
}

/// The signal that asked us to end; 0 for none.
static ASKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask(signal: libc::c_int) {
    ASKED.store(signal, Ordering::Relaxed);
}

extern "C" fn wake(_: libc::c_int) {}

/// Have signals end waits, and be remembered.
fn heed() {
    let handle = |signal: libc::c_int, handler: extern "C" fn(libc::c_int)| {
        // SAFETY: the handlers only store to an atomic; without SA_RESTART, waits end.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, ask);
    }
    handle(libc::SIGCHLD, wake);
}

impl Run {
    fn options(&self) -> Result<Options, ExtError> {
        let within = |option, value: Time, least: Time, most: Time| {
            if value < least || value > most {
                return Err(ExtError::Option {
                    option,
                    found: value.to_string(),
                    allowed: format!("{least} to {most}"),
                });
            }
            Ok(value)
        };
        let text = if self.weights == "dw-cfs" { "dw-cfs:beta=1.1" } else { &self.weights };
        let weights: ThreadWeights = text.parse()?;
        let watchdog = within("watchdog", self.watchdog, Time::from_millis(500), Time::from_millis(30_000))?;
        Ok(Options {
            weights,
            slice: within("slice", self.slice, Time::from_micros(100), Time::from_millis(100))?,
            lag_cap: within("lag-cap", self.lag_cap, Time::from_millis(100), Time::from_millis(15_000))?,
            watchdog,
            queues: self.queues,
            object: self.object.clone(),
        })
    }

    fn execute(self) -> Result<ExitCode, ExtError> {
        let options = self.options()?;
        if self.check {
            return Ok(ExitCode::SUCCESS);
        }
        heed();
        if self.ready {
            // SAFETY: a system call without pointers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        }
        let scheduler = Scheduler::attach(&options).inspect_err(|_| {
            if self.verbose {
                eprint!("{}", words());
            }
        })?;
        let online = scheduler.report()?.online;
        self.say(&format!(
            "schedlab-ext: schedules with weights {}, slice {}, {} CPUs, {} shared queue{}",
            options.weights,
            options.slice,
            online,
            scheduler.queues,
            if scheduler.queues == 1 { "" } else { "s" }
        ));
        if self.ready {
            println!("ready");
        }
        if let Some(remark) = options.weights.remark(online) {
            self.say(&format!("schedlab-ext: {remark}"));
        }
        let first = Look::now(&scheduler)?;
        let mut child = self.start()?;
        let ended = self.stay(&scheduler, child.as_mut(), &first)?;
        self.finish(&options, &scheduler, &first, ended.1.as_ref())?;
        if let Some(error) = ended.1 {
            // The command goes on under the kernel's own class; it was told at once.
            let code = child.as_mut().map(Child::wait).transpose().map_err(|source| self.cannot(source))?;
            return Ok(code.map_or(ExitCode::from(error.exit_code()), |status| match code_of(status) {
                0 => ExitCode::from(error.exit_code()),
                code => ExitCode::from(code),
            }));
        }
        scheduler.detach()?;
        self.say("schedlab-ext: the kernel's own class schedules again");
        Ok(ended.0.map_or(ExitCode::SUCCESS, |status| ExitCode::from(code_of(status))))
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    fn cannot(&self, source: std::io::Error) -> ExtError {
        ExtError::Command { command: self.command.first().cloned().unwrap_or_default(), source }
    }

    fn start(&self) -> Result<Option<Child>, ExtError> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(None) };
        let mut command = Process::new(program);
        command.args(arguments);
        // SAFETY: a system call, allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Without us it would run on under another scheduler than was asked for.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        command.spawn().map(Some).map_err(|source| self.cannot(source))
    }

    /// Show shares until the command ends, a signal comes or the kernel takes scheduling back.
    fn stay(
        &self,
        scheduler: &Scheduler,
        mut child: Option<&mut Child>,
        first: &Look,
    ) -> Result<(Option<ExitStatus>, Option<ExtError>), ExtError> {
        let every = Duration::from_nanos(self.every.as_nanos().max(100_000_000));
        let mut next = Instant::now() + every;
        let mut last = Look::now(scheduler)?;
        let (mut asked, mut hotplugs) = (0, 0);
        loop {
            scheduler.wait(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(500)))?;
            if let Some(error) = scheduler.ejected()? {
                eprintln!("schedlab-ext: {error}");
                return Ok((None, Some(error)));
            }
            let report = scheduler.report()?;
            if report.hotplugs != hotplugs {
                hotplugs = report.hotplugs;
                self.say(&format!("schedlab-ext: {} CPUs are on line now", report.online));
            }
            if let Some(child) = child.as_mut()
                && let Some(status) = child.try_wait().map_err(|source| self.cannot(source))?
            {
                return Ok((Some(status), None));
            }
            let signal = ASKED.load(Ordering::Relaxed);
            if signal != asked {
                asked = signal;
                let Some(child) = child.as_mut() else { return Ok((None, None)) };
                // A terminal's Ctrl-C has reached it already; whatever else asks us to end asks it too.
                if signal != libc::SIGINT {
                    // SAFETY: the child was not waited for, so that the id is still its own.
                    unsafe { libc::kill(child.id().cast_signed(), signal) };
                }
            }
            if Instant::now() >= next {
                next += every;
                let now = Look::now(scheduler)?;
                if !self.quiet {
                    eprint!("{}", lines(&now.since(&last), now.after(first), now.after(&last), report.online));
                }
                last = now;
            }
        }
    }

    fn finish(
        &self,
        options: &Options,
        scheduler: &Scheduler,
        first: &Look,
        ejected: Option<&ExtError>,
    ) -> Result<(), ExtError> {
        let Some(file) = &self.report else { return Ok(()) };
        let (now, counts) = (Look::now(scheduler)?, scheduler.report()?);
        let summary = Summary {
            weights: options.weights.to_string(),
            release: kernel::release(),
            online: counts.online,
            queues: scheduler.queues,
            seconds: now.after(first).as_secs_f64(),
            hotplugs: counts.hotplugs,
            kept: counts.keeps,
            strayed: counts.steals,
            relieved: counts.reliefs,
            ejected: ejected.map(ToString::to_string),
            processes: now.since(first),
        };
        let text = serde_json::to_string(&summary).unwrap_or_default();
        std::fs::write(file, text).map_err(|source| ExtError::System { what: "writing the report", source })
    }
}

/// As a shell's `$?`.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}
