"""Where the sched_ext scheduler cannot run, one line says what is missing and what would help."""

import re
from pathlib import Path

import pytest
from tests import needs

from schedlab.boundary.errors import InputError, SchedlabError
from schedlab.cli.main import invoke
from schedlab.experiment.settings import combinations
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.targets import ext
from schedlab.targets.sim import simulate
from schedlab.vm import Guest, archive, cached

Capture = pytest.CaptureFixture[str]
_LACKS = not Path("/sys/kernel/sched_ext").exists()
_LINE = (
    r"kernel \S+ has no sched_ext \(CONFIG_SCHED_CLASS_EXT, 6\.12 on\): boot one that has it, .*"
)


@needs.ext_loader
@pytest.mark.skipif(not _LACKS, reason="this kernel has sched_ext")
@pytest.mark.parametrize(
    "line",
    [
        "ext run --weights pfs -- true",
        "run hogs:tasks=1,time=1ms --on host --policy ext:pfs",
    ],
)
def test_a_kernel_without_sched_ext_is_refused_in_a_line(line: str, capsys: Capture) -> None:
    assert invoke(line.split()) == 2
    said = capsys.readouterr().err.strip()
    assert re.fullmatch(f"error: {_LINE}", said), said


@needs.ext_loader
@pytest.mark.skipif(not _LACKS, reason="this kernel has sched_ext")
def test_status_says_so_and_is_no_failure(capsys: Capture) -> None:
    assert invoke(["ext", "status"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"kernel \S+: its own class schedules", first)
    assert re.fullmatch(_LINE, second)


@needs.ext_loader
@needs.guest
@pytest.mark.parametrize("series", ["6.1", "6.12"])
def test_guests_of_older_kernels_refuse_too(series: str) -> None:
    found = [kernel for kernel in cached() if kernel.series == series]
    try:
        kernel = found[-1] if found else archive.get(series, [])
    except SchedlabError as error:
        pytest.skip(f"NO KERNEL {series} TO BOOT: {error}")
    with Guest.boot(kernel) as guest:
        done = guest.run([str(ext.loader()), "run", "--weights", "pfs", "--", "true"])
    assert done.code == 2
    assert re.fullmatch(f"schedlab-ext: {_LINE}\n", done.errors), done.errors


@needs.ext_loader
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ext run --weights fair --on vm:7.2 -- true", "none, pfs, dw-cfs"),
        ("ext run --weights dw-cfs:beta=1 --on vm:7.2 -- true", "above 1 and at most 16"),
        ("ext run --weights pfs --slice 1s --on vm:7.2 -- true", "--slice is 1s; allowed: 100us"),
        ("ext run --weights pfs --lag-cap 1m --on vm:7.2 -- true", "lag-cap"),
        ("ext run --weights pfs --on sim -- true", "'host', 'vm:KERNEL'"),
        ("ext run --weights pfs --cpus 2 -- true", "--cpus means nothing with --on host"),
        ("run hogs --policy ext:fair --kernel 6.1 --costs ideal", "none, pfs, dw-cfs"),
        ("run hogs --policy ext:pfs --slice 3ms --kernel 6.12 --costs ideal", "one slice for all"),
    ],
)
def test_bad_options_are_refused_before_anything_boots(
    line: str, said: str, capsys: Capture
) -> None:
    assert invoke(line.split()) == 2
    error = capsys.readouterr().err
    assert said in error, error
    assert error.count("\n") == 1


def test_the_policy_takes_the_fair_class_place_in_a_simulation() -> None:
    # Three equal tasks of 120 ms on two CPUs: those that begin have turns of 8 ms (5 ms, ended by
    # ticks of 4 ms), in the order of virtual time over both CPUs, so that all end within two turns
    # of 180 ms. Under EEVDF two tasks share a CPU until the balancer moves one.
    work = Workload.parse("hogs:tasks=3,time=120ms")
    machine = Machine(2, "ideal")
    by_policy = simulate(
        work, scheduler="7.2", machine=machine, attributes=Attributes("ext:none", nice=1)
    )
    ends = [task.life_ns / 1e6 for task in by_policy.tasks if task.name.startswith("hog")]
    assert len(ends) == 3
    assert all(180 - 16 <= end <= 180 + 16 for end in ends), ends
    with pytest.raises(InputError, match="given twice"):
        simulate(
            work,
            scheduler=Scheduler("7.2", weights="pfs"),
            machine=machine,
            attributes=Attributes("ext:dw-cfs"),
        )


def test_comparisons_leave_out_slices_under_the_policy() -> None:
    found = combinations({"policy": ["other", "ext:pfs"], "slice": ["1ms"]})
    assert [str(one) for one in found] == ["policy=other, slice=1ms", "policy=ext:pfs"]
