"""scripts/watch-kernels: reading a package's changelog."""

from watch_kernels import __main__ as watch

CHANGELOG = """\
linux (7.3.4-1) unstable; urgency=medium

  * New upstream stable update:
    https://www.kernel.org/pub/linux/kernel/v7.x/ChangeLog-7.3.4
    - sched/fair: Reset NUMA fault locality after a scan whose subject
      is long
    - [x86] sched: Something of one architecture
    - net/sched: cls_flower: avoid stale mask references after delete
    - drm/amdgpu: guard VCE/UVD sched entity teardown on failed probe
    - cpufreq: schedutil: Serialize sugov_start() against rate limit updates
    https://www.kernel.org/pub/linux/kernel/v7.x/ChangeLog-7.3.3
    - sched_ext: Reset runnable_at when a task leaves its scheduler

  [ A Maintainer ]
  * sched/proxy: Yield the donor task

 -- A Maintainer <a@example.org>  Sun, 15 Nov 2026 12:00:00 +0000

linux (7.3~rc7-1~exp1) experimental; urgency=medium

    - sched/core: not of a point release
"""


def test_the_schedulers_changes_are_found_with_their_point_release() -> None:
    """Those of other subsystems are not, nor Debian's own, nor those of release candidates."""
    assert list(watch.scheduler_changes(CHANGELOG)) == [
        (
            "7.3.4",
            "sched/fair: Reset NUMA fault locality after a scan whose subject is long",
        ),
        ("7.3.4", "sched: Something of one architecture"),
        ("7.3.4", "cpufreq: schedutil: Serialize sugov_start() against rate limit updates"),
        ("7.3.3", "sched_ext: Reset runnable_at when a task leaves its scheduler"),
    ]


def test_releases_are_compared_by_their_numbers() -> None:
    """7.3.10 is newer than 7.3.9, whatever the distribution appends."""
    assert watch.numbers("7.3.10+deb13-amd64") > watch.numbers("7.3.9+deb14-amd64")
    assert watch.newest_known()[7, 2] >= (7, 2, 13)
