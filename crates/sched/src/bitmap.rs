//! A set of small numbers as bits, for CPUs and priorities.

/// A set of numbers below a bound fixed at creation. The first 64 stand in the set itself, as mostly there are no more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Bitmap {
    first: u64,
    rest: Vec<u64>,
}

impl Bitmap {
    /// The empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Self {
        Self { first: 0, rest: vec![0; bound.div_ceil(64).saturating_sub(1)] }
    }

    /// Every number below `bound`.
    pub fn full(bound: usize) -> Self {
        let mut all = Self::new(bound);
        (0..bound).for_each(|number| all.insert(number));
        all
    }

    /// Becomes the same as `other`, in the memory that it has.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.first = other.first;
        self.rest.clone_from(&other.rest);
    }

    /// 64 numbers each, in ascending order.
    #[inline(always)]
    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// The words of both sets, beside one another.
    #[inline(always)]
    fn zip(&self, other: &Self) -> impl Iterator<Item = (u64, u64)> {
        self.words().zip(other.words())
    }

    /// Changes each word by that of `other`.
    fn update(&mut self, other: &Self, change: impl Fn(&mut u64, u64)) {
        change(&mut self.first, other.first);
        self.rest.iter_mut().zip(&other.rest).for_each(|(word, other)| change(word, *other));
    }

    /// The 64 numbers from `index` times 64 on, if they are below the bound.
    #[inline(always)]
    fn word(&self, index: usize) -> Option<u64> {
        if index == 0 { Some(self.first) } else { self.rest.get(index - 1).copied() }
    }

    #[inline(always)]
    fn word_of(&mut self, number: usize) -> &mut u64 {
        if number < 64 { &mut self.first } else { &mut self.rest[number / 64 - 1] }
    }

    /// Adds `number`.
    #[inline]
    pub fn insert(&mut self, number: usize) {
        *self.word_of(number) |= 1 << (number % 64);
    }

    /// Takes `number` away.
    #[inline]
    pub fn remove(&mut self, number: usize) {
        *self.word_of(number) &= !(1 << (number % 64));
    }

    /// Whether `number` is in the set.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.word(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The least number, if any.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        first_of(self.words())
    }

    /// The least number of both sets, if any.
    #[inline]
    pub fn first_common(&self, other: &Self) -> Option<usize> {
        first_of(self.zip(other).map(|(left, right)| left & right))
    }

    /// All of a set that has a bound of 64 at most, number 0 in the lowest bit.
    #[inline]
    pub(crate) fn only_word(&self) -> Option<u64> {
        self.rest.is_empty().then_some(self.first)
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == 0 && self.rest.iter().all(|word| *word == 0)
    }

    /// Whether it is this number alone.
    #[inline]
    pub(crate) fn is_only(&self, number: usize) -> bool {
        let of = |index| if index == number / 64 { 1 << (number % 64) } else { 0 };
        self.rest.len() >= number / 64 && self.words().enumerate().all(|(index, word)| word == of(index))
    }

    /// Whether this is so of any number, asked in ascending order.
    #[inline(always)]
    pub(crate) fn any(&self, is: impl Fn(usize) -> bool) -> bool {
        let (mut left, mut from) = (self.first, 0);
        let mut rest = self.rest.iter();
        loop {
            while left != 0 {
                if is(from + left.trailing_zeros() as usize) {
                    return true;
                }
                left &= left - 1;
            }
            let Some(word) = rest.next() else { return false };
            (left, from) = (*word, from + 64);
        }
    }

    /// How many numbers there are.
    pub fn count(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Whether the sets have a number in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.zip(other).any(|(left, right)| left & right != 0)
    }

    /// Whether every number is one of `other`'s too.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.zip(other).all(|(left, right)| left & !right == 0)
    }

    /// Leaves the numbers that `other` has too.
    pub fn retain(&mut self, other: &Self) {
        self.update(other, |word, other| *word &= other);
    }

    /// Takes the numbers of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.update(other, |word, other| *word &= !other);
    }

    /// Adds the numbers of `other`.
    pub fn join(&mut self, other: &Self) {
        self.update(other, |word, other| *word |= other);
    }

    /// The least number from `start` on, if any.
    #[inline]
    pub fn next(&self, start: usize) -> Option<usize> {
        let mut index = start / 64;
        let mut word = self.word(index)? & (u64::MAX << (start % 64));
        while word == 0 {
            index += 1;
            word = self.word(index)?;
        }
        Some(index * 64 + word.trailing_zeros() as usize)
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let number = self.next(from)?;
            from = number + 1;
            Some(number)
        })
    }

    /// Each of [`Bitmap::iter_wrap`] from the number after `number` on that is neither one of `others` nor that number itself, which is one
    /// that may be in the set.
    #[inline(always)]
    pub(crate) fn each_after_but(&self, number: usize, others: &Self, mut visit: impl FnMut(usize)) {
        let start = number + 1;
        let (Some(all), Some(others)) = (self.only_word(), others.only_word()) else {
            let is = |other: &usize| *other != number && !others.contains(*other);
            return self.iter_wrap(start).filter(is).for_each(visit);
        };
        let mut left = (all & !others & !(1 << number)).rotate_right(start as u32);
        while left != 0 {
            visit((start + left.trailing_zeros() as usize) % 64);
            left &= left - 1;
        }
    }

    /// The numbers from `start` on, then those before it (`for_each_cpu_wrap`).
    pub fn iter_wrap(&self, start: usize) -> impl Iterator<Item = usize> {
        // Words from the one that `start` is in around to it: of that one the upper part first, and the lower one last.
        let (words, first, upper) = (1 + self.rest.len(), start / 64, u64::MAX << (start % 64));
        let (mut index, mut left) = (first, words);
        let mut word = self.word(first).map_or(0, |word| word & upper);
        std::iter::from_fn(move || {
            while word == 0 {
                left = left.checked_sub(1)?;
                index = if index + 1 < words { index + 1 } else { 0 };
                word = self.word(index)?;
                if index == first {
                    word &= !upper;
                }
            }
            let number = index * 64 + word.trailing_zeros() as usize;
            word &= word - 1;
            Some(number)
        })
    }
}

/// The least number of words in ascending order, if any.
#[inline(always)]
fn first_of(mut words: impl Iterator<Item = u64>) -> Option<usize> {
    let mut from = 0;
    words.find_map(|word| {
        let number = (word != 0).then(|| from + word.trailing_zeros() as usize);
        from += 64;
        number
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bitmap(numbers: &BTreeSet<usize>, bound: usize) -> Bitmap {
        let mut map = Bitmap::new(bound);
        numbers.iter().for_each(|number| map.insert(*number));
        map
    }

    proptest! {
        /// Of one word and of several.
        #[test]
        fn it_is_a_set(
            bound in prop_oneof![1usize..65, 65usize..201],
            left in prop::collection::btree_set(0usize..200, 0..40),
            right in prop::collection::btree_set(0usize..200, 0..40),
            start in 0usize..201,
        ) {
            let below = |numbers: BTreeSet<usize>| numbers.into_iter().filter(|number| *number < bound).collect();
            let (left, right, start): (BTreeSet<_>, BTreeSet<_>, _) = (below(left), below(right), start.min(bound));
            let bitmap = |numbers: &BTreeSet<usize>| bitmap(numbers, bound);
            let (one, other) = (bitmap(&left), bitmap(&right));
            prop_assert_eq!(one.iter().collect::<Vec<_>>(), left.iter().copied().collect::<Vec<_>>());
            let wrapped: Vec<usize> = left.range(start..).chain(left.range(..start)).copied().collect();
            prop_assert_eq!(one.iter_wrap(start).collect::<Vec<_>>(), wrapped);
            prop_assert_eq!((one.first(), one.next(start)), (left.first().copied(), left.range(start..).next().copied()));
            prop_assert_eq!(one.first_common(&other), left.intersection(&right).next().copied());
            prop_assert_eq!(one.contains(start), left.contains(&start));
            prop_assert_eq!(one.only_word().is_some(), bound <= 64);
            let (mut others, number) = (vec![], start.saturating_sub(1));
            one.each_after_but(number, &other, |number| others.push(number));
            let after = left.range(number + 1..).chain(left.range(..number)).copied();
            prop_assert_eq!(others, after.filter(|number| !right.contains(number)).collect::<Vec<_>>());
            prop_assert_eq!(one.count() as usize, left.len());
            prop_assert_eq!(one.is_empty(), left.is_empty());
            prop_assert_eq!(one.is_only(start), left.iter().eq([&start]));
            prop_assert_eq!(one.any(|number| number >= start), left.range(start..).next().is_some());
            prop_assert_eq!(one.intersects(&other), !left.is_disjoint(&right));
            prop_assert_eq!(one.is_subset(&other), left.is_subset(&right));
            let (mut both, mut without, mut all) = (one.clone(), one.clone(), one);
            both.retain(&other);
            without.subtract(&other);
            all.join(&other);
            prop_assert_eq!(both, bitmap(&left.intersection(&right).copied().collect()));
            prop_assert_eq!(without, bitmap(&left.difference(&right).copied().collect()));
            prop_assert_eq!(all, bitmap(&left.union(&right).copied().collect()));
        }
    }
}
