"""Input that commands refuse, and the lists that they print."""

import json
import os
import subprocess
import sys

import pytest

import schedlab
from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.experiment.settings import axes, combinations

Capture = pytest.CaptureFixture[str]
RUN = ["run", "pipe:loops=2", "--kernel", "6.12", "--cpus", "1", "--costs", "ideal"]


@pytest.mark.parametrize("policy", ["fifo:1", "rr:5"])
def test_a_nice_level_under_a_real_time_policy_is_refused(policy: str, capsys: Capture) -> None:
    assert invoke([*RUN, "--policy", policy, "--nice", "5"]) == 2
    error = capsys.readouterr().err
    assert policy in error
    assert "other, batch, idle" in error
    with pytest.raises(InputError, match="nice"):
        schedlab.Attributes(policy, nice=-1)
    assert invoke([*RUN, "--policy", policy, "--nice", "0"]) == 0


def test_nice_levels_are_left_out_for_policies_whose_tasks_have_none() -> None:
    found = combinations({"policy": ["other", "fifo:1"], "nice": ["0", "5"]})
    assert [str(one) for one in found] == [
        "policy=other, nice=0",
        "policy=other, nice=5",
        "policy=fifo:1",
    ]


@pytest.mark.parametrize("pair", ["latency=6ms,,7ms", "latency=", "latency=6ms,", "=6ms", ","])
def test_an_empty_value_is_refused(pair: str, capsys: Capture) -> None:
    with pytest.raises(InputError, match="empty value"):
        axes([pair])
    line = ["sweep", "pipe:loops=2", "--set", pair, "--kernel", "6.1", "--costs", "ideal"]
    assert invoke(line) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_workloads_are_listed_with_their_keys(capsys: Capture) -> None:
    builtin = json.loads(_core.workloads())
    assert invoke(["workload", "--list"]) == 0
    text = capsys.readouterr().out
    for one in builtin:
        assert f"\n{one['name']}\n{one['summary']}\n" in text
        assert all(key["name"] in text for key in one["keys"])
    assert invoke(["workload", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == builtin


@pytest.mark.parametrize(
    "words", [["pipe", "--list"], ["--schema", "--list"], ["pipe", "--schema"]]
)
def test_workload_prints_one_thing(words: list[str], capsys: Capture) -> None:
    assert invoke(["workload", *words]) == 2
    assert "one of WORKLOAD, --schema and --list" in capsys.readouterr().err


def test_a_shell_completes_commands() -> None:
    # What the script of --show-completion has a shell do for "schedlab kn<Tab>".
    words = {"_TYPER_COMPLETE_ARGS": "schedlab kn", "_SCHEDLAB_COMPLETE": "complete_zsh"}
    program = "from schedlab.cli.main import main; main()"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={**os.environ, **words}, capture_output=True, text=True, check=True
    )
    assert "knobs" in done.stdout
    assert "kernels" not in done.stdout
