//! The fair server: of each period a CPU keeps some runtime for its fair tasks beside real-time ones (6.12 on; `dl_server_*` in
//! `kernel/sched/deadline.c`).
//!
//! It is a deadline entity that serves the CPU's fair tasks instead of one task of its own. It defers: as long as fair tasks may get
//! their runtime without it, it waits, throttled, until its 0-laxity time, deadline − runtime left. What fair tasks get meanwhile is
//! taken off its runtime, and once that is used up a new period begins. Only if they starved until then is it queued, before any
//! real-time task; from then on it runs at the beginning of each period, until it finds no task to serve.

use schedlab_model::{CpuId, TaskId};

use crate::class::Class;
use crate::deadline::{DlEntity, DlEntityId};
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Rq;
use crate::timers::Timer;

/// `dl_server_min_res`: a deferred server whose 0-laxity time moved by less than this runs anyway, in nanoseconds.
const MIN_RESOLUTION: u64 = 1_000_000;

/// What a deadline entity is beyond a task's if it is a CPU's server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server {
    /// Whose fair tasks it serves.
    pub(crate) cpu: CpuId,
    /// `dl_server_active`: started, and not stopped.
    active: bool,
    /// `dl_defer_armed`: its timer is that of its 0-laxity time.
    pub(crate) defer_armed: bool,
    /// `dl_defer_running`: its tasks starved; it does not defer.
    pub(crate) defer_running: bool,
    /// `dl_defer_idle` (7.2): the CPU idled for the whole of its last runtime.
    defer_idle: bool,
}

impl Server {
    /// It is started, and waits for its 0-laxity time.
    pub(crate) const fn start_deferred(&mut self) {
        (self.active, self.defer_armed) = (true, true);
    }
}

impl Rules {
    /// Whether CPUs have a fair server: from 6.12 on, unless its runtime is 0.
    #[inline]
    pub(crate) fn has_fair_server(&self) -> bool {
        self.tunables.fair_server_runtime.as_nanos() > 0
    }
}

impl DlEntity {
    /// `dl_server_update_idle_time`, up to 6.18: a server has had the time for which its CPU idled.
    #[inline(always)]
    fn spend_idle(&mut self, rq: &mut Rq) {
        let delta = rq.clock_task.wrapping_sub(rq.idle_exec_start) as i64;
        if self.runtime < 0 || delta < 0 {
            return;
        }
        rq.idle_exec_start = rq.clock_task;
        self.runtime -= delta;
        if self.runtime < 0 {
            self.runtime = 0;
            if let Some(server) = &mut self.server {
                server.defer_running = false;
            }
        }
    }

    /// [`Sched::first_fair_task`] of a CPU that idles, whose server is started: false, and nothing done, if it is not.
    #[inline(always)]
    pub(crate) fn end_idle(&mut self, rq: &mut Rq, rules: &Rules) -> bool {
        let Some(server) = self.server.as_mut().filter(|server| server.active) else { return false };
        server.defer_idle = false;
        if !rules.server_charged_for_idle {
            self.spend_idle(rq);
        }
        true
    }

    /// [`Sched::dl_server_update`] of a server that has runtime left, or is not started: false, and nothing done, of others.
    #[inline(always)]
    pub(crate) fn has_served(&mut self, delta: u64) -> bool {
        let Some(server) = self.server.as_mut().filter(|server| server.active) else { return true };
        if self.runtime <= delta as i64 {
            return false;
        }
        self.runtime -= delta as i64;
        server.defer_idle = false;
        true
    }
}

impl<D: Decider> Sched<D> {
    /// `sched_init_dl_servers`, `fair_server_init`: a server for each CPU, before any other deadline entity.
    pub(crate) fn init_fair_servers(&mut self, cpus: u32) {
        if !self.rules.has_fair_server() {
            return;
        }
        let tunables = &self.rules.tunables;
        let [runtime, period] = [tunables.fair_server_runtime, tunables.fair_server_period].map(|time| time.as_nanos());
        self.dl_entities.extend((0..cpus).map(|cpu| {
            let server =
                Server { cpu: CpuId(cpu), active: false, defer_armed: false, defer_running: false, defer_idle: false };
            DlEntity::new(TaskId::IDLE, Some(server), [runtime, period, period])
        }));
    }

    /// Whether the fair server of `cpu` runs its tasks, before any real-time one, or would if no deadline task's deadline were earlier.
    pub fn fair_server_runs(&self, cpu: CpuId) -> bool {
        self.rules.has_fair_server() && self.dl_entities[cpu.index()].queued.is_some()
    }

    #[inline]
    fn server(&mut self, cpu: CpuId) -> Option<(&mut DlEntity, DlEntityId)> {
        self.rules.has_fair_server().then(|| (&mut self.dl_entities[cpu.index()], DlEntityId(cpu.0)))
    }

    /// The fair tasks of `cpu` starved before the recording: their server does not defer.
    pub(crate) fn assume_running_server(&mut self, cpu: CpuId, throttled: bool) {
        let now = self.rqs[cpu.index()].clock;
        let Some((entity, id)) = self.server(cpu) else { return };
        entity.throttled = throttled;
        if let Some(server) = &mut entity.server {
            (server.active, server.defer_running) = (true, true);
        }
        if !throttled || !self.start_dl_timer(id, now) {
            self.enqueue_dl_entity(cpu, id);
        }
    }

    fn server_flags(&mut self, id: DlEntityId) -> Option<&mut Server> {
        self.dl_entities[id.index()].server.as_mut()
    }

    /// What `enqueue_task_fair` and (6.12) `unthrottle_cfs_rq` do when the first fair task is there.
    #[inline]
    pub(crate) fn first_fair_task(&mut self, cpu: CpuId) {
        if !self.rules.has_fair_server() {
            return;
        }
        let rq = &self.rqs[cpu.index()];
        if !self.rules.server_charged_for_idle && rq.nr_running == 0 && rq.curr == TaskId::IDLE {
            self.update_curr_idle(cpu);
        }
        self.dl_server_start(cpu);
    }

    /// `dl_server_start`: the first fair task came. A server that is started goes on as it is.
    #[inline]
    fn dl_server_start(&mut self, cpu: CpuId) {
        let Some((entity, id)) = self.server(cpu) else { return };
        let first = entity.deadline == 0;
        let Some(server) = &mut entity.server else { return };
        server.defer_idle = false;
        if !server.active {
            self.start_server(cpu, id, first);
        }
    }

    /// `dl_server_start` of a server that is stopped; `first` if it was never started.
    fn start_server(&mut self, cpu: CpuId, id: DlEntityId, first: bool) {
        let now = self.rqs[cpu.index()].clock;
        if self.rules.server_charged_for_idle {
            self.update_curr(cpu);
        }
        if first {
            // setup_new_dl_entity, when the CPU came on line or (6.12) with the first start
            self.replenish_dl_new_period(id, now);
        }
        if let Some(server) = self.server_flags(id) {
            server.active = true;
        }
        self.update_server(id, now);
        self.enqueue_server(cpu, id, now);
        self.resched_for_server(cpu, id);
    }

    /// `dl_server_stop`: there is no task to serve. Whether it defers is kept.
    pub(crate) fn dl_server_stop(&mut self, cpu: CpuId) {
        let Some((_, id)) = self.server(cpu) else { return };
        self.dequeue_dl_entity(cpu, id);
        self.cancel_dl_timer(id);
        let entity = &mut self.dl_entities[id.index()];
        entity.throttled = false;
        if let Some(server) = &mut entity.server {
            (server.active, server.defer_armed, server.defer_idle) = (false, false, false);
        }
    }

    /// `update_dl_entity` of a server that starts: it goes on with what it had if that is within its bandwidth.
    fn update_server(&mut self, id: DlEntityId, now: u64) {
        let entity = &self.dl_entities[id.index()];
        let over = entity.deadline < now;
        let running = entity.server.is_some_and(|server| server.defer_running);
        if over || self.dl_entity_overflow(id, now) {
            // 6.18 cuts the runtime of one that defers, too.
            if !over && (running || self.rules.server_cuts_deferred_runtime) {
                self.revise_runtime(id, now);
                return;
            }
            if let Some(server) = self.server_flags(id) {
                server.defer_running = false;
            }
            self.replenish_dl_new_period(id, now);
        } else if !running {
            self.dl_entities[id.index()].throttled = true;
            self.dl_entities[id.index()].set_defer_armed(true);
        }
    }

    /// The end of `enqueue_dl_entity`: a throttled server waits for its timer, unless that is past.
    fn enqueue_server(&mut self, cpu: CpuId, id: DlEntityId, now: u64) {
        if self.dl_entities[id.index()].throttled {
            if self.start_dl_timer(id, now) {
                return;
            }
            self.run_undeferred(id);
        }
        self.enqueue_dl_entity(cpu, id);
    }

    /// A deferred server whose 0-laxity time is past does not wait.
    pub(crate) fn run_undeferred(&mut self, id: DlEntityId) {
        self.cancel_dl_timer(id);
        let entity = &mut self.dl_entities[id.index()];
        entity.throttled = false;
        entity.set_defer_armed(false);
    }

    fn resched_for_server(&mut self, cpu: CpuId, id: DlEntityId) {
        let curr = self.rqs[cpu.index()].curr;
        let yields = self.curr_class(cpu) != Class::Deadline
            || self.dl_entities[id.index()].deadline < self.dl_entities[self.dl_of(curr).index()].deadline;
        if yields {
            self.resched_curr(cpu);
        }
    }

    /// `dl_server_update`: a fair task ran for `delta`, by the server's favour or without it.
    #[inline]
    pub(crate) fn dl_server_update(&mut self, cpu: CpuId, delta: u64) {
        let Some((entity, _)) = self.server(cpu) else { return };
        if !entity.has_served(delta) {
            self.charge_server(cpu, delta as i64, false);
        }
    }

    /// `update_curr_dl_se` of a server: a fair task ran for `delta`, or (7.2) the CPU idled.
    fn charge_server(&mut self, cpu: CpuId, delta: i64, idle: bool) {
        let now = self.rqs[cpu.index()].clock;
        let Some((entity, id)) = self.server(cpu) else { return };
        entity.runtime -= delta;
        let (exceeded, throttled) = (entity.runtime <= 0, entity.throttled);
        let Some(server) = &mut entity.server else { return };
        server.defer_idle &= idle;
        if !exceeded {
            return;
        }
        if throttled {
            if server.defer_idle {
                entity.runtime = 0;
                return;
            }
            // They had their runtime without it: it defers for another period.
            (server.defer_running, server.defer_idle) = (false, idle);
            self.cancel_dl_timer(id);
            self.replenish_dl_new_period(id, now);
            self.start_dl_timer(id, now);
            return;
        }
        entity.throttled = true;
        entity.overruns += 1;
        self.dequeue_dl_entity(cpu, id);
        if !self.start_dl_timer(id, now) {
            // Its next period has begun already. 6.12 goes on at once, later kernels begin a new one.
            if !self.rules.server_begins_new_period {
                self.replenish_dl_entity(id, now);
                self.enqueue_server(cpu, id, now);
            } else {
                self.replenish_dl_new_period(id, now);
                self.start_dl_timer(id, now);
            }
        }
        if self.rqs[cpu.index()].dl.first() != Some(id) {
            self.resched_curr(cpu);
        }
    }

    /// `dl_server_timer`: a deferred server's tasks starve, or a throttled one's period begins.
    pub(crate) fn dl_server_timer(&mut self, id: DlEntityId, expired: Option<u64>) {
        let cpu = self.dl_cpu(id);
        let now = self.rqs[cpu.index()].clock;
        if !self.dl_entities[id.index()].throttled {
            return;
        }
        if self.rules.server_charged_for_idle {
            self.update_curr(cpu);
            if self.server_flags(id).is_some_and(|server| server.defer_idle) {
                self.dl_server_stop(cpu);
                return;
            }
        }
        let entity = &mut self.dl_entities[id.index()];
        if entity.defer_armed() {
            let zero_laxity = entity.deadline.wrapping_sub(entity.runtime as u64);
            if now + MIN_RESOLUTION < zero_laxity {
                // They had some of it meanwhile: so much later is time enough. hrtimer_forward_now counts from when it was due.
                if entity.timer.is_none() {
                    let (due, later) = (expired.map_or(now, |due| due.min(now)), zero_laxity - now);
                    let expires = due + (now.saturating_sub(due) / later + 1) * later;
                    entity.timer = Some(expires);
                    self.timers.arm(expires, Timer::Deadline(id));
                }
                return;
            }
            if let Some(server) = &mut entity.server {
                server.defer_running = true;
            }
        }
        self.replenish_dl_entity(id, now);
        self.enqueue_server(cpu, id, now);
        self.resched_for_server(cpu, id);
    }

    /// `set_next_task_idle`: the CPU idles from now on.
    pub(crate) fn set_next_task_idle(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        rq.idle_exec_start = rq.clock_task;
    }

    /// `put_prev_task_idle`, and `update_curr_idle` (7.2): idle time is time that no fair task starved. Up to 6.18
    /// `dl_server_update_idle_time` takes it off whether the server is started or not, and no new period begins by it.
    #[inline]
    pub(crate) fn update_curr_idle(&mut self, cpu: CpuId) {
        if !self.rules.has_fair_server() {
            return;
        }
        let rq = &mut self.rqs[cpu.index()];
        let idle = rq.curr == TaskId::IDLE && rq.nr_running == 0;
        let delta = rq.clock_task.wrapping_sub(rq.idle_exec_start) as i64;
        let entity = &mut self.dl_entities[cpu.index()];
        let Some(server) = &mut entity.server else { return };
        if self.rules.server_charged_for_idle {
            if delta <= 0 {
                return;
            }
            rq.idle_exec_start = rq.clock_task;
            if server.active {
                self.charge_server(cpu, delta, idle);
            }
        } else {
            entity.spend_idle(rq);
        }
    }

    /// Coming ticks of a fair task, the first `first` after it was last charged, that leave the CPU's server some runtime.
    pub(crate) fn inactive_ticks_server(&self, cpu: CpuId, first: u64) -> u64 {
        if !self.rules.has_fair_server() {
            return u64::MAX;
        }
        let entity = &self.dl_entities[cpu.index()];
        if !entity.server.is_some_and(|server| server.active) {
            return u64::MAX;
        }
        // The k-th tick, from 0, leaves runtime − first − k · tick, and acts unless that is positive.
        let left = entity.runtime.saturating_sub(first as i64);
        if left <= 0 { 0 } else { self.rules.in_ticks.quotient_up(left as u64) }
    }
}
