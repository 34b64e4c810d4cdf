"""A command of a git revision: the same words in a tree of their own.

``git archive`` makes the tree (``git-archive(1)``), so that the repository itself is not touched.
"""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment.subjects import Conditions, Measured, Metric
from schedlab.programs.command import Command
from schedlab.targets.target import Target

_SHORT = 12
"""Letters of a commit that are shown."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A command in the tree of a revision.

    Attributes:
        command: what is run.
        label: what the revision is called.
        identity: the commit, and what the working tree has changed since.
        directory: where it is run.
    """

    command: Command
    label: str
    identity: str
    directory: Path

    @property
    def name(self) -> str:
        """The command as a shell would take it."""
        return self.command.name

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What the command is measured by."""
        return self.command.metrics

    def definition(self) -> Mapping[str, Any]:
        """Return the command and the revision, not where its tree happens to be."""
        return {**self.command.definition(), "revision": self.identity}

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once, in its tree. See `schedlab.experiment.subjects.Subject.measure`."""
        words = ("env", "-C", str(self.directory), *self.command.words)
        return replace(self.command, words=words).measure(target, under)


@contextmanager
def revisions(
    reference: str, command: Command, build: tuple[str, ...] = ()
) -> Iterator[tuple[Revision, Revision]]:
    """Give a command at a revision, and in the working tree, while the block lasts.

    Args:
        reference: a commit, branch or tag.
        command: what is run, in the same directory of both trees.
        build: run first in each of them; nothing where empty.

    Raises:
        InputError: no repository here, no such revision, or one without this directory.
        RunError: git or the build failed.
    """
    top = Path(_git("rev-parse", "--show-toplevel"))
    prefix = _git("rev-parse", "--show-prefix")
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    with TemporaryDirectory(prefix="schedlab-") as name:
        tree = Path(name).resolve()
        with tarfile.open(fileobj=io.BytesIO(_output("archive", commit, directory=top))) as archive:
            archive.extractall(tree, filter="data")
        old, new = tree / prefix, Path.cwd()
        if not old.is_dir():
            raise InputError(f"{reference} has no directory '{prefix}', which the command runs in")
        for directory in (old, new) if build else ():
            done = subprocess.run(build, cwd=directory, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (
                    done.stderr.strip() or done.stdout.strip() or "it said nothing"
                ).splitlines()
                raise RunError(f"'{build[0]}' failed in {directory}: {last[-1][:200]}")
        yield (
            Revision(command, f"{reference} ({commit[:_SHORT]})", commit, old),
            Revision(command, "working tree", _state(top), new),
        )


def _state(top: Path) -> str:
    """Return the working tree's commit, and a digest of what it has changed or added since."""
    changed = _output("diff", "HEAD", "--binary", directory=top)
    added = _output("ls-files", "--others", "--exclude-standard", "-z", directory=top)
    head = _git("rev-parse", "HEAD")
    if not changed and not added:
        return head
    digest = hashlib.sha256(changed)
    for name in filter(None, added.split(b"\0")):
        file = top / name.decode("utf-8", errors="surrogateescape")
        digest.update(name + b"\0" + (file.read_bytes() if file.is_file() else b""))
    return f"{head}+{digest.hexdigest()[:_SHORT]}"


def _git(*words: str) -> str:
    return _output(*words).decode("utf-8", errors="surrogateescape").removesuffix("\n")


def _output(*words: str, directory: Path | None = None) -> bytes:
    try:
        done = subprocess.run(["git", *words], cwd=directory, capture_output=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed, which finds the revisions to compare") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", errors="replace").strip().splitlines()
        why = said[-1] if said else f"no revision of this repository: {words[-1]}"
        raise InputError(f"git {words[0]}: {why}")
    return done.stdout
