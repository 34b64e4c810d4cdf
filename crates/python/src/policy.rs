//! A scheduling policy written in Python, called for each decision: the one place where Python sits inside the event loop.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use schedlab_model::{CpuId, NoEvents, TaskId};
use schedlab_sched::{CustomClass, DequeueFlags, EnqueueFlags, View};
use schedlab_sim::Options;

use crate::errors;
use crate::simulate::Inputs;

/// Simulates one run under `policy` in the place of the fair class, and returns its outcome as JSON.
///
/// `policy` has the methods of `schedlab.targets.policy.Calls`. It runs on the calling thread, so that an interrupt reaches it.
#[pyfunction]
pub fn simulate_policy(
    workload: &str,
    scheduler: &str,
    machine: &str,
    seed: u64,
    policy: Py<PyAny>,
) -> PyResult<String> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let failure = Failure::default();
    let policy = PythonPolicy::new(policy, inputs.machine.cpus, failure.clone());
    let options = Options { seed, ..Options::default() };
    let (program, scheduler, machine) = (&inputs.program, &inputs.scheduler, &inputs.machine);
    let outcome = schedlab_sim::simulate_policy(program, scheduler, machine, &options, Box::new(policy), &mut NoEvents);
    if let Some(error) = failure.take() {
        return Err(error);
    }
    serde_json::to_string(&outcome.map_err(errors::simulation)?).map_err(errors::json("outcome"))
}

/// What went wrong in a callback first.
#[derive(Debug, Clone, Default)]
struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    fn set(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One CPU, as the policy sees it: unlike the kernel's classes, sched_ext's policies do not hold the running task.
#[derive(Debug, Clone, Default)]
struct Cpu {
    /// Runnable tasks that do not run, in the order in which they came.
    waiting: Vec<TaskId>,
    /// The current task, which may go on.
    current: Option<TaskId>,
    /// The current one gave way.
    yielded: bool,
}

#[derive(Debug, Clone)]
struct PythonPolicy {
    calls: Arc<Py<PyAny>>,
    cpus: Vec<Cpu>,
    failure: Failure,
    failed: bool,
}

/// id, nice, weight, CPU time so far, CPU time since it was last picked, both in nanoseconds.
type TaskFacts = (u32, i8, u64, u64, u64);

fn facts(view: &View<'_>, task: TaskId) -> TaskFacts {
    let (runtime, ran) = (view.runtime(task).as_nanos(), view.ran(task).as_nanos());
    (task.0, view.nice(task), view.weight(task), runtime, ran)
}

impl PythonPolicy {
    fn new(calls: Py<PyAny>, cpus: u32, failure: Failure) -> Self {
        let cpus = vec![Cpu::default(); cpus as usize];
        Self { calls: Arc::new(calls), cpus, failure, failed: false }
    }

    fn cpu(&mut self, view: &View<'_>) -> &mut Cpu {
        &mut self.cpus[view.cpu().index()]
    }

    /// Calls a method with the view's CPU and time first; nothing, and the failure kept, where it raises or returns another type.
    fn call<A, T>(&mut self, view: &View<'_>, method: &str, arguments: A) -> Option<T>
    where
        A: for<'py> IntoPyObject<'py>,
        T: for<'py> FromPyObject<'py>,
    {
        if self.failed {
            return None;
        }
        let called = Python::attach(|py| {
            let cpu = (view.cpu().0, view.now().as_nanos());
            self.calls.bind(py).call_method1(method, (cpu, arguments))?.extract()
        });
        called.map_err(|error| self.fail(error)).ok()
    }

    fn fail(&mut self, error: PyErr) {
        self.failed = true;
        self.failure.set(error);
    }

    fn wait(&mut self, view: &View<'_>, task: TaskId, wakeup: bool) {
        self.cpu(view).waiting.push(task);
        self.call::<_, Option<bool>>(view, "enqueue", (facts(view, task), wakeup));
    }
}

impl CustomClass for PythonPolicy {
    fn enqueue_task(&mut self, view: &View<'_>, task: TaskId, flags: EnqueueFlags) {
        self.wait(view, task, flags.has(EnqueueFlags::WAKEUP));
    }

    fn dequeue_task(&mut self, view: &View<'_>, task: TaskId, _flags: DequeueFlags) {
        let cpu = self.cpu(view);
        cpu.waiting.retain(|waiting| *waiting != task);
        cpu.current = cpu.current.filter(|current| *current != task);
    }

    fn pick_task(&mut self, view: &View<'_>) -> Option<TaskId> {
        let cpu = self.cpu(view).clone();
        let current = cpu.current.filter(|_| !cpu.yielded);
        self.cpu(view).yielded = false;
        let Some(first) = cpu.waiting.first() else { return cpu.current };
        let waiting: Vec<TaskFacts> = cpu.waiting.iter().map(|task| facts(view, *task)).collect();
        let running = current.map(|task| facts(view, task));
        let answer: Option<Option<u32>> = self.call(view, "dispatch", (waiting, running));
        match answer.flatten().map(TaskId) {
            Some(task) if cpu.waiting.contains(&task) || current == Some(task) => Some(task),
            Some(task) => {
                let known: Vec<String> = cpu.waiting.iter().map(|task| task.0.to_string()).collect();
                let (cpu, known) = (view.cpu().0, known.join(", "));
                self.fail(errors::input(format!(
                    "dispatch on CPU {cpu} returned task {}, which does not wait there; waiting: {known}",
                    task.0
                )));
                Some(*first)
            }
            None => current.or(Some(*first)),
        }
    }

    fn set_next_task(&mut self, view: &View<'_>, task: TaskId) {
        let cpu = self.cpu(view);
        cpu.waiting.retain(|waiting| *waiting != task);
        cpu.current = Some(task);
    }

    fn put_prev_task(&mut self, view: &View<'_>, task: TaskId) {
        if self.cpu(view).current.take() == Some(task) {
            self.wait(view, task, false);
        }
    }

    fn task_tick(&mut self, view: &View<'_>, task: TaskId) -> bool {
        self.call(view, "tick", (facts(view, task),)).unwrap_or(false)
    }

    fn wakeup_preempt(&mut self, view: &View<'_>, woken: TaskId) -> bool {
        let Some(current) = self.cpu(view).current else { return false };
        self.call(view, "preempt", (facts(view, woken), facts(view, current))).unwrap_or(false)
    }

    fn yield_task(&mut self, view: &View<'_>, _task: TaskId) {
        self.cpu(view).yielded = true;
    }

    fn runnable(&self, cpu: CpuId) -> Vec<TaskId> {
        self.cpus[cpu.index()].waiting.clone()
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn boxed_clone(&self) -> Box<dyn CustomClass> {
        Box::new(self.clone())
    }
}
