//! Calls that write to a pipe or a socket and read from it: what they can move, and the time that takes.

use crate::channel::Channel;
use crate::price::Prices;
use crate::slabs::{Fetched, Slabs};
use crate::task::{Stage, Task};

/// What a write can move now, and the time that takes.
#[inline(always)]
pub(crate) fn plan_write(
    record: &mut Task,
    channel: &Channel,
    slabs: &mut Slabs,
    bytes: u32,
    reference: u64,
    prices: &Prices,
) -> u64 {
    let first = !record.slept && record.moved == 0;
    record.planned = channel.writable(bytes - record.moved, first);
    // What did not fit at first goes in within the same system call.
    let call = if record.moved == 0 { prices.write(channel.is_pipe()).saturating_add(reference) } else { 0 };
    let far = prices.far_first(channel, record.cpu);
    if record.planned == 0 {
        return plan_block(record, call, prices).saturating_add(far);
    }
    // A look at memory only where that costs anything.
    let fetched = if prices.fetches() { channel.fetch(record.planned, first, slabs) } else { Fetched::default() };
    let filled = prices.fill(channel, record.planned, record.cpu).saturating_add(far);
    plan_call(record, call, prices).saturating_add(filled).saturating_add(prices.fetch(fetched))
}

/// What a read can move now, and the time that takes.
#[inline(always)]
pub(crate) fn plan_read(
    record: &mut Task,
    channel: &Channel,
    slabs: &Slabs,
    bytes: u32,
    reference: u64,
    prices: &Prices,
) -> u64 {
    record.planned = channel.readable().min(bytes - record.moved);
    let call = prices.read(channel.is_pipe()).saturating_add(reference);
    let far = prices.far_first(channel, record.cpu);
    if record.planned == 0 {
        return plan_block(record, call, prices).saturating_add(far);
    }
    let drained = prices.drain(channel, record.planned, slabs, record.cpu).saturating_add(far);
    plan_call(record, call, prices).saturating_add(drained)
}

/// What of a call is still to be done, as it finds what it needs. A task that slept for that is in the call already.
#[inline(always)]
fn plan_call(record: &Task, call: u64, prices: &Prices) -> u64 {
    if record.slept && prices.sleeps_within_calls { prices.after_sleep(call) } else { call }
}

/// The same, as it does not find that, and going to sleep.
#[inline(always)]
fn plan_block(record: &mut Task, call: u64, prices: &Prices) -> u64 {
    record.stage = Stage::Block;
    prices.to_sleep(if record.slept && prices.sleeps_within_calls { 0 } else { call })
}
