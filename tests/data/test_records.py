"""Examples of files and tasks, one a line, every fault named."""

import json

import numpy as np
import pytest

from mtf_models.data.records import occurrences, records_of_file, records_of_split
from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.errors import DataError


@pytest.fixture
def read(tmp_path):
    def read(name, content, needed, task="cmudict_g2p"):
        file = tmp_path / name
        file.write_bytes(content.encode())
        return records_of_file(file, get_task_or_mixture(task), needed)

    return read


def test_every_line_of_a_text_is_an_example(read):
    records = read("in.txt", "cat\n\ndog\r\ncat", ["inputs"])
    assert [r.texts["inputs"] for r in records] == ["cat", "", "dog", "cat"]
    assert records[0].ids["inputs"].tolist() == [102, 100, 119, 1]
    assert records[1].ids["inputs"].tolist() == [1]
    assert occurrences(records, "inputs") == [0, 0, 0, 1]


def test_a_prompt_for_a_language_model_has_no_end(read):
    text = "translate English to German: The house is wonderful."
    (record,) = read("in.txt", text, ["inputs"], "kjv_web_lm")
    expected = [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5]
    assert record.ids["inputs"].tolist() == expected
    (record,) = read("in.txt", text, ["targets"], "kjv_web_lm")
    assert record.ids["targets"].tolist() == [*expected, 1]


def test_fields_and_names(read):
    (record,) = read("in.tsv", "cat\tK AE T", ["inputs", "targets"])
    assert record.texts == {"inputs": "cat", "targets": "K AE T"}
    assert record.ids["targets"].tolist() == [22, 4, 33, 1]
    (record,) = read("in.tsv", "cat\tK AE T", ["inputs"])
    assert record.texts["targets"] == "K AE T" and "targets" not in record.ids
    line = json.dumps({"inputs": "cat", "number": 3})
    (record,) = read("in.jsonl", line, ["inputs"])
    assert record.texts == {"inputs": "cat"} and record.more == {"number": 3}


@pytest.mark.parametrize(
    ("name", "content", "needed", "fragments"),
    [
        (
            "in.tsv",
            "a\tb\nonly one field\nc\td\te\n",
            ["inputs", "targets"],
            [
                "in.tsv:2: expected 2 fields, found 1: 'only one field'",
                "in.tsv:3: expected 2 fields, found 3",
            ],
        ),
        (
            "in.txt",
            "a\n",
            ["inputs", "targets"],
            ["in.txt is plain text, which has one field a line"],
        ),
        (
            "in.jsonl",
            "{\n[1]\n",
            ["inputs"],
            ["in.jsonl:1: not JSON", "in.jsonl:2: expected an ob"],
        ),
        ("in.jsonl", '{"inputs": 3}', ["inputs"], ["expected a text under 'inputs': found 3"]),
        ("in.txt", "", ["inputs"], ["in.txt is empty: it has no line"]),
    ],
)
def test_lines_that_do_not_fit_are_listed(read, name, content, needed, fragments):
    with pytest.raises(DataError) as caught:
        read(name, content, needed)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_split_of_a_task(make_task):
    task = make_task("some", [1, 2, 3])
    records = records_of_split(task, "train", {"inputs": 2, "targets": 2}, ["inputs"], 2)
    assert [r.ids["inputs"].tolist() for r in records] == [[10], [11, 11]]
    with pytest.raises(DataError, match="has no prefixes, which are needed"):
        records_of_split(task, "train", {}, ["prefixes"])


def test_a_line_of_a_hundred_thousand_characters(read):
    (record,) = read("in.txt", "ab" * 50_000, ["inputs"])
    assert len(record.ids["inputs"]) == 100_001
    assert record.ids["inputs"].dtype == np.int32
