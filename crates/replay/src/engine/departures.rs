//! Tasks that leave a queue's account without its lock: those that wake elsewhere, and those that ended.

use std::collections::BTreeSet;

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::{CfsRqId, EntityId, Vruntime};
use schedlab_trace::Record;

use super::Engine;
use crate::read::section::{Entry, What};
use crate::read::steps::Read;

/// What is about to be taken out of a queue's averages: tasks, their load, utilisation and runnable time.
type Removed = (u32, u64, u64, u64);

/// `min_vruntime` before the running task is charged, and after that.
pub(super) type Least = (Vruntime, Vruntime);

/// How a queue stands before a charge: what runs, and the least virtual time of the queue and of what waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeforeCharge {
    queue: CfsRqId,
    runs: EntityId,
    least: Vruntime,
    waits: Option<Vruntime>,
}

/// A load that leaves a queue's account, some time before the line `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    queue: CfsRqId,
    until: u64,
    removed: Removed,
}

/// What a step has not seen leave yet, of one queue.
#[derive(Debug, Clone)]
pub(super) struct Late {
    queue: CfsRqId,
    leaving: Vec<Leaving>,
}

impl<'a> Engine<'a> {
    /// The task that wakes on another CPU, and that CPU. Only a sleeping task counts: one that is moved while it is queued leaves its
    /// queue by the move.
    fn migrant(&self, record: &Record) -> Option<(TaskId, CpuId)> {
        let task =
            record.number("pid").and_then(|pid| self.task_of(pid as u32)).filter(|task| *task != TaskId::IDLE)?;
        let to = record.number("to").filter(|to| (*to as usize) < self.cpus.len())?;
        let asleep = !self.detached.contains(&task) && !self.sched.entity(task).on_rq;
        asleep.then_some((task, CpuId(to as u32)))
    }

    /// `migrate_task_rq_fair` of a task that wakes.
    pub(super) fn migrate(&mut self, step: &[Entry<'a>]) {
        if let Some((task, to)) = step.first().and_then(|first| self.migrant(first.record)) {
            self.sched.migrate_waking(task, to);
            self.migrating.insert(task);
        }
    }

    /// The first part of that: its virtual time.
    pub(super) fn leave_time(&mut self, step: &[Entry<'a>], from: Option<usize>, read: Read) {
        let Some((task, _)) = step.first().and_then(|first| self.migrant(first.record)) else { return };
        let from = from.filter(|from| *from < self.cpus.len()).map(|from| CpuId(from as u32));
        let from = from.unwrap_or_else(|| self.sched.task_cpu(task));
        let (left, _) = self.sched.ids_of_group(self.sched.group_of(task), from);
        let now = self.sched.queue(left).min_vruntime;
        let (before, charged) = match read {
            Read::Ahead { clock, .. } => (now, self.sched.least_once_charged(left, clock)),
            _ => self.least.get(&left).copied().unwrap_or_default(),
        };
        let least = if read == Read::Whole { now } else { charged };
        self.sched.leave_virtual_time(task, least);
        if matches!(read, Read::Charging | Read::Ahead { charging: true, .. }) {
            self.either.insert(task, charged.0.wrapping_sub(before.0));
        }
    }

    /// Of a task that counted its virtual time from a queue that was just charged, where it is placed tells whether that was before it.
    pub(super) fn settle_time(&mut self, cpu: CpuId, task: TaskId, step: &[Entry<'a>]) {
        let Some(less) = self.either.remove(&task) else { return };
        let places = |entry: &&Entry<'a>| entry.what == What::Place && entry.pid() == Some(self.pid(task));
        let shown = step.iter().find(places).and_then(|entry| entry.record.number("vr"));
        let (queue, _) = self.sched.ids_of_group(self.sched.group_of(task), cpu);
        // What runs there is charged before the task is placed.
        let least = self.sched.least_once_charged(queue, self.cpus[cpu.index()].clocks.clock_task.as_nanos());
        let entity = self.sched.entity_mut(task);
        if shown == Some(entity.vruntime.plus(least.0).plus(less).0) {
            entity.vruntime = entity.vruntime.plus(less);
        }
    }

    /// How queues stand before a step that charges what runs there (CFS).
    pub(super) fn before_charge(&self, step: &[Entry<'a>]) -> Vec<BeforeCharge> {
        let mut charged: Vec<BeforeCharge> = Vec::new();
        if self.eevdf() || self.alone() {
            return charged;
        }
        for entry in step.iter().filter(|entry| entry.what == What::UpdateCurr) {
            let queue = entry.record.number("cfs").and_then(|address| self.groups.queue(address));
            let Some(queue) = queue.filter(|queue| charged.iter().all(|known| known.queue != *queue)) else { continue };
            let own = self.sched.queue(queue);
            let Some(runs) = own.curr else { continue };
            let waits = own.timeline.first().map(|first| self.sched.entity_at(first).vruntime);
            charged.push(BeforeCharge { queue, runs, least: own.min_vruntime, waits });
        }
        charged
    }

    /// `update_min_vruntime` of those charges: what a step takes off after them counted as well.
    pub(super) fn note_charge(&mut self, before: Vec<BeforeCharge>) {
        for BeforeCharge { queue, runs, least, waits } in before {
            let runs = self.sched.entity_at(runs).vruntime;
            let charged = least.max(waits.map_or(runs, |waits| waits.min(runs)));
            self.least.insert(queue, (least, charged));
        }
    }

    /// The second: what its averages are brought up to shows the times that were read, its queue's and then, if that CPU idles, the
    /// clock's. A task that ended is looked at once; of one that lives that is a look at its load.
    pub(super) fn leave_load(&mut self, step: &[Entry<'a>]) {
        let Some(first) = step.first().map(|entry| entry.record) else { return };
        let mut shown = step.iter().filter_map(|entry| entry.record.number("now"));
        let Some(updated) = shown.next() else { return };
        let migrant = self.migrant(first);
        let task = migrant.map(|(task, _)| task).or_else(|| self.dead.remove(&(first.number("pid")? as u32)));
        let Some(task) = task else { return };
        let queue = self.sched.entity(task).cfs_rq;
        let before = self.sched.removed_of(queue);
        match migrant {
            Some((_, to)) => {
                self.sched.migrate_load(task, to, updated, shown.next());
                self.migrating.insert(task);
            }
            None => self.sched.task_dead_at(task, updated),
        }
        let removed = minus(self.sched.removed_of(queue), before);
        // It has left by what the CPU does next; an interrupt may come before.
        let looks = step.iter().filter(|entry| entry.record.number("now").is_some());
        let next = looks.skip(1).chain(self.ahead).find(|next| next.record.flags.context == first.flags.context);
        let until = next.map_or(u64::MAX, |next| next.record.line);
        self.leaving.push(Leaving { queue, until, removed });
    }

    /// A load leaves between the record that tells so and the next one of that CPU. A queue's look at what left that lies between, too,
    /// may have come before: what it shows tells whether it did. The look itself lies between its record and the one before of that CPU, in its step
    /// or, where it begins that, `before`. What it did not see is put off until it is over.
    pub(super) fn put_off(&mut self, step: &[Entry<'a>], before: Option<&Entry<'a>>) -> Vec<Late> {
        let queues: BTreeSet<CfsRqId> = self.leaving.iter().map(|leaving| leaving.queue).collect();
        queues.into_iter().filter_map(|queue| self.put_off_queue(queue, step, before)).collect()
    }

    fn put_off_queue(&mut self, queue: CfsRqId, step: &[Entry<'a>], before: Option<&Entry<'a>>) -> Option<Late> {
        let looks = |entry: &&Entry<'a>| {
            let shown = || entry.record.number("cfs").and_then(|address| self.groups.queue(address));
            &*entry.record.event == "k_lacfs" && shown() == Some(queue)
        };
        let at = step.iter().position(|entry| looks(&entry))?;
        let look = step[at].record;
        // It takes out what left, and then tells of itself, some time after what it told before.
        let since = step[..at].last().or(before).map_or(look, |before| before.record).line;
        let (mine, others): (Vec<_>, Vec<_>) = self.leaving.drain(..).partition(|leaving| leaving.queue == queue);
        self.leaving = others;
        let open: Vec<Leaving> = mine.into_iter().filter(|leaving| since < leaving.until).collect();
        let all = self.sched.removed_of(queue);
        // In the order in which they were told, so that the last ones are seen last. Our averages may be off by what truncation in another order
        // makes, so that the nearest ones count.
        let (mut nearest, mut seen) = (u64::MAX, all);
        let mut late: &[Leaving] = &[];
        for from in (0..=open.len()).rev() {
            let removed = open[from..].iter().fold(all, |all, leaving| minus(all, leaving.removed));
            self.sched.assume_removed(queue, removed);
            let distance = self.distance(queue, look);
            if distance < nearest {
                (nearest, seen, late) = (distance, removed, &open[from..]);
            }
        }
        self.sched.assume_removed(queue, seen);
        (!late.is_empty()).then(|| Late { queue, leaving: late.to_vec() })
    }

    /// How far our averages of a queue are from those that a look at them shows, in all.
    fn distance(&self, queue: CfsRqId, look: &Record) -> u64 {
        self.sched.load_left_on(queue).map_or(0, |ours| {
            [("la", ours.load_avg), ("ra", ours.runnable_avg), ("ua", ours.util_avg)]
                .into_iter()
                .filter_map(|(key, ours)| look.number(key).map(|kernels| kernels.abs_diff(ours)))
                .sum()
        })
    }

    /// What was put off has left now.
    pub(super) fn catch_up(&mut self, late: Vec<Late>) {
        for Late { queue, leaving } in late {
            let now = self.sched.removed_of(queue);
            let all = leaving.iter().fold(now, |all, leaving| plus(all, leaving.removed));
            self.sched.assume_removed(queue, all);
            self.leaving.extend(leaving);
        }
    }
}

fn minus(all: Removed, one: Removed) -> Removed {
    (all.0.saturating_sub(one.0), all.1.saturating_sub(one.1), all.2.saturating_sub(one.2), all.3.saturating_sub(one.3))
}

fn plus(all: Removed, one: Removed) -> Removed {
    (all.0 + one.0, all.1 + one.1, all.2 + one.2, all.3 + one.3)
}

#[cfg(test)]
mod tests {
    use schedlab_model::Attributes;
    use schedlab_sched::GroupId;
    use schedlab_sched::pelt::SchedAvg;
    use schedlab_trace::Reader;

    use super::*;
    use crate::level::Level;
    use crate::report::Report;
    use crate::settings::Settings;

    const CPU0: CpuId = CpuId(0);
    const CPU1: CpuId = CpuId(1);
    /// The address of the first CPU's root queue.
    const ROOT0: u64 = 0x1cc0;

    fn records(text: &str) -> Vec<Record> {
        let records: Vec<Record> =
            Reader::new(format!("cpus=2\n{text}").as_bytes()).collect::<Result<_, _>>().expect("lines");
        assert!(!records.is_empty(), "{text}");
        records
    }

    /// Two CPUs of 6.1, and a task that sleeps on the first.
    fn two_cpus(settings: &Settings) -> (Engine<'_>, TaskId) {
        let first = &records(" n-1     0d..1. 1.000000000: k_pnt: c=1 ct=1\n")[0];
        let report = Report::of(first, first, Level::L1, 1, settings);
        let mut engine = Engine::new(settings, settings.rules(), 2, report);
        let task = engine.add(152, &Attributes::default(), GroupId::ROOT);
        engine.sched.assume_asleep(task, CPU0);
        let root = engine.sched.root_queue(CPU0);
        engine.groups.queues.insert(ROOT0, root);
        (engine, task)
    }

    /// A task runs on a CPU, alone so far, at a virtual time and charged up to `since`.
    fn run(engine: &mut Engine<'_>, cpu: CpuId, task: TaskId, vruntime: Vruntime, since: u64) {
        engine.sched.assume_asleep(task, cpu);
        engine.sched.decider.expect_nothing();
        engine.sched.try_to_wake_up(task, cpu);
        engine.sched.decider.expect_picks([task]);
        engine.sched.schedule(cpu, schedlab_model::TaskState::Running);
        let entity = engine.sched.entity_mut(task);
        (entity.vruntime, entity.exec_start) = (vruntime, since);
        engine.sched.cfs_rq_mut(cpu).min_vruntime = vruntime;
    }

    fn settings() -> Settings {
        Settings::defaults("6.1".parse().expect("a release")).expect("known")
    }

    /// Of 6.1.176: a load of 291 (utilisation 202) left CPU 0's queue between 13.820249859, when it was brought up to date, and
    /// 13.820274302, what that CPU did next. A look at 13.820250811 showed 1202 and 777: it had not left yet, and what ours has left at
    /// once, 911 and 575, comes after that look. Had it shown 911 and 575 it had left; nothing is put off for anything else, nor for a
    /// look after what the CPU did next.
    #[test]
    fn a_look_shows_whether_a_load_had_left_that_was_just_leaving() {
        let settings = settings();
        let look = |shown: &str| {
            let line = format!(
                " n-0     1d.s2. 13.820250811: k_lacfs: cfs=0x1cc0 now=13835870603 cpu=0 {shown} c=13835870603 ct=13835870603\n"
            );
            records(&line)
        };
        let removed = (1, 291, 202, 291);
        for (shown, next, late) in [
            ("la=1202 ra=1202 ua=777", 10, true),
            ("la=911 ra=911 ua=575", 10, false),
            ("la=1000 ra=1000 ua=600", 10, false),
            ("la=1202 ra=1202 ua=777", 1, false),
        ] {
            let (mut engine, _) = two_cpus(&settings);
            let avg = SchedAvg { load_avg: 1202, runnable_avg: 1202, util_avg: 777, ..SchedAvg::default() };
            engine.sched.assume_queue_load(CPU0, avg, removed);
            let root = engine.groups.queue(ROOT0).expect("the first CPU's");
            engine.leaving.push(Leaving { queue: root, until: next, removed });
            let look = look(shown);
            let put_off = engine.put_off(&[Entry::of(&look[0])], None);
            assert_eq!(!put_off.is_empty(), late, "{shown}");
            let left = engine.sched.load_left_on(root).expect("it is tracked");
            assert_eq!((left.load_avg, left.util_avg), if late { (1202, 777) } else { (911, 575) }, "{shown}");
            engine.catch_up(put_off);
            assert_eq!(engine.sched.removed_of(root), removed, "{shown}");
        }
    }

    /// Of 6.1.176: on a tick that lasted 0.5 ms CPU 1, here CPU 0, told of 156's averages, then a load left (450 of 1045, and 440 of 888 in utilisation),
    /// and only then the tick told of the queue's: still 1045 and 888. So it had looked before the load left. Had that left before the tick told of
    /// 156, nothing were put off.
    #[test]
    fn a_look_lies_between_its_record_and_the_one_before() {
        let settings = settings();
        let told = records(
            " n-156     0d.h2. 9.464508000: k_lase: pid=156 now=9475678023 cpu=0 la=210 ra=210 ua=204
 n-156     0d.h2. 9.465000000: k_lacfs: cfs=0x1cc0 now=9475678023 cpu=0 la=1045 ra=1045 ua=888 c=9475678023 ct=9475678023\n",
        );
        let [task, look] = [told[0].line, told[1].line];
        assert!(task < look);
        let removed = (1, 450, 440, 450);
        for (until, late) in [(look, true), (task, false)] {
            let (mut engine, _) = two_cpus(&settings);
            let avg = SchedAvg { load_avg: 1045, runnable_avg: 1045, util_avg: 888, ..SchedAvg::default() };
            engine.sched.assume_queue_load(CPU0, avg, removed);
            let queue = engine.groups.queue(ROOT0).expect("the first CPU's");
            engine.leaving.push(Leaving { queue, until, removed });
            let step: Vec<Entry<'_>> = told.iter().map(Entry::of).collect();
            assert_eq!(!engine.put_off(&step, None).is_empty(), late, "{until}");
        }
    }

    /// Of 6.12.117: CPU 0 told that it balances (k_balance), 217's load left (469, 363 and 257 of 827, 632 and 505), was queued on CPU 1, and only then
    /// CPU 0 told of its queue's averages: still 827. It had brought those up to date since it told that it balances. Had it told that once 217 was
    /// queued, the load had left before; and nothing is known where it told nothing before.
    #[test]
    fn a_look_that_begins_a_step_lies_after_what_its_cpu_told_before() {
        let settings = settings();
        let told = records(
            " n-215     0d.s1. 13.308145573: k_balance: cpu=0 j=4294895577 ib=0 nb=4294895577 lb=4294895576 bi=2 bf=0 lb1=0 bi1=0 bf1=0
 n-216     1d..4. 13.308174683: k_enq: pid=217 fl=0x449 ct=13318918839 c=13318918839 cpu=1
 n-215     0d.s1. 13.308175308: k_lacfs: cfs=0x1cc0 now=13318889709 cpu=0 la=827 ra=632 ua=505 c=13318889709 ct=13318889709\n",
        );
        let [balances, queued, look] = [0, 1, 2].map(|at| Entry::of(&told[at]));
        let removed = (1, 469, 257, 363);
        for (before, late) in [(Some(&balances), true), (Some(&queued), false), (None, false)] {
            let (mut engine, _) = two_cpus(&settings);
            let avg = SchedAvg { load_avg: 827, runnable_avg: 632, util_avg: 505, ..SchedAvg::default() };
            engine.sched.assume_queue_load(CPU0, avg, removed);
            let queue = engine.groups.queue(ROOT0).expect("the first CPU's");
            engine.leaving.push(Leaving { queue, until: told[1].line, removed });
            let step = [Entry::of(look.record)];
            assert_eq!(!engine.put_off(&step, before).is_empty(), late, "{before:?}");
        }
    }

    /// A queue's averages may be off by what truncation in another order makes. The same look at 827, 632 and 505 by ours of 826, 632 and 504 still
    /// tells that 469 had not left, rather than that it had.
    #[test]
    fn what_a_look_shows_need_not_be_ours_to_the_last_unit() {
        let settings = settings();
        let look = records(
            " n-215     0d.s1. 13.308175308: k_lacfs: cfs=0x1cc0 now=13318889709 cpu=0 la=827 ra=632 ua=505 c=13318889709 ct=13318889709\n",
        );
        let (mut engine, _) = two_cpus(&settings);
        let avg = SchedAvg { load_avg: 826, runnable_avg: 632, util_avg: 504, ..SchedAvg::default() };
        let removed = (1, 469, 257, 363);
        engine.sched.assume_queue_load(CPU0, avg, removed);
        let queue = engine.groups.queue(ROOT0).expect("the first CPU's");
        engine.leaving.push(Leaving { queue, until: u64::MAX, removed });
        assert!(!engine.put_off(&[Entry::of(&look[0])], None).is_empty());
        assert_eq!(engine.sched.removed_of(queue).0, 0);
    }

    /// Of 6.1.176: 153 ended on CPU 0, a tick came after it had read what its queue's averages are of (21984571392) and brought those up
    /// to 21987039241. So its load left as it was before that tick: as ours is, which is of that very time.
    #[test]
    fn the_load_of_who_ended_is_of_the_time_that_was_read() {
        let settings = settings();
        let (mut engine, task) = two_cpus(&settings);
        let now = 21_984_571_392;
        let avg =
            SchedAvg { last_update_time: now, load_avg: 500, runnable_avg: 490, util_avg: 400, ..SchedAvg::default() };
        engine.sched.assume_load(task, avg);
        engine.sched.assume_queue_load(
            CPU0,
            SchedAvg { last_update_time: 21_987_039_241 & !1023, ..avg },
            (0, 0, 0, 0),
        );
        engine.dead.insert(153, task);
        let dead = records(" n-151     0...1. 22.034401675: k_lablk: pid=153 now=21984571392\n");
        engine.leave_load(&[Entry::of(&dead[0])]);
        let root = engine.groups.queue(ROOT0).expect("the first CPU's");
        assert_eq!(engine.sched.removed_of(root), (1, 500, 400, 490));
    }

    /// Of 6.1.176: 170 alone was on CPU 0's queue, whose virtual time its charge moved from 7689615682 to 7690384195, as 169 left it for
    /// CPU 1's, of 8557338019. It was placed at 8552313349, 5024670 before that one's: so it had been at 7685359525, counted from after
    /// the charge. Counted from before it, it were placed 768513 later, and the recording would show that.
    #[test]
    fn where_a_task_is_placed_tells_which_virtual_time_it_read() {
        let settings = settings();
        let (before, after) = (Vruntime(7_689_615_682), Vruntime(7_690_384_195));
        for (shown, less) in [(8_552_313_349_u64, after), (8_552_313_349 + 768_513, before)] {
            let (mut engine, task) = two_cpus(&settings);
            engine.sched.entity_mut(task).vruntime = Vruntime(7_685_359_525);
            engine.sched.cfs_rq_mut(CPU1).min_vruntime = Vruntime(8_557_338_019);
            let root = engine.groups.queue(ROOT0).expect("the first CPU's");
            engine.least.insert(root, (before, after));
            let moves = records(" n-168     2d..3. 22.528447398: k_mig: pid=152 to=1\n");
            engine.leave_time(&[Entry::of(&moves[0])], Some(0), Read::Charging);
            let line = format!(
                " n-0     1d.h2. 22.528610303: k_place: pid=152 vr={shown} minv=8557338019 init=0 se=0x0 my=0x0 cfs=0x1cc0\n"
            );
            let placed = records(&line);
            engine.settle_time(CPU1, task, &[Entry::of(&placed[0])]);
            assert_eq!(engine.sched.entity(task).vruntime, Vruntime(7_685_359_525).minus(less.0), "{shown}");
        }
    }

    /// Of 6.1.176: the charge of 156 moved CPU 1's virtual time from 4887077164 to 4887107489 as 158, at 4887032035, left it for CPU 0, where 157 ran
    /// since 8019722426 at 3302699421. 158 was queued at 8019800668, after 157 was charged the 78242 ns: at 3302732534, 45129 before 157, as far as it
    /// was before the first of the two. Here it leaves CPU 0 for CPU 1.
    #[test]
    fn where_a_task_is_placed_counts_from_the_charge_there() {
        let settings = settings();
        let (before, after) = (Vruntime(4_887_077_164), Vruntime(4_887_107_489));
        let (mut engine, task) = two_cpus(&settings);
        let runs = engine.add(157, &Attributes::default(), GroupId::ROOT);
        run(&mut engine, CPU1, runs, Vruntime(3_302_699_421), 8_019_722_426);
        engine.sched.entity_mut(task).vruntime = Vruntime(4_887_032_035);
        let root = engine.groups.queue(ROOT0).expect("the first CPU's");
        engine.least.insert(root, (before, after));
        let moves = records(" n-157     0d..3. 8.008615147: k_mig: pid=152 to=1\n");
        engine.leave_time(&[Entry::of(&moves[0])], Some(0), Read::Charging);
        engine.cpus[1].clocks = schedlab_sched::Clocks::all(schedlab_model::Time::from_nanos(8_019_800_668));
        let placed = records(
            " n-157     0d..4. 8.008631031: k_place: pid=152 vr=3302732534 minv=3302777663 init=0 se=0x0 my=0x0 cfs=0x1cc0\n",
        );
        engine.settle_time(CPU1, task, &[Entry::of(&placed[0])]);
        assert_eq!(engine.sched.entity(task).vruntime, Vruntime(3_302_732_534).minus(3_302_777_663));
    }

    /// The same charge of 170, whose nice level is 3, where it comes later here: 394764 ns at a weight of 526 are 768513 of virtual time. Where another
    /// task waits before 170 the queue's virtual time stays with that one. The charge itself is not made.
    #[test]
    fn a_virtual_time_read_ahead_is_the_one_to_which_the_charge_will_come() {
        let settings = settings();
        let (before, after) = (Vruntime(7_689_615_682), Vruntime(7_690_384_195));
        for (waits, least) in [(false, after), (true, before)] {
            let (mut engine, task) = two_cpus(&settings);
            let attributes = Attributes { nice: 3, ..Attributes::default() };
            let [runs, other] = [170, 171].map(|pid| engine.add(pid, &attributes, GroupId::ROOT));
            run(&mut engine, CPU0, runs, before, 22_547_564_887);
            if waits {
                engine.sched.assume_asleep(other, CPU0);
                engine.sched.entity_mut(other).vruntime = before;
                engine.sched.decider.expect_nothing();
                engine.sched.try_to_wake_up(other, CPU0);
            }
            engine.sched.entity_mut(task).vruntime = Vruntime(7_685_359_525);
            let moves = records(" n-168     2d..3. 22.528447398: k_mig: pid=152 to=1\n");
            let read = Read::Ahead { clock: 22_547_959_651, charging: false };
            engine.leave_time(&[Entry::of(&moves[0])], Some(0), read);
            assert_eq!(engine.sched.entity(task).vruntime, Vruntime(7_685_359_525).minus(least.0), "{waits}");
            assert_eq!(engine.sched.entity(runs).vruntime, before);
        }
    }

    /// `update_min_vruntime`: the least of the running and the waiting task, but never back. Of 6.1.176: 153 went from 3892780013 to
    /// 3896326115 while 154 waited at 3892780013, before CPU 1 dequeued 154: the charge left the queue's `min_vruntime` where it was. With
    /// no task waiting the charge moves it.
    #[test]
    fn a_charge_moves_min_vruntime_up_to_the_first_waiting_task() {
        let settings = settings();
        let (least, runs) = (Vruntime(3_892_780_013), Vruntime(3_896_326_115));
        for (waits, charged) in
            [(Some(least), least), (None, runs), (Some(least.minus(5)), least), (Some(least.plus(9)), least.plus(9))]
        {
            let (mut engine, task) = two_cpus(&settings);
            engine.sched.entity_mut(task).vruntime = runs;
            let queue = engine.groups.queue(ROOT0).expect("the first CPU's");
            let runs = engine.sched.task(task).se;
            engine.note_charge(vec![BeforeCharge { queue, runs, least, waits }]);
            assert_eq!(engine.least[&queue], (least, charged), "{waits:?}");
        }
    }
}
