"""A disk of a guest's own, whose accesses take a time that is set.

Files of a guest live in its memory, where nothing is waited for and ``O_DIRECT`` is refused. This
disk is a null block device (``Documentation/block/null_blk.rst``) that keeps what is written, also
in the guest's memory, and completes each access by a timer of the guest's: after `LATENCY_NS` of
its clock, whichever that is. Accesses under way at the same time do not wait for one another.

All of it is written once as it is made: the driver makes a page for what is written at a place for
the first time (``null_insert_page``), which took 10 us of the writing task's CPU time on 6.1 and
7.2, and so depended on what other files had been in the same place before.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from schedlab.boundary.errors import RunError
from schedlab.processes.processes import Completed
from schedlab.vm.exchange import Exchange
from schedlab.vm.modules import load_order

LATENCY_NS = 100_000
"""Nanoseconds an access takes, as on the disk of the simulator's small server."""

PLACE = "/disk"
"""Where the guest has it."""

_MODULES = ("null_blk", "ext4")
# Up to 6.12 ext4 asks for it by name once it is mounted, and nothing would answer.
_WHERE_THERE = ("crc32c_generic",)

_SCRIPT = f"""\
set -e
while read module arguments; do
    busybox insmod "$OUT/modules/$module" $arguments
done < "$OUT/modules/order"
mkdir -p /sys/kernel/config {PLACE}
[ -d /sys/kernel/config/nullb ] || mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nullb
mkdir nullb0 && cd nullb0
echo "$1" > size
echo 1 > memory_backed
echo 2 > irqmode
echo {LATENCY_NS} > completion_nsec
echo 1 > power
busybox dd if=/dev/zero of=/dev/nullb0 bs=1M count="$1" 2> /dev/null
mke2fs -q -F -t ext4 -O ^has_journal -E nodiscard,lazy_itable_init=0 /dev/nullb0
mount -t ext4 -o noatime /dev/nullb0 {PLACE}
chmod 1777 {PLACE}
"""


class Runs(Protocol):
    """Runs a command in a guest, see `schedlab.vm.guest.Guest.run`."""

    def __call__(self, command: Sequence[str], *, timeout: float) -> Completed: ...  # noqa: D102


def make(run: Runs, files: Exchange, modules: Path | None, mebibytes: int) -> None:
    """Give a guest its disk, once, with an ext4 file system without a journal.

    Args:
        run: runs a command in the guest, which is up.
        files: those that the guest sees.
        modules: of its kernel.
        mebibytes: the disk's size; what is written takes as much of the guest's memory.

    Raises:
        InputError: its kernel has no such module.
        RunError: the guest could not make it.
    """
    files.make("modules")
    order = load_order(modules, _MODULES, where_there=_WHERE_THERE)
    for name, data in order:
        files.write(f"modules/{name}", data)
    # It would make a device of its own.
    arguments = {"null_blk.ko": "nr_devices=0"}
    lines = [f"{name} {arguments.get(name, '')}\n" for name, _ in order]
    files.write("modules/order", "".join(lines).encode("ascii"))
    done = run(["sh", "-c", _SCRIPT, "sh", str(mebibytes)], timeout=300)
    if done.code != 0:
        raise RunError(f"the guest cannot make a disk: {done.errors.strip() or done.output}")
