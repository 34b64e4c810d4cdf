"""Guests that use too much: their limits, the files they see, and the errors."""

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from schedlab.boundary.errors import InputError, RunError
from schedlab.targets import host, vm
from schedlab.targets.virtual import _read
from schedlab.vm import Guest, shares
from schedlab.vm.control import Control
from schedlab.vm.exchange import Exchange, tail
from schedlab.vm.guest import Guest as Booted
from schedlab.vm.kernels import KernelImage
from schedlab.vm.workplace import workplace


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    place = tmp_path / "shared"
    place.mkdir()
    return Exchange(place)


# What a guest could leave under the name of a command's output, if QEMU let it through.
TRICKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a device without end": (lambda file: file.symlink_to("/dev/zero"), "cannot be read"),
    "a file of ours": (lambda file: file.symlink_to("/proc/self/environ"), "cannot be read"),
    "a FIFO without a writer": (os.mkfifo, "is no regular file"),
    "a directory": (lambda file: file.mkdir(), "is no regular file"),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_but_regular_files_is_opened(exchange: Exchange, trick: str) -> None:
    plant, said = TRICKS[trick]
    plant(exchange.place / "output")
    with pytest.raises(RunError, match=f"the guest left 'output', which {said}"):
        exchange.text("output")


def test_no_link_is_followed_on_the_way(exchange: Exchange, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "output").write_text("a secret")
    (exchange.place / ".1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="cannot be read"):
        exchange.text(".1/output")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        exchange.write(".1/job", b"x")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        exchange.make(".1/directory")
    # Nor is anything of the guest's written over, were it a link to a file of ours.
    (exchange.place / "job").symlink_to(tmp_path / "elsewhere" / "output")
    with pytest.raises(FileExistsError):
        exchange.write("job", b"x")
    assert [file.name for file in (tmp_path / "elsewhere").iterdir()] == ["output"]
    assert (tmp_path / "elsewhere" / "output").read_text() == "a secret"
    with pytest.raises(RunError, match="no path below"):
        exchange.text("../elsewhere/output")


def test_what_is_read_is_bounded(exchange: Exchange) -> None:
    with (exchange.place / "output").open("wb") as stream:
        stream.truncate(10 << 30)
    with pytest.raises(RunError, match="has 10737418240 bytes; at most 67108864 are taken"):
        exchange.text("output")
    # One that grows after it was opened gives no more than the bound either.
    (exchange.place / "grows").write_bytes(b"1234")
    got: list[bytes] = []
    exchange.copy("grows", got.append, most=4)
    assert got == [b"1234"]
    (exchange.place / "console").write_bytes(b"x" * 100 + b"the end")
    assert tail(exchange.place / "console", 7) == "the end"
    assert exchange.text("nothing") == ""


def test_a_guest_is_offered_neither_homes_nor_the_machines_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = [Path("/etc/shadow"), Path("/root"), Path.home(), Path("/var/lib"), Path("/proc/1")]
    for here in (Path.home(), Path("/"), Path("/etc"), Path("/root")):
        monkeypatch.chdir(here)
        for one in shares.directories():
            assert not any(place.is_relative_to(one) for place in secret), (here, one)
    monkeypatch.chdir(tmp_path)
    assert any(tmp_path.is_relative_to(one) for one in shares.directories())
    monkeypatch.chdir("/")
    assert not any(tmp_path.is_relative_to(one) for one in shares.directories())
    monkeypatch.setenv(shares.VARIABLE, f"{tmp_path}:")
    assert tmp_path in shares.directories()
    monkeypatch.setenv(shares.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(InputError, match="missing', which is no directory"):
        shares.directories()


def test_a_guest_gets_the_systems_users_and_no_password() -> None:
    files = {name: data.decode(errors="replace") for name, data, _ in shares.settings()}
    assert "etc/shadow" not in files
    assert "etc/ld.so.cache" in files
    for line in files["etc/passwd"].splitlines():
        _, password, number, *_ = line.split(":")
        assert password == "x"
        assert int(number) < 1000 or int(number) == 65534


def test_what_is_swept_is_a_directory_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours, elsewhere = tmp_path / "schedlab-vm-left", tmp_path / "elsewhere"
    for place in (ours, elsewhere):
        place.mkdir()
        (place / "lock").touch()
    link = tmp_path / "schedlab-vm-link"
    link.symlink_to(elsewhere)
    opened: list[Path] = []
    really = os.open

    def note_and_open(
        path: Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        opened.append(path)
        return really(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr("schedlab.vm.workplace.os.open", note_and_open)
        with workplace():
            assert not ours.exists()
            assert (elsewhere / "lock").exists()
    # Another user could have made it: not even the lock behind it is opened.
    assert ours / "lock" in opened
    assert link / "lock" not in opened


class _Speaker:
    """A process whose output is a pipe of ours."""

    def __init__(self, stdout: IO[bytes]) -> None:
        self.stdout = stdout


def test_a_line_without_end_is_not_kept(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb+") as errors:
        (tmp_path / "line").write_bytes(b"x" * (1 << 20) + b"\nready\n")
        with (tmp_path / "line").open("rb") as stream:
            deadline = time.monotonic() + 60
            control = Control(_Speaker(stream), errors)  # type: ignore[arg-type]
            first = control.line(deadline)
            assert first is not None
            assert len(first) <= 1 << 16
            assert control.line(deadline) == "ready"


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "7", '{"error": 3}', "[" * 100_000, '{"error": ["x"], "message": {}}'],
)
def test_an_answer_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(RunError) as caught:
        _read(text, "vm:6.1")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def hostile(fetched: Callable[[str], KernelImage]) -> Iterator[Booted]:
    with Guest.boot(fetched("6.1")) as guest:
        yield guest


@pytest.fixture
def peak() -> Iterator[None]:
    """See that a test grows this process by less than 200 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # in KiB


# A command that puts something else in the place of its own output, as a runner that was replaced
# could: the files of the command under way are in the only numbered directory.
_OUTPUT = 'o=$(echo "$OUT"/.[0-9]*)/output; rm "$o"; '


@pytest.mark.usefixtures("peak")
def test_a_hostile_guest_leaves_nothing_but_plain_files(hostile: Booted) -> None:
    for attack, seen in (
        ('ln -s /dev/zero "$o"', "/dev/zero"),
        ('ln -s /proc/self/environ "$o"', "/proc/self/environ"),
        ('ln -s ../../../../etc/passwd "$o"', "../../../../etc/passwd"),
        ('mkfifo "$o"', ""),
        ('mknod "$o" c 1 5', ""),
        ('mknod "$o" b 254 0', ""),
        ('cp /bin/true "$o"; chmod 6755 "$o"; : > "$o"', ""),
    ):
        # QEMU keeps a link's target as the content of a plain file; the rest is empty.
        done = hostile.run(["sh", "-c", _OUTPUT + attack])
        assert (done.code, done.output) == (0, seen), (attack, done.errors)
    for attack, said in (
        ('mkdir "$o"', "is no regular file"),
        ('truncate -s 10G "$o"', "at most 67108864 are taken"),
    ):
        with pytest.raises(RunError, match=said):
            hostile.run(["sh", "-c", _OUTPUT + attack])
    script = (
        "cp /bin/sh $OUT/shell; chmod 6755 $OUT/shell; ls -l $OUT/shell; mknod $OUT/disk b 254 0; "
        "ln -s /etc $OUT/directory; mkfifo $OUT/fifo; stat -c %F $OUT/disk $OUT/directory $OUT/fifo"
    )
    done = hostile.run(["sh", "-c", script])
    # In the guest they are what it made of them …
    assert done.output.startswith("-rwsr-sr-x")
    kinds = ["block special file", "symbolic link", "fifo"]
    assert done.output.splitlines()[1:] == kinds, done.errors
    # … and here plain files without a bit that gives rights.
    for name in ("shell", "disk", "directory", "fifo"):
        mode = (hostile.shared / name).lstat().st_mode
        assert stat.S_ISREG(mode), name
        assert not mode & (stat.S_ISUID | stat.S_ISGID | 0o077), name


def test_a_hostile_guest_sees_programs_and_no_secrets(hostile: Booted) -> None:
    mark = Path("/var/tmp/schedlab-hostile-mark")
    mark.write_text("a secret")
    home = Path.home() / ".schedlab-hostile-mark"
    home.write_text("a secret")
    try:
        script = (
            f"cat /etc/shadow {mark} {home}; "
            # Nor by mounting what it is offered itself: a link's target is the guest's own.
            "mkdir /a; for tag in host0 host1 host2 host3; do "
            "mount -t 9p -o trans=virtio,version=9p2000.L $tag /a && ls -a /a && umount /a; done; "
            "mount -t 9p -o trans=virtio,version=9p2000.L root /a"
        )
        done = hostile.run(["sh", "-c", script])
        assert "a secret" not in done.output
        assert "shadow" not in done.output
        assert done.errors.count("No such file") >= 3
        # And it can write to none of it.
        write = "for t in host0 host1 host2; do mount -t 9p -o rw,trans=virtio,version=9p2000.L "
        write += "$t /a && touch /a/schedlab-hostile-mark; umount /a; done; true"
        said = hostile.run(["sh", "-c", write]).errors
        assert "Read-only file system" in said or "busy" in said
        for place in hostile.sees:
            assert not (place / "schedlab-hostile-mark").exists()
    finally:
        mark.unlink()
        home.unlink()


@pytest.mark.parametrize("said", ["", "nonsense", "[1]", "{}", '{"tasks": 3, "cpu_busy_ns": []}'])
def test_a_runner_that_was_replaced_is_told(hostile: Booted, said: str) -> None:
    runner = hostile.inside(host.runner())
    hostile.run(
        ["sh", "-c", "rm -f $1; cat > $1; chmod +x $1", "sh", runner],
        text=f"#!/bin/sh\necho '{said}'\n",
    )
    with pytest.raises(RunError, match="printed no outcome"):
        vm.run("hackbench:groups=1,fds=2,loops=2", hostile)


def test_an_exit_code_that_is_none_is_told(hostile: Booted) -> None:
    # Root in the guest writes to the line of the jobs itself, with the number of this one.
    script = 'n=$(basename "$OUT"/.[0-9]*); echo "${n#.} 99999999999x" > /dev/ttyS1; sleep 60'
    with pytest.raises(RunError, match="with '99999999999x', no exit code"):
        hostile.run(["sh", "-c", script])
