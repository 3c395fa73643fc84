"""`mtf compare` trains each variant from each seed, and tells what they reached."""

import json
import xml.etree.ElementTree as ElementTree

from commands import GIVEN, mtf, rows, training_rows

VARIANTS = (
    '--gin_param=compare.variants = {"as it is": [], "narrow": ["d_ff = 24"]}',
    "--gin_param=compare.seeds = [0, 3]",
)


def compare(folder, *words):
    return mtf("compare", *GIVEN, *VARIANTS, f"--model_dir={folder}", "--steps=3", *words)


def test_each_run_is_that_of_train(tmp_path):
    outcome = compare(tmp_path / "c")
    assert outcome.status == 0, outcome.err
    alone = ("--gin_param=d_ff = 24", "--seed=3", "--steps=3", f"--model_dir={tmp_path / 'a'}")
    assert mtf("train", *GIVEN, *alone).status == 0
    one = tmp_path / "c" / "narrow" / "seed_3"
    assert training_rows(one) == training_rows(tmp_path / "a")
    variants = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert [v["name"] for v in variants] == ["as it is", "narrow"]
    assert variants[0]["parameters"] > variants[1]["parameters"]
    assert variants[1]["runs"][1]["losses"] == [row["loss"] for row in training_rows(one)]
    assert (tmp_path / "c" / "comparison.md").read_text() in outcome.out
    drawn = ElementTree.parse(tmp_path / "c" / "comparison.svg").getroot()
    assert drawn.tag.endswith("svg")

    again = compare(tmp_path / "c")
    assert again.status == 0 and again.out.count("is finished") == 4
    assert len(rows(one)) == len(rows(tmp_path / "a"))


def test_nothing_is_trained_where_a_variant_cannot_be(tmp_path):
    faulty = '--gin_param=compare.variants = {"a": ["d_fff = 2"], "b": ["x.y = 1"], "c": []}'
    outcome = compare(tmp_path / "c", faulty)
    assert outcome.status == 2
    assert "a: " in outcome.err and "b: " in outcome.err and "d_ff" in outcome.err
    assert not (tmp_path / "c").exists()


def test_a_config_without_variants(tmp_path):
    outcome = mtf("compare", *GIVEN, f"--model_dir={tmp_path / 'c'}")
    assert outcome.status == 2 and "compare.variants" in outcome.err
