"""The machines that studies simulate where no calibration is there."""

from types import MappingProxyType

from schedlab.model import Costs, Machine

TYPICAL = MappingProxyType(
    {
        "switch": "900ns",
        "cache_refill": "15ns",
        "cache_refill_limit": "1400ns",
        "wakeup": "950ns",
        "wakeup_remote": "2500ns",
        "idle_exit": "3us",
        "tick": "1700ns",
        "system_call": "165ns",
        "pipe_write": "200ns",
        "pipe_read": "220ns",
        "socket_write": "950ns",
        "socket_read": "1270ns",
        "copy_per_kib": "180ns",
        "block": "890ns",
        "migration": "9us",
        "fork_process": "39us",
        "fork_thread": "10us",
        "exit_process": "80us",
        "exit_thread": "25us",
        "reap": "2350ns",
    }
)
"""What ``schedlab calibrate`` measured on a server's virtual machine (2 CPUs, 6.18), rounded."""


def typical(cpus: int) -> Machine:
    """Return a machine of so many CPUs with the costs of a small server.

    >>> typical(4).costs.times["switch"]
    900
    """
    return Machine(cpus, Costs.from_times("typical", TYPICAL))
