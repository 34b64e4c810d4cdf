"""The core of schedlab, written in Rust. Structures cross as JSON, batches as arrays.

Everything here raises `schedlab.boundary.errors.InputError` for what it cannot take.
"""

from collections.abc import Sequence
from os import PathLike

import numpy as np
from numpy.typing import NDArray

__version__: str

__all__ = [
    "__version__",
    "answer_page",
    "attribute_recording",
    "attribute_run",
    "attributes",
    "background",
    "behaviour",
    "bench",
    "check_invariants",
    "check_workload",
    "costs",
    "disturbance",
    "export_workload",
    "format_time",
    "infer",
    "knobs",
    "machine",
    "parse_time",
    "read_workload",
    "release",
    "releases",
    "replay",
    "resolved_rules",
    "rules",
    "scheduler",
    "simulate",
    "simulate_many",
    "simulate_policy",
    "standings",
    "thread_weight_factor",
    "wait_lengths",
    "wakeup_latency",
    "weights_remark",
    "with_attributes",
    "with_groups",
    "workload",
    "workload_schema",
    "workloads",
]

def parse_time(text: str) -> int: ...
def format_time(nanoseconds: int) -> str: ...
def scheduler(
    release: str,
    hz: int,
    knobs: list[tuple[str, str]],
    weights: str = "none",
    rules: list[tuple[str, bool]] = ...,
) -> str: ...
def rules(release: str) -> str: ...
def resolved_rules(scheduler: str) -> str: ...
def thread_weight_factor(rule: str, threads: int, online: int) -> float: ...
def costs(preset: str) -> str: ...
def machine(text: str) -> str: ...
def background(text: str) -> str: ...
def attributes(policy: str, nice: int, slice: str | None, affinity: list[int]) -> str: ...  # noqa: A002
def with_attributes(workload: str, attributes: str) -> str: ...
def with_groups(workload: str, groups: list[str], sessions: list[str]) -> str: ...
def weights_remark(weights: str, cpus: int) -> str | None: ...
def workload(text: str) -> str: ...
def check_workload(text: str) -> tuple[str, str]: ...
def read_workload(text: str, name: str) -> tuple[str, list[str]]: ...
def export_workload(workload: str) -> str: ...
def workload_schema() -> str: ...
def workloads() -> str: ...
def knobs(release: str, cpus: int) -> str: ...
def disturbance(
    before: str, after: str, cpus: list[int], elapsed_ns: int, own_ns: int, hz: int
) -> str: ...
def release(text: str, *, nearest: bool = False) -> str: ...
def releases() -> str: ...
def simulate(
    workload: str,
    scheduler: str,
    machine: str,
    seed: int,
    *,
    phase: int = 0,
    origin: int = 0,
    trace: str | PathLike[str] | None = None,
    ftrace: bool = False,
    decisions: str | PathLike[str] | None = None,
    json_lines: bool = False,
    no_tick_skip: bool = False,
    ext: bool = False,
) -> str: ...
def attribute_run(
    workload: str,
    scheduler: str,
    machine: str,
    seed: int,
    *,
    phase: int = 0,
    origin: int = 0,
    task: str | None = None,
    percentile: float = 99.0,
    worst: int = 10,
) -> str: ...
def attribute_recording(
    trace: str | PathLike[str],
    *,
    snapshot: str | PathLike[str] | None = None,
    release: str | None = None,
    level: str | None = None,
    task: str | None = None,
    percentile: float = 99.0,
    worst: int = 10,
) -> str: ...
def wait_lengths(
    workload: str,
    scheduler: str,
    machine: str,
    runs: Sequence[tuple[int, int]],
    percentile: float,
) -> str: ...
def simulate_many(
    workload: str,
    scheduler: str,
    machine: str,
    knobs: list[str],
    values: NDArray[np.int64],
    seed: int,
    *,
    in_turn: bool = False,
) -> NDArray[np.int64]: ...
def standings(
    workload: str, scheduler: str, machine: str, seed: int
) -> list[tuple[int, int, int, int | None]]: ...
def answer_page(request: bytes) -> bytes: ...
def bench(names: list[str], repeats: int, machine: str) -> str: ...
def simulate_policy(
    workload: str,
    scheduler: str,
    machine: str,
    seed: int,
    policy: object,
) -> str: ...
def check_invariants(trace: str | PathLike[str], bound: str) -> str: ...
def wakeup_latency(trace: str | PathLike[str], end_ns: int | None = None) -> str: ...
def replay(
    trace: str | PathLike[str],
    snapshot: str | PathLike[str] | None = None,
    release: str | None = None,
    level: str | None = None,
    *,
    perfetto: str | PathLike[str] | None = None,
    decisions: str | PathLike[str] | None = None,
    json_lines: bool = False,
) -> str: ...
def infer(
    trace: str | PathLike[str],
    name: str,
    costs: str,
    start: str | None = None,
    end: str | None = None,
    ending: str | None = None,
) -> tuple[str, str]: ...
def behaviour(workload: str, scheduler: str, machine: str, seed: int, *, phase: int = 0) -> str: ...
