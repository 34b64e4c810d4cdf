//! The next operation where it is known which one that mostly is: asked first, and not which kind of instruction comes.

use schedlab_model::Time;

use crate::op::Instruction;
use crate::{Cursor, Op, Program};

impl Cursor {
    /// [`Cursor::next`] where that is mostly to compute for a given time, perhaps at the end of a loop: for how long.
    ///
    /// # Errors
    /// The operation, where it is another one.
    #[inline(always)]
    pub fn next_run(&mut self, program: &Program) -> Result<Time, Op> {
        let mut placed = &program.code[self.at as usize];
        if let Instruction::End { depth, body } = placed.instruction {
            self.end_round(depth, body, placed.next);
            placed = &program.code[self.at as usize];
        }
        if let Instruction::Do(Op::Run(time)) = placed.instruction {
            self.at = placed.next;
            return Ok(time);
        }
        match self.next_of_any_kind(program) {
            Op::Run(time) => Ok(time),
            other => Err(other),
        }
    }

    /// [`Cursor::next`] where that is mostly to sleep, for a time that is drawn uniformly: for how long.
    ///
    /// # Errors
    /// The operation, where it is another one.
    #[inline(always)]
    pub fn next_sleep(&mut self, program: &Program) -> Result<Time, Op> {
        let placed = &program.code[self.at as usize];
        if let Instruction::SleepAmong { low, number } = placed.instruction {
            self.at = placed.next;
            return Ok(self.stream.among(low.into(), number.into()));
        }
        match self.next_of_any_kind(program) {
            Op::Sleep(time) => Ok(time),
            other => Err(other),
        }
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self, program: &Program) -> Op {
        self.next(program)
    }
}
