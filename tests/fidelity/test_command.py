"""Which results the commands that compare simulated and real runs may overwrite."""

from pathlib import Path
from typing import NoReturn

import pytest
from tests.needs import rt_app_examples

from fidelity import command, places
from fidelity.behaviour import __main__ as judging_behaviour
from fidelity.behaviour import collect as collecting_behaviour
from fidelity.places import Anew
from fidelity.prediction import __main__ as judging_prediction
from fidelity.prediction import collect as collecting_prediction
from fidelity.whatif import __main__ as judging_what_if
from fidelity.whatif import collect as collecting_what_if

PROJECT = Path(__file__).parents[2]
COMMANDS = {
    "behaviour": (judging_behaviour, collecting_behaviour),
    "prediction": (judging_prediction, collecting_prediction),
    "what-if": (judging_what_if, collecting_what_if),
}


def _anew(*options: str) -> Anew | None:
    parser = command.parser("it", "lines.toml")
    command.add_calibrations(parser)
    return command.anew(parser.parse_args(["lines.toml", "--directory", "runs", *options]))


def test_what_is_kept_is_judged_alone_or_the_rest_made_with_so_many_calibrations() -> None:
    assert _anew("--kept") is None
    assert _anew("--kept", "--calibrations", "2") is None
    assert _anew("--calibrations", "2") == Anew(2)
    assert _anew() == Anew()


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_no_calibration_is_no_way_to_measure(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        _anew("--calibrations", number)
    assert stopped.value.code == 2
    assert "--calibrations" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[rt_app_examples] if one == "behaviour" else []) for one in COMMANDS],
)
def test_where_only_what_is_kept_is_judged_no_place_is_visited(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def at(place: str) -> NoReturn:
        raise AssertionError(f"visited {place}")

    main, collecting = COMMANDS[name]
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(places, "at", at)
    monkeypatch.setattr(collecting, "at", at)
    arguments = [f"validation/{name}.toml", "--directory", str(tmp_path), "--place", "vm:6.1"]
    if name != "prediction":
        fixed = tmp_path / "noise.toml"
        fixed.write_text((PROJECT / f"validation/{name}-noise.toml").read_text(encoding="utf-8"))
        arguments += ["--noise", str(fixed)]
    assert main.main([*arguments, "--kept"]) == 1
    # There is nothing that could hold.
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 of ")
