//! Large tables in huge pages.

use std::ops::Range;

/// From so many bytes on a part of a table has some huge pages for itself, wherever it begins.
const LARGE: usize = 4 << 20;

/// [`Vec::reserve_exact`] for a `table` that is read in no order, with [`prefer`] for what is new.
pub(crate) fn reserve<T>(table: &mut Vec<T>, additional: usize) {
    table.reserve_exact(additional);
    let unused = table.spare_capacity_mut().as_ptr_range();
    prefer(&(unused.start.cast()..unused.end.cast()));
}

/// Asks the kernel to back `memory`, of some table and not written yet, with huge pages if it is large (`MADV_HUGEPAGE`).
///
/// Of 100,000 tasks' records a processor's cache of addresses (TLB) knows few, so that most looks at one wait for a walk of the page tables
/// first; with huge pages it knows all. What tables hold is the same with and without, so nothing is said where the kernel has none.
pub(crate) fn prefer(memory: &Range<*const u8>) {
    // Where pages are larger than these, the kernel may refuse.
    const PAGE: usize = 4096;
    let (first, last) = ((memory.start as usize).next_multiple_of(PAGE), memory.end as usize / PAGE * PAGE);
    if last.saturating_sub(first) >= LARGE {
        advise(first, last - first);
    }
}

#[cfg(target_os = "linux")]
fn advise(start: usize, length: usize) {
    // SAFETY: MADV_HUGEPAGE changes neither what pages hold nor who may use them (madvise(2)), whatever the range; a range that is not mapped
    // gives an error, which is ignored.
    unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: usize, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_it_has_and_gets_room() {
        for more in [0, 10, 1_000_000] {
            let mut table = vec![7_u64, 8];
            reserve(&mut table, more);
            let room = table.capacity();
            assert!(room >= 2 + more);
            table.extend(0..more as u64);
            assert_eq!((table.capacity(), &table[..2]), (room, &[7, 8][..]));
            assert!(table[2..].iter().copied().eq(0..more as u64));
        }
    }

    /// `VmFlags` of `/proc/PID/smaps` have `hg` where `MADV_HUGEPAGE` was said (`proc(5)`), unless the kernel knows no huge pages.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_large_table_lies_where_huge_pages_are_wanted() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let mut table: Vec<u64> = Vec::new();
        reserve(&mut table, 2_000_000);
        let middle = table.as_ptr() as u64 + 8_000_000;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        let mut within = false;
        let flags = maps.lines().find_map(|line| {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
            {
                within = (from..to).contains(&middle);
            }
            line.strip_prefix("VmFlags:").filter(|_| within)
        });
        assert!(flags.expect("it is mapped").split_whitespace().any(|flag| flag == "hg"), "{flags:?}");
    }
}
