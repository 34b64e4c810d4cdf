//! V, the weighted average of a queue's virtual times, and which entities are eligible by it (EEVDF).

use crate::entity::{Entity, EntityId, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::weight::Weight;
use crate::rules::Rules;

impl Rules {
    /// `avg_vruntime_weight`: what an entity of this weight weighs in V: its weight rounded down to the nice table's, since 4823725d9d1d (7.1)
    /// all bits of it.
    #[doc(alias = "avg_vruntime_weight")]
    #[inline(always)]
    pub(crate) fn weight_in_average(&self, load: Weight) -> i64 {
        (if self.full_weights { load.scaled } else { load.down() }) as i64
    }
}

/// V as the fraction that it is: Σ (vruntime − zero) · weight over Σ weight of all on a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Average {
    zero: Vruntime,
    sum: i64,
    load: i64,
    /// With all bits of the weights the product needs more than 64.
    wide: bool,
}

impl Average {
    /// `vruntime_eligible`: whether V has come to `vruntime`, without the division's loss (since 147f3efaa241, 6.6).
    #[doc(alias = "entity_eligible")]
    #[inline(always)]
    pub(crate) fn is_eligible(&self, vruntime: Vruntime) -> bool {
        let key = vruntime.since(self.zero);
        if self.wide {
            i128::from(self.sum) >= i128::from(key) * i128::from(self.load)
        } else {
            self.sum >= key.wrapping_mul(self.load)
        }
    }
}

impl CfsRq {
    /// The entity that runs on the queue, as long as it is queued.
    #[inline(always)]
    pub(crate) fn running<'a>(&self, entities: &'a [Entity]) -> Option<(EntityId, &'a Entity)> {
        let curr = self.curr?;
        Some((curr, &entities[curr.index()])).filter(|(_, running)| running.on_rq)
    }

    /// `entity_key`: an entity's distance from the queue's origin (since 147f3efaa241, 6.6).
    #[inline(always)]
    pub(crate) const fn entity_key(&self, entity: &Entity) -> i64 {
        entity.vruntime.since(self.zero_vruntime)
    }

    /// `sum_w_vruntime_add` (7.2; `avg_vruntime_add` before): an entity that comes to wait joins the sums (since 147f3efaa241, 6.6).
    #[doc(alias = "avg_vruntime_add")]
    #[inline(always)]
    pub(crate) fn sum_w_vruntime_add(&mut self, entity: &Entity, rules: &Rules) {
        let (key, weight) = (self.entity_key(entity), rules.weight_in_average(entity.load));
        self.avg_vruntime = self.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
        self.avg_load += weight;
    }

    /// `sum_w_vruntime_sub` (7.2; `avg_vruntime_sub` before): one that waits no longer leaves them (since 147f3efaa241, 6.6).
    #[doc(alias = "avg_vruntime_sub")]
    #[inline(always)]
    pub(crate) fn sum_w_vruntime_sub(&mut self, entity: &Entity, rules: &Rules) {
        let (key, weight) = (self.entity_key(entity), rules.weight_in_average(entity.load));
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(key.wrapping_mul(weight));
        self.avg_load -= weight;
    }

    /// V with the running entity, which is not among those that wait (`avg_vruntime`; since 147f3efaa241, 6.6).
    #[inline(always)]
    pub(crate) fn average(&self, running: Option<&Entity>, rules: &Rules) -> Average {
        let (mut sum, mut load) = (self.avg_vruntime, self.avg_load);
        if let Some(running) = running {
            let weight = rules.weight_in_average(running.load);
            sum = sum.wrapping_add(self.entity_key(running).wrapping_mul(weight));
            load += weight;
        }
        Average { zero: self.zero_vruntime, sum, load, wide: rules.full_weights }
    }

    /// How far V, rounded down, lies after the origin.
    #[inline(always)]
    pub(crate) fn average_key(&self, running: Option<&Entity>, rules: &Rules) -> i64 {
        if self.avg_load == 0 {
            // Alone it is V itself.
            return running.map_or(0, |running| self.entity_key(running));
        }
        let Average { sum, load, .. } = self.average(running, rules);
        sum.div_euclid(load)
    }

    /// `ineligible_vruntime` (0d1e7a2bab35, 7.3): the virtual time from which on the running entity, which is not among those who wait, lies
    /// after V: theirs alone, rounded down, and one.
    #[inline(always)]
    pub(crate) fn ineligible_vruntime(&self) -> Vruntime {
        let others = if self.avg_load == 0 { 0 } else { self.avg_vruntime.div_euclid(self.avg_load) };
        self.zero_vruntime.plus(others as u64).plus(1)
    }

    /// `update_zero_vruntime` (7.2; `avg_vruntime_update` before): the origin moves by `delta`, and the sums with it (since 147f3efaa241, 6.6).
    #[doc(alias = "avg_vruntime_update")]
    #[inline(always)]
    pub(crate) fn update_zero_vruntime(&mut self, delta: i64) {
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.avg_load.wrapping_mul(delta));
        self.zero_vruntime = self.zero_vruntime.plus(delta as u64);
    }

    /// The same to a given origin. From where a queue counts means nothing by itself: reading `sched/debug` moves it.
    pub fn count_from(&mut self, zero: Vruntime) {
        self.update_zero_vruntime(zero.since(self.zero_vruntime));
    }

    /// The sums of V, Σ (vruntime − `zero`) · weight and Σ weight, of those that wait, with others added (1) or taken out (−1).
    pub fn sums_about<'e>(
        &self,
        zero: Vruntime,
        others: impl IntoIterator<Item = (&'e Entity, i64)>,
        rules: &Rules,
    ) -> (i64, i64) {
        let moved = self.zero_vruntime.since(zero).wrapping_mul(self.avg_load);
        let waiting = (self.avg_vruntime.wrapping_add(moved), self.avg_load);
        others.into_iter().fold(waiting, |(sum, load), (entity, sign)| {
            let weight = rules.weight_in_average(entity.load) * sign;
            (sum.wrapping_add(entity.vruntime.since(zero).wrapping_mul(weight)), load + weight)
        })
    }

    /// `avg_vruntime`: V; the origin moves there (since 147f3efaa241, 6.6; in 6.18 since b3d99f43c72b, 6.18.17).
    #[inline(always)]
    pub(crate) fn avg_vruntime(&mut self, running: Option<&Entity>, rules: &Rules) -> Vruntime {
        let key = self.average_key(running, rules);
        if !rules.origin_follows_v {
            return self.zero_vruntime.plus(key as u64);
        }
        self.update_zero_vruntime(key);
        self.zero_vruntime
    }

    /// Whether an entity that goes to sleep stays queued until its negative lag is used up: `dequeue_entity` under DELAY_DEQUEUE (since
    /// 152e11f6df29, 6.12).
    #[doc(alias = "dequeue_entity")]
    #[doc(alias = "DELAY_DEQUEUE")]
    #[inline(always)]
    pub(crate) fn delays_dequeue(&self, vruntime: Vruntime, running: Option<&Entity>, rules: &Rules) -> bool {
        rules.tunables.features.delay_dequeue && !self.average(running, rules).is_eligible(vruntime)
    }
}
