"""The program ``schedlab``: its commands, and how they end.

Exit codes: 0 done; 1 a run failed, or a comparison came out unequal; 2 bad input or not permitted;
130 interrupted.
"""

import errno
import io
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated

import typer

from schedlab import __version__
from schedlab.boundary.errors import InputError, NotPermittedError, SchedlabError
from schedlab.cli import (
    bench,
    calibrate,
    compare,
    demo,
    doctor,
    ext,
    infer,
    kernels,
    knobs,
    live,
    options,
    panels,
    project_file,
    record,
    regress,
    replay,
    report,
    run,
    study,
    sweep,
    tune,
    validate,
    verify,
    why,
    workload,
)
from schedlab.processes import leftovers
from schedlab.report.terminal import complain, note
from schedlab.vm import workplace

EPILOG = (
    "Exit codes: 0 done; 1 a run failed or a comparison came out unequal; "
    "2 bad input or not permitted; 130 interrupted."
)

_INTERRUPTED = 130

_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "no whole number",
    "Input should be a valid integer": "no whole number",
    "Input should be a valid number, unable to parse string as a number": "no number",
}
"""What Typer says of values, and what we say."""

_TRACEBACK = "SCHEDLAB_TRACEBACK"
"""The variable that asks for a traceback where schedlab itself fails."""

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

app = typer.Typer(
    name="schedlab",
    help="A laboratory for the Linux CPU scheduler: simulate a workload, tune the scheduler for "
    "it, check the result on a real kernel.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"schedlab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


for command in (
    run,
    why,
    regress,
    compare,
    sweep,
    tune,
    verify,
    validate,
    calibrate,
    replay,
    infer,
    doctor,
    bench,
    report,
    workload,
    demo,
    live,
    study,
):
    app.command(name=command.__name__.rpartition(".")[2], epilog=EPILOG)(
        panels.grouped(command.command)
    )
# What follows the first word that is no option is the recorded command's.
app.command(name="record", epilog=EPILOG, context_settings={"allow_interspersed_args": False})(
    record.command
)
app.add_typer(knobs.app, name="knobs", epilog=EPILOG)
app.add_typer(kernels.app, name="kernels", epilog=EPILOG)
app.add_typer(ext.app, name="ext", epilog=EPILOG)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and leave with its exit code."""
    # Until now Ctrl-C ended the program by itself; see schedlab.boundary.interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter gets its escape.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A termination gets the same orderly end as Ctrl-C: whatever was started is ended first.
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _raise_again
    # So does a closed terminal, unless the parent had it ignored (nohup).
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(invoke(arguments))


def _interrupt(number: int, frame: object) -> None:
    del number, frame
    raise KeyboardInterrupt


def _raise_again(dropped: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more where Python drops an interrupt: in a hook of fork, or in a finalizer."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        # Later, as what is raised in here is dropped as well.
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(dropped)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; what went wrong is one line on standard error."""
    remarks = _Remarks(logging.WARNING)
    logger = logging.getLogger("schedlab")
    logger.addHandler(remarks)
    try:
        return _invoke(arguments)
    finally:
        logger.removeHandler(remarks)


class _Remarks(logging.Handler):
    """Tells what the library has to say about a run in a line on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _invoke(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        leftovers.sweep()
        workplace.sweep()
        code = app(args=_asked(words), prog_name="schedlab", standalone_mode=False)
        if code == _INTERRUPTED:  # Typer turns the interrupt into an exit code
            complain("interrupted")
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        code = _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; so must the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except SchedlabError as error:
        complain(str(error))
        code = 2 if isinstance(error, InputError | NotPermittedError) else 1
    except OSError as error:
        # Whatever was being written where: a temporary file of a benchmark's, say.
        if error.errno in _DISK_ERRORS:
            complain(f"'{error.filename or tempfile.gettempdir()}': {error.strerror}")
            code = 1
        else:
            code = _unexpected(error)
    except UnicodeEncodeError as error:
        code = _undecodable(error)
    except MemoryError:
        complain("there is not enough memory for this")
        code = 1
    except (SystemExit, GeneratorExit):
        raise
    # A panic of the core's is no Exception.
    except BaseException as error:
        code = _usage_error(error)
    return code if isinstance(code, int) else 0


def _undecodable(error: UnicodeEncodeError) -> int:
    """Refuse an argument with bytes that are no UTF-8 where text is needed."""
    if not any("\udc80" <= letter <= "\udcff" for letter in error.object):
        return _unexpected(error)
    complain(f"'{error.object}' is not UTF-8 text")
    return 2


def _unexpected(error: BaseException) -> int:
    """Tell of a mistake of the program's own in one line, or whole if that is asked for."""
    if os.environ.get(_TRACEBACK):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    complain(
        f"this is a mistake in schedlab, please report it with the command: "
        f"{type(error).__name__}: {error} ({where}; {_TRACEBACK}=1 shows the traceback)"
    )
    return 1


_RUNNING_COMMANDS = ("compare", "sweep", "tune")


def _asked(words: list[str]) -> list[str]:
    """Return arguments as the program takes them: with a project's, and ``-- COMMAND`` apart."""
    options.ask(words)
    taken = _with_command(words)
    if not (taken and taken[0] in _RUNNING_COMMANDS and project_file.FILE.is_file()):
        return taken
    commands = vars(typer.main.get_command(app))["commands"]
    whole = project_file.with_file(taken, commands[taken[0]].params)
    if whole != taken:
        note(f"{project_file.FILE} says: {shlex.join(['schedlab', *whole])}")
        options.ask(whole)
    return whole


def _with_command(words: list[str]) -> list[str]:
    """Return arguments in which ``-- COMMAND`` is an option, where a command can be run.

    What follows ``--`` would else be taken for workloads.
    """
    if not words or words[0] not in _RUNNING_COMMANDS or "--" not in words:
        return words
    place = words.index("--")
    if place + 1 == len(words):
        raise InputError("there is no command after '--'")
    return [*words[:place], f"--command={shlex.join(words[place + 1 :])}"]


def _usage_error(error: BaseException) -> int:
    """Tell of a mistake in the arguments; Typer's class for them has no public name."""
    message = getattr(error, "format_message", None)
    if message is None:
        return _unexpected(error)
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "schedlab")
    text = " ".join(message().split()).rstrip(".")
    for theirs, ours in _WORDS.items():
        text = text.replace(theirs, ours)
    if text:  # without arguments there is only the help, which was printed
        complain(f"{text} (see {path} --help)")
    return 2
