//! The decisions of a run with their reasons.

use schedlab_model::{Candidate, Decision, Reason, TaskId};
use schedlab_program::Program;
use serde_json::json;

use crate::WebError;
use crate::collect::{Wish, collect};
use crate::message::Message;
use crate::request::{Run, Window};
use crate::setup;
use crate::timeline::subject;

/// The decisions of `run` within `window`, each with its sentence.
pub(crate) fn explain(run: &Run, window: &Window) -> Result<Message, WebError> {
    let (workload, _) = setup::build(&run.setup)?;
    let workload = run.machine.with_background(workload)?;
    let program = Program::compile(&workload)?;
    let collected = collect(&program, run, Wish { window: Some(*window), ..Wish::default() })?;
    let name = |candidate| collected.outcome.name_of(candidate);
    let (decisions, more) = (&collected.decisions, collected.more);
    Ok(tell(decisions, window, more, &name, &|task| task))
}

/// The decisions within `window`, each with its sentence. `more` says that there were more than it asks for; `number`
/// gives the tasks the page's numbers.
pub(crate) fn tell(
    decisions: &[Decision],
    window: &Window,
    more: bool,
    name: &dyn Fn(Candidate) -> String,
    number: &dyn Fn(TaskId) -> TaskId,
) -> Message {
    let inside = |one: &&Decision| (window.from..=window.to).contains(&one.time.as_nanos());
    let decisions: Vec<&Decision> = decisions.iter().filter(inside).collect();
    let texts: Vec<String> = decisions.iter().map(|one| one.reason.text(name)).collect();
    let mut message = Message::new(json!({"from": window.from, "to": window.to, "more": more, "texts": texts}));
    message.f64s("decision_time", &decisions.iter().map(|one| one.time.as_nanos() as f64).collect::<Vec<_>>());
    message.u16s("decision_cpu", &decisions.iter().map(|one| one.cpu.0 as u16).collect::<Vec<_>>());
    message.u32s("decision_task", &decisions.iter().map(|one| number(subject(&one.reason)).0).collect::<Vec<_>>());
    message.u8s("decision_kind", &decisions.iter().map(|one| kind(&one.reason)).collect::<Vec<_>>());
    message.u8s("decision_acts", &decisions.iter().map(|one| u8::from(acts(&one.reason))).collect::<Vec<_>>());
    message
}

/// The decision's number on the page: pick, wakeup, turn, place, select, newidle, balance, throttle, unthrottle.
const fn kind(reason: &Reason) -> u8 {
    match reason {
        Reason::Pick { .. } => 0,
        Reason::WakeupPreempt { .. } => 1,
        Reason::Turn { .. } => 2,
        Reason::Place { .. } => 3,
        Reason::Select { .. } => 4,
        Reason::Newidle { .. } => 5,
        Reason::Balance { .. } => 6,
        Reason::Throttle { .. } => 7,
        Reason::Unthrottle { .. } => 8,
    }
}

/// Whether the decision changes which task runs or where: stepping goes from one such decision to the next.
fn acts(reason: &Reason) -> bool {
    match reason {
        Reason::Pick { task, candidates, .. } => *task != TaskId::IDLE && *candidates > 1,
        Reason::WakeupPreempt { .. } | Reason::Throttle { .. } | Reason::Unthrottle { .. } => true,
        Reason::Turn { preempts, .. } => *preempts,
        Reason::Balance { moved, .. } => *moved > 0,
        Reason::Newidle { runs, .. } => *runs,
        Reason::Place { .. } => false,
        Reason::Select { previous, chosen, .. } => previous != chosen,
    }
}
