"""Kernels in the cache and the archive: which are refused, and that no partial file stays."""

import json
from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError, RunError
from schedlab.cli.main import invoke
from schedlab.vm import archive, find_kernel, kernels
from schedlab.vm.image import release_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _image(file: Path, version: bytes) -> Path:
    """Write what the boot protocol asks of an image: its mark, and where its version is."""
    data = bytearray(0x400)
    data[0x202:0x206] = b"HdrS"
    data[0x20E:0x210] = (0x100).to_bytes(2, "little")  # counts from 0x200
    data[0x300 : 0x300 + len(version)] = version
    file.write_bytes(data)
    return file


def test_an_image_says_which_kernel_it_is(tmp_path: Path) -> None:
    file = _image(tmp_path / "vmlinuz", b"6.1.0-50-amd64 (someone@there) #1 SMP\0")
    assert release_of(file) == "6.1.0-50-amd64"
    found = find_kernel(str(file))
    assert (found.release, found.series, found.modules) == ("6.1.0-50-amd64", "6.1", None)


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 600, b"x" * 0x202 + b"HdrS"])
def test_a_file_that_is_no_kernel_is_refused_in_a_line(
    content: bytes, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "vmlinuz"
    file.write_bytes(content)
    assert invoke(["run", "hackbench", "--on", f"vm:{file}"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(file) in captured.err


@pytest.mark.parametrize("name", ["6.1", "4.4", "nonsense", "/no/such/vmlinuz"])
def test_a_kernel_that_is_not_there_is_refused_in_a_line(name: str, capsys: Capture) -> None:
    assert invoke(["run", "hackbench", "--on", f"vm:{name}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert name in error


def test_versions_are_ordered_by_their_numbers() -> None:
    versions = ["6.12.95-1~bpo12+1", "6.12.107-1", "6.12.9-1"]
    assert sorted(versions, key=kernels.natural) == [versions[2], versions[0], versions[1]]


def _apt(directory: Path, monkeypatch: pytest.MonkeyPatch, sources: str) -> None:
    (directory / "sources.list").write_text(sources)
    (directory / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{directory}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(directory / "apt.conf"))


def test_apt_without_debians_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _apt(tmp_path, monkeypatch, "deb file:/nowhere jammy main\n")
    with pytest.raises(InputError, match="names no archive"):
        archive.get("6.1", [])


def test_an_archive_that_cannot_be_reached_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    _apt(tmp_path, monkeypatch, f"deb file:{tmp_path}/nowhere bookworm main\n")
    assert invoke(["kernels", "get", "6.1"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nowhere" in error
    assert kernels.cached() == []


@pytest.mark.parametrize("failing", ["apt-get", "dpkg-deb"])
def test_a_failure_on_the_way_leaves_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two tools says that the disk is full."""
    offer = {
        "series": "6.1",
        "release": "6.1.0-1-amd64",
        "suite": "bookworm",
        "version": "6.1.1-1",
        "packages": ["linux-image-6.1.0-1-amd64=6.1.1-1"],
        "bytes": 1,
    }
    for suite in archive.SUITES:
        directory = kernels.directory() / "apt" / suite
        directory.mkdir(parents=True)
        offers = [offer] if suite == "bookworm" else []
        about = {"address": "file:/archive/", "offers": offers}
        (directory / "offers.json").write_text(json.dumps(about))
    full = "echo 'E: No space left on device' >&2; exit 100\n"
    tools = {
        "apt-get": 'case "$1" in update) echo "\'file:/archive/dists/bookworm/InRelease\' x";; '
        "*) touch a.deb;; esac\n",
        "dpkg-deb": 'mkdir -p "$3/boot"\n',
    }
    tools[failing] = (
        tools[failing].replace("touch a.deb", full.strip())
        if (failing == "apt-get")
        else tools[failing] + full
    )
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, script in tools.items():
        (binaries / name).write_text("#!/bin/sh\n" + script)
        (binaries / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    with pytest.raises(RunError, match="No space left"):
        archive.get("6.1", [])
    assert list(kernels.kernels_directory().iterdir()) == []


def test_no_qemu_is_said_with_the_package_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = _image(tmp_path / "vmlinuz", b"6.1.0-50-amd64 x\0")
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"static")
    busybox.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert invoke(["run", "hackbench", "--on", f"vm:{file}"]) == 2
    assert "apt-get install qemu-system-x86" in capsys.readouterr().err
    busybox.unlink()
    assert invoke(["run", "hackbench", "--on", f"vm:{file}"]) == 2
    assert "apt-get install busybox-static" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("release", "packages", "offered", "expected"),
    [
        # From 7.0 on the kernel is in parts, of which the base has the text.
        (
            "7.3.4+deb13-amd64",
            ("linux-image-7.3.4+deb13-amd64=1", "linux-base-7.3.4+deb13-amd64=1"),
            {},
            "linux-base-7.3.4+deb13-amd64=1",
        ),
        (
            "6.12.117+deb13-amd64",
            ("linux-image-6.12.117+deb13-amd64=1",),
            {"linux-kbuild-6.12.117+deb13": "1"},
            "linux-kbuild-6.12.117+deb13=1",
        ),
        # That of another version has another changelog.
        ("6.1.0-50-amd64", ("linux-image-6.1.0-50-amd64=2",), {"linux-kbuild-6.1": "1"}, None),
        ("6.17.13+deb13-amd64", ("linux-image-6.17.13+deb13-amd64=1",), {}, None),
    ],
)
def test_a_changelog_is_read_from_the_smallest_package_of_its_version(
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    packages: tuple[str, ...],
    offered: dict[str, str],
    expected: str | None,
) -> None:
    """Where there is none it is the kernel's own package, the first of its parts."""

    def show(names: list[str], _: Path) -> list[dict[str, str]]:
        if not any(name in offered for name in names):
            raise RunError("No packages found")
        return [{"Package": name, "Version": offered[name]} for name in names]

    monkeypatch.setattr(archive, "_show", show)
    series = ".".join(release.split(".")[:2])
    version = packages[0].rpartition("=")[2]
    offer = archive.Offer(series, release, "trixie", version, packages, 0)
    assert archive._with_changelog(offer, Path("apt.conf")) == (expected or packages[0])
