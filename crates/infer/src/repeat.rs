//! Steps that repeat exactly, as loops.

use crate::activity::Activity;

/// The longest pattern that is looked for.
const LONGEST: usize = 16;

/// A stretch of a task's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Where it begins.
    pub(crate) at: usize,
    /// Steps of one round.
    pub(crate) length: usize,
    /// How often they are done.
    pub(crate) rounds: u64,
}

/// Cuts steps into stretches, so that equal ones in a row become rounds; nothing is rounded for it.
///
/// At each place the pattern that covers the most is taken, the shortest of equal ones. O(n × 16).
pub(crate) fn stretches(activities: &[Activity]) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut at = 0;
    // For each length of a pattern, up to where doings equal those one length later.
    let mut equal_to = [0usize; LONGEST + 1];
    while at < activities.len() {
        let mut best = Stretch { at, length: 1, rounds: 1 };
        for (length, end) in equal_to.iter_mut().enumerate().skip(1) {
            if *end < at {
                *end = at;
            }
            while *end + length < activities.len() && activities[*end] == activities[*end + length] {
                *end += 1;
            }
            let rounds = ((*end - at) / length + 1) as u64;
            if rounds > 1 && rounds * length as u64 > best.rounds * best.length as u64 {
                best = Stretch { at, length, rounds };
            }
        }
        at += best.length * best.rounds as usize;
        match found.last_mut() {
            // What is not repeated stays one stretch.
            Some(last) if last.rounds == 1 && best.rounds == 1 => last.length += 1,
            _ => found.push(best),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unfold(activities: &[Activity]) -> Vec<Activity> {
        let mut all = Vec::new();
        for Stretch { at, length, rounds } in stretches(activities) {
            for _ in 0..rounds {
                all.extend(&activities[at..at + length]);
            }
        }
        all
    }

    #[test]
    fn equal_rounds_become_a_loop() {
        let round = [Activity::Run(5), Activity::Wake(1), Activity::Await];
        let activities: Vec<Activity> = [Activity::Run(9)].into_iter().chain(round.repeat(1000)).collect();
        let expected = [Stretch { at: 0, length: 1, rounds: 1 }, Stretch { at: 1, length: 3, rounds: 1000 }];
        assert_eq!(stretches(&activities), expected);
        assert_eq!(unfold(&activities), activities);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(kinds in prop::collection::vec(0u64..3, 0..200)) {
            let activities: Vec<Activity> = kinds.into_iter().map(Activity::Run).collect();
            prop_assert_eq!(unfold(&activities), activities);
        }
    }
}
