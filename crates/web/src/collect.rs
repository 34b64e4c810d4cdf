//! What a run tells, kept within a page's memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use schedlab_model::{Decision, Event, EventSink, Outcome, Reason, Standing, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, SimError, simulate};

use crate::WebError;
use crate::request::{Run, Window};

/// Whose standings are kept.
#[derive(Debug)]
enum Wanted {
    All,
    Tasks(Vec<bool>),
}

impl Wanted {
    fn has(&self, task: usize) -> bool {
        match self {
            Self::All => true,
            Self::Tasks(wanted) => wanted.get(task).copied().unwrap_or(false),
        }
    }
}

/// Takes what a run tells; with `EXPLAINS` its decisions too.
#[derive(Debug)]
pub(crate) struct Collector<'a, const EXPLAINS: bool> {
    pub(crate) events: Vec<Event>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) decisions: Vec<Decision>,
    /// Whether there were more decisions in the window than it asks for.
    pub(crate) more: bool,
    wanted: Wanted,
    window: Window,
    limit: usize,
    full: &'a AtomicBool,
}

impl<const EXPLAINS: bool> EventSink for Collector<'_, EXPLAINS> {
    const EXPLAINS: bool = EXPLAINS;

    fn event(&mut self, event: Event) {
        if self.events.len() < self.limit {
            self.events.push(event);
        } else {
            self.full.store(true, Relaxed);
        }
    }

    fn standing(&mut self, standing: Standing) {
        if self.wanted.has(standing.task.index()) && self.standings.len() < 2 * self.limit {
            self.standings.push(standing);
        }
    }

    fn decision(&mut self, decision: Decision) {
        let time = decision.time.as_nanos();
        // Limits of bandwidth are drawn over the whole run.
        let bandwidth = matches!(decision.reason, Reason::Throttle { .. } | Reason::Unthrottle { .. });
        if !bandwidth && (time < self.window.from || time > self.window.to) {
            return;
        }
        if self.decisions.len() < self.window.limit {
            self.decisions.push(decision);
        } else {
            self.more = true;
        }
    }
}

/// The result of a run.
pub(crate) struct Collected {
    pub(crate) outcome: Outcome,
    pub(crate) events: Vec<Event>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) more: bool,
}

/// Simulates `program` as `run` says. With a window its decisions are kept.
pub(crate) fn collect(program: &Program, run: &Run, window: Option<Window>) -> Result<Collected, WebError> {
    match window {
        Some(window) => collect_as::<true>(program, run, window),
        None => collect_as::<false>(program, run, Window { from: 0, to: 0, limit: 0 }),
    }
}

fn collect_as<const EXPLAINS: bool>(program: &Program, run: &Run, window: Window) -> Result<Collected, WebError> {
    let full = AtomicBool::new(false);
    let wanted = run.standings.as_ref().map_or(Wanted::All, |tasks| {
        let mut wanted = vec![false; tasks.iter().max().map_or(0, |last| *last as usize + 1).min(1 << 20)];
        for task in tasks {
            if let Some(slot) = wanted.get_mut(*task as usize) {
                *slot = true;
            }
        }
        Wanted::Tasks(wanted)
    });
    let mut sink = Collector::<'_, EXPLAINS> {
        events: Vec::new(),
        standings: Vec::new(),
        decisions: Vec::new(),
        more: false,
        wanted,
        window,
        limit: run.event_limit,
        full: &full,
    };
    let options = Options { seed: run.seed, cancel: Some(&full), ..Options::default() };
    let outcome = simulate(program, &run.scheduler, &run.machine, &options, &mut sink);
    if full.load(Relaxed) {
        let time = sink.events.last().map_or(Time::ZERO, |event| event.time);
        return Err(WebError::Events { limit: run.event_limit, time });
    }
    let outcome = outcome.map_err(|error| match error {
        SimError::Model(error) => WebError::Model(error),
        error => WebError::Run(error),
    })?;
    let Collector { events, standings, decisions, more, .. } = sink;
    Ok(Collected { outcome, events, standings, decisions, more })
}
