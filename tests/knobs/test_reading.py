"""The state of a knob on a kernel, and why it cannot be set."""

import errno
import os
from pathlib import Path

import pytest

from schedlab.knobs import find, operations, read, table
from schedlab.knobs.places import Place, encode, holds_value

from .conftest import Tree


def test_values_have_their_units(tree: Tree) -> None:
    tree.file("proc/sys/kernel/sched_rt_runtime_us").write_text("-1\n")
    values = {
        name: read(find(name, "6.12")).value
        for name in ("base_slice", "rr_timeslice", "rt_runtime", "autogroup", "feature.NEXT_BUDDY")
    }
    assert values == {
        "base_slice": "1.4ms",
        "rr_timeslice": "100ms",
        "rt_runtime": "unlimited",
        "autogroup": "1",
        "feature.NEXT_BUDDY": "0",
    }


def test_a_knob_that_each_cpu_has_is_read_from_all(tree: Tree) -> None:
    knob = find("fair_server_runtime", "6.12")
    assert read(knob).value == "50ms"
    tree.file("sys/kernel/debug/sched/fair_server/cpu1/runtime").write_text("30000000\n")
    assert read(knob).value == "50ms on 1 CPUs, 30ms on 1"


@pytest.mark.parametrize(
    ("release", "name", "obstacle", "why"),
    [
        ("6.12", "latency", "release", "have base_slice and per-task slices in its place"),
        ("6.12", "nr_migrate", "not built in", "CONFIG_SCHED_DEBUG"),
        ("6.12", "feature.DELAY_ZERO", "not built in", "no feature DELAY_ZERO"),
        ("6.12", "cfs_bandwidth_slice", "not built in", "CONFIG_CFS_BANDWIDTH"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_what_is_not_there_is_said(release: str, name: str, obstacle: str, why: str) -> None:
    (knob,) = [one for one in table(release, 2) if one.name == name]
    reading = read(knob)
    assert (reading.value, reading.settable, reading.obstacle) == (None, False, obstacle)
    assert why in reading.why


def test_debugfs_that_is_not_mounted_is_said(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree.root / "sys/kernel/debug").rename(tree.root / "elsewhere")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reading = read(find("base_slice", "6.12"))
    assert reading.obstacle == "not mounted"
    assert "mount -t debugfs" in reading.why
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert read(find("base_slice", "6.12")).obstacle == "not root"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("none [integrity] confidentiality\n", "lockdown: integrity"),
        ("[none] integrity confidentiality\n", "a restricted debugfs"),
        (None, "lockdown or a restricted debugfs"),
    ],
)
def test_lockdown_may_refuse_even_reading(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    if text is not None:
        (tree.root / "sys/kernel/security").mkdir()
        (tree.root / "sys/kernel/security/lockdown").write_text(text)
    monkeypatch.setattr(operations, "read_text", refuse)
    reading = read(find("base_slice", "6.12"))
    assert (reading.value, reading.settable, reading.obstacle) == (None, False, "lockdown")
    assert f"even to read {tree.root}" in reading.why
    assert reading.why.endswith(f"({said})")


@pytest.mark.parametrize(
    ("number", "user", "obstacle"),
    [
        (errno.EACCES, 1000, "not root"),
        (errno.EACCES, 0, "read-only"),
        (errno.EROFS, 0, "read-only"),
        (errno.EPERM, 0, "lockdown"),
        (errno.ENOMEM, 0, "other"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_a_refused_write_says_why(
    monkeypatch: pytest.MonkeyPatch, number: int, user: int, obstacle: str
) -> None:
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(Place, "try_to_open", lambda _: error)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    reading = read(find("rr_timeslice", "6.12"))
    assert (reading.value, reading.settable, reading.obstacle) == ("100ms", False, obstacle)


def test_looking_whether_it_may_be_set_changes_nothing(tree: Tree) -> None:
    before = tree.texts()
    for knob in table("6.12", 2):
        read(knob)
    assert tree.texts() == before


def test_what_is_written_is_in_the_files_unit() -> None:
    # kernel/sched/rt.c, sched_rt_sysctls: milliseconds for the slice, microseconds for the others.
    for name, value, raw in [
        ("rr_timeslice", "5ms", "5"),
        ("rt_runtime", "950ms", "950000"),
        ("rt_runtime", "unlimited", "-1"),
        ("base_slice", "3ms", "3000000"),
        ("autogroup", "0", "0"),
        ("feature.NEXT_BUDDY", "0", "NO_NEXT_BUDDY"),
    ]:
        knob = find(name, "6.12")
        assert encode(knob, value) == raw
        assert holds_value(knob, value, raw)
    assert not holds_value(find("base_slice", "6.12"), "3ms", "2999999")
