"""``fio``: reads and writes of files, asynchronous through libaio or io_uring."""

import json
from typing import Any, ClassVar

from schedlab.boundary.errors import RunError
from schedlab.experiment.subjects import Metric
from schedlab.processes import leftovers
from schedlab.programs.program import Option, Program, Start, need, reading_output

_PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw")


class Fio(Program):
    """fio in a temporary directory.

    The defaults are those of Phoronix's aio-stress (random writes of 64 KiB by several threads),
    with smaller files; ``size`` is each job's.

    >>> Fio.parse("fio:engine=io_uring,size=16m").name
    'fio:engine=io_uring,rw=randwrite,bs=64k,size=16m,jobs=4,depth=16,direct=0'
    """

    __slots__ = ()
    family = "fio"
    writes_files = True
    table: ClassVar = {
        "engine": Option("libaio", "word", words=("libaio", "io_uring")),
        "rw": Option("randwrite", "word", words=_PATTERNS),
        "bs": Option("64k", "size", low=512, high=2**26),
        "size": Option("64m", "size", low=4096, high=2**40),
        "jobs": Option("4", high=1024),
        "depth": Option("16", high=4096),
        "direct": Option("0", low=0, high=1),
    }
    metrics = (
        Metric.known("bandwidth", "B/s"),
        Metric.known("operations", "1/s"),
        Metric.known("latency_50"),
        Metric.known("latency_99"),
        Metric.known("seconds"),
    )

    def needs(self) -> tuple[str, ...]:
        """Return fio."""
        return ("fio",)

    def run(self, start: Start) -> dict[str, float]:
        """Run it once; its files are gone afterwards."""
        with leftovers.directory("fio") as place:
            done = start.run(
                [
                    need("fio"),
                    "--name=schedlab",
                    "--output-format=json",
                    "--group_reporting",
                    "--thread",
                    f"--directory={place}",
                    f"--ioengine={self.word('engine')}",
                    f"--rw={self.word('rw')}",
                    *(f"--{key}={self.count(key)}" for key in ("bs", "size", "direct")),
                    f"--numjobs={self.count('jobs')}",
                    f"--iodepth={self.count('depth')}",
                ],
                directory=place,
            )
        return read_fio(done.output)


def read_fio(text: str) -> dict[str, float]:
    r"""Read what fio printed as JSON: sums of reads and writes, the worse of their latencies.

    Raises:
        RunError: it is not what fio prints, or it failed.

    >>> read_fio('{"jobs": [{"error": 0, "job_runtime": 500, "read": {"total_ios": 0}, "write": '
    ...          '{"total_ios": 8, "bw_bytes": 1000, "iops": 16.0, "clat_ns": {"percentile": '
    ...          '{"50.000000": 2000, "99.000000": 9000}}}}]}')["latency_99"]
    9e-06
    """
    with reading_output("fio", text):
        # Warnings may stand before the JSON.
        job = json.loads(text[text.index("{") :])["jobs"][0]
        if job["error"]:
            raise RunError(f"fio ended with error {job['error']}")
        sides: list[dict[str, Any]] = [
            job[side] for side in ("read", "write") if job[side]["total_ios"]
        ]
        values = {
            "bandwidth": float(sum(side["bw_bytes"] for side in sides)),
            "operations": float(sum(side["iops"] for side in sides)),
        }
        for percent in (50, 99):
            latencies = [
                side["clat_ns"]["percentile"][f"{percent}.000000"]
                for side in sides
                if "percentile" in side["clat_ns"]
            ]
            if latencies:
                values[f"latency_{percent}"] = max(latencies) / 1e9
        runtime = max(side.get("runtime", 0) for side in sides) / 1000
    if runtime:
        values["seconds"] = runtime
    return values
