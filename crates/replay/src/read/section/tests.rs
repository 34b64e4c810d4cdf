//! Which sequence a few records stand for, after recordings cut to these lines.

use schedlab_trace::Reader;

use super::*;

/// A tick finds a task's runtime used up after its next period began: it gets it at once, and all of that is one charge. The flag
/// that says so moved with 6.19 (recordings of 6.12 and 7.2, cut to these lines).
#[test]
fn a_replenishment_within_a_charge_is_part_of_it() {
    for flags in ["0x20", "0x20000"] {
        let lines = [
            "sched_stat_runtime: comm=a pid=402 runtime=7282606 [ns]".to_owned(),
            "k_dlse: se=0xff01 pid=402 srv=0 rt=2245658 dl=371570038472 delta=7282606 ct=371570931089 c=371570931089"
                .to_owned(),
            format!("k_dlenq: pid=402 fl={flags} rt=-5036948 dl=371570038472 thr=1 ct=371570931089 c=371570931089"),
            "k_dlrep: se=0xff01 pid=402 srv=0 rt=-5036948 dl=371570038472".to_owned(),
            "k_resched: cpu=0 tif=4 cpid=402".to_owned(),
            "hrtimer_expire_exit: hrtimer=0xff11".to_owned(),
        ];
        let text: String = lines.iter().map(|line| format!(" a-402 0d.h1. 375.995632399: {line}\n")).collect();
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
        assert_eq!(cut(&entries), (Kind::Charge, 5), "{flags}");
    }
}

/// Of 6.12.107: a deadline task becomes a fair one as its runtime is used up and its next period began. It gets that at once as it is taken
/// off, and is back only with the queueing that follows its new parameters: all up to the schedule is one change.
#[test]
fn a_replenishment_within_a_change_is_not_its_end() {
    let text = "\
 a-715 0d..2. 4456.132550928: k_dldeq: pid=715 fl=0xe rt=800586 dl=4456075423405 thr=0 ct=4456126290498 c=4456126290498
 a-715 0d..2. 4456.132608592: sched_stat_runtime: comm=a pid=715 runtime=1760354
 a-715 0d..2. 4456.132637008: k_dlse: se=0x43b0 pid=715 srv=0 rt=800586 dl=4456075423405 delta=1760354 ct=4456126290498 c=4456126290498 thr=0 run=0
 a-715 0d..2. 4456.132731280: k_dlenq: pid=715 fl=0x20 rt=-959768 dl=4456075423405 thr=1 ct=4456126290498 c=4456126290498
 a-715 0d..2. 4456.132797488: k_dlrep: se=0x43b0 pid=715 srv=0 rt=-959768 dl=4456075423405 ct=4456126290498 c=4456126290498 sct=0 sc=0
 a-715 0d..2. 4456.133007088: k_param: pid=715 pol=0 sp=123 rtp=0 dlr=2000000 dld=10000000 dlp=40000000 dlf=0x0 sl=700000 cs=0 rof=0
 a-715 0d..2. 4456.133103856: k_enq: pid=715 fl=0x1e ct=4456126290498 c=4456126290498 cpu=0 pol=0 sp=123 w=538624 tg=0x5000 ptg=0x0 cg=1 ag=0
 a-715 0d..2. 4456.133269520: k_uc: cfs=0x60c0 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=4456126290498 cpu=0
 a-715 0d..2. 4456.133898321: k_resched: cpu=0 cpid=715
 a-715 0dN.2. 4456.133954545: k_pnt: c=4456127704771 ct=4456127704771
";
    let records: Vec<Record> = Reader::new(text.as_bytes()).map(|record| record.expect("a line")).collect();
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::Change(715), 9));
}

/// Of 6.1.176: a task that is to be rescheduled for a FIFO task yields, and schedules without the clock having moved. The yield
/// charges and is a section of its own; no fair task is looked for after it.
#[test]
fn a_yield_is_apart_from_the_schedule_at_its_clock() {
    let text = "\
 a-691 0dN.1. 340.164945369: k_uc: cfs=0x10 cse=0x20 cmy=0x0 pid=691 vr=252568494367 xs=338378247965 ct=338378475223
 a-691 0dN.1. 340.164949565: sched_stat_runtime: comm=a pid=691 runtime=227258 vruntime=252568721625
 a-691 0dN.2. 340.164960271: k_uc: cfs=0x10 cse=0x20 cmy=0x0 pid=691 vr=252568721625 xs=338378475223 ct=338378475223
 a-691 0d..2. 340.164991408: sched_switch: prev_comm=a prev_pid=691 prev_prio=120 prev_state=R ==> next_comm=b next_pid=692 next_prio=49
";
    let records: Vec<Record> = Reader::new(text.as_bytes()).map(|record| record.expect("a line")).collect();
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::Charge, 2));
    assert_eq!(cut(&entries[2..]), (Kind::Schedule, 2));
}

/// Of 7.2.13: the task that sets a new quota unthrottles a group's queue and enqueues the two throttled tasks there. Preempted
/// after it refilled the pool, it goes on with the queue later.
#[test]
fn a_new_quota_enqueues_the_throttled_tasks() {
    let refill = " a-505 0d..1. 343.756881925: k_refill: cg=106 rt=0 quota=3000000 period=50000000 burst=0\n";
    let queue = "\
 a-505 0d..1. 343.756952101: k_unthr: cfs=0x1480 tg=0xc600 rr=1 ct=752791368 c=752791368
 a-505 0d..1. 343.757010565: k_uc: cfs=0x1480 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=752791368 cpu=0
 a-505 0d..1. 343.757684837: k_enq: pid=502 fl=0x1 ct=752791368 c=752791368 cpu=0 pol=0 sp=120 w=1048576 tg=0xc600 ptg=0xd200 cg=106 ag=0
 a-505 0d..1. 343.757847878: k_uc: cfs=0x1480 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=752791368 cpu=0
 a-505 0d..1. 343.758783943: k_enq: pid=501 fl=0x1 ct=752791368 c=752791368 cpu=0 pol=0 sp=120 w=1048576 tg=0xc600 ptg=0xd200 cg=106 ag=0
 a-505 0d..1. 343.758946983: k_uc: cfs=0x1480 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=752791368 cpu=0
 a-505 0d.h1. 343.759453543: k_tick: pid=505 ct=755292682 c=755292682 cpu=0
";
    let at_once = records(&format!("{refill}{queue}"));
    assert_eq!(cut(&at_once.iter().map(Entry::of).collect::<Vec<_>>()), (Kind::Quota, 7));
    let later = records(queue);
    assert_eq!(cut(&later.iter().map(Entry::of).collect::<Vec<_>>()), (Kind::QuotaOfQueue, 6));
}

/// Of 6.18.15: `unthrottle_cfs_rq` itself reads the clock, after it told of itself, so that both tasks come at a later one; the tick does not belong to it.
#[test]
fn a_new_quota_lets_all_go_at_the_clock_that_is_read_then() {
    let text = "\
 a-446 0d..1. 352.809755971: k_refill: cg=886 rt=0 quota=6000000 period=50000000 burst=0
 a-446 0d..1. 352.809826819: k_unthr: cfs=0xc000 tg=0x6a00 rr=1 ct=352805883858 c=352805883858
 a-446 0d..1. 352.809900099: k_enq: pid=443 fl=0x1 ct=352807200914 c=352807200914 cpu=0 pol=0 sp=120 w=1048576 tg=0x6a00 ptg=0x7680 cg=886 ag=0
 a-446 0d..1. 352.810067299: k_uc: cfs=0xc000 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=352807200914 cpu=0
 a-446 0d..1. 352.810500803: k_acct: cfs=0xc000 rr=1 delta=0
 a-446 0d..1. 352.811029667: k_enq: pid=442 fl=0x1 ct=352807200914 c=352807200914 cpu=0 pol=0 sp=120 w=1048576 tg=0x6a00 ptg=0x7680 cg=886 ag=0
 a-446 0d..1. 352.811196867: k_uc: cfs=0xc000 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=352807200914 cpu=0
 a-446 0d.h1. 352.811735331: k_tick: pid=446 ct=352809044626 c=352809044626 cpu=0
";
    let records = records(text);
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::Quota, 7));
    assert_eq!(cut(&entries[1..]), (Kind::QuotaOfQueue, 6));
}

fn records(text: &str) -> Vec<Record> {
    Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap()
}

/// Of 6.12.107: a task that waits until another one sleeps (`wait_task_inactive`) completes that one's delayed dequeue at one clock; the
/// schedule that follows reads it again. The dequeue of the waiting task, which goes to sleep, is the schedule's.
#[test]
fn wait_task_inactive_dequeues_a_delayed_task_at_one_clock() {
    let text = "\
 a-660 0d..2. 420.201830311: k_deq: pid=779 fl=0x201 ct=420195556186 c=420195556186 cpu=0 pol=0 sp=120 w=1048576 tg=0x50 ptg=0x0 cg=1 ag=0
 a-660 0d..2. 420.201949639: k_deqs: pid=779 fl=0x201 se=0x80 my=0x0
 a-660 0d..2. 420.202002567: k_uc: cfs=0xc0 cse=0x28 cmy=0x0 pid=660 vr=5668910 dl=6368910 xs=420194798714 ct=420195556186 cpu=0
 a-660 0d..2. 420.202104071: sched_stat_runtime: comm=a pid=660 runtime=757472
 a-660 0d..2. 420.202132679: k_dlse: se=0xa8 pid=0 srv=1 rt=37965120 dl=421182763834 delta=757472 ct=420195556186 c=420195556186 thr=1 run=0
 a-660 0d..2. 420.202214951: k_resched: cpu=0 cpid=660
 a-660 0dN.2. 420.202293543: k_pnt: c=420196022522 ct=420196022522
";
    let records = records(text);
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::WaitInactive(779), 6));
}

/// Of 6.1.176: `unthrottle_cfs_rq` tells of itself before it reads the clock; what it does then belongs to it, and the schedule at the
/// clock that it read does not.
#[test]
fn a_queue_is_let_go_at_the_clock_that_is_read_then() {
    let text = "\
 a-742 0dN.1. 65.838328419: k_unthr: cfs=0x4800 tg=0xfb80 rr=0 ct=65834676571 c=65834676571
 a-742 0dN.1. 65.838396163: k_uc: cfs=0x4e00 cse=0x0 cmy=0x0 pid=0 vr=0 xs=0 ct=65835217788 cpu=0
 a-742 0dN.1. 65.838709283: k_rew: pid=0 w=1048576 se=0x4200 my=0x4800 cfs=0x4e00
 a-742 0dN.1. 65.838764867: k_place: pid=0 vr=898980247 minv=901274276 init=0 se=0x4200 my=0x4800 cfs=0x4e00
 a-742 0dN.2. 65.838866627: k_pnt: c=65835217788 ct=65835217788
";
    let records = records(text);
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::QuotaOfQueue, 4));
}

/// Of 7.2.13: the task that set a group's shares was preempted before it came to the group's queues, and goes on later; it is not charged,
/// since it runs on another queue.
#[test]
fn a_preempted_task_sets_a_groups_weight_later() {
    let text = "\
 a-566 0d..1. 106.615134379: k_rew: pid=0 w=524288 se=0xd00 my=0xb00 cfs=0x580
 a-566 0d..1. 106.615196459: k_uc: cfs=0x580 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=106610961046 cpu=0
 a-566 0d.h.. 106.615800171: hrtimer_expire_entry: hrtimer=0x2a0 now=106595143328 function=hrtick
";
    let records = records(text);
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::SharesOfQueues, 2));
}

/// Of 7.2.13: a period's timer gives a throttled queue runtime, for which it charges the task that still runs there, and reads the clock
/// again as it unthrottles the queue.
#[test]
fn a_timer_reads_the_clock_twice() {
    let text = "\
 a-539 0dBh.. 35.566985761: hrtimer_expire_entry: hrtimer=0xb00 now=35546094668 function=sched_cfs_period_timer
 a-539 0dBh.. 35.567016481: k_dist: cg=236 rt=3000000 quota=3000000 period=50000000 burst=0
 a-539 0dBh1. 35.567087202: k_uc: cfs=0x1680 cse=0xc680 cmy=0x0 pid=539 vr=47797457 dl=48497457 xs=35561770242 ct=35562948291 cpu=0
 a-539 0dBh1. 35.567189186: sched_stat_runtime: comm=a pid=539 runtime=1178049
 a-539 0dBh1. 35.567367810: k_unthr: cfs=0x1680 tg=0x900 rr=1 ct=35563221092 c=35563221092
 a-539 0dBh1. 35.567426306: k_uc: cfs=0x1680 cse=0xc680 cmy=0x0 pid=539 vr=48975506 dl=49675506 xs=35562948291 ct=35563221092 cpu=0
 a-539 0dBh1. 35.567528290: sched_stat_runtime: comm=a pid=539 runtime=272801
 a-539 0dBh.. 35.567688226: hrtimer_expire_exit: hrtimer=0xb00
";
    let records = records(text);
    let entries: Vec<Entry<'_>> = records.iter().map(Entry::of).collect();
    assert_eq!(cut(&entries), (Kind::Timer, 8));
    assert_eq!(read_at_first(Kind::Timer, &entries), 4);
    // Once where no task runs there.
    let idle: Vec<Entry<'_>> = entries.iter().filter(|entry| entry.what != What::UpdateCurr).copied().collect();
    assert_eq!(read_at_first(Kind::Timer, &idle), idle.len());
}
