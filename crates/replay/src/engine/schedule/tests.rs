use schedlab_model::Attributes;
use schedlab_sched::{GroupId, Vruntime};
use schedlab_trace::{Reader, Record};

use super::*;
use crate::level::Level;
use crate::report::Report;
use crate::settings::Settings;

const CPU0: CpuId = CpuId(0);

/// Of 7.3.4: 160 was stopped (SIGSTOP) at a virtual time of 8194746971 while 164 waited at 8194332976, 414 µs before it. V lay between, so
/// that 160 was in debt; its dequeue had DEQUEUE_SPECIAL (0x10000) and was not delayed, as the number of queued tasks showed. Asleep (`S`),
/// it stays.
#[test]
fn a_task_that_is_stopped_in_debt_is_off_the_queue() {
    let settings = Settings::defaults("7.3".parse().expect("a release")).expect("known");
    for (state, flags, stays) in
        [("T", "0x10009", false), ("t", "0x10009", false), ("P", "0x10009", false), ("S", "0x9", true)]
    {
        let text = format!(
            "cpus=2\n n-160 0dl.2. 12.069963144: k_deq: pid=160 fl={flags} ct=12026413822 c=12026413822 cpu=0 pol=0 sp=120 w=1048576 \
             tg=0x1440 ptg=0x0 cg=1 ag=0\n n-160 0d..2. 12.070003565: sched_switch: prev_comm=n prev_pid=160 prev_prio=120 \
             prev_state={state} ==> next_comm=w next_pid=164 next_prio=120\n"
        );
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines");
        let step: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
        let report = Report::of(&records[0], &records[0], Level::L1, 2, &settings);
        let mut engine = Engine::new(&settings, settings.rules(), 2, report);
        let [stopped, waiting] =
            [(160, 8_194_746_971, 8_195_631_229), (164, 8_194_332_976, 8_195_732_976)].map(|(pid, at, due)| {
                let task = engine.add(pid, &Attributes::default(), GroupId::ROOT);
                let entity = engine.sched.entity_mut(task);
                (entity.vruntime, entity.deadline) = (Vruntime(at), Vruntime(due));
                engine.sched.assume_queued(task, CPU0);
                task
            });
        engine.advance(CPU0, &step);
        engine.sched.decider.expect_outcome(stopped);
        assert_eq!(engine.sched.schedule(CPU0, TaskState::Running).next, stopped);
        engine.schedule(CPU0, &step);
        assert_eq!(engine.sched.curr(CPU0), waiting, "{state}");
        let entity = engine.sched.entity(stopped);
        assert_eq!((entity.on_rq, entity.sched_delayed), (stays, stays), "{state}");
    }
}

/// Up to 6.11 real-time tasks are throttled (`sched_rt_runtime_exceeded`). On several CPUs the recording tells so: a fair task runs though a
/// real-time one is queued. It is let go by the time it runs again.
#[test]
fn what_runs_tells_whether_real_time_tasks_are_throttled() {
    let settings = Settings::defaults("6.1".parse().expect("a release")).expect("known");
    let switch = |from: &str, to: &str| {
        format!("cpus=2\n n-1 0d..2. 9.0: sched_switch: prev_comm=n {from} prev_state=R ==> next_comm=n {to}\n")
    };
    let [idle, fair, fifo] = [(0, 120), (150, 120), (151, 49)];
    let side = |name: &str, (pid, prio): (u32, i32)| format!("{name}_pid={pid} {name}_prio={prio}");
    let records: Vec<Vec<Record>> = [(idle, fifo), (fifo, fair), (fair, fifo)]
        .map(|(from, to)| switch(&side("prev", from), &side("next", to)))
        .iter()
        .map(|text| Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines"))
        .collect();
    let report = Report::of(&records[0][0], &records[0][0], Level::L1, 2, &settings);
    let mut engine = Engine::new(&settings, settings.rules(), 2, report);
    engine.begun = true;
    let fair = engine.add(fair.0, &Attributes::default(), GroupId::ROOT);
    engine.sched.assume_queued(fair, CPU0);
    let policy = schedlab_model::Policy::Fifo(50);
    let fifo = engine.add(fifo.0, &Attributes { policy, ..Attributes::default() }, GroupId::ROOT);
    engine.sched.assume_asleep(fifo, CPU0);
    engine.sched.decider.expect_nothing();
    engine.sched.try_to_wake_up(fifo, CPU0);
    for (at, (switch, runs)) in records.iter().zip([fifo, fair, fifo]).enumerate() {
        engine.schedule(CPU0, &[Entry::of(&switch[0])]);
        assert_eq!((engine.sched.curr(CPU0), engine.sched.rt_throttled(CPU0)), (runs, runs == fair), "{at}");
    }
    assert_eq!(engine.sched.nr_running(CPU0), 2);
    assert_eq!(engine.report.resynchronisations, 0);
}

/// Of 6.18.15: 254 was preempted by 16 where it must not migrate. `__schedule` chose 16, then `migrate_disable_switch` took 254 off the queue and put it
/// back, its CPUs being this one alone, and then came the switch. 254's lag was -8635151 then, so that 16 is the only one of both to be eligible. That is
/// one pick, whether the recording is of one CPU or of several.
#[test]
fn the_task_that_was_chosen_before_the_previous_one_may_not_migrate_runs_next() {
    let settings = Settings::defaults("6.18".parse().expect("a release")).expect("known");
    let text = "\
cpus=1
 n-254 0dB.21 2987.371452776: k_pnt: c=2987368762037 ct=2987368762037
 n-254 0dB.21 2987.371495592: k_uc: cfs=0x17c0 cse=0x80 cmy=0x0 pid=254 vr=800654621875 dl=800656394575 xs=2987368312212 ct=2987368762037 cpu=0
 n-254 0dB.21 2987.372017832: k_set: pid=16 vr=800633336766 dl=800638936766 vlag=11200000 sl=5600000 se=0x8080 my=0x0 cfs=0x17c0
 n-254 0d..21 2987.372113960: k_deq: pid=254 fl=0xa ct=2987368762037 c=2987368762037 cpu=0 pol=0 sp=120 w=1048576 tg=0x1440 ptg=0x0 cg=1 ag=0
 n-254 0d..21 2987.372806569: sched_switch: prev_comm=n prev_pid=254 prev_prio=120 prev_state=R+ ==> next_comm=w next_pid=16 next_prio=120
";
    let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines");
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    for alone in [true, false] {
        let report = Report::of(&records[0], &records[0], Level::L1, 2, &settings);
        let mut engine = Engine::new(&settings, settings.rules(), if alone { 1 } else { 2 }, report);
        engine.begun = true;
        let mut add = |pid, at, due| {
            let task = engine.add(pid, &Attributes::default(), GroupId::ROOT);
            let entity = engine.sched.entity_mut(task);
            (entity.vruntime, entity.deadline) = (Vruntime(at), Vruntime(due));
            engine.sched.assume_queued(task, CPU0);
            task
        };
        let runs = add(254, 800_654_621_875, 800_656_394_575);
        let waits = add(16, 800_633_336_766, 800_638_936_766);
        engine.sched.decider.expect_outcome(runs);
        assert_eq!(engine.sched.schedule(CPU0, TaskState::Running).next, runs);
        let (step, ahead) = entries.split_at(3);
        engine.begin_step(0, step, ahead);
        for part in [step, &ahead[1..]] {
            if alone {
                engine.advance(CPU0, part);
                engine.schedule_alone(CPU0, part);
            } else {
                engine.schedule(CPU0, part);
            }
            let pick = &engine.report.decisions.pick;
            assert_eq!((engine.sched.curr(CPU0), pick.compared, pick.equal), (waits, 1, 1), "{alone}");
        }
    }
}
