"""Apache httpd on loopback, loaded by ``wrk`` or by ``ab``.

The server has a free port, a configuration and a page in a temporary directory; it is stopped, with
all its workers, however the run ends. The attributes that are tuned are the server's; the client
that loads it has its own.
"""

import os
import pwd
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment.subjects import Metric
from schedlab.processes import leftovers, processes
from schedlab.programs.program import Option, Program, Start, need, number, reading_output
from schedlab.targets.program_start import starting

_MODULES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/libexec/apache2")
_TRIES = 3
_THREADS = 50
"""Worker threads of a process of the server."""

_LATE = 10
"""Seconds that wrk may take to notice that its time is over, where CPUs are scarce."""

_LONGEST = 60
"""Seconds of an answer that wrk has room for, beside `_LATE`: it takes 8 bytes a microsecond."""

TOLERATED = 0.05
"""The share of requests that may fail.

A process of the event MPM whose threads are all busy closes the connections that idle in it, and
clients count each as a failed read before they connect again; at hundreds of connections there may
be some. They are a metric, so that they are not overlooked.
"""

# Event MPM with room for every connection, one static page, and nothing that writes logs. A process
# takes hardly more connections than it has threads, else those that wait there are closed.
_CONFIGURATION = """\
ServerRoot "{directory}"
PidFile "{directory}/httpd.pid"
DefaultRuntimeDir "{directory}"
Listen 127.0.0.1:{port}
ServerName 127.0.0.1
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
{user}
ErrorLog "{directory}/error.log"
LogLevel error
DocumentRoot "{directory}/pages"
<Directory "{directory}/pages">
    Require all granted
</Directory>
KeepAlive {keepalive}
KeepAliveTimeout 60
ListenBacklog 4096
AsyncRequestWorkerFactor 0.1
MaxKeepAliveRequests 0
ServerLimit {processes}
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {workers}
StartServers {processes}
MaxConnectionsPerChild 0
MinSpareThreads {workers}
MaxSpareThreads {spare}
"""


class Apache(Program):
    """Apache httpd under load.

    >>> Apache.parse("apache:concurrency=20,client=ab").name
    'apache:concurrency=20,client=ab,time=2s,bytes=1k,keepalive=1,threads=2'
    """

    __slots__ = ()
    family = "apache"
    table: ClassVar = {
        "concurrency": Option("100", high=10_000),
        "client": Option("wrk", "word", words=("wrk", "ab")),
        "time": Option("2s", "time", low=1_000_000_000, high=3600_000_000_000),
        "bytes": Option("1k", "size", high=2**30),
        "keepalive": Option("1", low=0, high=1),
        "threads": Option("2", high=64),
    }
    metrics = (
        Metric.known("requests", "1/s"),
        Metric.known("latency_50"),
        Metric.known("latency_99"),
        Metric.known("errors", ""),
    )

    def needs(self) -> tuple[str, ...]:
        """Return server and client."""
        return ("apache2", self.word("client"))

    def check(self) -> None:
        """Refuse what wrk refuses."""
        if self.word("client") == "wrk" and self.count("threads") > self.count("concurrency"):
            raise InputError(
                f"apache: threads={self.count('threads')}: allowed: at most concurrency "
                f"({self.count('concurrency')})"
            )
        if self.count("time") % 1_000_000_000:
            raise InputError("apache: time: allowed: whole seconds")

    def run(self, start: Start) -> dict[str, float]:
        """Start the server, load it once, and stop it."""
        with self._server(start) as url:
            if self.word("client") == "wrk":
                return read_wrk(start.run(self._wrk(url), tuned=False).output)
            return read_ab(start.run(self._ab(url), tuned=False).output)

    def _wrk(self, url: str) -> list[str]:
        options = [f"-t{self.count('threads')}", f"-c{self.count('concurrency')}"]
        close = [] if self.count("keepalive") else ["-H", "Connection: close"]
        # wrk counts an answer slower than its timeout as failed and leaves it out of the latencies.
        # An answer can take longer than the time to measure: wrk's threads end when they next run.
        seconds = int(self.seconds("time"))
        limit = ["--timeout", f"{min(seconds, _LONGEST) + _LATE}s", "--latency"]
        return [need("wrk"), *options, "-d", f"{seconds}s", *limit, *close, url]

    def _ab(self, url: str) -> list[str]:
        # -t alone implies -n 50000; -n after it lifts that.
        seconds = int(self.seconds("time"))
        options = ["-q", "-r", f"-t{seconds}", "-n100000000", f"-c{self.count('concurrency')}"]
        return [need("ab"), *options, *["-k"] * self.count("keepalive"), url]

    @contextmanager
    def _server(self, start: Start) -> Iterator[str]:
        with leftovers.directory("apache") as directory, ExitStack() as stack:
            directory.chmod(0o755)
            pages = directory / "pages"
            pages.mkdir()
            (pages / "index.html").write_bytes(b"x" * self.count("bytes"))
            stack.enter_context(_many_files())
            prepare = starting(start.attributes)
            for attempt in range(_TRIES):
                port = free_port()
                configuration = directory / "httpd.conf"
                configuration.write_text(self._configuration(directory, port), encoding="utf-8")
                command = [
                    need("apache2"),
                    "-d",
                    str(directory),
                    "-f",
                    str(configuration),
                    "-DFOREGROUND",
                ]
                try:
                    server = stack.enter_context(
                        processes.serving(
                            command,
                            partial(answers, port),
                            patience=start.timeout,
                            prepare=prepare,
                        )
                    )
                    break
                except RunError as error:
                    # Another process may have taken the port since it was found free.
                    if attempt + 1 == _TRIES or "ddress already in use" not in str(error):
                        raise
            _await_workers(server, self._processes() * _THREADS, start.timeout)
            yield f"http://127.0.0.1:{port}/index.html"

    def _processes(self) -> int:
        """Return how many processes serve: two at least, and threads for all connections."""
        # A quarter more than there are connections: with none to spare httpd closes idle ones.
        return -(-max(self.count("concurrency") * 5 // 4, 2 * _THREADS) // _THREADS)

    def _configuration(self, directory: Path, port: int) -> str:
        modules = next((one for one in _MODULES if Path(one).is_dir()), None)
        if modules is None:
            raise InputError(f"apache: no modules are in {', '.join(_MODULES)}")
        served, threads = self._processes(), _THREADS
        return _CONFIGURATION.format(
            directory=directory,
            port=port,
            modules=modules,
            user=_user(),
            keepalive="On" if self.count("keepalive") else "Off",
            processes=served,
            threads=threads,
            workers=served * threads,
            spare=2 * served * threads,
        )


def read_wrk(text: str) -> dict[str, float]:
    r"""Read what wrk printed.

    Raises:
        RunError: it is not what wrk prints, or more than `TOLERATED` of the requests failed.

    >>> read_wrk("  Latency Distribution\n     50%  635.00us\n     99%    2.50ms\n"
    ...          "  22464 requests in 1.00s, 1.00MB read\nRequests/sec:  22464.31\n")
    {'requests': 22464.31, 'latency_50': 0.000635, 'latency_99': 0.0025, 'errors': 0.0}
    """
    values = {"requests": number(r"^Requests/sec:\s+([0-9.]+)", text, "wrk")}
    values |= _latencies("wrk", text, r"([0-9.]+)(us|ms|s|m)")
    total = number(r"^\s+(\d+) requests in ", text, "wrk")
    broken = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = sum(int(count) for count in broken.groups()) if broken else 0
    kinds = f" ({broken[0]})" if broken else ""
    return values | _errors("wrk", errors, int(refused[1]) if refused else 0, total, kinds)


def read_ab(text: str) -> dict[str, float]:
    r"""Read what ab printed.

    Raises:
        RunError: it is not what ab prints, or more than `TOLERATED` of the requests failed.

    >>> read_ab("Complete requests:      100\nFailed requests:        0\n"
    ...         "Requests per second:    6500.12 [#/sec] (mean)\n  50%      3\n  99%      9\n")
    {'requests': 6500.12, 'latency_50': 0.003, 'latency_99': 0.009, 'errors': 0.0}
    """
    values = {"requests": number(r"^Requests per second:\s+([0-9.]+)", text, "ab")}
    # Whole milliseconds, without their unit.
    values |= _latencies("ab", text, r"(\d+)()")
    total = number(r"^Complete requests:\s+(\d+)", text, "ab")
    failed = number(r"^Failed requests:\s+(\d+)", text, "ab")
    refused = re.search(r"^Non-2xx responses:\s+(\d+)", text, re.MULTILINE)
    return values | _errors("ab", int(failed), int(refused[1]) if refused else 0, total)


_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "m": 60.0}


def _latencies(program: str, text: str, time: str) -> dict[str, float]:
    """Return the percentiles that were printed, in seconds; a time is a number and its unit."""
    found = (
        (percent, re.search(rf"^\s+{percent}%\s+{time}\s*$", text, re.MULTILINE))
        for percent in (50, 99)
    )
    with reading_output(program, text):
        return {
            f"latency_{percent}": round(float(match[1]) * _SECONDS[match[2]], 9)
            for percent, match in found
            if match is not None
        }


def _errors(
    client: str, broken: int, refused: int, total: float, kinds: str = ""
) -> dict[str, float]:
    """Return the failed requests as a metric, where there are few enough to go on."""
    if total == 0:
        raise RunError(f"{client}: no request was answered")
    if refused or broken > TOLERATED * total:
        raise RunError(
            f"{client}: of {total:.0f} requests {broken} failed{kinds} and {refused} were refused"
        )
    return {"errors": float(broken)}


def free_port() -> int:
    """Return a port of the loopback address that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether a process takes connections at a port of the loopback address."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _await_workers(server: int, workers: int, patience: float) -> None:
    """Wait until a server has all its workers: while it makes them, they take its CPU time.

    The first of them answer long before the last is there, on a slow machine by seconds.

    Raises:
        RunError: they do not come.
    """
    deadline = time.monotonic() + patience
    # Beside its workers each process has a thread that listens and one that it began with.
    while (found := _threads_below(server)) < workers // _THREADS * (_THREADS + 2):
        if time.monotonic() > deadline:
            raise RunError(f"apache2: {found} threads after {patience:g} s, not all {workers}")
        time.sleep(0.02)


def _threads_below(parent: int) -> int:
    """Return how many threads the children of a process have."""
    found = 0
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split():
        # It may be gone meanwhile.
        with suppress(OSError):
            found += len(list(Path(f"/proc/{child}/task").iterdir()))
    return found


@contextmanager
def _many_files() -> Iterator[None]:
    """Let the programs started in a block have as many connections as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _user() -> str:
    """Return the user that the workers run as: httpd refuses to serve as root."""
    if os.geteuid() != 0:
        return ""
    for name in ("www-data", "apache", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return f"User {name}\nGroup #{entry.pw_gid}"
    return ""
