//! What records are cut into, on lines of real recordings.

use schedlab_trace::{Reader, Record};

use super::*;

/// The steps of these lines of several CPUs, each with the task that it is about, if any.
pub(crate) fn steps(text: &str) -> Vec<(Act, usize, Option<Pid>)> {
    let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines");
    let cpus = records.iter().map(|record| record.cpu).max().map_or(0, |cpu| cpu as usize + 1);
    let streams = crate::read::streams::streams_of(&records, cpus as u32);
    crate::read::step_order::steps_in_order(&streams)
        .into_iter()
        .map(|step| (step.act, step.by, streams[step.by][step.from].pid()))
        .collect()
}

/// Of 6.12.107: newidle balance pulls 194, a delayed task. The CPU checks whether it preempts (one look at the queue), picks it at the
/// same clock, dequeues it and looks for work again.
#[test]
fn a_pick_is_apart_from_the_queueing_at_its_clock() {
    let text = "\
cpus=2
 e-196     1d..2. 10.103824542: k_enq: pid=194 fl=0x48 ct=10120737723 c=10120737723 cpu=1
 e-196     1d..2. 10.103832934: k_uc: cfs=0x60c0 cse=0x4280 cmy=0x0 pid=196 vr=2393590939 dl=2395547074 xs=10120525345 ct=10120737723 cpu=1
 e-196     1d..2. 10.103856920: k_cpw: pid=194 wf=0x0 tif=0x0 cpid=196 ct=10120737723 c=10120737723 cpu=1
 e-196     1d..2. 10.103860165: k_uc: cfs=0x60c0 cse=0x4280 cmy=0x0 pid=196 vr=2393803317 dl=2395547074 xs=10120737723 ct=10120737723 cpu=1
 e-196     1d..2. 10.103863240: k_eevdf: zv=2393590939 av=0 al=1024 nr=1 cpid=196 next=0 cse=0x4280 cfs=0x60c0 ct=10120737723
 e-196     1d..2. 10.103870881: k_resched: cpu=1 cpid=196
 e-196     1dN.2. 10.103878272: k_eevdf: zv=2393590939 av=0 al=1024 nr=1 cpid=196 next=0 cse=0x4280 cfs=0x60c0 ct=10120737723
 e-196     1dN.2. 10.103885473: k_deqs: pid=194 fl=0x201 se=0x5280 my=0x0
 e-196     1dN.2. 10.103899544: k_newidle: c=10120737723 ct=10120737723 cpu=1 ai=972508 ov=1 cost=206446
";
    assert_eq!(steps(text), [(Act::Activate, 1, Some(194)), (Act::Schedule, 1, None)]);
}

/// Of 6.12.107: 198 ended, and a softirq came before its load left; what that did last on its CPU was to move 19 elsewhere. The load of
/// 198 is none that 19 takes away.
#[test]
fn a_load_that_leaves_after_anothers_is_apart_from_it() {
    let text = "\
cpus=4
 <idle>-0  1dNs4. 24.836549729: sched_migrate_task: comm=r pid=19 prio=120 orig_cpu=0 dest_cpu=3
 <idle>-0  1dNs4. 24.836554319: k_mig: pid=19 to=3
 <idle>-0  1dNs4. 24.836559238: k_lablk: pid=19 now=24776942592
 <idle>-0  1dNs4. 24.836567726: k_lablk: pid=19 now=24780246941
 <idle>-0  1.N.1. 24.839959743: k_lablk: pid=198 now=24780121088
";
    let time = Act::LeaveTime { from: Some(0), read: Read::Whole };
    let expected = [(time, 1, Some(19)), (Act::LeaveLoad, 1, Some(19)), (Act::LeaveLoad, 1, Some(198))];
    assert_eq!(steps(text), expected);
}

/// Of 6.12.117: a group is made below another one, whose queue and the CPU's are looked at on each CPU in turn. Then its weight is set,
/// again on one CPU after the other.
#[test]
fn a_group_comes_to_each_cpu_by_itself() {
    let text = "\
cpus=2
 n-201     0d..1. 9.658974538: k_lacfs: cfs=0x6c00 now=9611387561 cpu=0 la=0 ra=0 ua=0 c=9611387561 ct=9611387561
 n-201     0d..1. 9.659045084: k_lase: pid=0 now=9611387561 cpu=0 la=0 ra=0 ua=0
 n-201     0d..1. 9.659052905: k_lacfs: cfs=0x60c0 now=9611387561 cpu=0 la=1159 ra=971 ua=907 c=9611387561 ct=9611387561
 n-201     0d..1. 9.659110812: k_lacfs: cfs=0x6600 now=9611520941 cpu=1 la=0 ra=0 ua=0 c=9611520941 ct=9611520941
 n-201     0d..1. 9.659114127: k_lase: pid=0 now=9611520941 cpu=1 la=0 ra=0 ua=0
 n-201     0d..1. 9.659116240: k_lacfs: cfs=0x70c0 now=9611520941 cpu=1 la=209 ra=209 ua=207 c=9611520941 ct=9611520941
 n-201     0d..1. 9.659189349: cgroup_mkdir: root=0 level=2 id=51 path=/a/light
 n-201     0..... 9.659294547: k_shares: tg=0x5400 cg=51 shares=524288
 n-201     0d..1. 9.659330321: k_lase: pid=0 now=9611740219 cpu=0 la=0 ra=0 ua=0
 n-201     0d..1. 9.659332804: k_lacfs: cfs=0x6c00 now=9611740219 cpu=0 la=0 ra=0 ua=0 c=9611740219 ct=9611740219
 n-201     0d..1. 9.659367817: k_lase: pid=0 now=9611783584 cpu=1 la=0 ra=0 ua=0
 n-201     0d..1. 9.659369529: k_lacfs: cfs=0x6600 now=9611783584 cpu=1 la=0 ra=0 ua=0 c=9611783584 ct=9611783584
 b-202     0d..2. 9.659400000: k_snapq: pid=7 cpu=0 cfs=0x60c0 c=9611800000 ct=9611800000
 b-202     0d..2. 9.659500000: k_snapq: pid=8 cpu=1 cfs=0x70c0 c=9611800000 ct=9611800000
";
    let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
    let made = [Act::Online, Act::Online, Act::MakeGroup, Act::Shares, Act::SharesOfQueue, Act::SharesOfQueue];
    assert_eq!(acts[..6], made);
}

/// Of 6.12.117: the period's timer hands out runtime, and lets go one queue, for which it reads the clock again.
#[test]
fn a_timer_refills_before_it_lets_go() {
    let text = "\
cpus=2
 n-203     0d.h.. 9.733392374: hrtimer_expire_entry: hrtimer=0x5098 now=9733390441 function=sched_cfs_period_timer
 n-203     0d.h.. 9.733425684: k_dist: cg=97 rt=3000000 quota=3000000 period=50000000 burst=0
 n-203     0d.h1. 9.733580696: k_unthr: cfs=0x7400 tg=0x4f00 rr=1 ct=9684464071 c=9684464071
 n-203     0d.h1. 9.733764471: k_uc: cfs=0x7e00 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=9686014311 cpu=0
 n-203     0d.h1. 9.733822998: k_lacfs: cfs=0x7e00 now=9686014311 cpu=0 la=635 ra=71 ua=16 c=9686014311 ct=9686014311
 n-203     0d.h.. 9.734040033: hrtimer_expire_exit: hrtimer=0x5098
 n-202     1d.h.. 9.736020247: hrtimer_expire_entry: hrtimer=0x6418 now=9736015610 function=tick_nohz_handler
";
    let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
    assert_eq!(acts, [Act::Refill, Act::Unthrottle, Act::Timer, Act::Timer]);
}

/// Of 7.3.4, where no probe shows that a CPU looks for work: a task is dequeued, the pick finds no task, and the queues' averages are
/// updated. The same happens where the stop class's task goes to sleep, which no probe shows.
#[test]
fn a_search_that_is_not_probed_begins_with_the_averages() {
    let text = "\
cpus=2
 a-180     1d..2. 39.071763032: k_deq: pid=180 fl=0x10009 ct=38980255360 c=38980255360 cpu=1
 a-180     1d..2. 39.071767038: k_deqs: pid=180 fl=0x10009
 a-180     1d..2. 39.071768450: k_uc: cfs=0x2880 cse=0x8080 cmy=0x0 pid=180 vr=23096373408 dl=23097339602 xs=38980199637 ct=38980255360 cpu=1
 a-180     1d..2. 39.071777915: k_lase: pid=180 now=38980255360 cpu=1 la=882 ra=881 ua=696 se=0x8080 my=0x0
 a-180     1d..2. 39.071779958: k_lacfs: cfs=0x2880 now=38980255360 cpu=1 la=964 ra=963 ua=701 c=38980255360 ct=38980255360
 a-180     1d..2. 39.071782882: k_pnt: c=38980255360 ct=38980255360
 a-180     1d..2. 39.071803643: k_lacfs: cfs=0x2880 now=38980255360 cpu=1 la=964 ra=963 ua=701 c=38980255360 ct=38980255360
 a-180     1d..2. 39.072000000: sched_switch: prev_comm=a prev_pid=180 prev_prio=120 prev_state=S ==> next_comm=migration/1 next_pid=24 next_prio=0
 m-24      1d..2. 39.160060772: k_pnt: c=39012421628 ct=39012421628
 m-24      1d..2. 39.160070000: k_lacfs: cfs=0x2880 now=39012421628 cpu=1 la=194 ra=194 ua=52 c=39012421628 ct=39012421628
 m-24      1d..2. 39.160115454: sched_switch: prev_comm=migration/1 prev_pid=24 prev_prio=0 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
    let search = [Act::Averages, Act::Schedule];
    assert_eq!(acts, [&[Act::Leave][..], &search, &[Act::Schedule], &search].concat());
}

/// Of 7.3.4: a real-time task sleeps, and no queue of its CPU has load left whose averages would be updated. What shows that the CPU looks for work is the
/// task that it takes off another CPU's queue.
#[test]
fn a_search_that_is_not_probed_begins_with_a_pull_at_the_latest() {
    let text = "\
cpus=4
 n-205     2d..2. 41.769224423: k_rtdeq: pid=205 fl=0x9 prio=0 ts=25 ct=41725631194 c=41725631194
 n-205     2d..2. 41.769233407: sched_stat_runtime: comm=n pid=205 runtime=997204
 n-205     2d..2. 41.769256171: k_pnt: c=41725631194 ct=41725631194
 n-205     2d..2. 41.769336461: k_deq: pid=59 fl=0x8 ct=41725730263 c=41725730263 cpu=3
 n-205     2d..2. 41.769354558: k_deqs: pid=59 fl=0x8
 n-205     2d..2. 41.769357132: k_uc: cfs=0x2880 cse=0xc700 cmy=0x0 pid=207 vr=22478312944 dl=22480240546 xs=41720938354 ct=41725730263 cpu=3
 n-205     2d..2. 41.769360387: sched_stat_runtime: comm=n pid=207 runtime=4791909
 n-205     2d..2. 41.769400768: sched_migrate_task: comm=kcompactd1 pid=59 prio=120 orig_cpu=3 dest_cpu=2
 n-205     2d..2. 41.769405705: k_mig: pid=59 to=2
 n-205     2d..2. 41.769417443: k_enq: pid=59 fl=0x40008 ct=41725825786 c=41725825786 cpu=2
 n-205     2d..2. 41.769467057: k_cpw: pid=59 wf=0x0 tif=0x0 cpid=205 ct=41725825786 c=41725825786 cpu=2
 n-205     2d..2. 41.769476431: k_eevdf: zv=19946321220 av=0 al=1048576 ss=0 nr=1 cpid=0 next=0 prot=1 cse=0x0 cfs=0x6880 ct=41725825786
 n-205     2d..2. 41.769487878: sched_stat_runtime: comm=n pid=205 runtime=194592
 n-205     2d..2. 41.769494698: k_sett: pid=59 first=1 vr=19946321220 dl=19948421220 vlag=2395954 sl=2100000 vp=22048207122 ct=41725825786 c=41725825786
 n-205     2d..2. 41.769510272: sched_switch: prev_comm=n prev_pid=205 prev_prio=0 prev_state=S ==> next_comm=kcompactd1 next_pid=59 next_prio=120
";
    let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
    assert_eq!(acts, [Act::Leave, Act::Detach, Act::Activate, Act::Schedule]);
}

/// Of 6.18.15: a task goes as it returns to user space, its group being throttled; later a timer lets the group go, for which the clock is read, and the task comes back
/// within.
#[test]
fn tasks_are_taken_off_and_come_back_on_their_cpu() {
    let text = "\
cpus=2
 a-231     0d..2. 39.049800413: k_deq: pid=231 fl=0x801 ct=38993302449 c=38993302449 cpu=0
 a-231     0d..2. 39.049814794: k_deqs: pid=231 fl=0x801 se=0xc500 my=0x0
 a-231     0d..2. 39.049817258: k_uc: cfs=0xe600 cse=0xc500 cmy=0x0 pid=231 vr=4972349 dl=5739662 xs=38993027247 ct=38993302449 cpu=0
 a-231     0d..2. 39.050008504: k_resched: cpu=0 tif=4 cpid=231
 a-233     0dlh1. 39.128725672: k_unthr: cfs=0xe600 tg=0x9680 rr=1 ct=39072037891 c=39072037891
 a-233     0dlh1. 39.128737420: k_enq: pid=231 fl=0x1 ct=39072245001 c=39072245001 cpu=0
 a-233     0dlh1. 39.128763138: k_uc: cfs=0xe600 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=39072245001 cpu=0
 a-233     0dlh1. 39.128795697: k_acct: cfs=0xe600 rr=1 delta=0
 a-233     0dlh1. 39.128800000: k_enq: pid=232 fl=0x1 ct=39072245001 c=39072245001 cpu=0
 a-233     0dlh1. 39.128810000: k_uc: cfs=0xe600 cse=0x0 cmy=0x0 pid=0 vr=0 dl=0 xs=0 ct=39072245001 cpu=0
 a-233     0dlh.. 39.128941916: hrtimer_expire_exit: hrtimer=0x9838
";
    let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
    assert_eq!(acts, [Act::Throttle, Act::Unthrottle, Act::Timer]);
}

/// Of 7.3.4: a wakeup's preemption check dequeues 158, a delayed task, and checks again; all of it belongs to the wakeup.
#[test]
fn a_wakeup_preemption_check_dequeues_a_delayed_task() {
    let text = "\
cpus=2
 a-164     0dlh3. 21.360209750: k_enq: pid=163 fl=0x100009 ct=21268699693 c=21268699693 cpu=0
 a-164     0dlh3. 21.360269489: k_cpw: pid=163 wf=0x88 tif=0x20 cpid=164 ct=21268699693 c=21268699693 cpu=0
 a-164     0dlh3. 21.360272243: k_uc: cfs=0x2880 cse=0x4700 cmy=0x0 pid=164 vr=5815141501 dl=5816457897 xs=21268699693 ct=21268699693 cpu=0
 a-164     0dlh3. 21.360275708: k_eevdf: zv=5811947930 av=-3706077577216 al=2097152 ss=0 nr=3 cpid=164 next=0 prot=1 cse=0x4700 cfs=0x2880 ct=21268699693
 a-164     0dlh3. 21.360286534: k_deqs: pid=158 fl=0x21
 a-164     0dlh3. 21.360306954: k_eevdf: zv=5811834323 av=-238251147264 al=1048576 ss=0 nr=2 cpid=164 next=0 prot=1 cse=0x4700 cfs=0x2880 ct=21268699693
 a-164     0dlh3. 21.360318562: sched_wakeup: comm=a pid=163 prio=120 target_cpu=0
";
    assert_eq!(steps(text), [(Act::Activate, 0, Some(163))]);
}

/// Of 7.3.4: the timer of a group's bandwidth on CPU 1 charges a task that still runs on CPU 0, before it hands out what there is.
#[test]
fn what_a_timer_charges_belongs_to_it() {
    let text = "\
cpus=2
 n-214     1dBH1. 63.804117264: hrtimer_expire_entry: hrtimer=0xff11000027307210 now=63803689326 function=sched_cfs_period_timer
 n-214     1dBH1. 63.804148701: k_dist: cg=236 rt=3000000 quota=3000000 period=50000000 burst=0
 n-214     1dBH2. 63.804178295: k_uc: cfs=0x1680 cse=0x4700 cmy=0x0 pid=212 vr=65833190693 dl=65833225187 xs=63711814380 ct=63712669095 cpu=0
 n-214     1dBH2. 63.804181240: sched_stat_runtime: comm=n pid=212 runtime=854715
 n-214     1dBH2. 63.804183393: k_dlse: se=0x3560 pid=0 srv=1 rt=26663836 dl=64688478216 delta=854715 ct=63712669095 c=63712669095 thr=1 run=0
 n-214     1dBH2. 63.804185816: k_resched: cpu=0 tif=5 cpid=212
 n-214     1dBH1. 63.804202071: hrtimer_expire_exit: hrtimer=0xff11000027307210
";
    let acts: Vec<_> = steps(text).into_iter().map(|(act, by, _)| (act, by)).collect();
    assert_eq!(acts, [(Act::Refill, 1), (Act::Timer, 1)]);
}

/// Of 7.3.4: balancing in a softirq brings 211, whose look at preemption dequeues 215, which is delayed, and looks again. The schedule that follows at
/// the same clock is apart.
#[test]
fn a_look_at_preemption_in_an_interrupt_is_whole() {
    let text = "\
cpus=2
 n-214     1dBs1. 64.216486478: k_enq: pid=211 fl=0x40008 ct=64124977480 c=64124977480 cpu=1
 n-214     1dBs1. 64.216493038: k_uc: cfs=0x1c40 cse=0xc700 cmy=0x0 pid=214 vr=44546084965 dl=44548414775 xs=64124726225 ct=64124977480 cpu=1
 n-214     1dBs1. 64.216557734: k_cpw: pid=211 wf=0x0 tif=0x30 cpid=214 ct=64124977480 c=64124977480 cpu=1
 n-214     1dBs1. 64.216560589: k_uc: cfs=0x1c40 cse=0xc700 cmy=0x0 pid=214 vr=44546503091 dl=44548414775 xs=64124977480 ct=64124977480 cpu=1
 n-214     1dBs1. 64.216572727: k_eevdf: zv=44546310193 av=-1344839629766 al=948246 ss=0 nr=1 cpid=214 next=0 prot=1 cse=0xc700 cfs=0x2880 ct=64124977480
 n-214     1dBs1. 64.216581159: k_deqs: pid=215 fl=0x21
 n-214     1dBs1. 64.216582491: k_uc: cfs=0x1c40 cse=0xc700 cmy=0x0 pid=214 vr=44546503091 dl=44548414775 xs=64124977480 ct=64124977480 cpu=1
 n-214     1dBs1. 64.216623072: k_eevdf: zv=44545535142 av=-423909216857 al=318149 ss=0 nr=1 cpid=214 next=0 prot=1 cse=0xc700 cfs=0x2880 ct=64124977480
 n-214     1dBs1. 64.216629611: k_resched: cpu=1 tif=5 cpid=214
 n-214     1dB.2. 64.216641409: k_pnt: c=64124977480 ct=64124977480
 n-214     1dB.2. 64.216646927: k_eevdf: zv=44545535142 av=-423909216857 al=318149 ss=0 nr=1 cpid=214 next=0 prot=1 cse=0xc700 cfs=0x2880 ct=64124977480
";
    let acts: Vec<_> = steps(text).into_iter().map(|(act, _, pid)| (act, pid)).collect();
    assert_eq!(acts, [(Act::Activate, Some(211)), (Act::Schedule, None)]);
}
