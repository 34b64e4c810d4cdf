//! The scenarios of `schedlab_sim::speed`: `cargo bench -p schedlab-sim --bench speed -- [NAME…] [--repeats N] [--record]`.
//!
//! Without names those that have goals; `floor`, `scaling`, `large` and `batch` where they are named. With `--record` the figures are added to
//! `benches/history.csv` with the machine and the commit.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use schedlab_model::Costs;
use schedlab_sim::speed::{Measured, SCENARIOS, Scenario, Set, facts, measure, measure_batch};

const HISTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/history.csv");

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut names, mut repeats, mut records) = (Vec::new(), 5, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--record" => records = true,
            "--repeats" => repeats = words.next().ok_or("--repeats takes a number")?.parse()?,
            // What cargo itself adds.
            "--bench" => {}
            name => names.push(name.to_owned()),
        }
    }
    let mut lines = String::new();
    let commit = commit();
    let machine = facts();
    let chosen = choose(&names)?;
    for figures in measure(&chosen, repeats, &Costs::ideal(), |_| true)? {
        println!("{}", row(&figures));
        writeln!(
            lines,
            "{commit},{},{:.1},ms,\"median of {} runs from {:.1} to {:.1} with {:.1} of CPU time at least; {machine}\"",
            figures.name,
            figures.wall_ms,
            figures.repeats,
            figures.least_ms,
            figures.most_ms,
            figures.cpu_ms.unwrap_or(f64::NAN)
        )?;
    }
    if names.iter().any(|name| name == "batch") {
        let batch = measure_batch(1_000, 2, repeats)?;
        println!(
            "batch               {} simulations: {:.0} ms on 1 thread, {:.0} ms on {}: {:.2} times as fast (goal {})",
            batch.simulations, batch.one_ms, batch.many_ms, batch.threads, batch.speedup, batch.goal
        );
        writeln!(
            lines,
            "{commit},batch,{:.2},times as fast on 2 threads,\"median of {repeats}; {machine}\"",
            batch.speedup
        )?;
    }
    if records {
        OpenOptions::new().append(true).open(HISTORY)?.write_all(lines.as_bytes())?;
    }
    Ok(())
}

/// The scenarios of these names, or of the sets called so.
fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().filter(|scenario| scenario.set == Set::Basic).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match name.as_str() {
            "scaling" => chosen.extend(SCENARIOS.iter().filter(|scenario| scenario.set == Set::Scaling)),
            "floor" => chosen.extend(SCENARIOS.iter().filter(|scenario| scenario.set == Set::Floor)),
            "large" => chosen.extend(SCENARIOS.iter().filter(|scenario| scenario.set == Set::Large)),
            "batch" => {}
            name => {
                let found = Scenario::find(name).ok_or_else(|| format!("there is no scenario '{name}'"))?;
                if found.set == Set::Typical {
                    return Err(format!("'{name}' has the costs that the package ships: schedlab bench {name}"));
                }
                chosen.push(found);
            }
        }
    }
    Ok(chosen)
}

fn row(figures: &Measured) -> String {
    let optional = |value: Option<f64>, what: &str| value.map_or(String::new(), |value| format!("  {what} {value:.0}"));
    format!(
        "{:<19} {:9.2} ms ({:.2} to {:.2}, {} runs){}{}{}{}{}",
        figures.name,
        figures.wall_ms,
        figures.least_ms,
        figures.most_ms,
        figures.repeats,
        figures.cpu_ms.map_or(String::new(), |cpu| format!("  CPU {cpu:.2}")),
        optional(figures.ns_per_pair, "ns a pair"),
        figures.operations_per_pair.map_or(String::new(), |count| format!("  {count:.1} operations")),
        optional(figures.goal_ms, "goal"),
        optional(figures.peak_mib, "peak MiB"),
    )
}

/// The commit that is measured, marked where the files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=7", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--", "crates"]).is_some_and(|text| !text.is_empty());
    if changed { format!("{commit}+") } else { commit }
}
