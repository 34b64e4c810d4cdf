//! The records of each CPU, with the queue that each record of a real-time or deadline task is about.
//!
//! The probes of these classes name no CPU. A task is queued where it was last moved or switched in, in the order of the records.

use std::collections::BTreeMap;

use schedlab_trace::{Pid, Record, RecordKind};

use crate::read::flags::is_soft;
use crate::read::section::{Entry, Of, What};

/// What each of `cpus` CPUs recorded.
pub(crate) fn streams_of(records: &[Record], cpus: u32) -> Vec<Vec<Entry<'_>>> {
    let mut streams: Vec<Vec<Entry<'_>>> = vec![Vec::new(); cpus as usize];
    let mut places: BTreeMap<Pid, u32> = BTreeMap::new();
    for record in records.iter().filter(|record| !is_of_real_time(record)) {
        let entry = Entry::of(record);
        if let Some((pid, cpu)) = place(&entry) {
            places.insert(pid, cpu);
        }
        let queue = match entry.what {
            What::Enqueue(Of::Rt | Of::Deadline) | What::Dequeue(Of::Rt | Of::Deadline) => {
                entry.pid().and_then(|pid| places.get(&pid)).filter(|cpu| **cpu < cpus)
            }
            _ => None,
        };
        streams[record.cpu as usize].push(queue.map_or(entry, |cpu| Entry::on(record, *cpu)));
    }
    streams
}

/// The task that a record tells the CPU of, and that CPU.
fn place(entry: &Entry<'_>) -> Option<(Pid, u32)> {
    match &entry.record.kind {
        RecordKind::Migrate { task, to, .. } => Some((task.pid, *to)),
        RecordKind::Switch { next, .. } if next.pid != 0 => Some((next.pid, entry.record.cpu)),
        RecordKind::Wakeup { target, .. } | RecordKind::WakeupNew { target, .. } => Some((entry.pid()?, *target)),
        _ => match entry.what {
            What::Enqueue(Of::Fair) | What::Dequeue(Of::Fair) => Some((entry.pid()?, entry.queue()? as u32)),
            _ if &*entry.record.event == "k_snapq" => Some((entry.pid()?, entry.queue()? as u32)),
            _ => None,
        },
    }
}

/// Whether averages of real-time tasks are brought up to date as such a task comes or goes: no balancing.
fn is_of_real_time(record: &Record) -> bool {
    &*record.event == "k_balance" && !is_soft(record.flags.context)
}

#[cfg(test)]
mod tests {
    use schedlab_trace::Reader;

    use super::*;
    use crate::read::steps::queue_of;

    /// Of 6.12.117: CPU 1 pushes 203 to CPU 0 (`push_rt_task`), which pushes it back later while CPU 1 records nothing. Each dequeue is of the
    /// CPU that the task is moved from, each enqueue of the one that it is moved to.
    #[test]
    fn a_pushed_real_time_task_is_queued_where_it_is_moved_to() {
        let text = "\
cpus=2
 n-202     1d..2. 5.498062868: sched_switch: prev_comm=n prev_pid=202 prev_prio=120 prev_state=R+ ==> next_comm=n next_pid=203 next_prio=65
 n-201     1d..3. 5.500067829: k_rtdeq: pid=203 fl=0x0 prio=65 ts=25 ct=5509773017 c=5509773017
 n-201     1d..3. 5.500132996: sched_migrate_task: comm=urgent pid=203 prio=65 orig_cpu=1 dest_cpu=0
 n-201     1d..3. 5.500146677: k_rtenq: pid=203 fl=0x40 prio=65 ts=25 ct=5509919356 c=5509919356
 n-200     0d..3. 5.836489845: k_rtdeq: pid=203 fl=0x0 prio=65 ts=9 ct=5846246950 c=5846246950
 n-200     0d..3. 5.836511658: sched_migrate_task: comm=urgent pid=203 prio=65 orig_cpu=0 dest_cpu=1
 n-200     0d..3. 5.836522004: k_rtenq: pid=203 fl=0x40 prio=65 ts=9 ct=5846294622 c=5846294622
";
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines");
        let queues = |cpu: usize| -> Vec<usize> {
            let own = &streams_of(&records, 2)[cpu];
            let about = own.iter().filter(|entry| matches!(entry.what, What::Enqueue(_) | What::Dequeue(_)));
            about.map(|entry| queue_of(&[*entry], cpu, 2)).collect()
        };
        assert_eq!((queues(1), queues(0)), (vec![1, 0], vec![0, 1]));
    }
}
