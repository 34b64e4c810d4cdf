"""Whether lower or higher values of a metric are better, from the words that describe it."""

from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.experiment.subjects import REQUEST_METRICS, WORKLOAD_METRICS, Metric
from schedlab.model.direction import HIGHER, LOWER, direction_of, pattern_words
from schedlab.programs import FAMILIES
from schedlab.programs.command import OWN, Command

Capture = pytest.CaptureFixture[str]


# Each direction is what the sentence says: more requests a second serve more, a longer time is
# worse, and a word that can be part of either says nothing.
@pytest.mark.parametrize(
    ("pattern", "better"),
    [
        (r"Requests/sec: ([0-9.]+)", "higher"),
        (r"Requests per second:\s+([0-9.]+) \[#/sec\]", "higher"),
        (r"transactions:\s+\d+\s+\(([0-9.]+) per sec", "higher"),
        (r"([0-9.]+) MB/s", "higher"),
        (r'"iops":([0-9.]+)', "higher"),
        (r"goodput ([0-9.]+)", "higher"),
        (r"frames per second: ([0-9.]+(?:\.[0-9]+)?)", "higher"),
        (r"throughput in 10 seconds: (.*)", "higher"),
        (r"time to first frame ([0-9.]+)", "lower"),
        (r"Time per request:\s+([0-9.]+) \[ms\]", "lower"),
        (r"([0-9.]+) ns/op", "lower"),
        (r"(?P<latency>\d+)", "lower"),
        (r"99%\s+([0-9.]+)ms", "lower"),
        (r"errors/s ([0-9]+)", "lower"),
        (r"frames ([0-9.]+)", None),
        (r"IPC ([0-9.]+)", None),
        (r"([0-9]+) frames in 10 seconds", None),
        (r"([0-9]+) frames in [0-9.]+ s", None),
        (r"dropped frames/s ([0-9]+)", None),
        (r"context switches/s ([0-9]+)", None),
        (r"latency|throughput ([0-9]+)", None),
        (r"p99 throughput ([0-9]+)", None),
        (r"time between failures ([0-9]+)", None),
        (r"idle time ([0-9]+)", None),
        (r"uptime ([0-9]+)", None),
        (r"v ([0-9]+)", None),
    ],
)
def test_words_tell_the_direction_or_nothing(pattern: str, better: str | None) -> None:
    assert direction_of(pattern_words(pattern)) == better
    if better is None:
        with pytest.raises(InputError, match="say --better lower or --better higher"):
            Command(("true",), pattern)
        assert Command(("true",), pattern, "higher").metrics[0].better == "higher"
    else:
        assert Command(("true",), pattern).metrics[0].better == better


def test_no_word_is_in_both_lists() -> None:
    assert set(HIGHER) & set(LOWER) == set()
    assert all(direction_of(word) == "higher" for word in HIGHER)
    assert all(direction_of(word) == "lower" for word in LOWER)


def test_our_own_metrics_have_the_tables_direction() -> None:
    own: list[Metric] = [*OWN, *WORKLOAD_METRICS, *REQUEST_METRICS]
    own += [metric for program in FAMILIES.values() for metric in program.metrics]
    for metric in own:
        assert metric == Metric.known(metric.name, metric.unit)
    # Work done a second is better when there is more of it; of all else less is.
    rates = {metric.name for metric in own if metric.better == "higher"}
    assert rates == {"requests", "bandwidth", "operations", "throughput"}


@pytest.mark.parametrize("command", ["compare", "sweep", "tune"])
def test_an_unknown_direction_is_asked_for_in_one_line(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    line = [command, "--command", "echo frames 7", "--metric", "frames ([0-9.]+)", "--on", "host"]
    line += ["--set", "rr_timeslice=10ms"] if command == "sweep" else ["--policy", "other,batch"]
    assert invoke([*line, "--store", str(tmp_path / "runs.db")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--better lower or --better higher" in error
    assert "throughput" in error  # a word that is known
    assert not (tmp_path / "runs.db").exists()
