//! What the engine knows of a task.

use schedlab_model::{Costs, TaskKind};
use schedlab_program::{Cursor, Op, TemplateId};

use crate::groups::Belongs;
use crate::price::Prices;
use crate::wait::NONE;

/// Where a task is within its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The operation is done (or there was none yet): the next one comes.
    Fetch,
    /// The operation has to be looked at anew: it is done in part, or it could not be done and the task slept since.
    Retry,
    /// Its time is being used; at the end it takes effect.
    Act,
    /// It cannot be done: the time it takes to go to sleep is being used.
    Block,
    /// It has looked for the last time and waits: the scheduler's pass that takes it off is being used.
    Depart,
    /// It is about to end and looks at its own CPU time.
    Report,
    /// A process has ended but for telling its parent.
    Notify,
    /// The task has ended but for the cost of telling its parent.
    Die,
}

/// As `__state`, with running told apart from runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Runnable,
    /// Whether it has read clocks to compute since it was switched in.
    Running {
        computed: bool,
    },
    Asleep,
    Dead,
}

/// What operations, switches and wake-ups touch: four cache lines, of which tasks that sleep and wake up touch the two in the middle. Times
/// are nanoseconds.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Task {
    /// Its CPU's count of switches when it came there last.
    pub(crate) ran_at: u64,
    /// The CPU it ran on last, [`NONE`] before it ran.
    pub(crate) ran_on: u32,
    /// Bytes of the message that were moved.
    pub(crate) moved: u32,
    /// Bytes that the current step moves.
    pub(crate) planned: u32,
    /// It was woken in delayed dequeue, and was not switched in yet.
    pub(crate) was_delayed: bool,
    /// Its delayed dequeue has shortened the pass with which it went to sleep.
    pub(crate) pass_shortened: bool,
    /// It was woken while it departed, which takes effect once it is off.
    pub(crate) recalled: bool,
    /// It is other work of the machine: the CPU time of its steps is all that it takes.
    pub(crate) background: bool,
    /// What it came to so far.
    pub(crate) account: Account,
    pub(crate) op: Op,
    /// CPU time until the stage is over; holds while the task does not run.
    pub(crate) remaining: u64,
    /// CPU time spent on its behalf but not yet served: switches, wake-ups it made, its migration.
    pub(crate) debt: u64,
    /// The CPU it is queued on, or was last.
    pub(crate) cpu: u32,
    pub(crate) stage: Stage,
    pub(crate) state: State,
    /// The current system call had to sleep (or was about to). Of one that ends: it has looked at its CPU time.
    pub(crate) slept: bool,
    /// It ended and waits to be collected.
    pub(crate) zombie: bool,
    /// Where it stands in its program.
    pub(crate) cursor: Cursor,
}

/// The accounts of a task; what each sleep and wake-up changes comes last. Times are nanoseconds.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct Account {
    /// What of the time before it was switched in it is charged for, less what others are of its own.
    pub(crate) passed: i64,
    /// What of its delays a kernel does not count as waiting, less what it counts besides.
    pub(crate) uncounted: i64,
    /// Of being runnable until it runs.
    pub(crate) delay: u64,
    pub(crate) max_delay: u64,
    pub(crate) migrations: u32,
    /// Times it was taken off its CPU.
    pub(crate) involuntary: u32,
    /// When the task's state last changed.
    pub(crate) since: u64,
    pub(crate) run: u64,
    pub(crate) user: u64,
    pub(crate) sleep: u64,
    /// Times it went to sleep.
    pub(crate) voluntary: u64,
}

/// Who it is, for the ends of its life and for the outcome.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) template: TemplateId,
    pub(crate) instance: u32,
    pub(crate) kind: TaskKind,
    pub(crate) belongs: Belongs,
    pub(crate) born: u64,
    pub(crate) died: u64,
    pub(crate) parent: u32,
    /// Children that are not collected yet, in the order in which they were made.
    pub(crate) first_child: u32,
    pub(crate) last_child: u32,
    pub(crate) next_sibling: u32,
}

impl Account {
    /// Of one that is made now.
    pub(crate) const fn new(now: u64) -> Self {
        Self {
            migrations: 0,
            delay: 0,
            uncounted: 0,
            max_delay: 0,
            involuntary: 0,
            since: now,
            run: 0,
            passed: 0,
            user: 0,
            sleep: 0,
            voluntary: 0,
        }
    }

    /// It is switched out: how long it had the CPU.
    #[inline(always)]
    pub(crate) const fn end_run(&mut self, now: u64) -> u64 {
        let ran = now - self.since;
        self.run += ran;
        self.since = now;
        ran
    }

    /// What the kernel charges it for: the clock of a queue may be read some time before the switch.
    pub(crate) const fn charged(&self) -> u64 {
        self.run.saturating_add_signed(self.passed)
    }

    /// What the kernel counts as waiting: from when its queue's clock was read as it was queued to when it was as it was picked.
    pub(crate) fn waited(&self) -> u64 {
        self.delay.saturating_add_signed(-self.uncounted)
    }

    /// A CPU leaves idle for it `now`, after a task came to its queue while it idled, `roused` or not: the queue's clock stands from then on, and the task
    /// is charged with `taken` of that.
    #[inline]
    pub(crate) fn leaves_idle(&mut self, now: u64, roused: u64, taken: u64) {
        self.uncounted += now.saturating_sub(self.since.max(roused)).saturating_sub(taken) as i64;
    }

    /// It wakes.
    #[inline(always)]
    pub(crate) const fn end_sleep(&mut self, now: u64) {
        self.sleep += now - self.since;
        self.since = now;
    }

    /// It gets a CPU.
    #[inline(always)]
    pub(crate) fn end_wait(&mut self, now: u64) {
        let delay = now - self.since;
        self.delay += delay;
        self.max_delay = self.max_delay.max(delay);
        self.since = now;
    }
}

impl Task {
    pub(crate) const fn new(cursor: Cursor, now: u64) -> Self {
        Self {
            cursor,
            op: Op::Exit,
            account: Account::new(now),
            remaining: 0,
            debt: 0,
            ran_at: 0,
            ran_on: NONE,
            cpu: 0,
            moved: 0,
            planned: 0,
            stage: Stage::Fetch,
            state: State::Runnable,
            slept: false,
            zombie: false,
            was_delayed: false,
            pass_shortened: false,
            recalled: false,
            background: false,
        }
    }

    /// It is off its CPU with so much of its stage's time left; what is left of the way out of the kernel is no part of a stage.
    #[inline]
    pub(crate) const fn interrupted(&mut self, left_over: u64) {
        match self.stage {
            Stage::Fetch | Stage::Retry => self.debt += left_over,
            Stage::Act | Stage::Block | Stage::Depart | Stage::Report | Stage::Notify | Stage::Die => {
                self.remaining = left_over;
            }
        }
    }

    /// It was switched out, and the next task is charged for its last `time`: the clock of its CPU time, by which it may compute, did not go on for
    /// that.
    #[inline(always)]
    pub(crate) const fn passes_on(&mut self, time: u64, prices: &Prices) {
        self.account.passed -= time as i64;
        if matches!(self.state, State::Runnable) {
            self.account.uncounted -= time as i64;
        }
        if matches!(self.until_clock(prices), Some(0)) {
            self.remaining += time;
        }
    }

    /// It comes next, and is charged for the last `time` of the previous task: if it computes by the clock of its CPU time, that has gone on for it.
    #[inline(always)]
    pub(crate) const fn takes_on(&mut self, time: u64, prices: &Prices) {
        self.account.passed += time as i64;
        self.account.uncounted += time as i64;
        if matches!(self.until_clock(prices), Some(0)) {
            self.remaining = self.remaining.saturating_sub(time);
        }
    }

    /// It is at an operation that computes.
    #[inline(always)]
    pub(crate) fn computes(&self) -> bool {
        matches!((self.op, self.stage), (Op::Run(_), Stage::Act))
    }

    /// It has reported its outcome, its switches included, and only ends now.
    #[inline]
    pub(crate) fn has_reported(&self) -> bool {
        matches!((self.op, self.stage), (Op::Exit, Stage::Act | Stage::Notify | Stage::Die))
    }

    /// It was switched in at that price, less what it saves after a delayed dequeue. Where that has shortened the pass with which it went to sleep, it
    /// saves nothing more, and pays if it was dequeued after all.
    #[inline]
    pub(crate) const fn came(&mut self, price: u64, prices: &Prices) -> u64 {
        match (std::mem::replace(&mut self.was_delayed, false), std::mem::replace(&mut self.pass_shortened, false)) {
            (true, false) => price.saturating_sub(prices.lingering),
            (false, true) => price + prices.delayed_dequeue_pass,
            (true, true) | (false, false) => price,
        }
    }

    /// It is about to compute for so long, and to see so `late` that the time is up if it does by a clock: the work that this takes.
    #[inline]
    pub(crate) fn compute(&mut self, time: u64, late: u64, prices: &Prices) -> u64 {
        if time < Costs::CLOCKED.as_nanos() {
            return time;
        }
        let first = self.state != State::Running { computed: true };
        self.state = State::Running { computed: true };
        prices.run(time, first).saturating_add(late)
    }

    /// It looks at the clock of its CPU time, to compute for just so long: what it has to do until it does so first.
    #[inline]
    pub(crate) const fn until_clock(&self, prices: &Prices) -> Option<u64> {
        match (self.op, self.stage) {
            _ if self.background => None,
            (Op::Run(time), Stage::Act) if prices.is_clocked(time.as_nanos()) => {
                Some(self.remaining.saturating_sub(time.as_nanos()))
            }
            _ => None,
        }
    }

    /// What it has to do now: what is left of its stage, and its debt, which is a part of that where it comes `within` what is clocked.
    #[inline]
    pub(crate) const fn due(&mut self, within: bool) -> u64 {
        let debt = std::mem::replace(&mut self.debt, 0);
        if !within {
            self.remaining.saturating_add(debt)
        } else if debt > self.remaining {
            debt
        } else {
            self.remaining
        }
    }

    /// [`Self::due`] where nothing costs anything, so that no task has debts.
    #[inline(always)]
    pub(crate) fn due_free(&self) -> u64 {
        debug_assert_eq!(self.debt, 0);
        self.remaining
    }

    /// The operation is done.
    #[inline]
    pub(crate) const fn done(&mut self) {
        self.stage = Stage::Fetch;
        self.slept = false;
        self.moved = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_those_that_sleep_and_wake_up_touch_is_two_cache_lines() {
        let began = std::mem::offset_of!(Task, account) + std::mem::offset_of!(Account, since);
        let cursor = std::mem::offset_of!(Task, cursor);
        // Of the cursor its stream, its place and the first counter.
        assert_eq!((size_of::<Task>(), began, cursor + 48), (256, 64, 192));
    }
}
