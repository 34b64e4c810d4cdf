"""The kernels at hand: those in the cache, and the user's own."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlab.boundary.errors import InputError
from schedlab.vm.image import release_of

_SERIES = re.compile(r"[0-9]+\.[0-9]+")
_ABOUT = "kernel.json"


@dataclass(frozen=True, slots=True)
class KernelImage:
    """A kernel that can be booted.

    Attributes:
        release: what ``uname -r`` prints in its guest.
        image: its ``vmlinuz``.
        modules: the directory of its modules, None where there is none.
        suite: the suite it was fetched from; empty for the user's own.
        version: its package's version; empty for the user's own.
    """

    release: str
    image: Path
    modules: Path | None
    suite: str = ""
    version: str = ""

    @property
    def series(self) -> str:
        """Its series, such as ``6.1``."""
        match = _SERIES.match(self.release)
        return match.group() if match else self.release


def directory() -> Path:
    """Return this user's cache directory, ``$XDG_CACHE_HOME/schedlab``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    parent = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return parent / "schedlab"


def kernels_directory() -> Path:
    """Return the directory in which fetched kernels are, one directory a release."""
    return directory() / "kernels"


def cached() -> list[KernelImage]:
    """Return the kernels in the cache, the oldest first."""
    found = []
    for about in kernels_directory().glob(f"[!.]*/{_ABOUT}"):
        try:
            found.append(_load(about))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not ours, or of another version of this program: as good as absent
    return sorted(found, key=lambda kernel: natural(kernel.version))


def find_kernel(name: str) -> KernelImage:
    """Return the kernel that ``vm:NAME`` means.

    Args:
        name: a series (the newest in the cache), a release, or the path of a ``vmlinuz``.

    Raises:
        InputError: there is no such kernel, or the file is none.
    """
    if "/" in name or Path(name).is_file():
        file = Path(name).absolute()
        return own(file)
    kernels = cached()
    match = [kernel for kernel in kernels if name in (kernel.series, kernel.release)]
    if match:
        return match[-1]
    have = ", ".join(kernel.release for kernel in kernels) or "none"
    hint = (
        f"get it with 'schedlab kernels get {name}'"
        if _SERIES.fullmatch(name)
        else ("name a series such as 6.1, a release, or the path of a vmlinuz")
    )
    raise InputError(f"kernel '{name}' is not in the cache (there: {have}): {hint}")


def own(file: Path) -> KernelImage:
    """Return the user's own kernel, with its modules where they are in one of the usual places.

    Raises:
        InputError: it is no kernel.
    """
    release = release_of(file)
    places = (
        file.parent,
        file.parent / "lib" / "modules" / release,
        file.parent.parent / "lib" / "modules" / release,
        file.parent.parent / "usr" / "lib" / "modules" / release,
        Path("/lib/modules") / release,
    )
    modules = next((place for place in places if (place / "modules.builtin").is_file()), None)
    return KernelImage(release, file, modules)


def save(kernel: KernelImage, place: Path) -> None:
    """Write down what a fetched kernel is, in its own directory."""
    about = asdict(kernel)
    about["image"] = str(kernel.image.relative_to(place))
    about["modules"] = str(kernel.modules.relative_to(place)) if kernel.modules else None
    (place / _ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def natural(version: str) -> list[tuple[int, str]]:
    """Return what versions are sorted by: numbers as numbers.

    >>> natural("6.1.9") < natural("6.1.10")
    True
    """
    return [
        (int(word), "") if word.isdigit() else (-1, word)
        for word in re.findall(r"\d+|\D+", version)
    ]


def _load(about: Path) -> KernelImage:
    value = json.loads(about.read_text(encoding="utf-8"))
    value["image"] = about.parent / value["image"]
    value["modules"] = about.parent / value["modules"] if value["modules"] else None
    kernel = KernelImage(**value)
    if not kernel.image.is_file():
        raise ValueError(f"{kernel.image} is gone")
    return kernel
