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
        let (before, charged) = self.least.get(&left).copied().unwrap_or_default();
        let least = if read == Read::Whole { self.sched.queue(left).min_vruntime } else { charged };
        self.sched.leave_virtual_time(task, least);
        if read == Read::Charging {
            self.either.insert(task, charged.0.wrapping_sub(before.0));
        }
    }

    /// Of a task that counted its virtual time from a queue that was just charged, where it is placed tells whether that was before it.
    pub(super) fn settle_time(&mut self, cpu: CpuId, task: TaskId, step: &[Entry<'a>]) {
        let Some(less) = self.either.remove(&task) else { return };
        let places = |entry: &&Entry<'a>| entry.what == What::Place && entry.pid() == Some(self.pid(task));
        let shown = step.iter().find(places).and_then(|entry| entry.record.number("vr"));
        let (queue, _) = self.sched.ids_of_group(self.sched.group_of(task), cpu);
        let least = self.sched.queue(queue).min_vruntime;
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
    /// may have come before: what it shows tells whether it did. What it did not see is put off until it is over.
    pub(super) fn put_off(&mut self, step: &[Entry<'a>]) -> Vec<Late> {
        let queues: BTreeSet<CfsRqId> = self.leaving.iter().map(|leaving| leaving.queue).collect();
        queues.into_iter().filter_map(|queue| self.put_off_queue(queue, step)).collect()
    }

    fn put_off_queue(&mut self, queue: CfsRqId, step: &[Entry<'a>]) -> Option<Late> {
        let looks = |entry: &&Entry<'a>| {
            let shown = || entry.record.number("cfs").and_then(|address| self.groups.queue(address));
            &*entry.record.event == "k_lacfs" && shown() == Some(queue)
        };
        let look = step.iter().find(looks)?.record;
        let (mine, others): (Vec<_>, Vec<_>) = self.leaving.drain(..).partition(|leaving| leaving.queue == queue);
        self.leaving = others;
        let open: Vec<Leaving> = mine.into_iter().filter(|leaving| look.line < leaving.until).collect();
        let all = self.sched.removed_of(queue);
        // In the order in which they were told, so that the last ones are seen last.
        for from in (0..=open.len()).rev() {
            let late = &open[from..];
            let seen = late.iter().fold(all, |all, leaving| minus(all, leaving.removed));
            self.sched.assume_removed(queue, seen);
            if self.shows(queue, look) {
                return (!late.is_empty()).then(|| Late { queue, leaving: late.to_vec() });
            }
        }
        self.sched.assume_removed(queue, all);
        None
    }

    /// Whether a look at a queue's averages shows ours.
    fn shows(&self, queue: CfsRqId, look: &Record) -> bool {
        self.sched.load_left_on(queue).is_none_or(|ours| {
            [("la", ours.load_avg), ("ra", ours.runnable_avg), ("ua", ours.util_avg)]
                .into_iter()
                .all(|(key, ours)| look.number(key).is_none_or(|kernels| kernels == ours))
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
            let put_off = engine.put_off(&[Entry::of(&look[0])]);
            assert_eq!(!put_off.is_empty(), late, "{shown}");
            let left = engine.sched.load_left_on(root).expect("it is tracked");
            assert_eq!((left.load_avg, left.util_avg), if late { (1202, 777) } else { (911, 575) }, "{shown}");
            engine.catch_up(put_off);
            assert_eq!(engine.sched.removed_of(root), removed, "{shown}");
        }
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
