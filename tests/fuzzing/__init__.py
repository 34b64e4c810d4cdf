"""Parsers of what people give, with mutated inputs for them; for scripts/fuzz and test_corpus.py.

An input is good if it is read or refused with a `SchedlabError`; whatever else comes of it is a
fault of the program: another exception, a crash, a hang, or memory that grows with a number in it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.fuzzing import commands, recordings, texts, written
from tests.fuzzing.mutation import mutated_journal, mutated_json, mutated_store
from tests.fuzzing.parser import FaultError, Parser, directory, file, word
from tests.fuzzing.parser import texts as seeds

from schedlab.knobs import journal
from schedlab.measure import trace_spans
from schedlab.model import Workload, parse_time
from schedlab.model.outcome import Outcome
from schedlab.programs.apache import read_ab, read_wrk
from schedlab.programs.fio import read_fio
from schedlab.programs.hackbench import read_hackbench
from schedlab.programs.stress_ng import read_stress_ng

__all__ = ["CORPUS", "PARSERS", "FaultError", "Parser", "directory", "parser"]

CORPUS = Path(__file__).resolve().parent.parent / "corpus"

# As many of a million inputs as the time one takes lets be tried in half an hour.
PARSERS: Sequence[Parser] = (
    Parser("time", lambda data: parse_time(word(data)), 90_000, seeds("20ms", "1.5s", "0ns")),
    Parser(
        "scheduler",
        texts.read_scheduler,
        110_000,
        seeds("6.1 250 latency 20ms none", "6.12.95-amd64 100 base_slice 3ms", "~6.8 1000",
              "7.2 250 feature.RUN_TO_PARITY 1 dw-cfs:beta=1.1", "5.10 250 rt_runtime unlimited"),
    ),
    Parser(
        "machine",
        texts.read_machine,
        90_000,
        seeds("smt=2,llc=8,node=16 smt=62.5%,turbo=130%/120%/100%", "siblings=last,smt=2"),
    ),
    Parser(
        "attributes",
        texts.read_attributes,
        70_000,
        seeds("fifo:5", "rr:99", "batch 3ms", "ext:dw-cfs:beta=1.1", "deadline", "other 100us"),
    ),
    Parser(
        "groups",
        texts.read_groups,
        70_000,
        seeds("/a:weight=50,tasks=2 /b:max=20ms/100ms,burst=1ms|s:tasks=hog", "/a/b:idle=1"),
    ),
    Parser(
        "workload",
        lambda data: Workload.parse(word(data).replace("/", "")),
        130_000,
        cache(texts.workloads),
    ),
    Parser("document", texts.read_json, 60_000, cache(texts.documents)),
    Parser(
        "options",
        texts.read_program,
        30_000,
        seeds("rt-hackbench:groups=4,fds=20,loops=100", "perf-messaging:groups=2,thread=1",
              "perf-pipe:loops=100", "apache:concurrency=4,time=2s,work=10us", "fio:jobs=4,size=4k",
              "stress-ng:stressor=pipe,workers=2,time=2s"),
    ),
    Parser(
        "pattern",
        texts.read_command,
        30_000,
        seeds("Requests/sec: ([0-9.]+)|./serve|-n|5", "seconds|true", "latency (\\d+) ms|a"),
    ),
    Parser(
        "range",
        texts.read_range,
        30_000,
        seeds("base_slice=1ms..20ms other,batch 1ms..50ms", "feature.RUN_TO_PARITY", "base_slice"),
    ),
    Parser("replay", recordings.replay, 80_000, recordings.recordings, recordings.recording),
    Parser("infer", recordings.infer, 30_000, recordings.recordings, recordings.recording),
    Parser("observe", recordings.observe, 30_000, recordings.recordings, recordings.recording),
    Parser("perf", recordings.other, 20_000, recordings.perf_texts, recordings.recording),
    Parser("perfetto", recordings.other, 30_000, recordings.perfetto_traces),
    Parser("snapshot", recordings.snapshot, 30_000, recordings.snapshots),
    Parser(
        "trace",
        lambda data: trace_spans.read(file(data, "trace.txt")),
        10_000,
        recordings.traces,
    ),
    Parser("costs", written.read_costs, 20_000, written.costs),
    Parser(
        "journal",
        lambda data: journal.read(file(data, "journal")),
        20_000,
        written.journals,
        mutated_journal,
    ),
    Parser("store", written.read_store, 10_000, written.stores, mutated_store),
    Parser(
        "outcome",
        lambda data: Outcome.from_json(data.decode(errors="replace")),
        10_000,
        written.outcomes,
        mutated_json,
    ),
    Parser(
        "program",
        texts.each(
            read_wrk,
            read_ab,
            read_fio,
            read_hackbench,
            lambda text: read_stress_ng(text, "cpu"),
        ),
        10_000,
        seeds("Requests/sec:  12.5\nLatency 1.5ms 2us\n50% 1.00ms\n99% 2.00ms\nTransfer/sec: 5MB",
              "Requests per second: 5.5 [#/sec] (mean)\n"
              "Time per request: 1.0 [ms]\n 50% 3\n 99% 4\n",
              '{"jobs": [{"read": {"iops": 1.5, "bw_bytes": 5, "clat_ns": {"mean": 1}}}]}',
              "Running in process mode with 5 groups using 40 file descriptors each "
              "(== 200 tasks)\n"
              "Each sender will pass 10 messages of 100 bytes\nTime: 0.066\n",
              "stress-ng: metrc: [1] cpu 100 1.0 1.0 1.0 100 50\n"),
    ),
    Parser("summary", commands.report, 2_000, written.summaries, mutated_json),
    Parser(
        "command_line", commands.run, 4_000, seeds(*commands.COMMANDS), commands.mutated_command
    ),
)  # fmt: skip


def parser(name: str) -> Parser:
    """Return a parser by its name."""
    return next(one for one in PARSERS if one.name == name)
