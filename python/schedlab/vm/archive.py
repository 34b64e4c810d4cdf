"""The distribution's archive of kernels: what it offers, and fetching one without installing it.

The archive is reached as this machine's apt reaches it: the address, the proxy and the keys are
those of its configuration. Only the list of suites is our own; each gets a private directory of
lists, so that nothing of the machine's own package state is touched. apt checks the signatures.
"""

import gzip
import json
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlab.boundary.errors import InputError, RunError
from schedlab.boundary.files import make_directory, write_text
from schedlab.processes import processes
from schedlab.vm import kernels
from schedlab.vm.image import release_of
from schedlab.vm.kernels import KernelImage

SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid")
"""Debian's suites, the oldest first: 5.10, 6.1, 6.12 from two, and what came after."""

_FRESH = 24 * 3600
"""Seconds for which what a suite offers is taken as known."""

_OFFERS = "offers.json"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_IMAGE = re.compile(r"linux-image-(\d+\.\d+)[^ ]*-amd64")
_DOCUMENTS = """\
dpkg-deb --fsys-tarfile "$1" | tar --extract --directory="$2" --wildcards './usr/share/doc/*'"""
_OTHER_FLAVOURS = ("-cloud-", "-rt-", "-dbg", "-unsigned")


@dataclass(frozen=True, slots=True)
class Offer:
    """A kernel that the archive has.

    Attributes:
        series: such as ``6.1``.
        release: what ``uname -r`` will print.
        suite: where.
        version: the package's version.
        packages: all parts, as ``name=version``.
        bytes: to be fetched.
    """

    series: str
    release: str
    suite: str
    version: str
    packages: tuple[str, ...]
    bytes: int


def offers(note: list[str]) -> list[Offer]:
    """Return the newest kernel of every series in each suite.

    Args:
        note: gets a line for each suite that could not be read.

    Raises:
        InputError: apt is missing, or its configuration names no archive of Debian's.
        RunError: no suite could be read.
    """
    address = mirror()
    found: list[Offer] = []
    for suite in SUITES:
        try:
            found += _suite(suite, address)
        except RunError as error:
            note.append(str(error))
    if not found:
        raise RunError(note[0] if note else "the archive offers no kernels")
    return found


def get(series: str, note: list[str]) -> KernelImage:
    """Fetch the newest kernel of a series into the cache, whole or not at all, and return it.

    A kernel that is in the cache already is not fetched again.

    Args:
        series: such as ``6.1``, or a whole release.
        note: gets a line for each suite that could not be read.

    Raises:
        InputError: no suite has it, or apt is missing.
        RunError: the archive cannot be reached, or the disk is full.
    """
    available = offers(note)
    match = [offer for offer in available if series in (offer.series, offer.release)]
    if not match:
        have = ", ".join(sorted({offer.series for offer in available}, key=kernels.natural))
        gone = f"; {note[0]}" if note else ""
        raise InputError(f"the archive has no kernel '{series}': it has {have}{gone}")
    offer = max(match, key=lambda offer: kernels.natural(offer.version))
    for kernel in kernels.cached():
        if (kernel.release, kernel.version) == (offer.release, offer.version):
            return kernel
    return _fetch(offer)


def changelog(offer: Offer) -> str:
    """Return the changelog of a kernel's package, which lists the stable changes of its points.

    It is read from the smallest package that is built with the kernel and that the archive still
    has: ``linux-base`` (from 7.0 on), ``linux-kbuild``, or the kernel itself, more than 100 MB. It
    is kept, so that each is fetched once.

    Args:
        offer: the kernel.

    Raises:
        RunError: the archive cannot be reached, the disk is full, or no package has a changelog.
    """
    directory = kernels.directory() / "apt" / offer.suite
    kept = directory / f"changelog-{offer.release}_{offer.version}.gz"
    with suppress(OSError, EOFError):
        return gzip.decompress(kept.read_bytes()).decode("utf-8", "replace")
    package = _with_changelog(offer, directory / "apt.conf")
    try:
        with tempfile.TemporaryDirectory(prefix=".changelog.", dir=directory) as name:
            work = Path(name)
            _run(["apt-get", "download", "-qq", package], directory / "apt.conf", work)
            for file in work.glob("*.deb"):
                _run(["sh", "-c", _DOCUMENTS, "sh", str(file), str(work)], None)
            found = sorted(work.glob("usr/share/doc/*/changelog*.gz"))
            if found:
                found[0].replace(kept)
                return gzip.decompress(kept.read_bytes()).decode("utf-8", "replace")
    except OSError as error:
        raise RunError(f"the changelog of {package} cannot be read: {error.strerror}") from None
    raise RunError(f"{package} has no changelog")


def _with_changelog(offer: Offer, configuration: Path) -> str:
    """Return the smallest package with a kernel's changelog, as ``name=version``."""
    for part in offer.packages:
        if part.startswith("linux-base-"):
            return part
    build = offer.release.removesuffix("-amd64")
    for name in (f"linux-kbuild-{build}", f"linux-kbuild-{offer.series}"):
        # apt-cache fails where it knows no package of that name.
        with suppress(RunError):
            if any(about["Version"] == offer.version for about in _show([name], configuration)):
                return f"{name}={offer.version}"
    return offer.packages[0]


def mirror() -> str:
    """Return the address from which this machine's apt takes Debian's packages.

    Raises:
        InputError: apt is missing, or its configuration names none.
    """
    text = _run(["apt-get", "update", "--print-uris"], None)
    for address, suite in re.findall(r"^'(\S+?)dists/(\S+)/InRelease'", text, re.MULTILINE):
        if suite in SUITES:
            return str(address)
    raise InputError(
        "this machine's apt configuration names no archive with one of Debian's suites "
        f"({', '.join(SUITES)}): give the path of a vmlinuz instead"
    )


def _suite(suite: str, address: str) -> list[Offer]:
    base = kernels.directory() / "apt" / suite
    if (known := _remembered(base, address)) is not None:
        return known
    configuration = _root(base, suite, address)
    names = [
        name
        for name in _run(["apt-cache", "pkgnames", "linux-image-"], configuration).split()
        if _IMAGE.fullmatch(name) and not any(word in name for word in _OTHER_FLAVOURS)
    ]
    newest: dict[str, dict[str, str]] = {}
    for about in _show(names, configuration):
        match = _IMAGE.fullmatch(about["Package"])
        assert match is not None
        series = match.group(1)
        best = newest.get(series)
        if best is None or kernels.natural(about["Version"]) > kernels.natural(best["Version"]):
            newest[series] = about
    made = [_offer(series, about, suite, configuration) for series, about in newest.items()]
    found = [offer for offer in made if offer is not None]
    about_suite = {"address": address, "offers": [asdict(offer) for offer in found]}
    write_text(base / _OFFERS, json.dumps(about_suite, indent=2) + "\n")
    return found


def _remembered(base: Path, address: str) -> list[Offer] | None:
    """Return what a suite offered within the last day, None where that is not known."""
    try:
        file = base / _OFFERS
        if not 0 <= time.time() - file.stat().st_mtime < _FRESH:
            return None
        value = json.loads(file.read_text(encoding="utf-8"))
        if value["address"] != address:
            return None
        return [Offer(**{**one, "packages": tuple(one["packages"])}) for one in value["offers"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _offer(series: str, about: dict[str, str], suite: str, configuration: Path) -> Offer | None:
    """Return what a package offers; None where the archive has lost some of its parts."""
    release = about["Package"].removeprefix("linux-image-")
    # Newer packages split the image, its modules and the files about both.
    names = re.findall(
        rf"linux-(?:binary|modules|base)-{re.escape(release)}(?![^ ,(])", about.get("Depends", "")
    )
    others = _show(names, configuration)
    missing = set(names) - {part["Package"] for part in others}
    # Without the base there is a kernel all the same: it has the configuration and the symbols.
    if any(not name.startswith("linux-base-") for name in missing):
        return None
    parts = [about, *others]
    return Offer(
        series,
        release,
        suite,
        about["Version"],
        tuple(f"{part['Package']}={part['Version']}" for part in parts),
        sum(int(part["Size"]) for part in parts),
    )


def _show(names: list[str], configuration: Path) -> list[dict[str, str]]:
    if not names:
        return []
    text = _run(["apt-cache", "show", "--no-all-versions", *names], configuration)
    stanzas = (
        dict(line.split(": ", 1) for line in block.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        for block in text.split("\n\n")
    )
    return [stanza for stanza in stanzas if {"Package", "Version", "Size"} <= stanza.keys()]


def _root(base: Path, suite: str, address: str) -> Path:
    """Return the configuration of a private apt directory with one suite, its lists fresh."""
    for name in ("lists/partial", "cache/archives/partial"):
        make_directory(base / name)
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    lines = [
        f'Dir::State::lists "{base}/lists";',
        f'Dir::State::status "{base}/status";',
        f'Dir::Cache "{base}/cache";',
        f'Dir::Etc::sourcelist "{base}/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        'Acquire::Languages "none";',
        # The machine's own hooks after an update are none of ours.
        "#clear APT::Update::Post-Invoke;",
        "#clear APT::Update::Post-Invoke-Success;",
        "#clear Acquire::IndexTargets::deb::DEP-11;",
        *(['APT::Sandbox::User "root";'] if os.geteuid() == 0 else []),
    ]
    configuration = base / "apt.conf"
    try:
        (base / "status").touch()
        (base / "sources.list").write_text(f"deb {signed}{address} {suite} main\n", "utf-8")
        configuration.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        raise RunError(f"cannot write in '{base}': {error.strerror}") from None
    try:
        _run(["apt-get", "update", "--error-on=any", "-qq"], configuration)
    except RunError as error:
        raise RunError(f"suite {suite} of {address} cannot be read: {error}") from None
    return configuration


def _fetch(offer: Offer) -> KernelImage:
    base = make_directory(kernels.kernels_directory())
    target = base / offer.release
    configuration = kernels.directory() / "apt" / offer.suite / "apt.conf"
    try:
        with tempfile.TemporaryDirectory(dir=base, prefix=".new.") as name:
            work = Path(name)
            tree = work / "tree"
            tree.mkdir()
            for package in offer.packages:
                try:
                    _run(["apt-get", "download", "-qq", package], configuration, work)
                except RunError:
                    # What the suite was said to offer may be out of date: ask again next time.
                    configuration.with_name(_OFFERS).unlink(missing_ok=True)
                    raise
                for file in work.glob("*.deb"):
                    _run(["dpkg-deb", "--extract", str(file), str(tree)], None)
                    file.unlink()
            kernel = _unpacked(offer, tree)
            shutil.rmtree(tree / "usr" / "share", ignore_errors=True)
            kernels.save(kernel, tree)
            if target.exists():
                target.rename(work / "old")
            tree.rename(target)
    except OSError as error:
        raise RunError(f"cannot unpack the kernel in '{base}': {error.strerror}") from None
    return kernels.find_kernel(offer.release)


def _unpacked(offer: Offer, tree: Path) -> KernelImage:
    images = [*tree.glob("boot/vmlinuz-*"), *tree.glob("usr/lib/modules/*/vmlinuz")]
    directories = [
        tree / "lib" / "modules" / offer.release,
        tree / "usr" / "lib" / "modules" / offer.release,
    ]
    modules = next((place for place in directories if place.is_dir()), None)
    if not images or modules is None:
        raise RunError(f"the packages {', '.join(offer.packages)} hold no kernel with its modules")
    return KernelImage(release_of(images[0]), images[0], modules, offer.suite, offer.version)


def _run(command: list[str], configuration: Path | None, place: Path | None = None) -> str:
    """Run one of the package tools and return what it printed; its first complaint is the error."""
    if shutil.which(command[0]) is None:
        raise InputError(
            f"'{command[0]}' is not installed: kernels are fetched with a Debian system's apt; "
            "give the path of a vmlinuz instead"
        )
    changed = {"LC_ALL": "C.UTF-8"}
    if configuration is not None:
        changed["APT_CONFIG"] = str(configuration)
    words = [f"{name}={value}" for name, value in changed.items()]
    chdir = ["--chdir", str(place)] if place is not None else []
    done = processes.run(["env", *chdir, *words, *command], timeout=1800)
    if done.code == 0:
        return done.output
    lines = [
        line for line in done.errors.splitlines() if line.startswith(("E:", "dpkg-deb: error"))
    ]
    said = (lines or done.errors.splitlines() or [f"{command[0]} ended with code {done.code}"])[0]
    raise RunError(said.removeprefix("E: ").strip())
