//! What one CPU does without a queue's lock, among what another does with it.
//!
//! A task that wakes on another CPU takes its virtual time relative to the queue that it leaves (CFS), and leaves its load there to be
//! removed, both without that queue's lock. The CPU that holds the lock, maybe since before that, removes the load when it next updates
//! the averages, and moves the queue's virtual time when it charges the running task.

use schedlab_trace::Record;

use super::steps::{Act, ROOM, Read, Step, cut, left_queue, queue_of};
use crate::read::section::{Entry, What};

/// The steps of all CPUs in the order in which they hold the queues' locks.
pub(crate) fn steps_in_order(streams: &[Vec<Entry<'_>>]) -> Vec<Step> {
    let mut steps = cut(streams);
    order_migrations(streams, &mut steps);
    order_looks(streams, &mut steps);
    // Stable: of two at the same place the one that is to come first stands first.
    steps.sort_by_key(|step| step.place);
    steps
}

/// A step under a CPU's lock: its first and its last line.
#[derive(Debug, Clone, Copy)]
struct Held {
    first: u64,
    end: u64,
    step: usize,
    /// It dequeues a task, after the look.
    takes_off: bool,
    /// It comes no earlier, for the sake of loads that had left.
    least: u64,
}

/// Puts the steps by which tasks leave before or after those within which they do: a load that left before the look was gone in them.
/// Virtual times that were read after the charge are those after them, or, where a load that left later holds the step back, those to which the
/// charge will come.
fn order_migrations(streams: &[Vec<Entry<'_>>], steps: &mut [Step]) {
    let mut held = held_steps(streams, steps);
    for at in 0..steps.len() {
        let Step { act: Act::LeaveLoad, by, from, place, .. } = steps[at] else { continue };
        if &*streams[by][from].record.event != "k_mig" {
            continue;
        }
        let cpu = left_queue(&streams[by][..from]);
        let Some(held) = within(&mut held, cpu, place) else { continue };
        let account = account_of(streams, cpu, streams[by][from].record);
        let Some(look) = look_at(entries_of(streams, &steps[held.step]), account) else { continue };
        let step = &mut steps[held.step].place;
        if place < ROOM * look {
            held.least = held.least.max(place + 1);
            *step = (*step).max(place + 1);
        } else {
            *step = (*step).min(place - 1);
        }
    }
    for at in 0..steps.len() {
        let Step { act: Act::LeaveTime { from, .. }, by, from: begin, place, .. } = steps[at] else { continue };
        let Some(held) = within(&mut held, from, place) else { continue };
        let account = account_of(streams, from, streams[by][begin].record);
        let entries = entries_of(streams, &steps[held.step]);
        let Some((charge, charged)) = charge_of(entries, account) else { continue };
        let step = steps[held.step].place;
        if place < ROOM * charge {
            steps[at].place = place.min(step - 1);
            continue;
        }
        let before = |line: u64| place < ROOM * line;
        let look = look_at(entries, account);
        // `cut` puts the load that it leaves right behind. Where another one holds the step back, the task may be queued elsewhere before that.
        let own = steps.get(at + 1).map_or(place, |load| load.place);
        let clock = entries.iter().find(|entry| entry.record.line == charge).and_then(Entry::clock);
        if let Some(clock) = clock.filter(|_| held.least > own + 1 && look.is_some_and(before)) {
            steps[at].act = Act::LeaveTime { from, read: Read::Ahead { clock, charging: before(charged) } };
            continue;
        }
        let step = held.least.max(step.min(place - 1));
        steps[held.step].place = step;
        steps[at].place = place.max(step + 1);
        let read = match look {
            _ if before(charged) => Read::Charging,
            Some(look) if held.takes_off && before(look) => Read::Charged,
            _ => Read::Whole,
        };
        steps[at].act = Act::LeaveTime { from, read };
    }
}

/// Puts the recorder's marks, between which it looks at all averages, around the steps that others were in then: it may have seen how these
/// left them, or found them.
fn order_looks(streams: &[Vec<Entry<'_>>], steps: &mut [Step]) {
    for at in 0..steps.len() {
        let Step { act: Act::Mark, by, from, place, .. } = steps[at] else { continue };
        let mark = streams[by][from].record;
        let Some((_, name)) = mark.text.split_once("schedlab: averages ") else { continue };
        let spans = |step: &&Step| {
            let entries = &streams[step.by][step.from..step.to];
            let (first, last) = (entries.first(), entries.last());
            step.act.locks()
                && first.is_some_and(|first| first.record.line < mark.line)
                && last.is_some_and(|last| last.record.line > mark.line)
        };
        let others = steps.iter().filter(spans).map(|step| step.place);
        steps[at].place = if name.trim_end().ends_with(" end") {
            others.map(|other| other + 1).fold(place, u64::max)
        } else {
            others.map(|other| other - 1).fold(place, u64::min)
        };
    }
}

/// The steps of each queue in which it is charged or its averages are brought up to date, in order.
fn held_steps(streams: &[Vec<Entry<'_>>], steps: &[Step]) -> Vec<Vec<Held>> {
    let mut held: Vec<Vec<Held>> = vec![Vec::new(); streams.len()];
    for (step, found) in steps.iter().enumerate() {
        let entries = entries_of(streams, found);
        let (Some(first), Some(end)) = (entries.first(), entries.last()) else { continue };
        if charge_of(entries, None).is_some() || look_at(entries, None).is_some() {
            let takes_off = matches!(first.what, What::Dequeue(_));
            let (first, end) = (first.record.line, end.record.line);
            let queue = queue_of(entries, found.by, streams.len());
            held[queue].push(Held { first, end, step, takes_off, least: 0 });
        }
    }
    held.iter_mut().for_each(|held| held.sort_by_key(|held| held.first));
    held
}

/// The step that holds the queue's lock at `place`.
fn within(held: &mut [Vec<Held>], queue: Option<usize>, place: u64) -> Option<&mut Held> {
    let held = held.get_mut(queue?)?;
    let begun = held.partition_point(|held| ROOM * held.first < place).checked_sub(1)?;
    Some(&mut held[begun]).filter(|held| place < ROOM * held.end)
}

fn entries_of<'s, 'a>(streams: &'s [Vec<Entry<'a>>], step: &Step) -> &'s [Entry<'a>] {
    &streams[step.by][step.from..step.to]
}

/// The address of the queue whose account a task leaves on a CPU, where its averages were last brought up to date with that queue's there.
fn account_of(streams: &[Vec<Entry<'_>>], cpu: Option<usize>, leaves: &Record) -> Option<u64> {
    let (entries, pid) = (streams.get(cpu?)?, leaves.number("pid")?);
    let before = entries.partition_point(|entry| entry.record.line < leaves.line);
    let own = |entry: &Entry<'_>| &*entry.record.event == "k_lase" && entry.record.number("pid") == Some(pid);
    let last = entries[..before].iter().rposition(own)?;
    entries[last..before].get(1).filter(|next| looks(next)).and_then(|next| next.record.number("cfs"))
}

/// Where a step first brings a queue's averages up to date; any queue's if its address is not known.
fn look_at(step: &[Entry<'_>], queue: Option<u64>) -> Option<u64> {
    let found = step.iter().find(|entry| looks(entry) && is_of(entry, queue))?;
    Some(found.record.line)
}

/// From where to where a step charges what runs on a queue, so that its virtual time moves (CFS: EEVDF has deadlines); the running task if the
/// queue's address is not known.
fn charge_of(step: &[Entry<'_>], queue: Option<u64>) -> Option<(u64, u64)> {
    let charges = |entry: &Entry<'_>| {
        let number = |key: &str| entry.record.number(key);
        let runs = if queue.is_some() { number("cse") } else { number("pid") };
        entry.what == What::UpdateCurr && runs != Some(0) && number("dl").is_none() && is_of(entry, queue)
    };
    let at = step.iter().position(charges)?;
    let end = step.get(at + 1).unwrap_or(&step[at]);
    Some((step[at].record.line, end.record.line))
}

fn is_of(entry: &Entry<'_>, queue: Option<u64>) -> bool {
    queue.is_none_or(|queue| entry.record.number("cfs") == Some(queue))
}

fn looks(entry: &Entry<'_>) -> bool {
    &*entry.record.event == "k_lacfs"
}

#[cfg(test)]
mod tests {
    use crate::read::steps::tests::steps;

    use super::*;

    /// Of 6.1.176: CPU 0 begins to queue 149; before it looks at the averages 151, which slept there, wakes on CPU 1. So 151's load is
    /// gone as 149 comes.
    #[test]
    fn a_load_that_leaves_before_the_look_is_gone_in_a_step_that_began_before() {
        let text = "\
cpus=2
 a-148     0d..4. 48.402797145: k_enq: pid=149 fl=0x9 ct=48425503809 c=48425503809 cpu=0
 b-150     1d..3. 48.405233710: sched_migrate_task: comm=a pid=151 prio=123 orig_cpu=0 dest_cpu=1
 b-150     1d..3. 48.405237857: k_mig: pid=151 to=1
 b-150     1d..3. 48.405245000: k_lablk: pid=151 now=48425386934
 a-148     0d..4. 48.406946000: k_uc: cfs=0x1cc0 cse=0x4280 cmy=0x0 pid=148 vr=23044697263 xs=48425386934 ct=48425503809 cpu=0
 a-148     0d..4. 48.406949000: k_lacfs: cfs=0x1cc0 now=48425503809 cpu=0 la=1274 ra=1274 ua=1018 c=48425503809 ct=48425503809
 a-148     0d..4. 48.406954000: sched_wakeup: comm=a pid=149 prio=120 target_cpu=0
";
        let time = Act::LeaveTime { from: Some(0), read: Read::Whole };
        let expected = [(time, 1, Some(151)), (Act::LeaveLoad, 1, Some(151)), (Act::Activate, 0, Some(149))];
        assert_eq!(steps(text), expected);
    }

    /// Of 6.12.107: CPU 3 took 224 off and set 225, but has not switched yet as 222, which slept there, wakes on CPU 2: its load was
    /// there all through that schedule.
    #[test]
    fn a_load_that_leaves_after_the_look_was_there_in_a_step_that_ends_later() {
        let text = "\
cpus=4
 c-224     3d..2. 17.959954547: k_deq: pid=224 fl=0x9 ct=17979526717 c=17979526717 cpu=3
 c-224     3d..2. 17.959982428: k_lacfs: cfs=0x60c0 now=17979526717 cpu=3 la=1814 ra=2581 ua=1676 c=17979526717 ct=17979526717
 c-224     3d..2. 17.959986154: k_pnt: c=17979526717 ct=17979526717
 d-223     2d..3. 17.960268954: sched_migrate_task: comm=c pid=222 prio=120 orig_cpu=3 dest_cpu=2
 d-223     2d..3. 17.960272058: k_mig: pid=222 to=2
 d-223     2d..3. 17.960276235: k_lablk: pid=222 now=17979526144
 c-224     3d..2. 17.964100000: sched_switch: prev_comm=c prev_pid=224 prev_prio=123 prev_state=S ==> next_comm=c next_pid=225 next_prio=123
";
        let time = Act::LeaveTime { from: Some(3), read: Read::Whole };
        let expected = [(time, 2, Some(222)), (Act::Schedule, 3, Some(224)), (Act::LeaveLoad, 2, Some(222))];
        assert_eq!(steps(text), expected);
    }

    /// Of 6.18.15: CPU 0's tick brings a group's queue up to date, then 15 wakes on CPU 1, which slept on CPU 0's root queue, and then the tick comes
    /// to that. So 15's load was gone there: what left no group's queue is looked at where its own queue is.
    #[test]
    fn a_load_that_leaves_is_looked_at_on_its_own_queue() {
        let text = "\
cpus=2
 r-15      0d..2. 4.179044203: k_lase: pid=15 now=4189072732 cpu=0 la=38 ra=38 ua=5 se=0x80 my=0x0
 r-15      0d..2. 4.179046000: k_lacfs: cfs=0x17c0 now=4189072732 cpu=0 la=3666 ra=930 ua=763 c=4189072732 ct=4189072732
 n-192     0d.h1. 4.184050187: k_tick: pid=192 ct=4194092616 c=4194092616 cpu=0
 n-192     0d.h1. 4.184062746: k_lacfs: cfs=0xd200 now=4194092616 cpu=0 la=925 ra=281 ua=271 c=4194092616 ct=4194092616
 n-191     1dls3. 4.184119490: sched_waking: comm=r pid=15 prio=120 target_cpu=0
 n-191     1dls3. 4.184131989: k_sel: pid=15 prev=0 wf=0x8
 n-191     1dls3. 4.184157698: k_selr: cpu=1
 n-191     1dls3. 4.184174333: sched_migrate_task: comm=r pid=15 prio=120 orig_cpu=0 dest_cpu=1
 n-191     1dls3. 4.184178509: k_mig: pid=15 to=1
 n-191     1dls3. 4.184182335: k_lablk: pid=15 now=4190166016
 n-192     0d.h1. 4.184262274: k_lacfs: cfs=0x17c0 now=4194092616 cpu=0 la=3447 ra=933 ua=757 c=4194092616 ct=4194092616
 n-191     1dls4. 4.184264000: k_enq: pid=15 fl=0x449 ct=4194241188 c=4194241188 cpu=1
";
        let acts: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
        let left = acts.iter().position(|act| *act == Act::LeaveLoad);
        assert!(left.is_some() && left < acts.iter().position(|act| *act == Act::Tick), "{acts:?}");
    }

    /// Of 6.12.117: CPU 1 was scheduling all through the end of a look at averages. What it brought up to date before was seen, so that the look
    /// ends after it, though the schedule stands where it ended.
    #[test]
    fn a_look_at_averages_ends_after_the_steps_during_which_it_ended() {
        let text = "\
cpus=4
 n-211     1d..2. 12.724094041: k_deq: pid=211 fl=0x9 ct=12680629802 c=12680629802 cpu=1
 n-211     1dN.2. 12.724208230: k_lase: pid=211 now=12680629802 cpu=1 la=473 ra=473 ua=178
 n-205     2..... 12.730289245: tracing_mark_write: schedlab: averages midway end
 n-211     1d..2. 12.732900000: sched_switch: prev_comm=n prev_pid=211 prev_prio=120 prev_state=S ==> next_comm=n next_pid=209 next_prio=120
";
        let acts: Vec<_> = steps(text).into_iter().map(|(act, by, _)| (act, by)).collect();
        assert_eq!(acts, [(Act::Schedule, 1), (Act::Mark, 2)]);
    }

    /// A tick stands where it began. A look that begins in its midst may still see what the tick has not brought up to date.
    #[test]
    fn a_look_at_averages_begins_before_the_steps_during_which_it_began() {
        let text = "\
cpus=4
 n-211     1d.h2. 12.724094041: k_tick: pid=211 ct=12680629802 c=12680629802 cpu=1
 n-205     2..... 12.724100000: tracing_mark_write: schedlab: averages midway
 n-211     1d.h2. 12.724208230: k_lase: pid=211 now=12680629802 cpu=1 la=473 ra=473 ua=178
";
        let acts: Vec<_> = steps(text).into_iter().map(|(act, by, _)| (act, by)).collect();
        assert_eq!(acts, [(Act::Mark, 2), (Act::Tick, 1)]);
    }

    /// Of 6.12.107: CPU 3 takes 222 off as 219, which slept there, wakes on CPU 1. Its load left as its averages were brought up to its
    /// queue's, which was before CPU 3 looked (970 of 1488 were gone there, and its share since); that CPU 3 idled, so that its own go on
    /// to what its clock would be, was seen after 222 was off.
    #[test]
    fn a_load_leaves_as_it_is_first_brought_up_to_date() {
        let text = "\
cpus=4
 n-222     3d..2. 24.347964312: k_deq: pid=222 fl=0x9 ct=24372028247 c=24372028247 cpu=3
 n-220     1d..3. 24.348028846: sched_migrate_task: comm=n pid=219 prio=120 orig_cpu=3 dest_cpu=1
 n-220     1d..3. 24.348032505: k_mig: pid=219 to=1
 n-220     1d..3. 24.348037776: k_lablk: pid=219 now=24371743744
 n-222     3d..2. 24.348058328: k_lase: pid=222 now=24372028247 cpu=3 la=430 ra=219 ua=209
 n-222     3d..2. 24.348065715: k_lacfs: cfs=0x60c0 now=24372028247 cpu=3 la=523 ra=309 ua=299 c=24372028247 ct=24372028247
 n-222     3d..2. 24.348075673: k_pnt: c=24372028247 ct=24372028247
 n-222     3d..2. 24.348097373: sched_switch: prev_comm=n prev_pid=222 prev_prio=123 prev_state=S ==> next_comm=swapper/3 next_pid=0 next_prio=120
 n-220     1d..3. 24.348176917: k_lablk: pid=219 now=24372243948
 n-220     1d..4. 24.348189516: k_enq: pid=219 fl=0x449 ct=24372252873 c=24372252873 cpu=1
";
        let left: Vec<Act> = steps(text).into_iter().map(|(act, ..)| act).collect();
        let time = Act::LeaveTime { from: Some(3), read: Read::Whole };
        assert_eq!(left, [time, Act::LeaveLoad, Act::Schedule, Act::Activate]);
    }

    /// Of 6.1.176: on a tick CPU 0 charges 170 as 169, which slept there, wakes on CPU 1. Its load left before the look; the queue's
    /// virtual time was read while it moved.
    #[test]
    fn a_virtual_time_is_read_after_the_charge_though_the_load_left_before_the_look() {
        let text = "\
cpus=4
 n-170     0d.h2. 22.528426138: k_tick: pid=170 ct=22547959651 c=22547959651 cpu=0
 n-170     0d.h2. 22.528437336: k_uc: cfs=0x1cc0 cse=0x4280 cmy=0x0 pid=170 vr=7689615682 xs=22547564887 ct=22547959651 cpu=0
 n-168     2d..3. 22.528443722: sched_migrate_task: comm=n pid=169 prio=120 orig_cpu=0 dest_cpu=1
 n-168     2d..3. 22.528447398: k_mig: pid=169 to=1
 n-168     2d..3. 22.528450718: k_lablk: pid=169 now=22547564544
 n-170     0d.h2. 22.528451463: sched_stat_runtime: comm=n pid=170 runtime=394764 vruntime=7690384195
 n-170     0d.h2. 22.528461232: k_lase: pid=170 now=22547959651 cpu=0 la=248 ra=484 ua=300
 n-170     0d.h2. 22.528473514: k_lacfs: cfs=0x1cc0 now=22547959651 cpu=0 la=256 ra=492 ua=306 c=22547959651 ct=22547959651
 n-168     2d..2. 22.528476661: k_deq: pid=168 fl=0x8 ct=22548018972 c=22548018972 cpu=2
";
        let left: Vec<_> = steps(text).into_iter().map(|(act, _, pid)| (act, pid)).collect();
        let time = Act::LeaveTime { from: Some(0), read: Read::Charging };
        let first = [(Act::LeaveLoad, Some(169)), (Act::Tick, Some(170)), (time, Some(169))];
        assert_eq!(left[..3], first);
    }

    /// Of 6.1.176: CPU 1 dequeues 154 from CPU 0's queue as 152, which slept there, wakes on CPU 3: 153, which runs, was charged, but 154,
    /// which held the queue's virtual time back, was not dequeued yet.
    #[test]
    fn a_virtual_time_is_read_before_a_dequeue_moves_it() {
        let text = "\
cpus=4
 <idle>-0  1d.s2. 13.820227126: k_deq: pid=154 fl=0x8 ct=13835870603 c=13835870603 cpu=0
 <idle>-0  1d.s2. 13.820235448: k_uc: cfs=0x1cc0 cse=0x4280 cmy=0x0 pid=153 vr=3892780013 xs=13832324501 ct=13835870603 cpu=0
 n-153     0dNh2. 13.820239281: sched_migrate_task: comm=n pid=152 prio=120 orig_cpu=0 dest_cpu=3
 <idle>-0  1d.s2. 13.820243000: sched_stat_runtime: comm=n pid=153 runtime=3546102 vruntime=3896326115
 n-153     0dNh2. 13.820244965: k_mig: pid=152 to=3
 <idle>-0  1d.s2. 13.820246021: k_lase: pid=154 now=13835870603 cpu=0 la=547 ra=547 ua=263
 n-153     0dNh2. 13.820249859: k_lablk: pid=152 now=13832324096
 <idle>-0  1d.s2. 13.820250811: k_lacfs: cfs=0x1cc0 now=13835870603 cpu=0 la=1202 ra=1202 ua=777 c=13835870603 ct=13835870603
 <idle>-0  1d.s2. 13.820263909: sched_migrate_task: comm=n pid=154 prio=120 orig_cpu=0 dest_cpu=1
 <idle>-0  1d.s2. 13.820268601: k_mig: pid=154 to=1
";
        let left: Vec<_> = steps(text).into_iter().map(|(act, _, pid)| (act, pid)).collect();
        let time = Act::LeaveTime { from: Some(0), read: Read::Charged };
        assert_eq!(left, [(Act::LeaveLoad, Some(152)), (Act::Detach, Some(154)), (time, Some(152))]);
    }

    /// Of 6.1.176: as CPU 1's tick lasts, 158 and then 153, which slept there, wake on CPU 0, the second by the first. Both loads were gone as the tick
    /// looked, so that it comes after 153 left; 158 was queued before that, and so left the virtual time to which the tick's charge had come.
    #[test]
    fn a_virtual_time_is_read_ahead_where_a_later_load_holds_the_charge_back() {
        let text = "\
cpus=2
 n-156     1d.h2. 7.140387257: k_tick: pid=156 ct=7151568798 c=7151568798 cpu=1
 n-156     1d.h2. 7.140434738: k_uc: cfs=0x1cc0 cse=0x4280 cmy=0x0 pid=156 vr=4618780276 xs=7151401848 ct=7151568798 cpu=1
 n-156     1d.h2. 7.140436620: sched_stat_runtime: comm=n pid=156 runtime=166950 vruntime=4618947226
 n-156     1d.h2. 7.140437492: k_lase: pid=156 now=7151568798 cpu=1 la=225 ra=225 ua=216 se=0x4280 my=0x0
 n-157     0d..3. 7.140467196: sched_migrate_task: comm=n pid=158 prio=120 orig_cpu=1 dest_cpu=0
 n-157     0d..3. 7.140469960: k_mig: pid=158 to=0
 n-157     0d..3. 7.140473085: k_lablk: pid=158 now=7151400960
 n-157     0d..4. 7.140481648: k_enq: pid=158 fl=0x49 ct=7151662378 c=7151662378 cpu=0
 n-158     0d..3. 7.140600386: sched_migrate_task: comm=n pid=153 prio=120 orig_cpu=1 dest_cpu=0
 n-158     0d..3. 7.140601217: k_mig: pid=153 to=0
 n-158     0d..3. 7.140602258: k_lablk: pid=153 now=7151400960
 n-158     0d..4. 7.140605223: k_enq: pid=153 fl=0x49 ct=7151786314 c=7151786314 cpu=0
 n-156     1d.h2. 7.140875698: k_lacfs: cfs=0x1cc0 now=7151568798 cpu=1 la=673 ra=672 ua=483 c=7151568798 ct=7151568798
";
        let left: Vec<_> = steps(text).into_iter().map(|(act, _, pid)| (act, pid)).collect();
        let time = |read| Act::LeaveTime { from: Some(1), read };
        let ahead = Read::Ahead { clock: 7_151_568_798, charging: false };
        let first = [(time(ahead), 158), (Act::LeaveLoad, 158), (Act::Activate, 158)];
        let second = [(Act::LeaveLoad, 153), (Act::Tick, 156), (time(Read::Whole), 153), (Act::Activate, 153)];
        let expected: Vec<_> = first.into_iter().chain(second).map(|(act, pid)| (act, Some(pid))).collect();
        assert_eq!(left, expected);
    }
}
