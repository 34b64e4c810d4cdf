"""A journal is whole, or its readable part is used and the rest reported."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.boundary.errors import RunError
from schedlab.knobs import applied, journal, pending, restore
from schedlab.knobs.journal import Entry
from schedlab.knobs.places import Place

from .conftest import BOOT, Tree

NAMES = ("rr_timeslice_ms", "cfs_bandwidth_slice_us", "autogroup_enabled")
ENTRIES = tuple(
    Entry(name, Place(Path(f"/proc/sys/kernel/sched_{name}")), str(number), "7", "boot", 42)
    for number, name in enumerate(NAMES)
)


def test_what_is_written_is_read() -> None:
    assert journal.from_text(journal.to_text(ENTRIES)) == journal.Journal(ENTRIES)


def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_tells() -> None:
    text = journal.to_text(ENTRIES)
    ends = [index + 1 for index, letter in enumerate(text) if letter == "\n"]
    for length in range(len(text)):
        found = journal.from_text(text[:length])
        # A line is whole with or without its end.
        whole = sum(length >= end - 1 for end in ends)
        assert found.entries == ENTRIES[:whole], length
        assert bool(found.damage) == (whole < 3), length


@given(st.data())
def test_a_changed_letter_is_found(data: st.DataObject) -> None:
    text = journal.to_text(ENTRIES)
    index = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.characters(codec="ascii").filter(lambda one: one != text[index]))
    found = journal.from_text(text[:index] + letter + text[index + 1 :])
    assert set(found.entries) <= set(ENTRIES)
    assert found.damage or found.entries == ENTRIES


@given(st.text())
def test_any_text_is_read_without_a_crash(text: str) -> None:
    found = journal.from_text(text)
    assert found.entries == ()
    assert found.damage


def _line(file: str) -> str:
    value = {"number": 1, "of": 1, "knob": "x", "file": file, "flag": "", "pid": 1}
    body = json.dumps({**value, "original": "1", "setting": "2", "boot": BOOT})
    return f"{zlib.crc32(body.encode()):08x} {body}\n"


@pytest.mark.parametrize(
    "file",
    ["/etc/passwd", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/sched_x/../core_pattern"],
)
def test_a_journal_cannot_have_other_files_written(file: str) -> None:
    assert journal.from_text(_line("/proc/sys/kernel/sched_rr_timeslice_ms")).entries
    found = journal.from_text(_line(file))
    assert found.entries == ()
    assert "line 1 is broken" in found.damage[0]


@pytest.mark.parametrize("field", ["original", "setting", "own"])
def test_a_journal_holds_nothing_that_a_shell_would_carry_out(field: str) -> None:
    bad = "1; reboot"
    value = json.loads(_line("/proc/sys/kernel/sched_rr_timeslice_ms").partition(" ")[2])
    body = json.dumps({**value, field: [bad] if field == "own" else bad})
    found = journal.from_text(f"{zlib.crc32(body.encode()):08x} {body}\n")
    assert found.entries == ()
    assert "line 1 is broken" in found.damage[0]


def _entry(tree: Tree, name: str, original: str, boot: str = BOOT) -> Entry:
    """What a run would have written down that set the knob to what the tree holds."""
    place = Place(tree.file(f"proc/sys/kernel/sched_{name}"))
    return Entry(name, place, original, place.read(), boot, 42)


def _crashed(tree: Tree, *entries: Entry) -> str:
    """Leave a journal, as a killed run does."""
    tree.state.mkdir()
    text = journal.to_text(entries)
    tree.journal.write_text(text)
    return text


def test_a_damaged_journal_is_carried_out_as_far_as_it_is_whole(tree: Tree) -> None:
    text = _crashed(
        tree, _entry(tree, "rr_timeslice_ms", "50"), _entry(tree, "autogroup_enabled", "0")
    )
    tree.journal.write_text(text[:-20])
    # Nothing is set on top of it, and the file stays until someone looked at it.
    with (
        pytest.raises(RunError, match="damaged: line 2 is broken"),
        applied({"rt_runtime": "900ms"}, "6.12", 2),
    ):
        pass
    assert (tree.sysctl("rr_timeslice_ms"), tree.sysctl("autogroup_enabled")) == ("50", "1")
    assert tree.sysctl("rt_runtime_us") == "950000"
    assert tree.kept() == {"knobs.journal"}
    with pytest.raises(RunError, match=r"put back: rr_timeslice_ms; it is kept as .*damaged'"):
        restore()
    assert tree.kept() == {"knobs.journal.damaged"}
    assert (tree.state / "knobs.journal.damaged").read_text() == text[:-20]
    with applied({"rt_runtime": "900ms"}, "6.12", 2):
        assert tree.sysctl("rt_runtime_us") == "900000"


@pytest.mark.parametrize("text", ["", "\n", "nonsense\n", "\x00" * 512])
def test_a_journal_of_nothing_is_told_and_kept(tree: Tree, text: str) -> None:
    _crashed(tree)
    tree.journal.write_text(text)
    for number in ("", "-2"):
        tree.journal.write_text(text)
        with pytest.raises(RunError, match="put back: nothing"):
            restore()
        assert (tree.state / f"knobs.journal.damaged{number}").read_text() == text


def test_after_a_reboot_nothing_is_written(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    text = _crashed(tree, _entry(tree, "rr_timeslice_ms", "50", boot="another"))
    assert pending() == ()
    assert restore() == []
    assert tree.sysctl("rr_timeslice_ms") == "100"
    assert "in another boot (rr_timeslice_ms)" in caplog.text
    assert tree.kept() == {"knobs.journal.boot-another"}
    caplog.clear()
    assert restore() == []
    assert not caplog.text
    # Two machines may share the directory, a host and its guest: the first finds its own again.
    tree.file("proc/sys/kernel/random/boot_id").write_text("another\n")
    assert [entry.original for entry in pending()] == ["50"]
    (done,) = restore()
    assert (done.found, done.original, tree.sysctl("rr_timeslice_ms")) == ("100", "50", "50")
    assert tree.kept() == set()
    assert text
