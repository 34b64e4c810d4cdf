//! Which task waits for which through pipes, in which group and on which CPUs: from a recording's events and tables to the workload.

use schedlab_infer::{Ending, Options, infer};
use schedlab_metrics::Behaviour;
use schedlab_model::{Duration, Machine, Scheduler, Step, Time};
use schedlab_program::Program;
use schedlab_trace::Reader;

/// On two CPUs: `source`, in the group `/batch` of weight 300 and bound to CPU 0, computes for 2 ms, writes to a pipe in which `sink` reads,
/// which is nice 5 and bound to CPU 1, and sleeps for 1 ms by a timer; twice. `sink` computes for 3 ms each time.
const RECORDING: &str = "\
# schedlab recording 1
# kernel: 6.1.176
# hz: 250
# cpus: 0-1
# cgroup: v2 /sys/fs/cgroup
# table: groups
#| number path weight quota period burst idle
#| 42 /batch 300 -1 100000 0 0
# table: tasks
#| pid tgid ppid state cpu prio nice policy flags rt_priority runtime deadline period affinity autogroup cgroup comm
#| 7 7 1 R 0 20 0 0 0 0 0 0 0 0 - /batch source
#| 8 8 1 S 1 25 5 0 0 0 0 0 0 1 - / sink
 recorder-5 [000] ..... 1.000000000: tracing_mark_write: schedlab: begin
 <idle>-0 [000] d..2. 1.000000000: sched_switch: swapper/0:0 [120] R ==> source:7 [120]
 source-7 [000] d..2. 1.002000000: sched_waking: comm=sink pid=8 prio=125 target_cpu=001
 <idle>-0 [001] d..2. 1.002000000: sched_switch: swapper/1:0 [120] R ==> sink:8 [125]
 source-7 [000] d..2. 1.002000000: sched_switch: source:7 [120] S ==> swapper/0:0 [120]
 <idle>-0 [000] d.h2. 1.003000000: hrtimer_expire_entry: hrtimer=0xff function=hrtimer_wakeup now=1003000000
 <idle>-0 [000] d.h2. 1.003000000: sched_waking: comm=source pid=7 prio=120 target_cpu=000
 <idle>-0 [000] d..2. 1.003000000: sched_switch: swapper/0:0 [120] R ==> source:7 [120]
 sink-8 [001] ..... 1.005000000: sys_enter_read: fd: 0x3
 sink-8 [001] d..2. 1.005000000: sched_switch: sink:8 [125] S ==> swapper/1:0 [120]
 source-7 [000] d..2. 1.005000000: sched_waking: comm=sink pid=8 prio=125 target_cpu=001
 <idle>-0 [001] d..2. 1.005000000: sched_switch: swapper/1:0 [120] R ==> sink:8 [125]
 source-7 [000] d..2. 1.005000000: sched_switch: source:7 [120] X ==> swapper/0:0 [120]
 sink-8 [001] d..2. 1.008000000: sched_switch: sink:8 [125] X ==> swapper/1:0 [120]
 recorder-5 [000] ..... 1.008000000: tracing_mark_write: schedlab: end
# end: events=15
";

#[test]
fn pipes_groups_and_cpus_become_causes_and_settings() {
    let options = Options { name: "again".into(), ending: Some(Ending::Work), ..Options::default() };
    let inferred = infer(Reader::new(RECORDING.as_bytes()), &options).unwrap();
    let workload = &inferred.workload;
    let [source, sink] =
        ["source", "sink"].map(|name| workload.tasks.iter().find(|task| task.name.starts_with(name)).unwrap());
    // Both sleeps of sink were ended by source; the second is seen to begin in a read.
    assert_eq!(
        (inferred.counts.woken_by_tasks, inferred.counts.at_channels, inferred.counts.woken_by_timers),
        (2, 1, 1)
    );
    let run = |millis| Step::Run(Duration::Fixed(Time::from_millis(millis)));
    let post = Step::Post(sink.name.clone());
    let sleep = Step::Sleep(Duration::Fixed(Time::from_millis(1)));
    assert_eq!(source.steps, [run(2), post.clone(), sleep, run(2), post]);
    let wait = Step::Acquire(sink.name.clone());
    assert_eq!(flat(&sink.steps), [wait.clone(), run(3), wait, run(3)]);
    // Who they are: the tables. The root group is none of a workload's.
    assert_eq!((source.taskgroup.as_deref(), sink.taskgroup.as_deref()), (Some("/batch"), None));
    assert_eq!(workload.groups["/batch"].weight, Some(300));
    let [first, second] = [source, sink].map(|task| task.attributes.clone().unwrap());
    assert_eq!((first.affinity, first.nice, second.affinity, second.nice), (vec![0], 0, vec![1], 5));

    // Simulated as recorded it takes as long: sink waits 2 ms, computes 3 ms, is woken at once, computes 3 ms.
    let simulated = |cpus: u32| {
        let mut workload = workload.clone();
        if cpus == 1 {
            workload.tasks.iter_mut().for_each(|task| {
                task.attributes.as_mut().unwrap().affinity = Vec::new();
            });
        }
        let program = Program::compile(&workload).unwrap();
        let rules = Scheduler::new("6.1".parse().unwrap());
        let options = schedlab_sim::Options::default();
        let mut sink = Behaviour::default();
        schedlab_sim::simulate(&program, &rules, &Machine::ideal(cpus), &options, &mut sink).unwrap().elapsed_ns
    };
    assert_eq!(simulated(2), 8_000_000);
    // What one CPU would have made of it: all work of 4 + 6 ms, and it never idles, as sink has work while source sleeps.
    assert_eq!(simulated(1), 10_000_000);
}

/// The steps, each round of a loop by itself.
fn flat(steps: &[Step]) -> Vec<Step> {
    steps
        .iter()
        .flat_map(|step| match step {
            Step::Loop { count, steps } => (0..*count).flat_map(|_| flat(steps)).collect(),
            step => vec![step.clone()],
        })
        .collect()
}

#[test]
fn groups_that_are_made_meanwhile_have_their_settings() {
    // In the first millisecond `source` goes to a group that did not exist before, and makes `child` there, which has the CPU for 1 ms after its
    // parent. Looked at is what follows.
    let recording = RECORDING
        .replace(
            "# table: tasks\n",
            "# table: groups made\n#| inode path weight quota period burst idle\n#| 51 /job/service 50 20000 50000 0 0\n\
             #| 52 /job - - - - 0\n# table: tasks\n",
        )
        .replace(
            " source-7 [000] d..2. 1.002000000: sched_waking",
            " source-7 [000] d..1. 1.000500000: cgroup_attach_task: dst_root=0 dst_level=2 dst_id=51 pid=7 dst_path=/job/service comm=source\n \
             source-7 [000] d..2. 1.000600000: sched_process_fork: comm=source pid=7 child_comm=child child_pid=9\n \
             source-7 [000] d..2. 1.002000000: sched_waking",
        )
        .replace(
            "1.002000000: sched_switch: source:7 [120] S ==> swapper/0:0 [120]\n",
            "1.002000000: sched_switch: source:7 [120] S ==> child:9 [120]\n child-9 [000] d..2. 1.002900000: sched_switch: child:9 [120] X ==> swapper/0:0 [120]\n",
        )
        .replace("events=15", "events=18");
    let options = Options { from: Some(Time::from_millis(1)), ending: Some(Ending::Work), ..Options::default() };
    let workload = infer(Reader::new(recording.as_bytes()), &options).unwrap().workload;
    let group = |name: &str| workload.tasks.iter().find(|task| task.name.starts_with(name)).unwrap().taskgroup.clone();
    assert_eq!(
        ["source", "child", "sink"].map(group),
        [Some("/job/service".into()), Some("/job/service".into()), None]
    );
    let service = &workload.groups["/job/service"];
    let max = service.max.unwrap();
    assert_eq!((service.weight, max.quota, max.period), (Some(50), Time::from_millis(20), Time::from_millis(50)));
    assert!(workload.groups.contains_key("/job"));
}
