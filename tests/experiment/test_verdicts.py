"""The report of a winner: its direction, fresh seeds, an interval, and columns that agree."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from schedlab import tuning
from schedlab.cli.main import invoke
from schedlab.experiment import campaign, sequential_experiment
from schedlab.experiment.group_sequential import Judged, Pairs, Protocol
from schedlab.experiment.sequential_experiment import Question
from schedlab.experiment.stats import Verdict
from schedlab.store import Store

Capture = pytest.CaptureFixture[str]

# Twice the throughput under SCHED_BATCH.
DOUBLED = (
    "sh -c 'case \"$(chrt -p $$)\" in *BATCH*) echo throughput 20;; *) echo throughput 10;; esac'"
)
SEARCH = "tune --by random --executions 6 --policy other,batch --on host --metric throughput\\s(.*)"
SIMULATED = (
    "tune http:servers=2,concurrency=4,duration=50ms --knobs latency,min_granularity --by random "
    "--executions 8 --kernel 6.1 --costs linsched --cpus 1"
)


def _json(line: list[str], capsys: Capture) -> dict[str, Any]:
    assert invoke([*line, "--json"]) == 0, capsys.readouterr().err
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_a_gain_has_one_sign_everywhere(tmp_path: Path, capsys: Capture) -> None:
    # 10 to 20 is +100 % of a metric of which higher is better: nothing may say -50 %.
    store, page = str(tmp_path / "runs.db"), tmp_path / "page.md"
    line = [*SEARCH.split(), "--store", store, f"--command={DOUBLED}"]
    assert invoke(line) == 0
    told = capsys.readouterr().out
    assert "higher is better" in told
    assert "in the search: metric +100.0%, better" in told
    assert "better with policy=batch: metric +100.0%" in told
    value = _json(line, capsys)
    assert value["better"] == "higher"
    assert value["change"] == pytest.approx(1.0)
    assert value["gains"][0]["change"] == pytest.approx(1.0)
    assert value["verified"]["answers"][0]["change"] == pytest.approx(1.0)
    assert invoke(["report", value["experiment"], "--store", store]) == 0
    assert invoke(["report", value["experiment"], "--store", store, "--output", str(page)]) == 0
    for text in (told, capsys.readouterr().out, page.read_text()):
        assert "+100.0%" in text
        assert "-50" not in text


def test_columns_have_the_ratio_that_stands_beside_them() -> None:
    # Medians 1 and 2 would say +100 %; the pairs' ratios are 2, 2, 2, 1/8 in turn: their geometric
    # mean is 1, and so is the ratio of the geometric means.
    base, treated = [1.0, 1.0, 1.0, 16.0], [2.0, 2.0, 2.0, 2.0]
    settled = sequential_experiment.settle(
        {
            "a": lambda block, _: {"time": base[block % 4]},
            "b": lambda block, _: {"time": treated[block % 4]},
        },
        [Question("a", "b", "time")],
        Protocol((12,)),
    )
    (answer,) = settled.answers
    assert answer.baseline is not None
    assert answer.treatment is not None
    assert answer.baseline == pytest.approx(2.0)  # (1 * 1 * 1 * 16) ** (1 / 4)
    assert answer.treatment / answer.baseline - 1 == pytest.approx(answer.change)
    assert answer.change == pytest.approx(0.0)


def test_a_simulated_winner_meets_fresh_seeds(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "runs.db"
    value = _json([*SIMULATED.split(), "--repeats", "2", "--store", str(file)], capsys)
    with Store(file, create=False) as store:
        searched, compared = store.experiments()
        assert (searched.kind, compared.kind) == ("tune", "compare")
        seeds = {one.id: {run.seed for run in store.runs(one.id)} for one in (searched, compared)}
        runs = list(store.runs(compared.id))
    # Two seeds a setting were searched with; pairs have the seeds behind them, both runs the same.
    assert seeds[searched.id] == {1, 2}
    assert seeds[compared.id] == set(range(3, 3 + len(runs) // 2))
    assert searched.result is not None
    assert searched.result["comparisons"] == [compared.id]
    for answer in value["verified"]["answers"]:
        assert answer["judged"]["verdict"] in set(Verdict)
        assert answer["judged"]["ratio"]["interval"]["low"] <= 1 + answer["change"]
    metrics = [one["question"]["metric"] for one in value["verified"]["answers"]]
    assert metrics == ["throughput", "p99"]


def test_only_a_certified_winner_is_exported(tmp_path: Path, capsys: Capture) -> None:
    # Under SCHED_FIFO no request preempts another one's service, so that the longest wait for fewer
    # others. Two pairs settle nothing, whatever they say (stats.minimum_pairs).
    made, two = tmp_path / "unit.conf", ["--blocks", "2"]
    line = "tune http:duration=200ms --policy other,fifo --by random --executions 4 --kernel 6.1"
    words = [*line.split(), "--costs", "linsched", "--cpus", "1", "--export", f"systemd:{made}"]
    words += ["--metric", "p99", "--store", str(tmp_path / "runs.db")]
    assert invoke([*words, *two]) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith("error: ")
    assert "is not certified as better; --uncertified writes it" in error
    assert not made.exists()
    assert invoke([*words, *two, "--uncertified"]) == 0
    assert "# UNCERTIFIED: " in made.read_text()
    assert invoke(words) == 0
    assert "UNCERTIFIED" not in made.read_text()
    assert "on sim: better with policy=fifo" in made.read_text()
    capsys.readouterr()
    # Where nothing is asked, that is said before the search.
    assert invoke([*words, "--verify", "none"]) == 2
    assert "--verify none asks for none" in capsys.readouterr().err
    assert invoke([*SIMULATED.split(), "--uncertified"]) == 2
    assert "--uncertified means nothing without --export" in capsys.readouterr().err


def test_a_certified_winner_is_written_with_its_verdict(tmp_path: Path, capsys: Capture) -> None:
    made = tmp_path / "unit.conf"
    line = [*SEARCH.split(), "--store", str(tmp_path / "runs.db"), "--export", f"systemd:{made}"]
    assert invoke([*line, f"--command={DOUBLED}"]) == 0
    text = made.read_text()
    assert "UNCERTIFIED" not in text
    assert "better with policy=batch" in text.splitlines()[0]
    capsys.readouterr()


def test_seeds_that_change_nothing_are_said_to(tmp_path: Path, capsys: Capture) -> None:
    # Pipes hand a word to and fro: nothing in them is drawn at random.
    line = [
        "compare",
        "pipe",
        "--policy",
        "other,fifo",
        "--kernel",
        "6.1",
        "--costs",
        "linsched",
        "--cpus",
        "1",
    ]
    line += ["--store", str(tmp_path / "runs.db")]
    value = _json(line, capsys)
    assert value["notes"] == [
        "pipe on sim: every seed gives the same run, so its pairs count as one"
    ]
    assert invoke(line) == 0
    captured = capsys.readouterr()
    assert value["notes"][0] in captured.err
    assert re.search(r"policy=fifo .* one run +(better|worse) ", captured.out)


def test_a_draw_that_every_seed_repeats_certifies_nothing(tmp_path: Path, capsys: Capture) -> None:
    # Costs of whole jiffies on one CPU: hackbench draws nothing at random.
    made = tmp_path / "tuned.conf"
    line = "tune hackbench:groups=1,fds=4,loops=1 --knobs latency,min_granularity --kernel 2.6.24"
    line += f" --hz 1000 --cpus 1 --costs linsched --export tuned:{made}"
    assert invoke([*line.split(), "--store", str(tmp_path / "runs.db")]) == 1
    captured = capsys.readouterr()
    assert "in one run, which every seed repeats" in captured.out
    assert "is not certified as better" in captured.err
    assert not made.exists()


@pytest.mark.parametrize("workload", ["http:duration=50ms", "schbench:duration=50ms"])
def test_servers_are_compared_by_throughput_and_p99(
    workload: str, tmp_path: Path, capsys: Capture
) -> None:
    line = f"compare {workload} --policy other,batch --kernel 6.1 --costs linsched --cpus 2"
    value = _json([*line.split(), "--store", str(tmp_path / "runs.db")], capsys)
    asked = [(one["question"]["metric"], one["question"]["better"]) for one in value["answers"]]
    assert asked == [("throughput", "higher"), ("p99", "lower")]
    assert [one["question"]["decisive"] for one in value["answers"]] == [True, False]


def test_the_runs_left_are_those_that_the_scatter_asks_for() -> None:
    # A ratio of 2 without scatter is decided at the first look: 12 blocks of two runs, not 320.
    told: list[sequential_experiment.Progress] = []
    settled = sequential_experiment.settle(
        {
            "a": lambda block, _: {"time": 1.0 + block % 2 / 100},
            "b": lambda *_: {"time": 2.0},
        },
        [Question("a", "b", "time")],
        Protocol(),
        progress=told.append,
    )
    assert settled.blocks == 12
    assert {one.most for one in told} == {24}
    assert [one.done for one in told] == list(range(1, 25))
    # Scatter of 30 % about no effect cannot be told from 1 % within the budget.
    scattered = Pairs([1.0, 1.3] * 4, [1.3, 1.0] * 4)
    assert Protocol().projected_blocks(scattered, 8) == Protocol().budget


def test_a_list_of_no_experiments_is_no_error(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert invoke(["report", "--list"]) == 0
    assert "no experiments in" in capsys.readouterr().out
    assert invoke(["report", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert list(tmp_path.iterdir()) == []


class _Page(HTMLParser):
    """The texts of a page's elements, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.tags[-1], data))


def test_a_page_begins_with_the_answer_and_has_the_next_command(
    tmp_path: Path, capsys: Capture
) -> None:
    store, page = str(tmp_path / "runs.db"), tmp_path / "page.html"
    hostile = f"{DOUBLED} '<script>alert(1)</script>|`x`'"
    line = [*SEARCH.split(), "--store", store, f"--command={hostile}"]
    value = _json(line, capsys)
    ids = [value["experiment"], value["verified"]["experiment"]]
    for identity in ids:
        assert invoke(["report", identity, "--store", store, "--output", str(page)]) == 0
        told = _Page(page.read_text())
        assert "script" not in told.tags
        body = told.texts[[tag for tag, _ in told.texts].index("h1") :]
        assert body[1][0] == "p"
        before = [text for tag, text in body[: [tag for tag, _ in body].index("h2")]]
        assert any("better with policy=batch" in text for text in before)
        # Below it what shows it and how sure it is; then the command, before all that is folded.
        texts = [text for _, text in body]
        after = texts[texts.index("What to do next") : texts.index("Limits")]
        assert any(text.startswith("$ schedlab ") for text in after)
    capsys.readouterr()
    # A tuning on this kernel that has its verdict ends in a file.
    assert invoke(["report", ids[0], "--store", store, "--output", str(page)]) == 0
    command = next(text for _, text in _Page(page.read_text()).texts if text.startswith("$ "))
    assert _options(command)[-2:] == ["--export", "systemd"]


def _options(command: str) -> list[str]:
    return shlex.split(command.removeprefix("$ schedlab "))


def test_markdown_tables_have_as_many_cells_as_heads(tmp_path: Path, capsys: Capture) -> None:
    store, page = str(tmp_path / "runs.db"), tmp_path / "page.md"
    hostile = f"{DOUBLED} 'a|b'"
    value = _json([*SEARCH.split(), "--store", store, f"--command={hostile}"], capsys)
    for identity in (value["experiment"], value["verified"]["experiment"]):
        assert invoke(["report", identity, "--store", store, "--output", str(page)]) == 0
        tables = 0
        for table in re.findall(r"(?:^\|.*\|\n)+", page.read_text(), re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(cells) == 1
            tables += 1
        assert tables
    capsys.readouterr()


@pytest.mark.parametrize("command", ["tune", "compare", "sweep", "run"])
def test_many_options_stand_in_groups(
    command: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert invoke([command, "--help"]) == 0
    parts = re.split(r"╭─ (.*?) ─+╮", capsys.readouterr().out)
    groups = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert re.findall(r"--[a-z-]+", groups["Options"]) == ["--help"]
    assert len(groups) > 5


def test_no_other_metric_may_be_worse() -> None:
    # A winner that is better in what decides and worse in what is asked beside it is no winner.
    def result(*verdicts: tuple[Verdict, bool]) -> campaign.Result:
        answers = [
            sequential_experiment.Answer(
                Question("a", "b", str(place), decisive=decides),
                Judged(None, verdict, 0.01),
                12,
            )
            for place, (verdict, decides) in enumerate(verdicts)
        ]
        return campaign.Result(
            "", {"cells": []}, sequential_experiment.Settled({}, answers), {}, 0, "done"
        )

    better, same = (Verdict.BETTER, True), (Verdict.SAME, True)
    worse, undecided = (Verdict.WORSE, True), (Verdict.INCONCLUSIVE, True)
    assert tuning.certified([result(better, same)])
    beside = (Verdict.WORSE, False)
    for refused in ([same], [better, worse], [better, undecided], [better, beside]):
        assert not tuning.certified([result(*refused)])
    assert not tuning.certified([])
    # The last place decides.
    assert tuning.certified([result(same), result(better)])
    assert not tuning.certified([result(better), result(same)])
