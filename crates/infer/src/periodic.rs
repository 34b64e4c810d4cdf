//! Timers with a period: sleeps that end in step with the clock, however long the work before them took.

use crate::activity::{Activity, ActivityLog};

/// The least number of sleeps that shows a period.
const ENOUGH: usize = 4;

/// Finds for each task whether its timers keep a period (`clock_nanosleep` with `TIMER_ABSTIME`, `timerfd`, rt-app's `timer`) or sleep for
/// a time (`nanosleep`), and turns the sleeps of those that do into timers' expiries.
///
/// A task that sleeps for a time has sleeps that vary less than the time from expiry to expiry, which has the work in it, too; one that
/// keeps a period has it the other way round. What varies is measured by the median deviation from the median, which the odd long sleep does not
/// move.
pub(crate) fn find_periods(log: &mut ActivityLog) -> bool {
    if log.expiries.len() < ENOUGH {
        return false;
    }
    let sleeps: Vec<u64> = log
        .expiries
        .iter()
        .filter_map(|expiry| match log.activities.get(expiry.at) {
            Some(Activity::Sleep(slept)) => Some(*slept),
            _ => None,
        })
        .collect();
    let steps: Vec<u64> = log.expiries.windows(2).map(|pair| pair[1].time.saturating_sub(pair[0].time)).collect();
    if deviation(steps) >= deviation(sleeps) / 2 {
        return false;
    }
    let mut before = 0;
    for expiry in &log.expiries {
        log.activities[expiry.at] = Activity::Timer(expiry.time - before);
        before = expiry.time;
    }
    true
}

/// The median deviation from the median.
fn deviation(mut values: Vec<u64>) -> u64 {
    let middle = median(&mut values);
    let mut deviations: Vec<u64> = values.iter().map(|value| value.abs_diff(middle)).collect();
    median(&mut deviations)
}

fn median(values: &mut [u64]) -> u64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that works as long as `works` says and sleeps until what `next` makes of now and the last expiry.
    fn log(works: &[u64], next: impl Fn(u64, u64) -> u64) -> ActivityLog {
        let mut log = ActivityLog::default();
        let (mut now, mut last) = (0, 0);
        for work in works {
            log.ran(*work);
            now += work;
            let expiry = next(now, last);
            log.timed(expiry - now, expiry);
            (now, last) = (expiry, expiry);
        }
        log
    }

    const WORKS: [u64; 6] = [100, 700, 300, 900, 200, 500];

    #[test]
    fn a_period_that_is_kept_is_a_timer() {
        let mut periodic = log(&WORKS, |_, last| last + 10_000);
        assert!(find_periods(&mut periodic));
        let timers: Vec<Activity> =
            periodic.activities.into_iter().filter(|activity| !matches!(activity, Activity::Run(_))).collect();
        assert_eq!(timers, [Activity::Timer(10_000); 6]);
    }

    #[test]
    fn a_sleep_of_a_time_stays_one() {
        let mut sleeper = log(&WORKS, |now, _| now + 10_000);
        let before = sleeper.activities.clone();
        assert!(!find_periods(&mut sleeper));
        assert_eq!(sleeper.activities, before);
        // Equal works leave both alike: then it does not matter.
        assert!(!find_periods(&mut log(&[5; 6], |now, _| now + 10_000)));
    }
}
