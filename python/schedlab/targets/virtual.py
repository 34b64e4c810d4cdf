"""A guest with any kernel as a place where experiments run: workloads, programs and commands."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import InputError, NotPermittedError, RunError, SchedlabError
from schedlab.model import Attributes, Workload
from schedlab.model.outcome import Outcome
from schedlab.processes import disturbance, lease
from schedlab.processes.capture import pattern
from schedlab.processes.disturbance import Watch
from schedlab.processes.processes import Completed
from schedlab.targets import vm
from schedlab.targets.facts import BOOT_ID, facts
from schedlab.vm import Guest, find_kernel, shares
from schedlab.vm import knobs as guest_knobs
from schedlab.vm.accelerator import choose
from schedlab.vm.disk import PLACE

_log = logging.getLogger(__name__)

_PLACE = "/run/schedlab-inside"

# The package's own start loads what only experiments need (NumPy, SciPy), for minutes in a guest
# whose instructions are translated: a package without it takes its place.
_SERVER = """\
import pathlib, sys, types
package = types.ModuleType("schedlab")
package.__path__ = [sys.argv[1]]
sys.modules["schedlab"] = package
from schedlab.programs.guest_server import serve
serve(pathlib.Path(sys.argv[2]))
"""

_START = f"""\
mkdir {_PLACE} && cd {_PLACE} && mkfifo requests answers
cd "$1" || cd /
setsid "$2" -c "$3" "$4" {_PLACE} < /dev/null > {_PLACE}/log 2>&1 &
echo $! > {_PLACE}/pid
until [ -e {_PLACE}/ready ]; do
    kill -0 "$(cat {_PLACE}/pid)" 2> /dev/null || {{ tail -n 1 {_PLACE}/log >&2; exit 3; }}
    sleep 0.2
done
"""

# Without a server the pipes would never have a reader.
_ASK = f"""\
kill -0 "$(cat {_PLACE}/pid)" 2> /dev/null || {{ tail -n 1 {_PLACE}/log >&2; exit 3; }}
cat > {_PLACE}/requests && cat {_PLACE}/answers
"""

_DISK = 0.6
"""Size of a guest's disk as a part of its memory, in which that is."""

_COUNTED = "@icount"
_CLOCK = "shift=3,sleep=off"
"""An instruction takes 8 ns, and idling takes no time but the guest's own."""

_LOADING = 300.0
"""Seconds that Python may take to load in a guest, on a machine that has other work."""

_RUNAWAY = 1000.0
"""By how much more a counting clock may have passed. While such a guest waits for this machine, for
a page of a program that it starts, it idles, and its idle time passes at once: seconds in no time.
Its time limits are kept here."""

_MARGIN = 120.0
"""Seconds beyond a run's own time limit after which a guest counts as hanging."""

_NONSENSE = "what runs programs there answered something else than a result"

_ERRORS: dict[str, type[SchedlabError]] = {
    kind.__name__: kind for kind in (InputError, NotPermittedError, RunError)
}


class Virtual:
    """A guest, booted at the first run and kept for all that follow.

    Args:
        kernel: what `schedlab.vm.find_kernel` takes; with ``@icount`` behind it the guest's
            clock is the number of its instructions: what it measures does not depend on what else
            the machine has to do.
        cpus: CPUs of the guest; otherwise as many as this process may use, and one where
            instructions are counted.
        memory: its memory in MiB; what is written to files there lives in it.
        boot: which of several guests with this kernel it is, from 1; each is a boot of its own.

    Raises:
        InputError: there is no such kernel.
    """

    real = True

    def __init__(
        self, kernel: str, *, cpus: int | None = None, memory: int = 1536, boot: int = 1
    ) -> None:
        self.name = f"vm:{kernel}" if boot == 1 else f"vm:{kernel} (boot {boot})"
        self._counts = kernel.endswith(_COUNTED)
        self.cpus = (1 if self._counts else facts().cpus) if cpus is None else cpus
        self._image = find_kernel(kernel.removesuffix(_COUNTED))
        self._memory = memory
        self.release = guest_knobs.rules_of(self._image.release)
        self._stack = ExitStack()
        self._guest: Guest | None = None
        self._boot_id: str | None = None
        self._serving = False
        self._warm: set[str] = set()

    def close(self) -> None:
        """End the guest."""
        self._guest = None
        self._stack.close()

    def facts(self) -> Mapping[str, Any]:
        """Return what the guest is, in which boot (None before it), and the machine it is on."""
        counted = {"clock": "instructions"} if self._counts else {}
        return counted | {
            "kernel": self._image.release,
            "boot": self._boot_id,
            "package": self._image.version,
            "suite": self._image.suite,
            "release": self.release,
            "cpus": self.cpus,
            "memory_mib": self._memory,
            "accelerator": "tcg" if self._counts else choose(self._image),
            "on": asdict(facts()),
        }

    def run(
        self,
        workload: Workload,
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        seed: int = 1,
        timeout: float = 60.0,
        around: Sequence[str] = (),
    ) -> Outcome:
        """Run a workload with real tasks on the guest's kernel, its files on the guest's disk.

        Arguments are those of `vm.run`.
        """
        with self._exclusive():
            guest = self.booted()
            if json.loads(workload.json).get("files"):
                guest.need_disk(round(_DISK * self._memory))
            return vm.run(
                workload,
                guest,
                attributes=attributes,
                knobs=knobs,
                seed=seed,
                timeout=timeout,
                around=around,
            )

    def execute(
        self,
        command: Sequence[str],
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Completed:
        """Run a command in the guest, in the directory that it would run in here."""
        asked = {"command": list(command), "matching": pattern()}
        try:
            reply = self._ask(asked, attributes, knobs, timeout)
        except InputError as error:
            raise InputError(f"{error}{self._unseen(command[0])}") from None
        try:
            done = dict(reply["done"])
            found = disturbance.read(done.pop("disturbance", None))
            notes = tuple(map(str, done.pop("notes", ())))
            return Completed(**done, disturbance=found, notes=notes)
        except (KeyError, TypeError):
            raise RunError(f"{self.name}: {_NONSENSE}") from None

    def measure_program(
        self,
        text: str,
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        disk: bool = False,
    ) -> tuple[dict[str, float], Watch]:
        """Run a benchmark from its own package in the guest.

        Args:
            text: the benchmark and its options.
            attributes: of its tasks.
            knobs: settings for the time of the run.
            timeout: seconds it may take.
            disk: whether its files are to be on the guest's disk.

        Returns:
            Its metrics, and what else the guest was busy with.

        Raises:
            InputError: an unknown program or option.
            NotPermittedError: a policy or knob that the guest's kernel has not.
            RunError: it failed or did not end in time, or the guest died.
        """
        request = {"program": text}
        if disk:
            with self._exclusive():
                self.booted().need_disk(round(_DISK * self._memory))
            request["files"] = PLACE
        family = text.partition(":")[0]
        if self._counts and family not in self._warm:
            # Its pages come from this machine the first time, while the guest's clock runs away.
            with suppress(RunError):
                self._ask(request, None, None, timeout)
            self._warm.add(family)
        reply = self._ask(request, attributes, knobs, timeout)
        try:
            notes = tuple(map(str, reply.get("notes", ())))
            watch = Watch(disturbance.read(reply.get("disturbance")), notes)
            return {str(name): float(value) for name, value in reply["values"].items()}, watch
        except (KeyError, TypeError, ValueError, AttributeError):
            raise RunError(f"{self.name}: {_NONSENSE}") from None

    def _unseen(self, program: str) -> str:
        """Report a program, or a current directory, that a guest does not have."""
        here = shares.working_directory()
        sees = [] if self._guest is None else self._guest.sees
        if here is None or "/" not in program:
            return ""
        place = here / program
        if not place.exists() or any(place.is_relative_to(one) for one in sees):
            return ""
        return f"; a guest does not see '{place.parent}': name it in {shares.VARIABLE}"

    def _ask(
        self,
        request: Mapping[str, Any],
        attributes: Attributes | None,
        knobs: Mapping[str, str] | None,
        timeout: float,
    ) -> Mapping[str, Any]:
        """Have the process inside do something, and return what it says came of it."""
        with self._exclusive():
            guest = self.booted()
            plain = None
            if attributes is not None:
                plain = {
                    name: getattr(attributes, name)
                    for name in ("policy", "nice", "slice", "affinity")
                }
            if not self._serving:
                self._serve(guest)
            inside = timeout * _RUNAWAY if self._counts else timeout
            text = json.dumps({**request, "attributes": plain, "timeout": inside})
            with guest_knobs.applied(guest, knobs or {}):
                # The process inside keeps the time itself; the margin is for a guest that hangs.
                done = guest.run(["sh", "-c", _ASK], text=text, timeout=timeout + _MARGIN)
            if done.code != 0:
                raise RunError(
                    f"{self.name}: what runs programs there ended: {done.errors.strip()}"
                )
            return _read(done.output, self.name)

    def _exclusive(self) -> AbstractContextManager[None]:
        """Return the lease of this machine, which a clock that counts instructions does not need.

        A guest on this machine's clock is disturbed by other real runs, and disturbs them.
        """
        return nullcontext() if self._counts else lease.exclusive()

    def _serve(self, guest: Guest) -> None:
        """Start the process inside, and wait until it takes requests."""
        package = str(Path(__file__).parents[1])
        command = ["sh", "-c", _START, "sh", str(Path.cwd()), sys.executable, _SERVER, package]
        done = guest.run(command, timeout=_LOADING)
        if done.code != 0:
            raise RunError(f"{self.name}: what runs programs there: {done.errors.strip()}")
        self._serving = True

    def booted(self) -> Guest:
        """Return the guest, which is booted first where there is none, or where the last died.

        Raises:
            RunError: it did not boot.
        """
        if self._guest is None or not self._guest.up:
            self._stack.close()
            self._serving = False
            self._warm.clear()
            self._guest = self._stack.enter_context(
                Guest.boot(
                    self._image,
                    cpus=self.cpus,
                    memory=self._memory,
                    options=("-icount", _CLOCK) if self._counts else (),
                    timeout=300.0 if self._counts else 120.0,
                )
            )
            said = self._guest.run(["cat", str(BOOT_ID)])
            self._boot_id = said.output.strip() or None
            for text in self._guest.notes:
                _log.warning("%s", text)
        return self._guest


def _read(text: str, name: str) -> Mapping[str, Any]:
    """Return what the process inside answered.

    Raises:
        SchedlabError: it says that something went wrong, or is no answer.
    """
    try:
        reply = json.loads(text)
        if not isinstance(reply, dict):
            raise TypeError
        if "error" not in reply:
            return reply
        kind, message = _ERRORS.get(str(reply["error"]), RunError), str(reply["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RunError(f"{name}: {_NONSENSE}") from None
    raise kind(message)
