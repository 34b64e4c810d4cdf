//! Costs that a calibration could not measure, and how often a run would have charged them.

use std::cell::Cell;

use schedlab_model::{Costs, ModelError, Time};

/// Costs between CPUs, whose charges are counted where they are unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Between {
    WakeupRemote,
    Ipi,
    IpiIdle,
    IpiTaken,
    IdleExit,
    TickRestart,
    Migration,
}

impl Between {
    /// Their names, in the order of the variants.
    const NAMES: [&'static str; 7] =
        ["wakeup_remote", "ipi", "ipi_idle", "ipi_taken", "idle_exit", "tick_restart", "migration"];
}

/// Costs that were not measured. Those between CPUs are counted as they would be charged; of the others, which every run may need, it is not
/// known how often.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unknown {
    /// By [`Between`], a bit each.
    between: u8,
    charged: [Cell<u64>; Between::NAMES.len()],
    others: Vec<String>,
}

impl Unknown {
    /// # Errors
    /// [`ModelError::Machine`] for a name that is no cost's.
    pub(crate) fn new(names: &[String]) -> Result<Self, ModelError> {
        let known = named(&Costs::ideal()).map(|(name, _)| name);
        let mut unknown = Self::default();
        for name in names {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(ModelError::Machine(format!("costs.unknown: no cost is called '{name}'; costs: {known}")));
            }
            match Between::NAMES.iter().position(|between| between == name) {
                Some(place) => unknown.between |= 1 << place,
                None => unknown.others.push(name.clone()),
            }
        }
        Ok(unknown)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.between == 0
    }

    #[inline]
    pub(crate) fn charge(&self, cost: Between) {
        if self.between >> cost as u8 & 1 == 1 {
            let charged = &self.charged[cost as usize];
            charged.set(charged.get() + 1);
        }
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let between = Between::NAMES.iter().zip(&self.charged).filter(|(_, charged)| charged.get() > 0);
        let counted = between.map(|(name, charged)| {
            let times = match charged.get() {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!("the cost {name} is unknown: this run needed it {times} and counted it as nothing")
        });
        let others = self.others.iter().map(|name| format!("the cost {name} is unknown and counts as nothing"));
        counted.chain(others).collect()
    }
}

/// All costs with their names.
pub(crate) fn named(costs: &Costs) -> [(&'static str, Time); 72] {
    [
        ("switch", costs.switch),
        ("schedule", costs.schedule),
        ("put_prev", costs.put_prev),
        ("cache_refill", costs.cache_refill),
        ("cache_refill_limit", costs.cache_refill_limit),
        ("cache_refill_llc", costs.cache_refill_llc),
        ("wakeup", costs.wakeup),
        ("wakeup_preempt", costs.wakeup_preempt),
        ("wakeup_select", costs.wakeup_select),
        ("lingering", costs.lingering),
        ("wakeup_remote", costs.wakeup_remote),
        ("wakeup_far", costs.wakeup_far),
        ("schedule_far", costs.schedule_far),
        ("ipi", costs.ipi),
        ("ipi_idle", costs.ipi_idle),
        ("ipi_halted", costs.ipi_halted),
        ("ipi_taken", costs.ipi_taken),
        ("idle_exit", costs.idle_exit),
        ("halt_exit", costs.halt_exit),
        ("halt_deeper", costs.halt_deeper),
        ("idle_charged", costs.idle_charged),
        ("idle_switch", costs.idle_switch),
        ("tick_restart", costs.tick_restart),
        ("tick", costs.tick),
        ("steal", costs.steal),
        ("steal_period", costs.steal_period),
        ("system_call", costs.system_call),
        ("pipe_write", costs.pipe_write),
        ("pipe_read", costs.pipe_read),
        ("socket_write", costs.socket_write),
        ("socket_read", costs.socket_read),
        ("pipe_empty", costs.pipe_empty),
        ("pipe_far", costs.pipe_far),
        ("pipe_far_message", costs.pipe_far_message),
        ("socket_far", costs.socket_far),
        ("socket_far_write", costs.socket_far_write),
        ("socket_far_read", costs.socket_far_read),
        ("file_reference", costs.file_reference),
        ("copy_per_kib", costs.copy_per_kib),
        ("copy_far_per_kib", costs.copy_far_per_kib),
        ("skb_per_kib", costs.skb_per_kib),
        ("slab", costs.slab),
        ("slab_free", costs.slab_free),
        ("page", costs.page),
        ("page_free", costs.page_free),
        ("block", costs.block),
        ("sleep_timer", costs.sleep_timer),
        ("next_timer", costs.next_timer),
        ("interrupt", costs.interrupt),
        ("timer_taken", costs.timer_taken),
        ("timer_switch", costs.timer_switch),
        ("futex_wake", costs.futex_wake),
        ("futex_wait", costs.futex_wait),
        ("clock", costs.clock),
        ("migration", costs.migration),
        ("balance", costs.balance),
        ("newidle", costs.newidle),
        ("operation", costs.operation),
        ("compute", costs.compute),
        ("tcp_connect", costs.tcp_connect),
        ("tcp_accept", costs.tcp_accept),
        ("tcp_write", costs.tcp_write),
        ("tcp_read", costs.tcp_read),
        ("start_process", costs.start_process),
        ("start_thread", costs.start_thread),
        ("fork_process", costs.fork_process),
        ("fork_thread", costs.fork_thread),
        ("begin_process", costs.begin_process),
        ("exit_process", costs.exit_process),
        ("exit_thread", costs.exit_thread),
        ("reap", costs.reap),
        ("grace_period", costs.grace_period),
    ]
}
