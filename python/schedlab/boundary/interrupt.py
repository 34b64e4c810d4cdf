"""What has to be so before the program's imports, which take a while: Ctrl-C ends them quietly."""

import signal
import sys
from pathlib import PurePath


def quiet_interrupt() -> None:
    """Let Ctrl-C end the program ``schedlab`` as it ends a C program, until `main` takes it over.

    Where the package is imported by another program nothing changes.
    """
    ours = PurePath(sys.argv[0]).name == "schedlab" if sys.argv else False
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
