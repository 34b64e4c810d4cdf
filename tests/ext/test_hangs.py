"""Kernels that are known to hang under a sched_ext scheduler, and the messages that say so."""

import json

import pytest

from schedlab.cli.main import invoke
from schedlab.processes import processes
from schedlab.processes.processes import Completed
from schedlab.targets import ext
from schedlab.targets.ext_hangs import HANGS, known_hangs

START, EXIT, PICK, LOCKUP = (hang.record for hang in HANGS)


# The first affected and the first fixed releases are those of the CVE records' "versions".
@pytest.mark.parametrize(
    ("release", "records"),
    [
        ("6.1.0-50-amd64", ()),
        ("6.11.9", ()),
        ("6.12", (START, EXIT, PICK)),
        ("6.12.17", (START, EXIT, PICK)),
        ("6.12.18", (START, EXIT)),
        ("6.12.77+deb13-amd64", (START, EXIT)),
        ("6.12.78", ()),
        ("6.13.5", (START, EXIT, PICK)),
        ("6.13.6", (START, EXIT)),
        ("6.14.0-15-generic", (START, EXIT)),
        ("6.17.8", (START, EXIT)),
        ("6.18.19", (START, EXIT)),
        ("6.18.20", ()),
        ("6.19.8", (START, EXIT)),
        ("6.19.9", ()),
        ("7.0", ()),
        ("7.1.3", (LOCKUP,)),
        ("7.2.5", (LOCKUP,)),
        ("7.2.6", ()),
        ("7.2.13+deb14-amd64", ()),
        ("7.3.0-rc1", ()),
        ("a kernel of mine", ()),
    ],
)
def test_hangs_are_known_by_release(release: str, records: tuple[str, ...]) -> None:
    found = known_hangs(release)
    assert len(found) == len(records)
    for line, record in zip(found, records, strict=True):
        assert line.startswith(f"sched_ext of kernel {release} may hang: ")
        assert record in line


def test_each_names_its_record_and_the_commit_that_ends_it() -> None:
    for hang in HANGS:
        assert len(hang.commit) == 40
        assert int(hang.commit, 16)
        assert hang.record.startswith("CVE-20")
        assert str(hang).count(hang.commit) == 1


def _status(release: str) -> str:
    return json.dumps(
        {
            "release": release,
            "possible": True,
            "why": None,
            "state": "disabled",
            "scheduler": None,
            "loaded_since_boot": 0,
        }
    )


@pytest.mark.parametrize(("release", "told"), [("7.1.3", True), ("7.2.13", False)])
def test_a_run_on_such_a_kernel_warns_first(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    release: str,
    told: bool,
) -> None:
    # A kernel of that release, in so far as the command asks: its loader answers and does nothing.
    order: list[str] = []

    def run(command: list[str]) -> Completed:
        return Completed(0, _status(release) if "status" in command else "", "")

    def attend(command: list[str]) -> int:
        assert "pfs" in command
        order.append(capsys.readouterr().err)
        return 0

    monkeypatch.setattr(ext, "loader", lambda: "loader")
    monkeypatch.setattr(processes, "run", run)
    monkeypatch.setattr(processes, "attend", attend)
    monkeypatch.setattr("platform.release", lambda: release)
    assert invoke(["ext", "run", "--weights", "pfs", "--", "true"]) == 0
    (before,) = order
    assert (LOCKUP in before and "--on vm:KERNEL" in before) is told
    assert invoke(["ext", "status", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["hangs"]) == int(told)
