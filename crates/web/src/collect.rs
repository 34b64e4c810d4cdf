//! The events and decisions of a run, kept within a page's memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use schedlab_model::{Decision, Event, EventSink, Outcome, PickClass, Reason, Standing, TaskId, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, SimError, simulate};

use crate::WebError;
use crate::request::{Run, Window};

/// The tasks whose virtual time is kept.
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

/// Which class ran on a CPU from a time on, and its task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    pub(crate) task: TaskId,
    pub(crate) class: PickClass,
}

/// What is kept of a run's decisions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// Those of a window, whole; without one, none but limits of bandwidth.
    pub(crate) window: Option<Window>,
    /// The class of each pick.
    pub(crate) picks: bool,
    /// Limits of bandwidth, over the whole run.
    pub(crate) bandwidth: bool,
}

/// A sink for a run's events; with `EXPLAINS` for its decisions too.
#[derive(Debug)]
pub(crate) struct Collector<'a, const EXPLAINS: bool> {
    pub(crate) events: Vec<Event>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) picks: Vec<Pick>,
    /// Whether there were more decisions in the window than it asks for.
    pub(crate) more: bool,
    wanted: Wanted,
    wish: Wish,
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
        if let Reason::Pick { task, class, .. } = decision.reason
            && self.wish.picks
            && self.picks.len() < self.limit
        {
            self.picks.push(Pick { time, cpu: decision.cpu.0, task, class });
        }
        let bandwidth =
            self.wish.bandwidth && matches!(decision.reason, Reason::Throttle { .. } | Reason::Unthrottle { .. });
        let inside = self.wish.window.is_some_and(|window| (window.from..=window.to).contains(&time));
        if !bandwidth && !inside {
            return;
        }
        if self.decisions.len() < self.wish.window.map_or(self.limit, |window| window.limit) {
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
    pub(crate) picks: Vec<Pick>,
    pub(crate) more: bool,
}

/// Simulates `program` as `run` says. Decisions are asked for where some are wished: the run takes longer then.
pub(crate) fn collect(program: &Program, run: &Run, wish: Wish) -> Result<Collected, WebError> {
    if wish.window.is_some() || wish.picks || wish.bandwidth {
        collect_as::<true>(program, run, wish)
    } else {
        collect_as::<false>(program, run, wish)
    }
}

fn collect_as<const EXPLAINS: bool>(program: &Program, run: &Run, wish: Wish) -> Result<Collected, WebError> {
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
        picks: Vec::new(),
        more: false,
        wanted,
        wish,
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
    let Collector { events, standings, decisions, picks, more, .. } = sink;
    Ok(Collected { outcome, events, standings, decisions, picks, more })
}
