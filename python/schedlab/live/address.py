"""The page's address, which says what it shows."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text


def address(
    workload: str,
    *,
    kernels: tuple[str, str] = ("6.1", "6.12"),
    knobs: Mapping[str, str] | None = None,
    cpus: int = 1,
    costs: str = "ideal",
    seed: int = 1,
    groups: Iterable[str] = (),
    sessions: Iterable[str] = (),
) -> str:
    """Return the part of the page's address after ``#``.

    Args:
        workload: a built-in workload's word, or a file of a workload.
        kernels: the releases of A and B.
        knobs: B's knobs, with units; A has its defaults.
        cpus: the machine's CPUs.
        costs: ``ideal``, ``reference`` or ``linsched``.
        seed: of every random stream.
        groups: groups of tasks, as ``--group`` takes them.
        sessions: sessions, as ``--session`` takes them.

    Returns:
        Words that the page reads: ``workload=hogs&a=6.1&b=6.12``.

    Raises:
        InputError: the workload is neither a built-in one nor a file that can be read.

    >>> address("hogs:tasks=2", knobs={"base_slice": "5ms"}, cpus=2)
    'workload=hogs%3Atasks%3D2&a=6.1&b=6.12%3Bbase_slice%3D5ms&cpus=2&costs=ideal&seed=1'
    """
    words = [_source(workload), ("a", kernels[0])]
    words.append(("b", ";".join([kernels[1], *(f"{k}={v}" for k, v in (knobs or {}).items())])))
    words += [("cpus", str(cpus)), ("costs", costs), ("seed", str(seed))]
    words += [("group", one) for one in groups] + [("session", one) for one in sessions]
    return urlencode(words)


def is_recording(path: Path) -> bool:
    """Whether a file is a recording: a workload's text begins with ``{`` or a comment."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(64).lstrip()
    return not begin.startswith((b"{", b"/*", b"//"))


def _source(workload: str) -> tuple[str, str]:
    path = Path(workload)
    if path.is_file():
        text = read_text(path, "workload")
        try:
            _core.read_workload(text, path.stem)
        except InputError as error:
            raise InputError(f"{workload}: {error}") from None
        return "json", text
    _core.workload(workload)
    return "workload", workload
