//! The high-resolution tick: a timer of each CPU that comes exactly when a slice or a deadline task's runtime ends (`hrtick_*` in
//! `kernel/sched/core.c`, `hrtick_start_fair` in `fair.c`, `start_hrtick_dl` in `deadline.c`), instead of at the next tick.
//!
//! HRTICK is off by default up to 6.18 and on in 7.2 (where the architecture re-arms timers late: x86); HRTICK_DL is apart from it
//! from 5.13 on. The driver asks when the timer is due ([`Sched::hrtick_expires`]), before any tick of that instant, and runs it.

use schedlab_model::{CpuId, TaskId, Time};

use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;

/// Shorter than this, in nanoseconds, the timer is not set.
const SHORTEST: u64 = 10_000;

/// From 7.2 on a timer that is off by no more than this, in nanoseconds, stays as it is (`hrtick_needs_rearm`).
const NEAR_ENOUGH: u64 = 5_000;

/// `rq->hrtick_timer` and what belongs to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hrtick {
    /// When it expires, if it is armed.
    pub(crate) expires: Option<u64>,
    /// `hrtick_sched` (7.2): the CPU is within `schedule`, whose end sets the timer.
    deferred: bool,
    /// `hrtick_delay`: what it is to be set to then.
    delay: Option<u64>,
}

impl Rules {
    /// `hrtick_enabled_fair`.
    #[inline]
    fn hrtick_fair(&self) -> bool {
        self.tunables.features.hrtick
    }

    /// `hrtick_enabled_dl`; 5.10 has one feature for both.
    #[inline]
    fn hrtick_dl(&self) -> bool {
        let features = &self.tunables.features;
        if self.hrtick_dl_apart { features.hrtick_dl } else { features.hrtick }
    }

    #[inline]
    pub(crate) fn has_hrtick(&self) -> bool {
        self.tunables.features.hrtick || self.tunables.features.hrtick_dl
    }
}

impl<D: Decider> Sched<D> {
    /// Whether there may be high-resolution ticks.
    #[inline]
    pub fn has_hrtick(&self) -> bool {
        self.rules.has_hrtick()
    }

    /// When the CPU's high-resolution tick is due, if it is armed. It comes before a tick of the same instant.
    #[inline]
    pub fn hrtick_expires(&self, cpu: CpuId) -> Option<Time> {
        self.rqs[cpu.index()].hrtick.expires.map(Time::from_nanos)
    }

    /// `hrtick`: the timer expired. Its CPU must have its clocks; it may have to schedule then ([`Sched::need_resched`]).
    pub fn hrtick(&mut self, cpu: CpuId) {
        self.rqs[cpu.index()].hrtick.expires = None;
        match self.curr_class(cpu) {
            Class::Fair => self.queued_tick_fair(cpu),
            Class::Deadline => {
                self.update_curr_dl(cpu);
                let id = self.dl_of(self.rqs[cpu.index()].curr);
                let left = self.dl_entities[id.index()].runtime;
                if self.rules.hrtick_dl() && left > 0 && self.rqs[cpu.index()].dl.first() == Some(id) {
                    self.hrtick_start(cpu, left as u64);
                }
            }
            // The timer was set for a task that was switched out; the current one treats it as a tick.
            Class::Rt | Class::Custom | Class::Idle => self.task_tick(cpu),
        }
    }

    /// The beginning of `__schedule`: up to 6.18 it clears the timer (`hrtick_clear`), from 7.2 on it puts off setting it.
    #[inline]
    pub(crate) fn hrtick_schedule_enter(&mut self, cpu: CpuId) {
        if self.rules.has_hrtick() {
            let hrtick = &mut self.rqs[cpu.index()].hrtick;
            if self.rules.hrtick_set_late {
                hrtick.deferred = true;
            } else {
                hrtick.expires = None;
            }
        }
    }

    /// What a pick does: `set_next_task` of the next task. Before EEVDF a current task that goes on sets the timer anew, too.
    #[inline]
    pub(crate) fn hrtick_pick(&mut self, cpu: CpuId, previous: TaskId, next: TaskId) {
        if !self.rules.has_hrtick() || next == TaskId::IDLE || (next == previous && self.rules.eevdf) {
            return;
        }
        match self.tasks[next.index()].class {
            Class::Fair if self.rules.hrtick_fair() => {
                self.hrtick_start_fair(cpu, next);
            }
            Class::Deadline if self.rules.hrtick_dl() => {
                let left = self.dl_entities[self.dl_of(next).index()].runtime;
                self.hrtick_start(cpu, left as u64);
            }
            _ => {}
        }
    }

    /// `hrtick_schedule_exit` (7.2): the timer is set, or goes with the last task.
    #[inline]
    pub(crate) fn hrtick_schedule_exit(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        if !rq.hrtick.deferred {
            return;
        }
        rq.hrtick.deferred = false;
        match rq.hrtick.delay.take() {
            Some(delay) => rq.hrtick.rearm(rq.clock + delay),
            None if rq.curr == TaskId::IDLE => rq.hrtick.expires = None,
            None => {}
        }
    }

    /// `hrtick_start`: the timer is to come `delay` from now.
    fn hrtick_start(&mut self, cpu: CpuId, delay: u64) {
        let late = self.rules.hrtick_set_late;
        let rq = &mut self.rqs[cpu.index()];
        // The kernel compares signed: a runtime that is overrun counts as none left.
        let delay = (delay as i64).max(SHORTEST as i64) as u64;
        if rq.hrtick.deferred {
            rq.hrtick.delay = Some(delay);
        } else if late {
            rq.hrtick.rearm(rq.clock + delay);
        } else {
            rq.hrtick.expires = Some(rq.clock + delay);
        }
    }

    /// `hrtick_start_fair`: sets the timer for the end of the task's slice, where another task waits. A running task whose slice is over
    /// is marked for rescheduling.
    ///
    /// CFS asks `sched_slice` less what it ran since its pick, 6.12 and 6.18 its request less that, 7.2 its virtual deadline, in real
    /// time.
    fn hrtick_start_fair(&mut self, cpu: CpuId, task: TaskId) {
        let rq = &self.rqs[cpu.index()];
        if self.cfs_rqs[rq.cfs.index()].h_nr_running <= 1 {
            return;
        }
        let runs = rq.curr == task;
        let se = self.tasks[task.index()].se;
        let entity = &self.entities[se.index()];
        let left = if self.rules.hrtick_set_late {
            let left = entity.deadline.since(entity.vruntime);
            let (weight, nice_0) = (entity.load.scaled, self.rules.nice_0_load);
            // NICE_0_LOAD is a power of two: a shift divides by it.
            let real = weight.wrapping_mul(left as u64) >> nice_0.trailing_zeros();
            if left < 0 { left } else { (real + rounding(weight, nice_0)) as i64 }
        } else {
            let ran = entity.sum_exec_runtime - entity.prev_sum_exec_runtime;
            let slice = if self.rules.eevdf { entity.slice } else { self.sched_slice(entity.cfs_rq, se) };
            slice.wrapping_sub(ran) as i64
        };
        if left >= 0 {
            self.hrtick_start(cpu, left as u64);
        } else if runs {
            self.resched_curr(cpu);
        }
    }

    /// `hrtick_update`: a task was enqueued on the CPU's fair queue or (up to 6.18) dequeued, so that the running task's slice may end
    /// earlier or later.
    #[inline]
    pub(crate) fn hrtick_update(&mut self, cpu: CpuId, comes: bool) {
        if !self.rules.hrtick_fair() || self.curr_class(cpu) != Class::Fair {
            return;
        }
        let rq = &self.rqs[cpu.index()];
        let curr = rq.curr;
        let asks = if self.rules.hrtick_set_late {
            comes && rq.hrtick.expires.is_none()
        } else {
            // With so many tasks CFS's slices do not get any shorter.
            let queue = self.entities[self.tasks[curr.index()].se.index()].cfs_rq;
            self.rules.eevdf || u64::from(self.cfs_rqs[queue.index()].nr_running) < self.rules.nr_latency
        };
        if asks {
            self.hrtick_start_fair(cpu, curr);
        }
    }

    /// Whether a tick leaves the slice to the timer: CFS's does while that is armed, but with DOUBLE_TICK.
    #[inline]
    pub(crate) fn hrtick_ends_slices(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].hrtick.expires.is_some() && !self.rules.tunables.features.double_tick
    }

    /// Coming ticks that leave a CFS task's slice to the timer; none where ticks look at it.
    pub(crate) fn ticks_until_hrtick(&self, cpu: CpuId, next_tick: u64) -> Option<u64> {
        let expires = self.rqs[cpu.index()].hrtick.expires.filter(|_| self.hrtick_ends_slices(cpu))?;
        Some(expires.saturating_sub(next_tick).div_ceil(self.rules.tick))
    }
}

/// Nanoseconds by which the timer comes after the virtual deadline, as a real interrupt always does: coming on time it would find virtual
/// time, which each charge rounds down to a whole nanosecond, just short of it. Enough for eight charges; nice 0 is not rounded.
const fn rounding(weight: u64, nice_0: u64) -> u64 {
    if weight == nice_0 { 0 } else { 8 * (weight / nice_0 + 1) }
}

impl Hrtick {
    /// `hrtick_cond_restart` (7.2).
    fn rearm(&mut self, expires: u64) {
        if self.expires.is_none_or(|armed| expires.abs_diff(armed) > NEAR_ENOUGH) {
            self.expires = Some(expires);
        }
    }
}
