"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from schedlab.boundary import files
from schedlab.boundary.errors import InputError


def test_a_file_appears_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with files.whole(file) as temporary:
        temporary.write_text("new")
        assert not file.exists()
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_whatever_goes_wrong_the_old_file_stays(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(problem), files.whole(file) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise problem
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_odd_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        files.write_text(tmp_path, "x")
    with pytest.raises(InputError, match="No such file"):
        files.write_text(tmp_path / "none" / "a.txt", "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the directory"):
        files.make_directory(tmp_path / "file" / "below")
