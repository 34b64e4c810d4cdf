"""Say which kernels the archive offers whose rules are not known, and what changed there.

Prints each kernel of a series that the table of releases does not have, and each point release
newer than the one that was read, with the changes under kernel/sched that its package's changelog
names: Debian's, which lists upstream's stable changes by point release. ``--since 7.3.2`` also
lists what came after that release in kernels that are known. A series' own changes, between two
mainline releases, are in no changelog: for those ``docs/guides/add-a-kernel-release.md`` names the
commands.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator

from schedlab import _core
from schedlab.boundary.errors import SchedlabError
from schedlab.report.terminal import complain, note, say
from schedlab.vm import archive
from schedlab.vm.archive import Offer

_POINT = re.compile(r"ChangeLog-(\d+(?:\.\d+)+)\s*$")
_CHANGE = re.compile(r"^ {4}- (?:\[\S+\] )?(.*)$")
_MORE = re.compile(r"^ {6,}(\S.*)$")
_SCHEDULER = re.compile(r"^(sched[/:_]|sched,|psi:|cpufreq: schedutil|cpufreq/schedutil)")


def numbers(release: str) -> tuple[int, ...]:
    """Return a release's numbers, of ``7.3.4+deb13-amd64`` those of 7.3.4."""
    found = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(word) for word in found.group().split(".")) if found else ()


def newest_known() -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return the newest release that was read of each series, by the series' two numbers."""
    rows = json.loads(_core.releases())
    return {numbers(row["series"])[:2]: numbers(row["release"]) for row in rows if row["release"]}


def scheduler_changes(changelog: str) -> Iterator[tuple[str, str]]:
    """Yield the point release and subject of each stable change of the scheduler.

    Args:
        changelog: Debian's, of a package of the kernel.
    """
    point, subject = "", ""
    for line in [*changelog.splitlines(), ""]:
        more = _MORE.match(line)
        if more and subject:
            subject += f" {more.group(1)}"
            continue
        if subject and _SCHEDULER.match(subject):
            yield point, subject
        found = _POINT.search(line)
        point = found.group(1) if found else "" if line.startswith("linux (") else point
        change = _CHANGE.match(line)
        subject = change.group(1) if change and point else ""


def about(offer: Offer, since: tuple[int, ...] | None) -> Iterator[str]:
    """Yield what is to be said of a kernel: nothing of one whose rules are known."""
    release = numbers(offer.release)
    known = newest_known().get(release[:2])
    if known is not None and release <= known and since is None:
        return
    state = (
        "no series whose rules are known"
        if known is None
        else f"newer than {'.'.join(map(str, known))}, whose rules are known"
        if release > known
        else "known"
    )
    yield f"{offer.release} ({offer.suite}, {offer.version}): {state}"
    after = since or known or release[:2]
    try:
        changes = list(scheduler_changes(archive.changelog(offer)))
    except SchedlabError as error:
        yield f"  its changes are not known: {error}"
        return
    mine = [
        (point, subject)
        for point, subject in changes
        if numbers(point)[:2] == release[:2] and numbers(point) > after
    ]
    for point, subject in sorted(mine, key=lambda change: numbers(change[0])):
        yield f"  {point}  {subject}"
    if not mine:
        yield "  no stable change of the scheduler is named"


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--since", help="a release: list what came after it, in known kernels too")
    wanted = parser.parse_args()
    since = numbers(wanted.since) if wanted.since else None
    remarks: list[str] = []
    try:
        # A suite's older series are of no interest where a newer point of them is offered.
        newest: dict[str, Offer] = {}
        for offer in archive.offers(remarks):
            best = newest.get(offer.series)
            if best is None or numbers(offer.release) > numbers(best.release):
                newest[offer.series] = offer
        told = False
        for offer in sorted(newest.values(), key=lambda offer: numbers(offer.release)):
            if since is not None and numbers(offer.release)[:2] != since[:2]:
                continue
            for line in about(offer, since):
                say(line)
                told = True
    except SchedlabError as error:
        complain(str(error))
        return 2
    for line in remarks:
        note(line)
    if not told:
        say("every kernel that the archive offers is known")
    return 0


if __name__ == "__main__":
    sys.exit(main())
