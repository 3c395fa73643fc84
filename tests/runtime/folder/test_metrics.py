import json
import logging

import pytest

from mtf_models.errors import CheckpointError
from mtf_models.runtime.folder.metrics import MetricsWriter


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_row_for_each_call(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(3, {"loss": 0.5}, "train")
    writer.write(3, {"a task/exact": 1}, "eval")
    assert rows(tmp_path) == [{"step": 3, "loss": 0.5}, {"step": 3, "a task/exact": 1.0}]
    writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1


def test_what_json_has_no_number_for(tmp_path):
    MetricsWriter(tmp_path).write(1, {"a": float("nan"), "b": float("inf")}, "train")
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "a": null, "b": null}\n'


@pytest.mark.parametrize(("after", "kept"), [(None, [1, 2, 3]), (2, [1, 2]), (0, [])])
def test_rows_of_work_that_is_done_again(tmp_path, after, kept):
    for step in (1, 2, 3):
        MetricsWriter(tmp_path).write(step, {}, "train")
    MetricsWriter(tmp_path, after)
    assert [row["step"] for row in rows(tmp_path)] == kept


def test_damaged_rows_are_dropped_and_told(tmp_path, caplog):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1}\n{"st\n[]\n{"step": "x"}\n\xff\n{"step": 2}\n{"step": 3}')
    with caplog.at_level(logging.WARNING, "mtf_models"):
        MetricsWriter(tmp_path, after=5)
    assert file.read_bytes() == b'{"step": 1}\n{"step": 2}\n'
    assert caplog.messages == [f"Dropped damaged lines of {file}: 2, 3, 4, 5, 7."]


def test_many_damaged_rows(tmp_path, caplog):
    (tmp_path / "metrics.jsonl").write_text("x\n" * 9)
    with caplog.at_level(logging.WARNING, "mtf_models"):
        MetricsWriter(tmp_path, after=5)
    assert caplog.messages[0].endswith(": 1, 2, 3, 4, 5, ....")


def test_a_torn_line_is_ended_by_who_only_adds(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n{"st')
    MetricsWriter(tmp_path).write(2, {}, "eval")
    assert file.read_text() == '{"step": 1}\n{"st\n{"step": 2}\n'


def test_an_empty_file(tmp_path):
    (tmp_path / "metrics.jsonl").touch()
    MetricsWriter(tmp_path).write(2, {}, "eval")
    assert rows(tmp_path) == [{"step": 2}]


def test_a_full_disk(tmp_path, files_of_at_most):
    writer = MetricsWriter(tmp_path)
    with files_of_at_most(60), pytest.raises(CheckpointError, match="File too large. Make room"):
        for step in range(10):
            writer.write(step, {}, "train")
    writer = MetricsWriter(tmp_path, after=1)
    writer.write(2, {}, "train")
    assert [row["step"] for row in rows(tmp_path)] == [0, 1, 2]


def test_events_on_a_full_disk(tmp_path, files_of_at_most):
    writer = MetricsWriter(tmp_path)
    (tmp_path / "metrics.jsonl").symlink_to("/dev/null")
    with files_of_at_most(200), pytest.raises(CheckpointError, match="Cannot write"):
        for step in range(10):
            writer.write(step, {"loss": 1.0}, "train")
        writer.flush()
