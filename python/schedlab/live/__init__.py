"""The live page: both schedules of a workload in a browser, redrawn as a knob moves."""

from schedlab.live.address import address, is_recording
from schedlab.live.beside import put_beside
from schedlab.live.server import PAGE, Server

__all__ = ["PAGE", "Server", "address", "is_recording", "put_beside"]
