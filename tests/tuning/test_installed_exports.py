"""Exports installed in a guest, and read by TuneD's daemon and by systemd as they run."""

import textwrap
from collections.abc import Callable

from tests import needs

from schedlab.experiment.settings import Setting
from schedlab.processes.processes import Completed
from schedlab.tuning import export
from schedlab.vm import Guest
from schedlab.vm.kernels import KernelImage

# 6.1 has latency in debugfs (TuneD's plugin sysfs) and rt_runtime among its sysctls.
KNOBS = {"latency": "9ms", "rt_runtime": "unlimited"}
DEFAULTS = "6000000 950000"
"""What the two are in a guest of one CPU: 6 ms, and 950 ms in microseconds."""

SHOW = "echo $(cat /sys/kernel/debug/sched/latency_ns /proc/sys/kernel/sched_rt_runtime_us)"

# Installed as Debian's packages are: their files at their places, and the bus's user.
TUNED = f"""\
set -eu
cp -a "$1/usr/." /usr/ && cp -a "$1/etc/." /etc/ && cp -a "$1/lib/." /lib/
mkdir -p /run/dbus /etc/tuned/schedlab /var/log/tuned
cp $OUT/export /etc/tuned/schedlab/tuned.conf
grep -q ^messagebus: /etc/passwd || echo messagebus:x:990:990::/:/bin/false >> /etc/passwd
grep -q ^messagebus: /etc/group || echo messagebus:x:990: >> /etc/group
{SHOW}
dbus-daemon --system --fork --nopidfile
tuned --daemon --log --pid
tuned-adm profile schedlab
tuned-adm active
tuned-adm verify
{SHOW}
grep -o 'verify: passed: .*' /var/log/tuned/tuned.log
tuned-adm off
{SHOW}
"""

# As the first process of a PID namespace; `systemctl` is run beside it, with its root directory.
SYSTEMD = """\
set -eu
mkdir -p /etc/systemd/system
cp $OUT/export /etc/systemd/system/schedlab-tuned.service
cp $OUT/command /etc/systemd/system/command.service
printf '[Unit]\\nDescription=Nothing but what is started by hand\\n' \\
    > /etc/systemd/system/test.target
cat > /tmp/start <<'END'
mount -t proc proc /proc
exec env container=lxc /lib/systemd/systemd --system --unit=test.target --log-target=kmsg
END
unshare --pid --mount --fork --kill-child sh /tmp/start < /dev/null > /tmp/log 2>&1 &
until [ -S /run/systemd/private ]; do sleep 0.2; done
systemd=$(cat /proc/$!/task/$!/children)
nsenter --target $systemd --mount --pid --root --wd /bin/sh -eu $OUT/inside
"""

INSIDE = f"""\
until systemctl is-active --quiet test.target; do sleep 0.2; done
{SHOW}
systemctl enable schedlab-tuned.service
readlink /etc/systemd/system/multi-user.target.wants/schedlab-tuned.service
systemctl start schedlab-tuned.service
systemctl show --property=Result,ActiveState schedlab-tuned.service
{SHOW}
systemctl start command.service
systemctl show --property=CPUSchedulingPolicy,CPUSchedulingPriority,ActiveState command.service
chrt -p $(systemctl show --value --property=MainPID command.service)
cat /sys/kernel/debug/sched/latency_ns
"""


def _in_guest(kernel: KernelImage, script: str, *words: str, **files: str) -> Completed:
    """Run a script in a guest that has these files in ``$OUT``."""
    with Guest.boot(kernel) as guest:
        for name, text in files.items():
            (guest.shared / name).write_text(text)
        return guest.run(["sh", "-c", script, "sh", *words], timeout=300)


@needs.tuned
@needs.guest
def test_tuned_adm_switches_to_a_profile_verifies_it_and_takes_it_back(
    fetched: Callable[[str], KernelImage],
) -> None:
    made = export("tuned", Setting(KNOBS), "6.1", 1, conditions=["Certified: Linux 6.1.0 (host)"])
    unpacked = str(needs.UNPACKED.absolute())
    done = _in_guest(fetched("6.1"), TUNED, unpacked, export=made.text)
    assert done.code == 0, done.output + done.errors
    before, active, verified, *rest = done.output.splitlines()
    assert before == DEFAULTS
    assert active == "Current active profile: schedlab"
    assert "current system settings match the preset profile" in verified
    # After a line that names the log: with the profile, each value by TuneD's word, and without.
    _, applied, *each, after = rest
    assert applied == "9000000 -1"
    assert sorted(each) == [
        "verify: passed: '/sys/kernel/debug/sched/latency_ns' = '9000000'",
        "verify: passed: 'kernel.sched_rt_runtime_us' = '-1'",
    ]
    assert after == DEFAULTS


@needs.guest
def test_systemd_starts_the_units(fetched: Callable[[str], KernelImage]) -> None:
    needs.require("systemd")
    made = export("systemd", Setting(KNOBS), "6.1", 1)
    setting = Setting({"policy": "fifo:3", "latency": "12ms"})
    command = export("systemd", setting, "6.1", 1, command=["/bin/sleep", "1000"])
    files = {"export": made.text, "command": command.text, "inside": INSIDE}
    done = _in_guest(fetched("6.1"), SYSTEMD, **files)
    assert done.code == 0, done.output + done.errors
    expected = f"""\
        {DEFAULTS}
        /etc/systemd/system/schedlab-tuned.service
        Result=success
        ActiveState=active
        9000000 -1
        CPUSchedulingPolicy=1
        CPUSchedulingPriority=3
        ActiveState=active
        """
    # SCHED_FIFO is 1 in the kernel's uapi/linux/sched.h.
    lines = done.output.splitlines()
    told, asked = sorted(lines[:8]), sorted(textwrap.dedent(expected).splitlines())
    assert told == asked
    assert lines[8].endswith("current scheduling policy: SCHED_FIFO")
    assert lines[9].endswith("current scheduling priority: 3")
    assert lines[10] == "12000000"
