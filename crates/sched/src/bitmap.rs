//! A set of small numbers as bits, for CPUs and priorities.

/// A set of numbers below a bound fixed at creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// The empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Self {
        Self { words: vec![0; bound.div_ceil(64)] }
    }

    /// Every number below `bound`.
    pub fn full(bound: usize) -> Self {
        let mut all = Self::new(bound);
        (0..bound).for_each(|number| all.insert(number));
        all
    }

    /// Becomes the same as `other`, in the memory that it has.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
    }

    /// Adds `number`.
    #[inline]
    pub fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Takes `number` away.
    #[inline]
    pub fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Whether `number` is in the set.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The least number, if any.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The least number of both sets, if any.
    #[inline]
    pub fn first_common(&self, other: &Self) -> Option<usize> {
        let word = self.words.iter().zip(&other.words).position(|(left, right)| left & right != 0)?;
        Some(word * 64 + (self.words[word] & other.words[word]).trailing_zeros() as usize)
    }

    /// All of a set that has a bound of 64 at most, number 0 in the lowest bit.
    #[inline]
    pub(crate) fn only_word(&self) -> Option<u64> {
        if let [word] = self.words[..] { Some(word) } else { None }
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether it is this number alone.
    #[inline]
    pub(crate) fn is_only(&self, number: usize) -> bool {
        let of = |index| if index == number / 64 { 1 << (number % 64) } else { 0 };
        self.words.len() > number / 64 && self.words.iter().enumerate().all(|(index, word)| *word == of(index))
    }

    /// Whether this is so of any number, asked in ascending order.
    #[inline(always)]
    pub(crate) fn any(&self, is: impl Fn(usize) -> bool) -> bool {
        for (index, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                if is(index * 64 + left.trailing_zeros() as usize) {
                    return true;
                }
                left &= left - 1;
            }
        }
        false
    }

    /// How many numbers there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the sets have a number in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(left, right)| left & right != 0)
    }

    /// Whether every number is one of `other`'s too.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(left, right)| left & !right == 0)
    }

    /// Leaves the numbers that `other` has too.
    pub fn retain(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(left, right)| *left &= right);
    }

    /// Takes the numbers of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(left, right)| *left &= !right);
    }

    /// Adds the numbers of `other`.
    pub fn join(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(left, right)| *left |= right);
    }

    /// The least number from `start` on, if any.
    #[inline]
    pub fn next(&self, start: usize) -> Option<usize> {
        let mut index = start / 64;
        let mut word = self.words.get(index)? & (u64::MAX << (start % 64));
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
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

    /// The numbers from `start` on, then those before it (`for_each_cpu_wrap`).
    pub fn iter_wrap(&self, start: usize) -> impl Iterator<Item = usize> {
        // Words from the one that `start` is in around to it: of that one the upper part first, and the lower one last.
        let (words, first, upper) = (self.words.len(), start / 64, u64::MAX << (start % 64));
        let (mut index, mut left) = (first, words);
        let mut word = self.words.get(first).map_or(0, |word| word & upper);
        std::iter::from_fn(move || {
            while word == 0 {
                left = left.checked_sub(1)?;
                index = if index + 1 < words { index + 1 } else { 0 };
                word = self.words[index];
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bitmap(numbers: &BTreeSet<usize>) -> Bitmap {
        let mut map = Bitmap::new(200);
        numbers.iter().for_each(|number| map.insert(*number));
        map
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            left in prop::collection::btree_set(0usize..200, 0..40),
            right in prop::collection::btree_set(0usize..200, 0..40),
            start in 0usize..201,
        ) {
            let (one, other) = (bitmap(&left), bitmap(&right));
            prop_assert_eq!(one.iter().collect::<Vec<_>>(), left.iter().copied().collect::<Vec<_>>());
            let wrapped: Vec<usize> = left.range(start..).chain(left.range(..start)).copied().collect();
            prop_assert_eq!(one.iter_wrap(start).collect::<Vec<_>>(), wrapped);
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
