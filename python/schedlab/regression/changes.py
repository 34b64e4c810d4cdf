"""The changes between two releases, and kernels with only some of them.

A change is a row of the table of rules ('schedlab kernels diff'), or a knob whose default differs.
A set of changes stands for the old kernel with those made: a hybrid, where no release has just
them. Rules that a structure brings are switched one by one, as far as `requires` allows; rules that
it takes the place of go with it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.knobs.table import table
from schedlab.model import Scheduler

__all__ = ["Change", "Span"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two releases.

    Attributes:
        name: of the rule, or of the knob whose default differs.
        on: whether the new release has the rule; of a knob its new default.
        does: in a sentence.
        commit: the kernel commit's hash, None where no single one made it.
        subject: of the commit.
        requires: rules that must be there for it.
        excludes: rules that must not be there for it.
        is_knob: whether it is a knob's default.
    """

    name: str
    on: bool | str
    does: str
    commit: str | None = None
    subject: str | None = None
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    is_knob: bool = False

    @property
    def label(self) -> str:
        """The change with its commit."""
        if self.is_knob:
            return f"{self.name}={self.on}, the new default"
        what = f"{self.name} {'on' if self.on else 'off'}"
        return what if self.commit is None else f'{what} ({self.commit} "{self.subject}")'


class Span:
    """Two releases and what differs between them.

    Args:
        old: the release before.
        new: the release after.
        hz: timer interrupts a second of both.
        cpus: CPUs, which defaults of knobs depend on.
        knobs: values of knobs under both, by name.

    Raises:
        InputError: an unknown release, or a knob that one of them does not have.

    >>> span = Span("6.12", "6.18", hz=250, cpus=1)
    >>> [change.name for change in span.changes if change.name == "throttles_tasks"]
    ['throttles_tasks']
    """

    def __init__(
        self,
        old: str,
        new: str,
        *,
        hz: int = 250,
        cpus: int = 1,
        knobs: Mapping[str, object] | None = None,
    ) -> None:
        self.hz, self.set = hz, dict(knobs or {})
        self.old = Scheduler(old, hz=hz, knobs=self.set)
        self.new = Scheduler(new, hz=hz, knobs=self.set)
        before = {row["name"]: row for row in json.loads(_core.rules(old))}
        self._rows = {row["name"]: row for row in json.loads(_core.rules(new))}
        self._before = {name: bool(row["on"]) for name, row in before.items()}
        self.changes = [*self._rules(), *self._knobs(cpus)]

    @cached_property
    def facts(self) -> list[str]:
        """What differs and cannot be switched: how kernels record, and their memory."""
        return [
            name
            for name, row in self._rows.items()
            if row["kind"] == "fact" and row["on"] != self._before[name]
        ]

    def _rules(self) -> Iterable[Change]:
        for name, row in self._rows.items():
            changed = row["kind"] != "fact" and row["on"] != self._before[name]
            if changed and not self._is_part(row):
                commit = row["commit"] or {}
                yield Change(
                    name=name,
                    on=row["on"],
                    does=row["does"],
                    commit=commit.get("hash"),
                    subject=commit.get("subject"),
                    requires=tuple(row["requires"]),
                    excludes=tuple(row["excludes"]),
                )

    def _is_part(self, row: Mapping[str, Any]) -> bool:
        """Return whether a rule comes or goes with a structure, and so is no change of its own."""
        switched = {
            name: bool(self._rows[name]["on"])
            for name in self._structures
            if self._rows[name]["on"] != self._before[name]
        }
        came = any(switched.get(name) is True for name in row["excludes"])
        went = any(switched.get(name) is False for name in row["excludes"])
        lost = any(switched.get(name) is False for name in row["requires"])
        return (not row["on"] and (came or lost)) or (row["on"] and went)

    def _knobs(self, cpus: int) -> Iterable[Change]:
        if self.old.has_slices != self.new.has_slices:
            return  # the fair class brings its knobs with it
        before = {knob.name: knob for knob in table(self.old.release, cpus)}
        for knob in table(self.new.release, cpus):
            old = before.get(knob.name)
            both = old is not None and old.exists and knob.exists and knob.simulated
            if (
                both
                and knob.name not in self.set
                and old is not None
                and old.default != knob.default
            ):
                yield Change(
                    knob.name, str(knob.default_text), f"{knob.summary}: default", is_knob=True
                )

    def closed(self, names: Collection[str]) -> frozenset[str]:
        """Return changes with all that they need of the others.

        >>> span = Span("6.1", "6.12", hz=250, cpus=1)
        >>> "eevdf" in span.closed(["yield_forfeits"])
        True
        """
        found = set(names)
        by_name = {change.name: change for change in self.changes}
        todo = list(found)
        while todo:
            change = by_name[todo.pop()]
            for other in self.changes:
                if other.name in found:
                    continue
                needed = change.on is True and other.on is True and other.name in change.requires
                freed = change.on is True and other.on is False and other.name in change.excludes
                if needed or freed:
                    found.add(other.name)
                    todo.append(other.name)
        return frozenset(found)

    @cached_property
    def _structures(self) -> frozenset[str]:
        return frozenset(n for n, row in self._rows.items() if row["kind"] == "structure")

    def dependents(self, name: str) -> frozenset[str]:
        """Return the changes that cannot stay where one of them is taken back, itself included."""
        return frozenset(
            change.name for change in self.changes if name in self.closed([change.name])
        )

    def with_changes(self, names: Collection[str]) -> Scheduler:
        """Return the old release with some of the changes made, and not the others.

        Raises:
            InputError: one of them needs another.
        """
        chosen = set(names)
        switches: dict[str, bool] = {}
        for change in self.changes:
            if not change.is_knob:
                made = change.name in chosen
                switches[change.name] = bool(change.on) if made else self._before[change.name]
        state = {**self._before, **switches}
        # A rule that is not there without its structure needs no word.
        rules = {
            name: on
            for name, on in switches.items()
            if name in chosen or not on or self._may_be(name, state)
        }
        rules = {name: on for name, on in rules.items() if name in chosen or self._needs(name, on)}
        scheduler = Scheduler(self.old.release, hz=self.hz, knobs=self.set, rules=rules)
        knobs = {
            change.name: change.on
            for change in self.changes
            if change.is_knob and change.name in chosen
        }
        return scheduler.with_knobs(knobs) if knobs else scheduler

    def _needs(self, name: str, on: bool) -> bool:
        """Return whether a rule that is not changed has to be said: where a structure brings it."""
        row = self._rows[name]
        return on != self._rows[name]["on"] and (bool(row["requires"]) or bool(row["excludes"]))

    def _may_be(self, name: str, state: dict[str, bool]) -> bool:
        row = self._rows[name]
        return all(state[other] for other in row["requires"]) and not any(
            state[other] for other in row["excludes"]
        )

    def without(self, names: Collection[str]) -> Scheduler:
        """Return the new release with some of the changes taken back.

        Raises:
            InputError: another change needs one of them.
        """
        switches: dict[str, bool] = {}
        knobs: dict[str, object] = {}
        before = {knob.name: knob for knob in table(self.old.release)}
        for change in self.changes:
            if change.name not in names:
                continue
            if change.is_knob:
                knobs[change.name] = before[change.name].default_text
            else:
                switches[change.name] = not bool(change.on)
        scheduler = Scheduler(self.new.release, hz=self.hz, knobs=self.set, rules=switches)
        return scheduler.with_knobs(knobs) if knobs else scheduler


def feasible(span: Span, names: Sequence[str]) -> list[frozenset[str]]:
    """Return every set of these changes that a kernel may have, each closed among them."""
    found = []
    for bits in range(1 << len(names)):
        chosen = frozenset(name for place, name in enumerate(names) if bits >> place & 1)
        if chosen == span.closed(chosen) & frozenset(names):
            try:
                span.with_changes(span.closed(chosen))
            except InputError:
                continue
            found.append(chosen)
    return found
