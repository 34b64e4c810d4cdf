//! Where a task stands in its program.

use schedlab_model::Time;

use crate::op::Instruction;
use crate::random::{Stream, path_key};
use crate::{Op, Program, TemplateId};

/// Loop counters that a cursor holds without a heap block.
const INLINE: usize = 3;

/// A task's place in its program: program counter, loop counters, children made, and its own random stream.
///
/// No heap block for a task that neither forks nor nests loops deeper than three. What most steps touch comes first.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Cursor {
    stream: Stream,
    at: u32,
    counters: [u64; INLINE],
    rest: Option<Box<Rest>>,
    /// The run's seed and the task's path, hashed.
    key: u64,
}

/// What only some tasks need.
#[derive(Debug, Clone)]
struct Rest {
    /// The loop counters beyond the inline ones.
    deep: Vec<u64>,
    /// How many children of each of the template's `children` slots were made.
    made: Vec<u32>,
}

impl Cursor {
    /// A task that is there from the start, as [`Program::roots`] lists them, in a run with this seed.
    pub fn root(program: &Program, template: TemplateId, instance: u32, seed: u64) -> Self {
        Self::new(program, template, instance, seed)
    }

    /// The child that the operation [`Op::Fork`] of this cursor's task makes.
    ///
    /// Its random stream depends on the seed and on its path alone (parent's path, template's name, instance), not on which other tasks
    /// were made meanwhile.
    pub fn child(&self, program: &Program, template: TemplateId, instance: u32) -> Self {
        Self::new(program, template, instance, self.key)
    }

    fn new(program: &Program, id: TemplateId, instance: u32, parent_key: u64) -> Self {
        let template = program.template(id);
        let key = path_key(parent_key, template.name_key, instance);
        let deep = (template.depth as usize).saturating_sub(INLINE);
        let made = template.children.len();
        let rest = (deep > 0 || made > 0).then(|| Box::new(Rest { deep: vec![0; deep], made: vec![0; made] }));
        Self { stream: Stream::new(key), at: template.entry, counters: [0; INLINE], rest, key }
    }

    /// The hash of the run's seed and the task's path: a seed for what else the task draws.
    pub const fn key(&self) -> u64 {
        self.key
    }

    /// The next operation; [`Op::Exit`] for ever at the end.
    #[inline(always)]
    pub fn next(&mut self, program: &Program) -> Op {
        loop {
            let placed = &program.code[self.at as usize];
            let after = placed.next;
            match placed.instruction {
                Instruction::Do(op) => {
                    self.at = after;
                    return op;
                }
                Instruction::End { depth, body } => self.end_round(depth, body, after),
                Instruction::Begin { depth, count } => {
                    *self.counter(depth) = count.0;
                    self.at = after;
                }
                Instruction::Jump { body } => self.at = body,
                Instruction::RunDrawn(duration) => return Op::Run(self.draw(program, duration, after)),
                Instruction::BusyDrawn(duration) => return Op::Busy(self.draw(program, duration, after)),
                Instruction::SleepDrawn(duration) => return Op::Sleep(self.draw(program, duration, after)),
                Instruction::SleepAmong { low, number } => {
                    self.at = after;
                    return Op::Sleep(self.stream.among(low.into(), number.into()));
                }
                Instruction::Fork { template, slot } => {
                    self.at = after;
                    return Op::Fork { template, instance: self.count_child(slot) };
                }
                Instruction::Exit => return Op::Exit,
            }
        }
    }

    /// A round of the loop of this depth is over: back to its `body`, or on to what comes `after` it.
    #[inline(always)]
    fn end_round(&mut self, depth: u32, body: u32, after: u32) {
        let left = self.counter(depth);
        *left -= 1;
        self.at = if *left > 0 { body } else { after };
    }

    #[inline]
    fn counter(&mut self, depth: u32) -> &mut u64 {
        let depth = depth as usize;
        match &mut self.rest {
            _ if depth < INLINE => &mut self.counters[depth],
            Some(rest) => &mut rest.deep[depth - INLINE],
            None => &mut self.counters[depth % INLINE],
        }
    }

    // A template that forks or nests loops that deep has its `rest` from its start, so its placeholder is never used.

    #[inline(always)]
    fn draw(&mut self, program: &Program, duration: u32, after: u32) -> Time {
        self.at = after;
        self.stream.draw(program.durations[duration as usize])
    }

    fn count_child(&mut self, slot: u32) -> u32 {
        self.rest.as_mut().map_or(0, |rest| {
            let instance = rest.made[slot as usize];
            rest.made[slot as usize] += 1;
            instance
        })
    }
}

mod expected;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_steps_touch_is_in_the_first_words() {
        assert_eq!((std::mem::offset_of!(Cursor, counters), size_of::<Cursor>()), (40, 80));
    }
}
