//! Which of the kernel's functions decides what is compared.

/// The functions, of `kernel/sched/fair.c` unless another class's.
pub(crate) fn of(what: &str, eevdf: bool) -> &'static str {
    match (what, eevdf) {
        ("pick", false) => "pick_next_entity, wakeup_preempt_entity",
        ("pick", true) => "pick_eevdf, entity_eligible",
        ("tick", false) => "check_preempt_tick, sched_slice",
        ("tick", true) => "update_curr, update_deadline",
        ("wakeup", false) => "check_preempt_wakeup, wakeup_preempt_entity",
        ("wakeup", true) => "check_preempt_wakeup_fair, pick_eevdf",
        ("vruntime", _) => "update_curr, place_entity",
        ("min_vruntime", _) => "update_min_vruntime",
        ("deadline", _) => "update_deadline, place_entity",
        ("slice", _) => "update_deadline, place_entity",
        ("lag", _) => "update_entity_lag, entity_lag",
        ("avg_vruntime", _) => "avg_vruntime_add, avg_vruntime_sub, avg_vruntime",
        ("load" | "nr_running", _) => "account_entity_enqueue, account_entity_dequeue",
        ("buddies", _) => "set_next_buddy, set_last_buddy, clear_buddies",
        ("need_resched", _) => "resched_curr",
        ("exec_start", _) => "update_curr, set_next_entity, set_next_task",
        ("budget", _) => "update_curr_dl_se, replenish_dl_entity, update_curr_rt, account_cfs_rq_runtime",
        ("throttled", _) => "throttle_cfs_rq, unthrottle_cfs_rq, sched_rt_runtime_exceeded, start_dl_timer",
        ("time_slice", _) => "task_tick_rt",
        ("group weight", _) => "calc_group_shares, update_tg_load_avg",
        ("timer", _) => "start_dl_timer, dl_task_timer",
        _ => "the sequence itself: schedule, try_to_wake_up, sched_move_task",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_own_pick() {
        assert!(of("pick", false).starts_with("pick_next_entity"));
        assert!(of("pick", true).starts_with("pick_eevdf"));
    }
}
