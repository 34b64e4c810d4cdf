"""What a guest starts from: an archive in memory, which mounts what it sees of the host.

The format is that of ``Documentation/driver-api/early-userspace/buffer-format.rst`` (newc).
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from schedlab.boundary.errors import InputError
from schedlab.vm import shares
from schedlab.vm.modules import load_order

SHARED = "/run/schedlab"
"""Where the guest has the directory that it shares with the host."""

PACKAGE = "busybox-static"
"""The package that has what guests start with."""

READY = "schedlab-guest-ready"
"""What the guest says once it takes jobs."""

PROBE = "schedlab.probe"
"""A kernel parameter: say so and power off at once."""

_APPLETS = (
    *("sh", "mount", "insmod", "mkdir", "cat", "grep", "chroot", "poweroff", "stty", "ip"),
    *("cp", "ln", "chmod"),
)

# Ports stay awake: half a second after the last output, from which a job begins, a kworker would
# suspend an idle one (pm_runtime_work, Linux 6.5 on) among the job's tasks.
_INIT = f"""#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
control=/dev/ttyS1
stty -F $control raw -echo
exec 3<>$control
fail() {{ echo "schedlab: $*" > /dev/console; poweroff -f; }}
if grep -q {PROBE} /proc/cmdline; then echo {READY} >&3; poweroff -f; fi
while read module; do insmod /modules/$module || fail "cannot load $module"; done < /modules/order
nine=trans=virtio,version=9p2000.L,msize=262144
mount -t tmpfs -o size=60% tmpfs /changes; mkdir /changes/root /changes/layers
chmod 755 /changes/root
mount -o bind /changes/root /new
cp -a /etc /new/
cd /new
mkdir -p proc sys dev run root tmp var/tmp var/log home mnt; chmod 1777 tmp var/tmp; chmod 700 root
mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t devtmpfs dev dev
mkdir -p dev/pts dev/shm; mount -t devpts devpts dev/pts; mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs run; mkdir -p .{SHARED}
mount -t 9p -o $nine shared .{SHARED} || fail "cannot mount the shared directory"
while read -r tag place; do
    mkdir -p "/host/$tag" "/changes/layers/$tag/upper" "/changes/layers/$tag/work" "/new$place"
    mount -t 9p -o ro,cache=loose,$nine "$tag" "/host/$tag" ||
        fail "cannot mount the host's $place"
    layers="lowerdir=/host/$tag,upperdir=/changes/layers/$tag/upper"
    mount -t overlay -o "$layers,workdir=/changes/layers/$tag/work" overlay "/new$place" ||
        fail "cannot mount the copy-on-write file system $place"
done < /shares
while read -r name target; do ln -s "$target" "/new/$name"; done < /links
mount -t debugfs debugfs sys/kernel/debug; mount -t tracefs tracefs sys/kernel/tracing
[ ! -e sys/kernel/debug/sched/verbose ] || echo Y > sys/kernel/debug/sched/verbose
mount -t cgroup2 cgroup2 sys/fs/cgroup
ip link set lo up
for port in /sys/bus/serial-base/devices/*/power/control; do [ -e $port ] && echo on > $port; done
echo {READY} >&3
while read job <&3; do
    chroot /new /bin/sh {SHARED}/.$job/job 3>&- \\
        < .{SHARED}/.$job/input > .{SHARED}/.$job/output 2> .{SHARED}/.$job/errors
    echo "$job $?" >&3
done
poweroff -f
"""


def initramfs(modules: Path | None, offered: Sequence[Path] = ()) -> bytes:
    """Return the archive for a kernel.

    Args:
        modules: the directory of its modules, None where everything is built in.
        offered: the directories of the host that the guest gets, in the order of their devices.

    Raises:
        InputError: a module or busybox is missing.
    """
    files = [("init", _INIT.encode("ascii"), 0o100755), ("bin/busybox", _busybox(), 0o100755)]
    files += [(f"bin/{name}", b"busybox", 0o120777) for name in _APPLETS]
    order = load_order(modules)
    files += [(f"modules/{name}", data, 0o100644) for name, data in order]
    names = "".join(f"{name}\n" for name, _ in order)
    files.append(("modules/order", names.encode("ascii"), 0o100644))
    places = "".join(f"{tag_of(number)} {place}\n" for number, place in enumerate(offered))
    files.append(("shares", places.encode(), 0o100644))
    links = "".join(f"{name} {target}\n" for name, target in shares.links())
    files += [("links", links.encode(), 0o100644), *shares.settings()]
    directories = ("bin", "dev", "proc", "sys", "host", "changes", "new", "modules")
    return _archive([*((name, b"", 0o040755) for name in directories), *files])


def tag_of(number: int) -> str:
    """Return the name under which a guest mounts a directory of ours.

    >>> tag_of(0)
    'host0'
    """
    return f"host{number}"


def _busybox() -> bytes:
    found = busybox()
    if found is None:
        raise InputError(f"no static busybox is installed: apt-get install {PACKAGE}")
    return found.read_bytes()


def busybox() -> Path | None:
    """Return the busybox that guests start with, None where there is none that is static."""
    for name in ("busybox", "busybox-static", "busybox.static"):
        path = shutil.which(name)
        # A program that needs a loader names it; the guest starts with none.
        if path and b"/ld-linux" not in Path(path).read_bytes()[:4096]:
            return Path(path)
    return None


def _archive(entries: Iterable[tuple[str, bytes, int]]) -> bytes:
    parts = []
    for number, (name, data, mode) in enumerate([*entries, ("TRAILER!!!", b"", 0)], start=1):
        plain = os.fsencode(name) + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(plain), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + plain
        parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
    return b"".join(parts)
