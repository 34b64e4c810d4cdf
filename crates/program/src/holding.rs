//! What a task holds from step to step: mutexes, and a connection it has still to answer.
//!
//! A task that takes a mutex it holds already waits for itself, and one that ends with it lets all others wait; both can be seen in
//! the text. What several tasks do to one another can only be seen in a run.

use schedlab_model::{ModelError, Step, Task, Workload};

use crate::check::{refuse, step_place};

/// What the task holds now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Held<'a> {
    mutexes: Vec<&'a str>,
    /// It took a connection and has not answered.
    connected: bool,
}

struct Walk<'a> {
    workload: &'a Workload,
    task: &'a Task,
    held: Held<'a>,
    path: Vec<usize>,
}

/// Refuses a task that can be seen to wait for ever, or to let others, by the mutexes and connections it holds.
pub(crate) fn check(workload: &Workload, task: &Task) -> Result<(), ModelError> {
    let mut walk = Walk { workload, task, held: Held::default(), path: Vec::new() };
    walk.steps(&task.steps)?;
    let wrong = |why: String| Err(refuse(workload, format!("task '{}'", task.name), why));
    if let Some(mutex) = walk.held.mutexes.first() {
        return wrong(format!("it ends holding mutex '{mutex}', which is never unlocked then"));
    }
    if walk.held.connected {
        return wrong("it ends without a reply to the request it accepted last".to_owned());
    }
    Ok(())
}

impl<'a> Walk<'a> {
    fn steps(&mut self, steps: &'a [Step]) -> Result<(), ModelError> {
        for (index, step) in steps.iter().enumerate() {
            self.path.push(index);
            self.step(step)?;
            self.path.pop();
        }
        Ok(())
    }

    fn wrong(&self, why: String) -> Result<(), ModelError> {
        Err(refuse(self.workload, step_place(&self.task.name, &self.path), why))
    }

    fn step(&mut self, step: &'a Step) -> Result<(), ModelError> {
        match step {
            Step::Lock(mutex) => {
                if self.holds(mutex) {
                    return self.wrong(format!("it locks mutex '{mutex}', which it holds, and would wait for ever"));
                }
                self.held.mutexes.push(mutex);
            }
            Step::Unlock(mutex) => {
                if !self.holds(mutex) {
                    return self.wrong(format!("it unlocks mutex '{mutex}' without holding it"));
                }
                self.held.mutexes.retain(|held| held != mutex);
            }
            Step::Wait { mutex, condition } if !self.holds(mutex) => {
                return self.wrong(format!("it waits for '{condition}' without holding mutex '{mutex}'"));
            }
            Step::Accept { port, .. } => {
                self.connect(true, || format!("it accepts from port '{port}' before its reply to the last request"))?;
            }
            Step::Reply { .. } => self.connect(false, || "it replies without having accepted a request".to_owned())?,
            Step::Loop { count: 0, .. } => {}
            Step::Loop { count, steps } => self.rounds(steps, *count > 1)?,
            Step::Forever(steps) => self.rounds(steps, true)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes a connection or answers it, which needs the opposite before.
    fn connect(&mut self, take: bool, why: impl FnOnce() -> String) -> Result<(), ModelError> {
        if std::mem::replace(&mut self.held.connected, take) == take { self.wrong(why()) } else { Ok(()) }
    }

    /// One round stands for all if it leaves things as it found them; no further one could begin if it does not, as every step needs
    /// the opposite of what it leaves.
    fn rounds(&mut self, steps: &'a [Step], again: bool) -> Result<(), ModelError> {
        let before = self.held.clone();
        self.steps(steps)?;
        if !again || sorted(&before) == sorted(&self.held) {
            return Ok(());
        }
        if let Some(mutex) = self.held.mutexes.iter().find(|mutex| !before.mutexes.contains(mutex)) {
            return self
                .wrong(format!("a round ends holding mutex '{mutex}', and the next would wait for it for ever"));
        }
        if let Some(mutex) = before.mutexes.iter().find(|mutex| !self.held.mutexes.contains(mutex)) {
            return self.wrong(format!("a round unlocks mutex '{mutex}', which the next does not hold any more"));
        }
        self.wrong("a round takes or answers a request, and the next cannot".to_owned())
    }

    fn holds(&self, mutex: &str) -> bool {
        self.held.mutexes.contains(&mutex)
    }
}

fn sorted<'a>(held: &Held<'a>) -> Held<'a> {
    let mut held = held.clone();
    held.mutexes.sort_unstable();
    held
}
