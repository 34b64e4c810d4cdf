"""Workers that simulate: processes here or of a cluster, behind `concurrent.futures.Executor`."""

import ctypes
import math
import multiprocessing
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from schedlab._core import __version__
from schedlab.boundary.errors import InputError, RunError
from schedlab.boundary.extras import load

Chunk = TypeVar("Chunk")
Done = TypeVar("Done")

CHUNK_SECONDS = 1.0
"""How long a chunk of simulations takes at the least: what its way costs is small beside it."""

CHUNKS_A_SECOND = 200
"""Chunks a second of all workers together, at the most; a Dask scheduler takes twice as many."""

MOST = 10_000
"""Workers at the most."""

_TRIED = 0.05
"""Share of a chunk's time that a trial takes at the least by which the size of chunks is set."""

_GROWTH = 4
"""By what factor a trial has more items than the one before."""

_AHEAD = 2
"""Chunks that a worker has at once, so that it does not wait for the next one."""

_ATTEMPTS = 3
"""How often a chunk is given to a worker that ends before the chunk does."""

_CONNECT_SECONDS = 10
"""How long a Dask scheduler may take to answer."""


class Workers:
    """Workers to which chunks of work are given, by way of any executors.

    A lane is a worker's executor. A worker that ends during a chunk breaks its lane: the
    lane is made anew, and its chunk is given out again.

    Args:
        lanes: an executor for each worker; the same one several times where it has many workers.
        renew: makes the executor of a lane anew; None where a broken one stays broken.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     Workers([pool, pool]).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(
        self, lanes: Sequence[Executor], renew: Callable[[int], Executor] | None = None
    ) -> None:
        if not lanes:
            raise InputError("there are no workers; allowed: one or more")
        self._lanes = list(lanes)
        self._renew = renew
        self.lost = 0
        """Chunks that a worker ended during, and that were given out again."""

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self._lanes)

    @property
    def chunk_seconds(self) -> float:
        """How long a chunk should take; the more workers there are, the longer.

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(1) as pool:
        ...     Workers([pool] * 2).chunk_seconds, Workers([pool] * 1000).chunk_seconds
        (1.0, 5.0)
        """
        return max(CHUNK_SECONDS, self.count / CHUNKS_A_SECOND)

    def map(self, function: Callable[[Chunk], Done], chunks: Sequence[Chunk]) -> list[Done]:
        """Return what a function says of each chunk, in the order of the chunks.

        Args:
            function: of a module, so that a worker finds it by its name.
            chunks: its arguments.

        Raises:
            RunError: the workers that a chunk was given to ended, one after the other.
            Exception: whatever the function raises.
        """
        waiting = deque(range(len(chunks)))
        attempts: Counter[int] = Counter()
        found: dict[int, Done] = {}
        given: dict[Future[Done], tuple[int, int, Executor]] = {}
        busy = [0] * self.count
        try:
            while waiting or given:
                while waiting and min(busy) < _AHEAD:
                    lane = busy.index(min(busy))
                    number = waiting.popleft()
                    future = self._submit(lane, function, chunks[number])
                    given[future] = (number, lane, self._lanes[lane])
                    busy[lane] += 1
                done, _ = wait(given, return_when=FIRST_COMPLETED)
                for future in done:
                    number, lane, executor = given.pop(future)
                    busy[lane] -= 1
                    try:
                        found[number] = future.result()
                    except BrokenExecutor as error:
                        attempts[number] += 1
                        if attempts[number] == _ATTEMPTS or self._renew is None:
                            raise RunError(
                                f"{attempts[number]} workers ended during the same chunk "
                                f"of simulations ({error}): they were killed, or had no memory left"
                            ) from None
                        self.lost += 1
                        waiting.appendleft(number)
                        self._mend(lane, executor)
        finally:
            for future in given:
                future.cancel()
        return [found[number] for number in range(len(chunks))]

    def spread(
        self,
        function: Callable[[Chunk], Done],
        count: int,
        chunk: Callable[[int, int], Chunk],
        here: Callable[[Chunk], Done],
    ) -> list[Done]:
        """Return what a function says of many items, in chunks of `chunk_seconds` or more.

        The first items are done in this process, in growing numbers, to see how long a chunk of
        them takes: one alone takes longer than each of many. What takes less than two chunks stays
        here as a whole.

        Args:
            function: of a module, so that a worker finds it by its name.
            count: how many items there are.
            chunk: returns the argument for the items from a number up to another one.
            here: does in this process what a function does in a worker, on all its CPUs.

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(1) as pool:
        ...     found = Workers([pool]).spread(sum, 9, range, sum)
        >>> sum(found)
        36
        """
        found: list[Done] = []
        done, size, many = 0, 1, count
        while done < count:
            end = min(done + size, count)
            begun = time.perf_counter()
            found.append(function(chunk(done, end)))
            took = time.perf_counter() - begun
            # The first of all also does what is done once.
            if done > 0:
                many = math.ceil(self.chunk_seconds * (end - done) / took)
                if took > _TRIED * self.chunk_seconds:
                    done = end
                    break
                size *= _GROWTH
            done = end
        if done < count <= done + 2 * many:
            return [*found, here(chunk(done, count))]
        starts = range(done, count, many)
        return [
            *found,
            *self.map(function, [chunk(start, min(start + many, count)) for start in starts]),
        ]

    def _submit(self, lane: int, function: Callable[[Chunk], Done], chunk: Chunk) -> "Future[Done]":
        executor = self._lanes[lane]
        try:
            return executor.submit(function, chunk)
        except BrokenExecutor:
            # Its worker ended while it had nothing to do.
            if self._renew is None:
                raise
            self._mend(lane, executor)
            return self._lanes[lane].submit(function, chunk)

    def _mend(self, lane: int, broken: Executor) -> None:
        """Make a lane anew, once for all chunks that a worker had."""
        if self._lanes[lane] is broken and self._renew is not None:
            broken.shutdown(wait=False)
            self._lanes[lane] = self._renew(lane)


@contextmanager
def opened(text: str | None) -> Iterator[Workers | None]:
    """Give the workers that a text names, and end those that were started for it.

    Args:
        text: a number of processes on this machine, ``dask://HOST:PORT`` for the workers of a Dask
            scheduler, or None for this process, which simulates on all its CPUs.

    Raises:
        InputError: the text names neither, the scheduler does not answer or has no workers, or
            their schedlab is another one; also where the extra ``dask`` is not installed.

    >>> with opened("1") as workers:
    ...     workers.count
    1
    """
    if text is None:
        yield None
    elif text.startswith("dask://"):
        with _dask(text.removeprefix("dask://")) as workers:
            yield workers
    elif text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST:
        with _Processes(int(text)) as workers:
            yield workers
    else:
        raise InputError(
            f"workers '{text}': allowed: a number from 1 to {MOST}, or dask://HOST:PORT"
        )


class _Processes:
    """Processes of this machine, each with an executor of its own."""

    def __init__(self, count: int) -> None:
        # A fork of this process would have its locks but not its threads.
        self._context = multiprocessing.get_context("spawn")
        self._pools = [self._pool(lane) for lane in range(count)]

    def _pool(self, lane: int) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            1, mp_context=self._context, initializer=_begin, initargs=(os.getpid(),)
        )
        if hasattr(self, "_pools"):
            self._pools[lane] = pool
        return pool

    def __enter__(self) -> Workers:
        return Workers(self._pools, self._pool)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pool in self._pools:
            if error is not None:
                # What is under way is not wanted any more; it would be waited for at the end.
                for process in list((pool._processes or {}).values()):
                    process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int) -> None:
    """Leave interrupts to the process that began this one, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def _dask(address: str) -> Iterator[Workers]:
    """Connect to a Dask scheduler, whose workers have to have this schedlab."""
    distributed = load("distributed")
    try:
        client = distributed.Client(
            f"tcp://{address}", timeout=_CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address} ({error}): start one with 'dask scheduler', "
            "and workers with 'dask worker'"
        ) from None
    with client:
        threads = client.nthreads()
        if not threads:
            raise InputError(
                f"the Dask scheduler at {address} has no workers: start some with "
                f"'dask worker tcp://{address} --nthreads 1'"
            )
        _check_versions(client, address)
        with client.get_executor(pure=False, retries=_ATTEMPTS - 1) as executor:
            yield Workers([executor] * sum(threads.values()))


def _check_versions(client: Any, address: str) -> None:
    try:
        found = client.run(version)
    except Exception as error:
        raise InputError(
            f"the Dask workers at {address} cannot load schedlab ({error}): install it there"
        ) from None
    for worker, other in found.items():
        if other != __version__:
            raise InputError(
                f"the Dask worker {worker} has schedlab {other}, and this is {__version__}: "
                "install the same there"
            )


def version() -> str:
    """Return the version of schedlab in this process.

    >>> import schedlab
    >>> version() == schedlab.__version__
    True
    """
    return __version__
