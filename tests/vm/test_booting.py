"""A guest that dies while it boots is booted again, and its console output is kept."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError, RunError
from schedlab.targets import vm
from schedlab.vm import Guest
from schedlab.vm.command import QEMU, counting, counts_several
from schedlab.vm.kernels import KernelImage, kernels_directory

# It takes QEMU's place: a guest that dies the first times that it is started, and then serves. Of
# QEMU's options it knows the console.
FAKE = """\
#!/bin/sh
echo start >> {place}/starts
console=$(echo "$*" | sed 's/.*-serial file:\\([^ ]*\\).*/\\1/')
if [ $(wc -l < {place}/starts) -le {deaths} ]; then
    {dying}
    exit 0
fi
echo schedlab-guest-ready
shared=$(echo "$*" | sed 's/.*id=shared,path=\\([^,]*\\),.*/\\1/')
while read job; do
    echo 2 > $shared/.$job/output
    echo "$job 0"
done
"""

OOPS = """printf '%s\\n' '[    1.9] Oops: int3: 0000 [#1] SMP NOPTI' \
'[    1.9] RIP: 0010:sched_clock_cpu+0x5/0xc0' '[    2.0] Kernel panic - not syncing: Fatal' \
> "$console" """

IMAGE = KernelImage("6.1.0", Path("vmlinuz"), None)


def _fake(place: Path, patch: pytest.MonkeyPatch, deaths: int, dying: str = OOPS) -> None:
    program = place / QEMU
    program.write_text(FAKE.format(place=place, deaths=deaths, dying=dying))
    program.chmod(0o755)
    patch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    patch.setenv("XDG_CACHE_HOME", str(place / "cache"))


def _starts(place: Path) -> int:
    return len((place / "starts").read_text().splitlines())


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_guest_that_dies_while_booting_is_booted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    _fake(tmp_path, monkeypatch, deaths)
    with Guest.boot(IMAGE, accelerator="tcg") as guest:
        assert guest.up
        assert _starts(tmp_path) == deaths + 1
        assert len(guest.notes) == deaths
    for note in guest.notes:
        said = "ended while booting (Oops: int3: 0000 [#1] SMP NOPTI in sched_clock_cpu); its"
        assert said in note
        match = re.search(r"its console: (.*); it was booted again$", note)
        assert match is not None
        assert "Kernel panic" in Path(match.group(1)).read_text()


def test_a_guest_that_dies_three_times_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake(tmp_path, monkeypatch, 99)
    with pytest.raises(RunError, match="Oops: int3"), Guest.boot(IMAGE, accelerator="tcg"):
        pass
    assert _starts(tmp_path) == 3
    assert len(list((tmp_path / "cache/schedlab/consoles").iterdir())) == 3


@pytest.mark.parametrize(
    ("dying", "said"),
    [
        ("echo 'qemu-system-x86_64: no such option' >&2", "no such option"),
        ("echo 'schedlab: cannot load 9p.ko' > $console", "cannot load 9p.ko"),
    ],
)
def test_what_is_the_same_next_time_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dying: str, said: str
) -> None:
    _fake(tmp_path, monkeypatch, 99, dying)
    with pytest.raises(RunError, match=said), Guest.boot(IMAGE, accelerator="tcg"):
        pass
    assert _starts(tmp_path) == 1


# QEMU, but that its first guest's kernel finds nothing to start and panics.
PANICKING = """\
#!/bin/sh
[ -e {place}/started ] && exec {qemu} "$@"
touch {place}/started
exec {qemu} "$@" -append "console=ttyS0 panic=-1 rdinit=/no/such/program"
"""


def test_a_real_kernel_that_panics_once_is_booted_again_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: Callable[[str], KernelImage]
) -> None:
    kernel = fetched("6.1")
    found = next(
        Path(place) / QEMU
        for place in os.environ["PATH"].split(":")
        if (Path(place) / QEMU).exists()
    )
    program = tmp_path / QEMU
    program.write_text(PANICKING.format(place=tmp_path, qemu=found))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Guest.boot(kernel, accelerator="tcg") as guest:
        outcome = vm.run("hackbench:groups=1,fds=2,loops=2", guest)
    (note,) = outcome.notes
    assert "ended while booting (Kernel panic" in note
    console = Path(note.rpartition("its console: ")[2].partition(";")[0])
    assert "Unable to mount root fs" in console.read_text()
    console.unlink()


def test_boots_are_counted_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: Callable[[str], KernelImage]
) -> None:
    kernel = fetched("6.1")
    (tmp_path / "cache/schedlab").mkdir(parents=True)
    (tmp_path / "cache/schedlab/kernels").symlink_to(kernels_directory())
    _fake(tmp_path, monkeypatch, 1)
    script = Path(__file__).parents[2] / "scripts/boot-guests"
    words = ["2", "--kernel", kernel.release, "--way", "default", "--way", "one-thread"]
    done = subprocess.run(
        [sys.executable, script, *words], capture_output=True, text=True, check=False
    )
    # Four boots, of which the first dies; it is not tried again.
    assert _starts(tmp_path) == 4, done.stderr
    first, *others, counts, more = done.stdout.splitlines()
    assert re.match(r"1 default [0-9]+ s DIED: .*Oops: int3.*its console: /", first)
    assert [line.rpartition(" ")[2] for line in others] == ["served"] * 3
    assert (counts, more) == ("default: 1 of 2 boots died", "one-thread: 0 of 2 boots died")
    assert done.returncode == 1


def test_an_old_qemu_counts_the_instructions_of_one_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / QEMU
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for version, several in (("7.2.22", False), ("8.1.0", True), ("10.0.2", True)):
        program.write_text(f"#!/bin/sh\necho QEMU emulator version {version}\n")
        program.chmod(0o755)
        assert counts_several() is several
    program.write_text("#!/bin/sh\necho QEMU emulator version 7.2.22\n")
    assert "-netdev" not in counting(1)
    said = "from 8.1 on, this one is 7.2"
    with pytest.raises(InputError, match=said), Guest.boot(IMAGE, cpus=2, clock="instructions"):
        pass
