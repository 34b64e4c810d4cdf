//! Weights that follow the number of a process's threads, in floating point and in the fixed-point form of a kernel.
//!
//! CFS shares a CPU among threads, so a process gets more of it by having more of them. Two rules from the literature act against
//! that through `load.weight` alone; both multiply it by a factor of the number of threads Nt (and of CPUs on line, No):
//!
//! - **PFS** (Wong, Tan, Kumari and Lam, *Towards achieving fairness in the Linux scheduler*, 2008): 1 / Nt.
//! - **DW-CFS** (Zhu, Shen and Liu, *Research on improving Linux completely fair scheduler*, 2014): f(1) = 1, rising to β at No, then
//!   falling to zero. Their equation (5) is the case β = 1.1 of f = β − |c (1 + k) / (Nt + k) − β| with c = 2β − 1 and
//!   k = (β No − 2β + 1) / (β − 1).
//!
//! Everything here is a pure function, so that a table of factors can be filled for a kernel from user space ([`factor_table`]).

use schedlab_model::{RuleSet, ThreadWeights};

use crate::fair::weight::Weight;

/// Fraction bits of a fixed-point factor.
pub const FACTOR_SHIFT: u32 = 20;

/// The factor 1.
pub const FACTOR_ONE: u32 = 1 << FACTOR_SHIFT;

/// No task weighs less, whatever its factor: `MIN_SHARES` (`kernel/sched/sched.h`), below which `scale_load_down` does not go either.
pub const MIN_WEIGHT: u64 = 2;

/// What a thread's weight is multiplied by, in floating point: the rule as its authors wrote it.
///
/// `threads` is the number of the process's live threads (0 counts as 1), `online` that of CPUs on line, which a rule may name
/// itself. On one CPU DW-CFS has no value (0/0 at one thread, 0 beyond) and 1 / `threads` takes its place.
///
/// ```
/// use schedlab_sched::thread_fairness::factor;
/// // Figure 4 of the paper: β = 1.1 on four CPUs.
/// let rule = "dw-cfs:beta=1.1".parse()?;
/// assert!((factor(rule, 4, 4) - 1.1).abs() < 1e-12);
/// assert!((factor(rule, 8, 4) - 0.99).abs() < 1e-12);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
pub fn factor(rule: ThreadWeights, threads: u32, online: u32) -> f64 {
    let threads = f64::from(threads.max(1));
    let online = rule.counted(online);
    match rule {
        ThreadWeights::None => 1.0,
        ThreadWeights::DwCfs { beta, .. } if online > 1 => {
            let (beta, online) = (beta.value(), f64::from(online));
            let c = 2.0 * beta - 1.0;
            let k = (beta * online - 2.0 * beta + 1.0) / (beta - 1.0);
            beta - (c * (1.0 + k) / (threads + k) - beta).abs()
        }
        ThreadWeights::Pfs | ThreadWeights::DwCfs { .. } => 1.0 / threads,
    }
}

/// The same in integers, with [`FACTOR_SHIFT`] fraction bits, rounded to nearest (halves up): within 2⁻²¹ of the real value.
///
/// With b = 1000 β, and (Nt + k) and c (1 + k) both multiplied by 1000 (β − 1), DW-CFS is a quotient of whole numbers:
/// r = n / (1000 d) with n = (2b − 1000) b (No − 1) and d = (b − 1000) Nt + b No − 2b + 1000, and f = r where r < β, 2β − r where not.
/// It is rounded once, in the one division. Nothing leaves 64 bits: β is at most 16, and up to No threads the numerator is at most
/// 2 b² No 2²⁰ < 2⁶³ on 8,192 CPUs; beyond, n 2²⁰ is.
pub const fn factor_fixed(rule: ThreadWeights, threads: u32, online: u32) -> u32 {
    let threads = if threads == 0 { 1 } else { threads as u64 };
    let online = rule.counted(online);
    match rule {
        ThreadWeights::None => FACTOR_ONE,
        ThreadWeights::DwCfs { beta, .. } if online > 1 => {
            const THOUSAND: u64 = 1000;
            let (beta, online) = (beta.thousandths() as u64, if online < 8192 { online as u64 } else { 8192 });
            let ratio = (2 * beta - THOUSAND) * beta * (online - 1);
            let distance = (beta - THOUSAND) * threads + beta * online + THOUSAND - 2 * beta;
            let above = if threads <= online { 2 * beta * distance - ratio } else { ratio };
            round(above, THOUSAND * distance)
        }
        ThreadWeights::Pfs | ThreadWeights::DwCfs { .. } => round(1, threads),
    }
}

/// `above / below` with [`FACTOR_SHIFT`] fraction bits, to nearest.
const fn round(above: u64, below: u64) -> u32 {
    (((above << FACTOR_SHIFT) + below / 2) / below) as u32
}

/// Fixed-point factors by number of threads, 0 to `most`, for code that can index but not divide: a BPF scheduler's map.
///
/// ```
/// use schedlab_sched::thread_fairness::{FACTOR_ONE, factor_table};
/// let table = factor_table("pfs".parse()?, 8, 4);
/// assert_eq!(table, [FACTOR_ONE, FACTOR_ONE, FACTOR_ONE / 2, 349_525, FACTOR_ONE / 4]);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
pub fn factor_table(rule: ThreadWeights, online: u32, most: u32) -> Vec<u32> {
    (0..=most).map(|threads| factor_fixed(rule, threads, online)).collect()
}

/// A weight times a fixed-point factor, rounded to nearest, at least [`MIN_WEIGHT`] on the scale of `rules`.
///
/// The inverse is left to be computed as for any weight that is not in the nice table; a factor of 1 leaves all as it was.
pub const fn weigh(rules: &RuleSet, base: Weight, factor: u32) -> Weight {
    if factor == FACTOR_ONE {
        return base;
    }
    let least = MIN_WEIGHT << if rules.wide_weights { 10 } else { 0 };
    let scaled = (base.scaled * factor as u64 + (1 << (FACTOR_SHIFT - 1))) >> FACTOR_SHIFT;
    Weight { scaled: if scaled < least { least } else { scaled }, inverse: 0 }
}
