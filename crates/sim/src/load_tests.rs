//! Load averages of simulated tasks at the end of a run.

use schedlab_model::{Attributes, Duration, Event, Machine, Scheduler, Step, Task, TaskId, TaskKind, Time, Workload};
use schedlab_program::Program;

use crate::Options;
use crate::arena::Arena;
use crate::engine::Engine;

/// A hog on each CPU from time 0 on: after a second it has used all of its CPU, 1024, as its queue has; what it was expected to use at birth, a
/// half, is halved every 32 ms and gone. The current period may be missing, 1024 of 47742, and rounding takes a little of each.
#[test]
fn tasks_that_begin_with_the_machine_are_on_their_queues_account() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2"] {
        let steps = vec![Step::Run(Duration::Fixed(Time::from_millis(5000)))];
        let attributes = Some(Attributes::default());
        let hogs =
            Task { name: "hog".into(), instances: 2, kind: TaskKind::Process, attributes, steps, ..Task::default() };
        let duration = Some(Time::from_millis(1000));
        let workload = Workload { name: "hogs".into(), duration, tasks: vec![hogs], ..Workload::default() };
        let program = Program::compile(&workload).unwrap();
        let (mut arena, mut events) = (Arena::default(), Vec::<Event>::new());
        let scheduler = Scheduler::new(release.parse().unwrap());
        let (machine, options) = (Machine::ideal(2), Options::default());
        let mut engine = Engine::new(&program, &scheduler, &machine, &options, &mut arena, &mut events).unwrap();
        engine.run().unwrap();
        for task in [TaskId(0), TaskId(1)] {
            let queue = engine.sched.load_of_cpu(engine.sched.task_cpu(task)).unwrap();
            let own = engine.sched.load_of(task).unwrap();
            assert!((1002..=1024).contains(&own.util_avg), "{release}: {own:?}");
            assert!(own.util_avg.abs_diff(queue.util_avg) <= 2, "{release}: {own:?} on {queue:?}");
        }
    }
}
