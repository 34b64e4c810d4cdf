"""Wrong input gets one line that says what is allowed, exit code 2, and nothing half-written."""

from pathlib import Path

import pytest

from schedlab.cli.main import invoke

WRONG = [
    ("run hackbench:groups=0", "allowed: 1 to 100000"),
    ("run hackbench:groups=99999999999999999999", "allowed: 1 to 100000"),
    ("run hackbench:groups=100000,fds=10000", "at most 262144"),
    ("run hackbench:loop=3", "known: groups"),
    ("run nosuch", "known: hackbench"),
    # Nothing about lines and columns of a text that the user has never seen.
    ("run pipe --costs ideal --speed turbo=5", "error: machine: speed: '5'; allowed: 1% to 1000%"),
    ("run pipe --costs ideal --speed turbo=5", "as 62.5%\n"),
    ("run pipe --costs ideal --topology foo=1", "with commas between\n"),
    ("run missing.json", "No such file"),
    ("run hackbench --kernel 6.1 --set latencee=1ms", "known: latency"),
    ("run hackbench --kernel 6.1 --set latency=20", "no unit"),
    ("run hackbench --kernel 6.1 --set latency=5s", "100us to 1s"),
    ("run hackbench --kernel 6.1 --set latency", "write name=value"),
    ("run hackbench --kernel 6.12 --set latency=5ms", "base_slice"),
    ("run hackbench --kernel 2.6.24 --costs linsched --set migration_cost=1ms", "does not act on"),
    ("run hackbench --kernel 1.0", "known: 2.6.24"),
    ("run hackbench --costs linsched --cpus 0", "1 to 4096"),
    ("run hackbench --hz 5", "24 to 10000"),
    ("run hackbench --costs linsched --seed -1", "0 to 18446744073709551615"),
    ("run hackbench --costs linsched --policy fast", "other, batch, idle"),
    ("run hackbench --costs linsched --nice 30", "-20 to 19"),
    ("run hackbench --costs linsched --slice 1s", "100us to 100ms"),
    ("run hackbench --costs nosuch", "ideal, linsched, calibrated"),
    ("run hackbench --costs linsched --trace run.svg", ".pftrace"),
    ("run hackbench --costs linsched --trace none/run.txt", "No such file or directory"),
    ("run hogs --costs ideal --weights fair", "allowed: none, pfs, dw-cfs:beta=1.1"),
    ("run hogs --costs ideal --weights dw-cfs:beta=1", "beta must be above 1"),
    ("run hogs --costs ideal --weights dw-cfs", "allowed: none, pfs, dw-cfs:beta=1.1"),
    ("run hogs --on host --weights pfs", "--weights means nothing with --on host"),
    ("run hogs --costs ideal --group alice", "a path begins with '/'"),
    ("run hogs --costs ideal --group /a:wait=3", "known: weight, shares, max, burst, idle, tasks"),
    ("run hogs --costs ideal --group /a:weight=0", "1 to 10000"),
    ("run hogs --costs ideal --group /a:max=20", "no unit"),
    ("run hogs --costs ideal --group /a:tasks=9", "tasks = 9, but only 4 are left"),
    ("run hogs --costs ideal --group /a:tasks=cow", "known: hog"),
    ("run hogs --costs ideal --group /a --group /b", "name its own (tasks"),
    ("run hogs --costs ideal --cpus 1 --kernel 5.10 --group /a:idle=1", "came with 5.15"),
    ("run hogs --costs ideal --cpus 1 --kernel 2.6.24 --group /a", "group: '/a'"),
    ("run hogs --costs ideal --session tty1:weight=2", "known: tasks"),
    ("run hogs --on host --group /a", "--group means nothing with --on host"),
    ("run hackbench --on mars", "'sim', 'host'"),
    ("run hackbench --on host --kernel 6.1", "--kernel means nothing with --on host"),
    ("run hackbench --on host --cpus 0", "allowed with --on host: 1 to"),
    ("run hackbench --on host --timeout 0s", "above 0"),
    ("run hackbench --clock instructions", "--clock means nothing with --on sim"),
    ("calibrate --clock instructions", "--clock means nothing with --on host"),
    ("run hackbench --timeout 1s", "--timeout means nothing with --on sim"),
    ("run", "Missing argument 'WORKLOAD'"),
    ("run --bogus", "No such option"),
    ("nosuch", "No such command"),
    ("tune hackbench --knobs nosuch --costs linsched", "known: latency"),
    ("tune hackbench --knobs latency --kernel 6.1 --costs ideal --verify sim", "allowed: host"),
    ("tune hackbench --knobs , --costs linsched", "at least one"),
    (
        "tune hackbench --policy other,batch --on host --no-screen --costs ideal",
        "--costs: --no-screen simulates nothing",
    ),
    ("tune hackbench --on sim,host --knobs rr_timeslice", "one of sim, host"),
    ("tune hogs --on host --knobs rr_timeslice --topology smt=2", "--topology means nothing"),
    ("tune hogs --on host --knobs rr_timeslice --weights pfs", "--weights means nothing"),
    ("tune hogs --on host --knobs rr_timeslice --group /a", "--group and --session mean nothing"),
    ("tune hackbench --on mars --knobs rr_timeslice", "allowed: sim, host, vm:KERNEL"),
    ("tune --knobs rr_timeslice --on host", "nothing to run"),
    ("tune --policy other,batch --on host --", "no command after '--'"),
    ("tune pipe --policy other --on host", "there is nothing to search"),
    ("tune pipe --policy other,nosuch --on host", "nosuch"),
    ("tune pipe --policy fifo:200,other --on host", "1 to 99"),
    ("tune pipe --slice 1ms --on host", "there is nothing to search"),
    ("tune pipe --slice 9ms..1ms --on host", "the lower end first"),
    ("tune pipe --slice 1us..1ms --on host", "100us to 100ms"),
    ("tune pipe --knobs rr_timeslice=1..x --on host", "is no range"),
    ("tune pipe --policy other,batch,other --on host", "a value twice"),
    ("tune pipe --policy other,batch --by golden --on host", "there is none"),
    (
        "tune pipe --slice 1ms..9ms --kernel 6.1 --costs linsched",
        "tasks of 6.1.192 cannot set slices",
    ),
    (
        "compare pipe --slice 1ms,9ms --kernel 6.1 --costs ideal",
        "tasks of 6.1.192 cannot set slices",
    ),
    (
        "tune pipe --slice 1ms..9ms --by rsm --executions 4 --on host",
        "4 executions are too few; allowed: at least 5",
    ),
    ("tune pipe --policy other,batch --executions 1 --on host", "greater than or equal to 2"),
    ("tune pipe --policy other,batch --seeds 2 --on host", "raced"),
    ("tune pipe --policy other,batch --metrics speed --on host", "known: turnaround"),
    ("tune pipe pipe --policy other,batch --on host", "is there twice"),
    ("tune pipe --policy other,batch --on host --export toml", "allowed: sysctl, tuned, systemd"),
    ("tune pipe --policy other,batch --on host --export sysctl:/no/such/x", "no directory"),
    ("tune fio --policy other,batch --kernel 6.1 --costs ideal", "--on host"),
    ("tune hackbench --knobs rr_timeslice --costs ideal --by golden --seeds 2", "draws nothing"),
    ("tune pipe --policy other,batch --on host --metric speed", "known: turnaround"),
    ("tune pipe --policy other,batch --on host --metric delay --metric delay", "given twice"),
    ("tune pipe --policy other,batch --on host --metric delay --metrics delay", "one of them out"),
    ("tune pipe --policy other,batch --on host --metric delay --better lower", "are known to be"),
    ("tune pipe hogs --policy other,batch --on host --metric p99", "'pipe' has no metric 'p99'"),
    ("tune pipe --policy other,batch --on host --keep delay", "METRIC<=+N%, as in"),
    ("tune pipe --policy other,batch --on host --keep speed>=-2%", "known: turnaround"),
    ("tune pipe --policy other,batch --on host --keep delay>=-2%", "lower values of delay"),
    ("tune pipe --policy other,batch --on host --keep delay<=-2%", "allowed: 0% or more"),
    ("tune schbench --policy other,batch --on host --keep throughput>=+5%", "up to 0%"),
    (
        "tune pipe --policy other,batch --on host --keep delay<=+2% --keep delay<=+5%",
        "--keep: delay of pipe is given twice",
    ),
    ("tune pipe --policy other,batch --on host --points 2", "one aim, which has no front"),
    (
        "tune pipe --policy other,batch --on host --metric delay --metric cpu --by pso",
        "allowed: nsga2, tpe, random",
    ),
    (
        "tune --policy other,batch --on host --metric a(.*) --metric a(.*) --better lower"
        " --better lower --command true",
        "metric 'a(.*)' is given twice",
    ),
    (
        "tune --policy other,batch --on host --metric time(.*) --metric p99(.*) --better lower"
        " --command true",
        "given 1 times for 2 metrics",
    ),
    (
        "tune --policy other,batch --on host --metric time(.*) --metric frames(.*) --command true",
        "nothing tells whether lower or higher values of metric 'frames(.*)'",
    ),
    (
        "tune --policy other,batch --on host --metric time(?P<user>.*) --command true",
        "metric 'user' is there twice",
    ),
    (
        "tune --policy other,batch --on host --metric time(.*) --keep latency(.*)>=-2%"
        " --command true",
        "contradicts that lower values",
    ),
    ("validate pipe", "known: hackbench"),
    ("validate hackbench --on sim", "allowed: host"),
    ("validate hackbench --messages 1,x --costs linsched", "different whole numbers"),
    ("validate hackbench --messages 5 --costs linsched", "at least two"),
    ("validate hackbench --wide --messages 1,2 --costs linsched", "leave it out"),
    ("replay missing.txt", "No such file"),
    ("replay {readme}", "README.md: line "),
    ("replay {trace} --kernel 7.x", "major.minor"),
    ("replay {trace} --level L2", "allowed: L0, L0k, L1"),
    ("report", "summary 'out/demo/summary.json': No such file"),
    ("report missing.json", "No such file"),
    ("report {readme}", "is no JSON"),
    ("calibrate --output none/costs.toml", "no directory"),
    ("knobs --kernel 1.0", "known: 2.6.24"),
]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_one_line_and_exit_code_2(
    line: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = ROOT / "crates/replay/tests/fixtures/k61-hogs.txt.gz"
    words = [word.format(readme=ROOT / "README.md", trace=trace) for word in line.split()]
    assert invoke(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert list(tmp_path.iterdir()) == []


def test_without_arguments_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([]) == 2
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count("Usage: schedlab") == 1
