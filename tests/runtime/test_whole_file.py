"""Files that are written whole, and paths that none can be written to."""

import pytest

from mtf_models.errors import CheckpointError, DataError
from mtf_models.runtime.whole_file import check_output, check_takes_files, write_text


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    write_text(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "x" * 100_000 + "\ud800")
    assert path.read_text() == "old\n"
    write_text(path, "née\n")
    assert path.read_bytes() == b"n\xc3\xa9e\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_says_what_to_do(tmp_path):
    path = tmp_path / "none" / "out.txt"
    with pytest.raises(CheckpointError, match=f"{path} cannot be written: No such file.*Try"):
        write_text(path, "", CheckpointError, "Try another.")


def test_outputs_are_refused_before_any_work(tmp_path):
    (file := tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a folder"):
        check_output(tmp_path)
    with pytest.raises(DataError, match="--json=.* is there already, and stays"):
        check_output(file, "--json")
    with pytest.raises(DataError, match="There is no folder"):
        check_output(tmp_path / "none" / "out.txt")
    with pytest.raises(DataError, match="/proc cannot be written.*Give another --output"):
        check_output("/proc/out.txt")
    with pytest.raises(DataError, match="cannot be written: Not a directory"):
        check_takes_files(file / "none")
    check_output("out.txt")
    check_takes_files(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == [file]
