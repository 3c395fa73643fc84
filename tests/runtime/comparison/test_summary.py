"""What is read of the runs of a comparison, and the table of it."""

import json

from mtf_models.runtime.comparison.summary import Run, Variant, read_run, table


def write(folder, losses, **held_out):
    rows = [{"step": i + 1, "loss": x, "tokens_per_second": 10.0 * i} for i, x in enumerate(losses)]
    rows.append({"step": len(losses), **held_out})
    folder.mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text)
    return read_run(folder)


def test_a_long_curve_has_fifty_points_each_a_mean(tmp_path):
    found = write(tmp_path / "a", range(1, 201), **{"t/loss": 2.5})
    assert found.steps == tuple(range(4, 201, 4))
    assert found.losses == tuple(end - 1.5 for end in range(4, 201, 4))
    assert found.held_out == {"t/loss": 2.5}
    assert found.tokens_per_second == 1990.0


def test_a_short_curve_has_a_point_for_each_step(tmp_path):
    found = write(tmp_path / "a", [3.0, 2.0, 1.0])
    assert (found.steps, found.losses) == ((1, 2, 3), (3.0, 2.0, 1.0))
    assert found.held_out == {}


def test_the_table_has_mean_and_deviation_over_seeds():
    runs = [Run((1,), (x,), {"t/loss": x + 1}, s) for x, s in ((1.0, 10.0), (2.0, 30.0), (3.0, 20))]
    text = table([Variant("a", 12345, tuple(runs)), Variant("b", 7, tuple(runs[:1]))])
    assert "| a | 12,345 | 2.0000 ± 1.0000 | 3.0000 ± 1.0000 | 20 |" in text
    assert "| b | 7 | 1.0000 | 2.0000 | 10 |" in text
