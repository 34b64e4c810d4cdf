"""A setting made permanent: sysctl.d, a TuneD profile, or a systemd unit.

Formats as in ``sysctl.d(5)``, ``tuned-profiles(7)`` with the plug-ins sysctl and sysfs of
``tuned-main.conf(5)``, and ``systemd.service(5)``, ``systemd.exec(5)``.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import Setting
from schedlab.knobs import Knob, find
from schedlab.knobs.places import encode
from schedlab.model import Scheduler

FILES = {"sysctl": "90-schedlab.conf", "tuned": "tuned.conf", "systemd": "schedlab-tuned.service"}
"""Formats, and the file each is usually in."""

_SYSCTL = "/proc/sys/"
_SYSFS = "/sys/"

_POLICIES = {"other": "other", "batch": "batch", "idle": "idle", "fifo": "fifo", "rr": "rr"}


@dataclass(frozen=True, slots=True)
class Exported:
    """A file.

    Attributes:
        text: what to write.
        place: where the system looks for it.
        left_out: what this format has no word for, a sentence each.
    """

    text: str
    place: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Write:
    """A number to write to a file of the kernel's."""

    knob: Knob
    value: str
    raw: str

    @property
    def path(self) -> str:
        return (self.knob.path or "").replace("/cpu0/", "/cpu*/")

    @property
    def sysctl(self) -> str | None:
        """Its name as a sysctl; None if it is not one."""
        path = self.path
        return path.removeprefix(_SYSCTL).replace("/", ".") if path.startswith(_SYSCTL) else None


def export(
    kind: str,
    setting: Setting,
    release: str,
    cpus: int,
    *,
    command: Sequence[str] = (),
    why: str = "",
    certified: bool = True,
    conditions: Sequence[str] = (),
) -> Exported:
    """Return a setting as a file that makes it permanent.

    Args:
        kind: ``sysctl``, ``tuned`` or ``systemd``.
        setting: what to set.
        release: the kernel it is for.
        cpus: of the machine it is for.
        command: what runs under its policy, for a systemd unit.
        why: a comment at the top, such as what it was tuned for.
        certified: whether fresh runs said *better*; else the file says that they did not.
        conditions: under what they did, or did not, a line each.

    Raises:
        InputError: an unknown format, or one that has no word for anything in this setting.

    >>> print(export("sysctl", Setting({"latency": "9ms"}), "5.10", 2).text)
    # Linux 5.10
    # latency=9ms
    kernel.sched_latency_ns = 9000000
    <BLANKLINE>
    """
    if kind not in FILES:
        raise InputError(f"--export is '{kind}'; allowed: {', '.join(FILES)}")
    if not setting.values:
        raise InputError("nothing is to be exported: the present setting served best")
    values = Scheduler(release, knobs=setting.knobs).knobs
    writes = []
    for name, value in values.items():
        knob = find(name, release, cpus)
        writes.append(_Write(knob, value, encode(knob, value)))
    make: dict[str, Callable[[Sequence[_Write], Setting, Sequence[str]], _Parts]] = {
        "sysctl": _sysctl,
        "tuned": _tuned,
        "systemd": _systemd,
    }
    parts = make[kind](writes, setting, command)
    if not parts.lines:
        raise InputError(f"--export {kind}: {'; '.join(parts.left_out)}")
    series = ".".join(release.removeprefix("~").split(".")[:2])
    head = [f"# Linux {series}" + (f": {' '.join(why.split())}" if why else ""), f"# {setting}"]
    if not certified:
        head.append("# UNCERTIFIED: no fresh runs gave this setting the verdict better.")
    head += [f"# {' '.join(line.split())}" for line in conditions]
    return Exported("\n".join([*head, *parts.lines]) + "\n", parts.place, tuple(parts.left_out))


@dataclass(frozen=True, slots=True)
class _Parts:
    lines: list[str]
    left_out: list[str]
    place: str


def _sysctl(writes: Sequence[_Write], setting: Setting, command: Sequence[str]) -> _Parts:
    del command
    lines, left_out = [], _of_tasks(setting, "a sysctl")
    for write in writes:
        if write.sysctl is None:
            left_out.append(
                f"{write.knob.name} is no sysctl of this kernel ({write.path}): take tuned or "
                "systemd"
            )
        else:
            lines.append(f"{write.sysctl} = {write.raw}")
    return _Parts(lines, left_out, f"/etc/sysctl.d/{FILES['sysctl']}")


def _tuned(writes: Sequence[_Write], setting: Setting, command: Sequence[str]) -> _Parts:
    del command
    sysctls = [f"{write.sysctl} = {write.raw}" for write in writes if write.sysctl is not None]
    files = [
        f"{write.path} = {write.raw}"
        for write in writes
        if write.sysctl is None and write.path.startswith(_SYSFS)
    ]
    lines = ["[main]", "summary=Scheduler settings found by schedlab"]
    if sysctls:
        lines += ["", "[sysctl]", *sysctls]
    if files:
        lines += ["", "[sysfs]", *files]
    found = lines if sysctls or files else []
    place = f"/etc/tuned/schedlab/{FILES['tuned']} (then: tuned-adm profile schedlab)"
    return _Parts(found, _of_tasks(setting, "a TuneD profile"), place)


def _systemd(writes: Sequence[_Write], setting: Setting, command: Sequence[str]) -> _Parts:
    """A unit that writes the knobs at boot, or runs the command under its policy."""
    left_out = []
    if "slice" in setting.values:
        left_out.append(
            f"systemd cannot ask for a slice ({setting.values['slice']}): the program itself does, "
            "with sched_setattr(2)"
        )
    steps = []
    for write in writes:
        # A shell, for a knob that every CPU has: systemd expands no names.
        script = f"for file in {write.path}; do echo {shlex.quote(write.raw)} > $$file; done"
        steps.append(f"/bin/sh -c {shlex.quote(script)}")
    scheduling = _scheduling(setting)
    if not steps and not scheduling:
        return _Parts([], left_out, "")
    lines = ["[Unit]", "Description=Scheduler settings found by schedlab", "", "[Service]"]
    if command and scheduling:
        # The leading + gives a step root's rights, whatever the service runs as.
        lines += ["Type=simple", *(f"ExecStartPre=+{step}" for step in steps), *scheduling]
        lines.append(f"ExecStart={_systemd_words(command)}")
    elif steps:
        lines += ["Type=oneshot", "RemainAfterExit=yes", *(f"ExecStart={step}" for step in steps)]
        if scheduling:
            left_out.append(
                "the policy belongs into the unit of the service that is tuned: "
                + ", ".join(scheduling)
            )
    else:
        lines = ["[Service]", *scheduling]
        place = "/etc/systemd/system/YOUR-SERVICE.service.d/schedlab.conf"
        return _Parts(lines, left_out, place)
    lines += ["", "[Install]", "WantedBy=multi-user.target"]
    return _Parts(lines, left_out, f"/etc/systemd/system/{FILES['systemd']}")


def _scheduling(setting: Setting) -> list[str]:
    lines = []
    if "policy" in setting.values:
        policy, _, priority = setting.values["policy"].partition(":")
        if policy in _POLICIES:
            lines.append(f"CPUSchedulingPolicy={policy}")
            if policy in ("fifo", "rr"):
                lines.append(f"CPUSchedulingPriority={priority or 1}")
    if "nice" in setting.values:
        lines.append(f"Nice={setting.values['nice']}")
    return lines


def _systemd_words(command: Sequence[str]) -> str:
    quoted = []
    for word in command:
        plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
        quoted.append(f'"{plain}"' if not plain or set(plain) & set(" \t'\\\";") else plain)
    return " ".join(quoted)


def _of_tasks(setting: Setting, what: str) -> list[str]:
    return [
        f"{name}={setting.values[name]} belongs to tasks, not to the kernel: {what} cannot set it; "
        "take systemd"
        for name in ("policy", "slice", "nice")
        if name in setting.values
    ]
