"""Any kernel in a virtual machine: which there are, booting one, and running commands in it.

A guest has this machine's programs and the directory we are in, see `schedlab.vm.shares`,
copy-on-write: what it changes is in its memory and gone with it. Commands run in it as root, in the
directory and with the ``PATH`` that they have here. debugfs, tracefs (``/sys/kernel/tracing``) and
the second version of cgroups (``/sys/fs/cgroup``) are mounted. One boot takes a few seconds and
serves any number of commands, one after the other::

    from schedlab.vm import Guest

    with Guest.boot("6.1", cpus=2, append="noautogroup") as guest:
        done = guest.run(["sh", "-c", "uname -r; dmesg > $OUT/dmesg"], timeout=30)
        print(done.code, done.output, done.errors)
        log = guest.files.text("dmesg")

``$OUT`` in the guest is `Guest.shared` here: a directory of both, for files that are to come back
or to be handed over. It goes with the guest; copy what is to stay. `Guest.files` reads and writes
there without trusting the guest: no link is followed, and what is read is bounded. Write what is
written fast (a trace) to ``/dev/shm`` first and copy it at the end: every access to ``$OUT``
crosses to the host.

A guest that hangs, panics or overruns a time limit is ended, and what its kernel wrote on the
console is kept in a file that the error names. One that dies before it takes a command is booted
again, twice at most. Whatever ends this process ends the guest.
"""

from schedlab.vm.guest import Guest
from schedlab.vm.kernels import KernelImage, cached, find_kernel

__all__ = ["Guest", "KernelImage", "cached", "find_kernel"]
