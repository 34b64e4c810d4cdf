//! Probes beyond those on the flat fair class: requests, groups and their bandwidth, real-time and deadline.

use crate::fields::Fields;
use crate::probe::{Probe, Server};

/// Reads a probe's fields; `None` if there is no such probe.
pub(crate) fn parse(event: &str, fields: Fields<'_>) -> Option<Result<Probe, String>> {
    Some(match event {
        "k_move" => fields.get("pid").map(|pid| Probe::Move { pid }),
        "k_param" => parameters(fields),
        "k_nice" => nice(fields),
        "k_setsched" => set_scheduler(fields),
        "k_pnt" => Ok(Probe::PickTask),
        "k_uc" => update_curr(fields),
        "k_shares" => shares(fields),
        "k_quota" => quota(fields),
        "k_thr" => bandwidth(fields).map(|(group, remaining)| Probe::Throttle { group, remaining }),
        "k_unthr" => bandwidth(fields).map(|(group, remaining)| Probe::Unthrottle { group, remaining }),
        "k_acct" => account(fields),
        "k_refill" => refill(fields),
        "k_rtenq" => rt_enqueue(fields),
        "k_rtdeq" => rt_dequeue(fields),
        "k_rtcur" => rt_charge(fields),
        "k_rttick" => rt_tick(fields),
        "k_rtper" => Ok(Probe::RtPeriod),
        "k_dlenq" => dl_enqueue(fields),
        "k_dldeq" => dl_dequeue(fields),
        "k_dlcur" => dl_charge(fields),
        "k_dlse" => dl_entity_charge(fields),
        "k_dlrep" => dl_replenish(fields),
        "k_dltimer" => dl_timer(fields),
        "k_dlinact" => fields.get("pid").map(|pid| Probe::DlInactive { pid }),
        "k_dlsrvon" => server(fields).map(|server| Probe::ServerStart { server }),
        "k_dlsrvoff" => server(fields).map(|server| Probe::ServerStop { server }),
        _ => return None,
    })
}

fn parameters(fields: Fields<'_>) -> Result<Probe, String> {
    let slice = if fields.find("cs").is_some() && fields.flag("cs")? { Some(fields.get("sl")?) } else { None };
    Ok(Probe::Parameters {
        pid: fields.get("pid")?,
        policy: fields.get("pol")?,
        static_priority: fields.get("sp")?,
        rt_priority: fields.get("rtp")?,
        slice,
    })
}

fn nice(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Nice { pid: fields.get("pid")?, nice: fields.get("nice")? })
}

fn set_scheduler(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::SetScheduler {
        pid: fields.get("pid")?,
        policy: fields.get("pol")?,
        nice: fields.get("nice")?,
        priority: fields.get("prio")?,
        runtime: fields.get("rt")?,
        deadline: fields.get("dl")?,
        period: fields.get("per")?,
    })
}

fn update_curr(fields: Fields<'_>) -> Result<Probe, String> {
    let (vruntime, deadline) = (fields.get("vr")?, fields.optional("dl")?);
    Ok(Probe::UpdateCurr { pid: fields.get("pid")?, vruntime, deadline, exec_start: fields.get("xs")? })
}

fn shares(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Shares { group: fields.address("tg")?, shares: fields.get("shares")? })
}

fn quota(fields: Fields<'_>) -> Result<Probe, String> {
    if let Some(period) = fields.optional("pus")? {
        let [quota, burst] = [fields.get("qus")?, fields.optional("bus")?.unwrap_or(0)].map(nanoseconds);
        return Ok(Probe::Quota { group: fields.address("tg")?, period: nanoseconds(period), quota, burst });
    }
    Ok(Probe::Quota {
        group: fields.address("tg")?,
        period: fields.get("period")?,
        quota: fields.get("quota")?,
        burst: fields.optional("burst")?.unwrap_or(0),
    })
}

/// Of microseconds; no limit (`RUNTIME_INF`) stays none.
const fn nanoseconds(microseconds: u64) -> u64 {
    microseconds.saturating_mul(1000)
}

fn bandwidth(fields: Fields<'_>) -> Result<(u64, i64), String> {
    Ok((fields.address("tg")?, fields.get("rr")?))
}

fn account(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Account { remaining: fields.get("rr")?, delta: fields.get("delta")? })
}

fn refill(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::Refill { group: fields.address("tg")?, runtime: fields.get("rt")? })
}

fn rt_enqueue(fields: Fields<'_>) -> Result<Probe, String> {
    let (pid, flags) = fields.pid_and_flags()?;
    Ok(Probe::RtEnqueue { pid, flags, priority: fields.get("prio")?, time_slice: fields.get("ts")? })
}

fn rt_dequeue(fields: Fields<'_>) -> Result<Probe, String> {
    let (pid, flags) = fields.pid_and_flags()?;
    Ok(Probe::RtDequeue { pid, flags, time_slice: fields.get("ts")? })
}

fn rt_charge(fields: Fields<'_>) -> Result<Probe, String> {
    let throttled = fields.find("thr").map(|_| fields.flag("thr")).transpose()?;
    let (time, runtime) = (fields.optional("rtt")?, fields.optional("rtr")?);
    Ok(Probe::RtCharge { pid: fields.get("pid")?, throttled, time, runtime })
}

fn rt_tick(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::RtTick { pid: fields.get("pid")?, time_slice: fields.get("ts")? })
}

fn server(fields: Fields<'_>) -> Result<Server, String> {
    Ok(Server { runtime: fields.get("rt")?, deadline: fields.get("dl")? })
}

fn dl_enqueue(fields: Fields<'_>) -> Result<Probe, String> {
    let (pid, flags) = fields.pid_and_flags()?;
    Ok(Probe::DlEnqueue { pid, flags, server: server(fields)? })
}

fn dl_dequeue(fields: Fields<'_>) -> Result<Probe, String> {
    let (pid, flags) = fields.pid_and_flags()?;
    Ok(Probe::DlDequeue { pid, flags, server: server(fields)? })
}

fn dl_charge(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::DlCharge { pid: fields.get("pid")?, server: server(fields)? })
}

fn dl_entity_charge(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::DlEntityCharge { is_server: fields.flag("srv")?, server: server(fields)?, delta: fields.get("delta")? })
}

fn dl_replenish(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::DlReplenish { pid: fields.get("pid")?, is_server: fields.flag("srv")?, server: server(fields)? })
}

fn dl_timer(fields: Fields<'_>) -> Result<Probe, String> {
    Ok(Probe::DlTimer { pid: fields.get("pid")?, is_server: fields.flag("srv")?, server: server(fields)? })
}
