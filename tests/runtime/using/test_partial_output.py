"""Outputs that go on where a run was killed."""

import json

import pytest

from mtf_models.errors import DataError
from mtf_models.runtime.using.partial_output import PartialOutput

ROWS = {0: {"text": "é\u2028b"}, 1: {"text": "b"}, 2: {"text": "c"}}


@pytest.fixture
def made(tmp_path):
    return tmp_path / "out.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def begun(made):
    """What stands aside when two rows are there."""
    output = PartialOutput(made, "request")
    output.add({0: ROWS[0]})
    output.add({1: ROWS[1]})
    return output.path


def test_rows_are_taken_again_wherever_the_file_was_torn(made):
    content = begun(made).read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for size in range(len(content)):
        path = made.with_name("out.jsonl.partial")
        path.write_bytes(content[:size])
        output = PartialOutput(made, "request")
        whole = max(sum(end <= size for end in ends) - 1, 0)
        assert output.rows == {place: ROWS[place] for place in range(whole)}
        output.add({place: row for place, row in ROWS.items() if place not in output.rows})
        again = PartialOutput(made, "request")
        assert again.rows == ROWS
        again.finish()
        assert lines(made) == list(ROWS.values())
        assert list(made.parent.iterdir()) == [made]
        made.unlink()


def test_rows_of_another_request_stay(made):
    path = begun(made)
    path.write_bytes(content := path.read_bytes()[:-3])
    with pytest.raises(DataError, match="has the rows of another request"):
        PartialOutput(made, "other")
    assert path.read_bytes() == content
