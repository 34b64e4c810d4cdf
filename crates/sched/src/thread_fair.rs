//! The sched_ext scheduler of `crates/ext/bpf` as a policy: what it does in a kernel, it does here (`docs/concepts/sched-ext.md`).
//!
//! Weighted virtual time in queues that CPUs share: one a last-level cache, and one a CPU for tasks that may run nowhere else.
//! Functions have the names that they have there.

use std::collections::{BTreeSet, VecDeque};

use schedlab_model::{CpuId, TaskId, Time};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::custom::{CustomClass, View};

/// The weight of nice 0.
const NICE_0: i64 = 1024;
/// How far the first of a queue may trail the clock, and any thread, in slices of a thread of nice 0.
const STRAY: i64 = 2;
const CREDIT: i64 = 40;

/// Its knobs, at the values that the loader has.
#[derive(Debug, Clone, Copy)]
pub struct ThreadFairKnobs {
    /// How long a thread runs before others are looked at.
    pub slice: Time,
    /// How much virtual time a thread may be put back by, and how long it waits.
    pub lag_cap: Time,
}

impl Default for ThreadFairKnobs {
    fn default() -> Self {
        Self { slice: Time::from_millis(5), lag_cap: Time::from_millis(10_000) }
    }
}

/// The policy. What a thread weighs is the scheduler's: its nice level, and its process's number of threads where weights follow that.
#[derive(Debug, Clone)]
pub struct ThreadFair {
    slice: i64,
    lag_cap: i64,
    /// The shared queue of each CPU.
    domains: Vec<usize>,
    /// Shared ones first, then each CPU's own.
    queues: Vec<Queue>,
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    clock: i64,
    stint: i64,
    load: i64,
    came: u64,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    offset: i64,
    searched: i64,
    /// By the virtual time at which the next slice would end, less the offset; then who came first.
    waiting: BTreeSet<(i64, u64, TaskId)>,
}

#[derive(Debug, Clone, Default)]
struct Cpu {
    current: Option<TaskId>,
    /// The local queue: tasks that were taken, or lost the CPU to a higher class within a slice.
    local: VecDeque<TaskId>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    vtime: i64,
    /// CPU time up to which it was charged, when it was put on a CPU, and when its slice was given.
    charged: i64,
    began: i64,
    given: i64,
    weight: i64,
    offset: i64,
    since: i64,
    queue: usize,
    place: Option<(i64, u64)>,
    cpu: u32,
    /// It is on its way to the local queue of another CPU.
    taken: bool,
    placed: bool,
}

fn scaled(time: i64, weight: i64) -> i64 {
    (i128::from(time) * i128::from(NICE_0) / i128::from(weight.max(1))) as i64
}

impl ThreadFair {
    /// For CPUs of which each has a shared queue, numbered from 0.
    ///
    /// ```
    /// use schedlab_sched::{CustomClass, ThreadFair, ThreadFairKnobs};
    /// let policy = ThreadFair::new(&[0, 0, 1, 1], ThreadFairKnobs::default());
    /// assert!(policy.takes_from_others() && policy.runnable(schedlab_model::CpuId(3)).is_empty());
    /// ```
    pub fn new(domains: &[u32], knobs: ThreadFairKnobs) -> Self {
        let domains: Vec<usize> = domains.iter().map(|domain| *domain as usize).collect();
        let shared = domains.iter().max().map_or(1, |last| last + 1);
        let nanos = |time: Time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self {
            slice: nanos(knobs.slice),
            lag_cap: nanos(knobs.lag_cap),
            queues: vec![Queue::default(); shared + domains.len()],
            cpus: vec![Cpu::default(); domains.len()],
            domains,
            threads: Vec::new(),
            clock: 0,
            stint: 0,
            load: 0,
            came: 0,
        }
    }

    fn thread(&mut self, task: TaskId) -> &mut Thread {
        if self.threads.len() <= task.index() {
            self.threads.resize(task.index() + 1, Thread::default());
        }
        &mut self.threads[task.index()]
    }

    fn runtime(view: &View<'_>, task: TaskId) -> i64 {
        view.runtime(task).as_nanos() as i64
    }

    fn weight(view: &View<'_>, task: TaskId) -> i64 {
        view.weight(task) as i64
    }

    fn own(&self, cpu: CpuId) -> usize {
        self.queues.len() - self.cpus.len() + cpu.index()
    }

    /// The one CPU on which a task may run, if it is one.
    fn bound_to(&self, view: &View<'_>, task: TaskId) -> Option<CpuId> {
        let mut allowed = (0..self.cpus.len() as u32).map(CpuId).filter(|cpu| view.may_run_on(task, *cpu));
        allowed.next().filter(|_| self.cpus.len() > 1 && allowed.next().is_none())
    }

    // ---- the clock ----

    fn reach(&mut self, vtime: i64) {
        self.clock = self.clock.max(vtime);
    }

    /// Moves a queue up whose first, of the given key, trails the clock.
    fn follow(&mut self, index: usize, key: i64) -> i64 {
        let least = self.clock - STRAY * self.slice;
        let queue = &mut self.queues[index];
        queue.offset += (least - key - queue.offset).max(0);
        key + queue.offset
    }

    fn keep_up(&mut self, task: TaskId) {
        let offset = self.queues[self.threads[task.index()].queue].offset;
        let thread = &mut self.threads[task.index()];
        thread.vtime += offset - thread.offset;
        thread.offset = offset;
    }

    fn farthest(&self) -> i64 {
        let distance = scaled(self.lag_cap, self.load.max(NICE_0)) * self.cpus.len() as i64;
        self.clock + distance.max(2 * self.slice)
    }

    fn bound(&mut self, task: TaskId, credit: i64) {
        let (least, most) = (self.clock - credit, self.farthest());
        let vtime = &mut self.threads[task.index()].vtime;
        *vtime = (*vtime).clamp(least, most);
    }

    // ---- service ----

    fn charge(&mut self, view: &View<'_>, task: TaskId) {
        let (runtime, weight) = (Self::runtime(view, task), Self::weight(view, task));
        let thread = self.thread(task);
        let ran = runtime - std::mem::replace(&mut thread.charged, runtime);
        thread.vtime += scaled(ran, weight);
        let before = std::mem::replace(&mut thread.weight, weight);
        self.load += weight - before;
        self.keep_up(task);
        self.clock += scaled(ran, 2 * self.load.max(NICE_0));
        self.bound(task, CREDIT * self.slice);
    }

    fn finish(&self, vtime: i64, weight: i64) -> i64 {
        (vtime + scaled(self.stint.max(self.slice), weight)).min(self.farthest())
    }

    fn learn(&mut self, view: &View<'_>, task: TaskId) {
        let runtime = Self::runtime(view, task);
        let ran = runtime - std::mem::replace(&mut self.thread(task).began, runtime);
        self.stint += (ran.min(8 * self.slice) - self.stint) >> 4;
    }

    /// What is left of the running thread's slice.
    fn left(&self, view: &View<'_>, task: TaskId) -> i64 {
        self.slice - (Self::runtime(view, task) - self.threads[task.index()].given)
    }

    /// Gives a thread its place in the virtual time of a queue, and lets it wait there.
    fn wait(&mut self, view: &View<'_>, task: TaskId, woken: bool) {
        let index = self.bound_to(view, task).map_or(self.domains[view.cpu().index()], |cpu| self.own(cpu));
        let weight = Self::weight(view, task);
        if self.threads[task.index()].placed {
            self.keep_up(task);
        } else {
            self.threads[task.index()].vtime = self.clock;
        }
        let credit = CREDIT * self.slice;
        self.bound(task, if woken { credit.min(scaled(self.slice, weight)) } else { credit });
        self.came += 1;
        let offset = self.queues[index].offset;
        let place = (self.finish(self.threads[task.index()].vtime, weight) - offset, self.came);
        let thread = &mut self.threads[task.index()];
        (thread.placed, thread.offset, thread.queue, thread.place) = (true, offset, index, Some(place));
        (thread.cpu, thread.since) = (view.cpu().0, view.now().as_nanos() as i64);
        thread.given = Self::runtime(view, task);
        self.queues[index].waiting.insert((place.0, place.1, task));
    }

    fn forget(&mut self, task: TaskId) {
        let thread = &mut self.threads[task.index()];
        if let Some((key, came)) = thread.place.take() {
            self.queues[thread.queue].waiting.remove(&(key, came, task));
        }
        self.cpus[thread.cpu as usize].local.retain(|local| *local != task);
    }

    // ---- which task a CPU takes ----

    fn first(&mut self, view: &View<'_>, index: usize) -> Option<(i64, TaskId)> {
        let here = |one: &&(i64, u64, TaskId)| view.may_run_on(one.2, view.cpu());
        let (key, _, task) = *self.queues[index].waiting.iter().find(here)?;
        Some((self.follow(index, key), task))
    }

    fn choose(&mut self, view: &View<'_>) -> Option<(i64, TaskId)> {
        let (own, domain) = (self.own(view.cpu()), self.domains[view.cpu().index()]);
        let shared = self.queues.len() - self.cpus.len();
        let others = (0..shared).filter(|other| *other != domain).map(|other| (other, STRAY * self.slice));
        let mut found: Option<(i64, TaskId)> = None;
        for (index, margin) in [(own, 0), (domain, 0)].into_iter().chain(others.collect::<Vec<_>>()) {
            if let Some((key, task)) = self.first(view, index)
                && found.is_none_or(|(best, _)| key + margin < best)
            {
                found = Some((key + margin, task));
            }
        }
        found
    }

    /// A task that has waited for `lag_cap` or longer.
    fn relieve(&mut self, view: &View<'_>) -> Option<TaskId> {
        let time = view.now().as_nanos() as i64;
        for index in [self.own(view.cpu()), self.domains[view.cpu().index()]] {
            if time - self.queues[index].searched < self.lag_cap / 8 {
                continue;
            }
            let late = |task: &TaskId| {
                view.may_run_on(*task, view.cpu()) && time - self.threads[task.index()].since >= self.lag_cap
            };
            if let Some(task) = self.queues[index].waiting.iter().map(|one| one.2).find(late) {
                return Some(task);
            }
            self.queues[index].searched = time;
        }
        None
    }

    fn bring(&mut self, cpu: CpuId, task: TaskId) -> Option<TaskId> {
        let from = CpuId(self.threads[task.index()].cpu);
        self.forget(task);
        self.cpus[cpu.index()].local.push_back(task);
        let thread = &mut self.threads[task.index()];
        (thread.taken, thread.cpu) = (from != cpu, cpu.0);
        thread.taken.then_some(task)
    }
}

impl CustomClass for ThreadFair {
    fn enqueue_task(&mut self, view: &View<'_>, task: TaskId, flags: EnqueueFlags) {
        let weight = Self::weight(view, task);
        let thread = self.thread(task);
        if std::mem::take(&mut thread.taken) {
            return;
        }
        let before = std::mem::replace(&mut thread.weight, weight);
        thread.charged = Self::runtime(view, task);
        self.load += weight - before;
        if view.curr() == Some(task) {
            // Restored while it runs.
            self.threads[task.index()].cpu = view.cpu().0;
            self.cpus[view.cpu().index()].current = Some(task);
            return;
        }
        self.wait(view, task, flags.has(EnqueueFlags::WAKEUP));
    }

    fn dequeue_task(&mut self, view: &View<'_>, task: TaskId, _flags: DequeueFlags) {
        if self.threads[task.index()].taken {
            return;
        }
        let cpu = &mut self.cpus[view.cpu().index()];
        if cpu.current == Some(task) {
            cpu.current = None;
            self.charge(view, task);
        }
        self.forget(task);
        self.load -= std::mem::take(&mut self.threads[task.index()].weight);
    }

    fn takes_from_others(&self) -> bool {
        true
    }

    fn take(&mut self, view: &View<'_>, goes_on: bool) -> Option<TaskId> {
        let cpu = view.cpu();
        let current = self.cpus[cpu.index()].current.filter(|_| goes_on);
        if current.is_some_and(|task| self.left(view, task) > 0) || !self.cpus[cpu.index()].local.is_empty() {
            return None;
        }
        if let Some(task) = self.relieve(view) {
            return self.bring(cpu, task);
        }
        let choice = self.choose(view);
        if let Some(task) = current {
            self.charge(view, task);
            self.learn(view, task);
            let vtime = self.threads[task.index()].vtime;
            let end = self.finish(vtime, Self::weight(view, task));
            if choice.is_none_or(|(key, _)| key >= end) {
                self.reach(vtime);
                self.threads[task.index()].given = Self::runtime(view, task);
                return None;
            }
        }
        choice.and_then(|(_, task)| self.bring(cpu, task))
    }

    fn pick_task(&mut self, view: &View<'_>) -> Option<TaskId> {
        let cpu = &self.cpus[view.cpu().index()];
        let current = cpu.current;
        current
            .filter(|task| self.left(view, *task) > 0)
            .or_else(|| cpu.local.front().copied())
            .or(current)
            .or_else(|| self.runnable(view.cpu()).first().copied())
    }

    fn task_tick(&mut self, view: &View<'_>, task: TaskId) -> bool {
        self.left(view, task) <= 0
    }

    fn set_next_task(&mut self, view: &View<'_>, task: TaskId) {
        let runtime = Self::runtime(view, task);
        self.forget(task);
        self.keep_up(task);
        self.reach(self.threads[task.index()].vtime);
        let thread = &mut self.threads[task.index()];
        (thread.charged, thread.began, thread.cpu) = (runtime, runtime, view.cpu().0);
        self.cpus[view.cpu().index()].current = Some(task);
    }

    fn put_prev_task(&mut self, view: &View<'_>, task: TaskId) {
        let cpu = &mut self.cpus[view.cpu().index()];
        if cpu.current.take_if(|current| *current == task).is_none() {
            return;
        }
        self.charge(view, task);
        if self.left(view, task) > 0 {
            self.cpus[view.cpu().index()].local.push_front(task);
        } else {
            self.wait(view, task, false);
        }
    }

    fn yield_task(&mut self, view: &View<'_>, task: TaskId) {
        let (slice, weight) = (self.slice, Self::weight(view, task));
        let thread = self.thread(task);
        thread.vtime += scaled(slice, weight);
        thread.given = Self::runtime(view, task) - slice;
    }

    fn runnable(&self, cpu: CpuId) -> Vec<TaskId> {
        let mut waiting: Vec<_> = self
            .queues
            .iter()
            .flat_map(|queue| queue.waiting.iter().map(|(key, came, task)| (key + queue.offset, *came, *task)))
            .filter(|(_, _, task)| self.threads[task.index()].cpu == cpu.0)
            .collect();
        waiting.sort_unstable();
        let Cpu { current, local } = &self.cpus[cpu.index()];
        local.iter().copied().chain(waiting.into_iter().map(|one| one.2)).chain(*current).collect()
    }

    fn boxed_clone(&self) -> Box<dyn CustomClass> {
        Box::new(self.clone())
    }

    // Only the tick that ends the slice does anything.
    fn inactive_ticks(&self, view: &View<'_>, next_tick: Time) -> u64 {
        let Some(task) = self.cpus[view.cpu().index()].current else { return u64::MAX };
        let until = next_tick.saturating_sub(view.now()).as_nanos() as i64;
        let left = self.left(view, task) - until;
        if left <= 0 { 0 } else { (left as u64).div_ceil(view.tick().as_nanos()) }
    }
}
