"""User input: bounded by kind and size, refused in one line, and never an escape sequence."""

import gzip
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import schedlab
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_bytes, read_text
from schedlab.experiment.subjects import Conditions
from schedlab.processes import capture, processes
from schedlab.programs.command import command
from schedlab.report.markup import code, plain
from schedlab.report.terminal import safe
from schedlab.store import Store
from schedlab.targets.target import Host

MEMORY = 3 << 30
"""Bytes a child may reserve: far below what reading a device without end takes."""

_BEGIN = "import sys; from schedlab.cli import main; main(sys.argv[1:])"


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _run(*words: str | bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-c", _BEGIN, *words],
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=_limited,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )


@pytest.mark.parametrize(
    "words",
    [
        "run /dev/zero",
        "run hackbench --kernel 6.1 --cpus 1 --costs /dev/zero",
        "report /dev/zero",
        "report --list --store /dev/zero",
        "replay /dev/zero",
        "replay /dev/null --snapshot /dev/zero",
        "infer /dev/zero --costs ideal",
        "workload /dev/zero",
    ],
)
def test_a_device_is_refused_before_it_is_read(words: str) -> None:
    done = _run(*words.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr.count(b"\n") == 1
    assert b"/dev/" in done.stderr


def test_a_larger_file_than_allowed_is_refused_with_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(3 << 20)  # a hole: no disk is used
    # 3 MiB are 3,145,728 bytes.
    with pytest.raises(InputError, match=r"3,145,728 bytes; allowed: at most 2 MiB"):
        read_bytes(path, "file", 2 << 20)
    assert len(read_bytes(path, "file", 3 << 20)) == 3 << 20


def test_a_pipe_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for size, allowed in ((10, True), (11, False)):
        writer = subprocess.Popen(["sh", "-c", f'head -c {size} /dev/zero >"{path}"'])
        if allowed:
            assert read_text(path, "file", 10) == "\0" * 10
        else:
            with pytest.raises(InputError, match="more than 10 bytes"):
                read_text(path, "file", 10)
        writer.wait()


def test_a_recording_that_grows_when_it_is_unpacked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    # Comments are passed over, so nothing but their amount is wrong: 300 MiB from some 300 kB.
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write((b"#" + b" " * 1022 + b"\n") * 1024)
    done = _run("replay", str(path))
    assert done.returncode == 2, done.stderr
    assert b"more text than allowed" in done.stderr


def test_long_output_is_kept_to_its_end_and_the_lines_that_match() -> None:
    # 40 MB of noise after the number: the number is found, and what is kept is bounded.
    script = "echo rate 7; yes noise | head -c 40000000"
    subject = command(["sh", "-c", script], [("rate ([0-9]+)", "higher")])
    assert subject.measure(Host(), Conditions()).values["metric"] == 7.0
    with capture.matching(""):
        done = processes.run(["sh", "-c", script])
    assert len(done.output) < capture.TAIL + 100
    # The cut may go through the last line, not through the end.
    assert done.output[-5:] in "noise\nnoise"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: schedlab.Machine(cpus="2"), "machine: cpus is '2', a str; allowed: 1 to 4096"),  # type: ignore[arg-type]
        (lambda: schedlab.Machine(cpus=2.5), "machine: cpus is 2.5, a float"),  # type: ignore[arg-type]
        (lambda: schedlab.Machine(cpus=True), "machine: cpus is True, a bool"),
        (lambda: schedlab.Machine(2, costs=5), "costs is 5, a int"),  # type: ignore[arg-type]
        (lambda: schedlab.Machine(2, "ideal", topology=5), "topology is 5"),  # type: ignore[arg-type]
        (lambda: schedlab.Scheduler(6.1), "release is 6.1, a float; allowed: text"),  # type: ignore[arg-type]
        (lambda: schedlab.Scheduler("6.1", hz="x"), "hz is 'x', a str"),  # type: ignore[arg-type]
        (lambda: schedlab.Workload.parse(5), "workload is 5, a int"),  # type: ignore[arg-type]
        (lambda: schedlab.Workload.parse("h\udcff"), r"workload 'h\\xff' is not UTF-8 text"),
        (lambda: schedlab.Workload.from_dict({"a": {1}}), "no JSON can be made of it"),
        (lambda: schedlab.Attributes(5), "policy is 5, a int"),  # type: ignore[arg-type]
        (lambda: schedlab.Attributes("other", "x"), "nice is 'x', a str"),  # type: ignore[arg-type]
        (lambda: schedlab.simulate(5), "workload is 5, a int"),  # type: ignore[arg-type]
        (lambda: schedlab.simulate("pipe", scheduler=5), "scheduler is 5, a int"),  # type: ignore[arg-type]
        (lambda: schedlab.simulate("pipe", scheduler="6.1", machine="x"), "machine is 'x', a str"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_refused_by_its_argument(
    call: Callable[[], object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([b"run", b"h\xffack"], b"'h\\xffack' is not UTF-8 text"),
        ([b"run", b"pipe", b"--cpus", b"x"], b"no whole number"),
        ([b"tune", b"pipe", b"--by", b"bayes"], b"'bayes' is not one of"),
        ([b"run", b"pipe:\x1b[31m"], b"\\x1b[31m"),
    ],
)
def test_a_wrong_argument_is_one_line_in_our_words(words: list[bytes], expected: bytes) -> None:
    done = _run(*words)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1, done.stderr
    assert expected in done.stderr
    for theirs in (b"Value error", b"Input should be", b"Traceback", b"\x1b"):
        assert theirs not in done.stderr


def test_a_damaged_store_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Store(path) as store:
        experiment = store.begin("compare", "title", {"a": 1}, [])
        store.finish(experiment, "failed")
        # Plans are JSON of a known shape; this one is JSON, and that one is not.
        for plan in ("{}", "{"):
            store._connection.execute("UPDATE experiment SET plan = ?", (plan,))
            done = _run("report", experiment, "--store", str(path))
            assert done.returncode == 2, done.stderr
            assert b"damaged" in done.stderr
            assert done.stderr.count(b"\n") == 1
        store._connection.execute("CREATE VIEW other AS SELECT 1")
    with pytest.raises(InputError, match="view 'other'"):
        Store(path)


def test_nothing_that_steers_a_terminal_is_printed() -> None:
    # Colours, a C1 control sequence, text written from right to left, and Rich's own markup.
    assert safe("\x1b[31m \x9b31m \u202e [bold]") == "\\x1b[31m \\x9b31m \\u202e \\[bold]"


def test_titles_are_text_in_markdown() -> None:
    assert plain("[x](http://y) <b> a|b\n# c") == "\\[x\\](http://y) &lt;b> a\\|b # c"
    assert code("a ``` b") == "```` a ``` b ````"
