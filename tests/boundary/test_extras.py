"""The package without the libraries of its extras: it loads, and names the extra that is needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedlab.boundary.extras import EXTRAS

LACKING = "import sys\nfor name in {names!r}: sys.modules[name] = None\n"
ALL = [module for modules in EXTRAS.values() for module in modules]


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LACKING.format(names=ALL) + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def _schedlab(*words: str) -> subprocess.CompletedProcess[str]:
    return _python("from schedlab.cli import main; main(sys.argv[1:])", *words)


def test_every_module_loads_without_them() -> None:
    # Three modules are about Optuna's classes, and a program's __main__ runs it.
    done = _python(
        "import importlib, pkgutil, schedlab\n"
        "for one in pkgutil.walk_packages(schedlab.__path__, 'schedlab.'):\n"
        "    name = one.name.rpartition('.')[2]\n"
        "    if not name.startswith('optuna_') and name != '__main__':\n"
        "        importlib.import_module(one.name)\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_names_its_extra(library: str) -> None:
    extra = {"pandas": "frames", "polars": "polars"}[library]
    done = _python(
        "from schedlab.experiment.frames import frame\n"
        "try: frame({'a': [1]}, sys.argv[1])\n"
        "except ValueError as error: print(error)",
        library,
    )
    assert done.stdout.strip().endswith(f"pip install 'schedlab[{extra}]'")


def test_a_search_of_optunas_names_its_extra(tmp_path: Path) -> None:
    line = "tune hackbench:groups=1,loops=1 --knobs latency --by tpe --kernel 6.1 --cpus 1"
    store = ["--store", str(tmp_path / "runs.db"), "--costs", "linsched"]
    done = _schedlab(*line.split(), *store)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'schedlab[optuna]'")
    assert done.stderr.count("\n") == 1


def test_the_demo_writes_all_but_figures_and_says_how_to_get_them(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    done = _schedlab("demo", "--quick", "--output", str(out))
    assert done.returncode == 0, done.stderr
    assert {file.name for file in out.iterdir()} == {"hackbench.pftrace", "summary.json"}
    summary = out / "summary.json"
    assert json.loads(summary.read_text())["version"]
    told = f"pip install 'schedlab[charts]', then schedlab report {summary}"
    assert told in " ".join(done.stderr.split())
    refused = _schedlab("report", str(summary))
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith("pip install 'schedlab[charts]'")
    assert refused.stderr.count("\n") == 1
    # With the libraries the command that was told makes the page.
    program = [
        sys.executable,
        "-c",
        "from schedlab.cli import main; main()",
        "report",
        str(summary),
    ]
    assert subprocess.run(program, check=False, capture_output=True).returncode == 0
    assert (out / "report.html").is_file()
