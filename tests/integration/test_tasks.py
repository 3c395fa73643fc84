"""`mtf tasks`: what it lists, shows and trains, and what it refuses."""

import pytest
import sentencepiece
from commands import mtf

LINES = [("cat", "katze"), ("dog", "hund"), ("house", "haus"), ("a longer line", "x")]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in LINES))
    return path


def test_all_tasks_are_listed_by_where_they_are_from(tmp_path, monkeypatch):
    text = "import seqio\nseqio.MixtureRegistry.add('listed_here', ['kjv_web'], default_rate=1)\n"
    (tmp_path / "listing_task.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    outcome = mtf("tasks", "list", "--module_import=listing_task")
    assert outcome.status == 0, outcome.err
    groups = [line.split(",")[0] for line in outcome.out.splitlines() if line[0] != " "]
    assert groups[:3] == ["mtf_models", "listing_task", "t5"]
    assert "\n  listed_here  mixture of kjv_web  [inputs, targets]\n" in outcome.out
    for name in ("cmudict_g2p", "glue_cola_v002", "squad_v010", "c4_v220_full_lm"):
        assert f"\n  {name} " in outcome.out
    few = mtf("tasks", "list", "WMT16")
    assert "wmt16_translate/ro-en:1.0.0  [inputs, targets]" in few.out
    assert "2 tasks and mixtures with 'WMT16'" in few.out
    assert mtf("tasks").out.splitlines()[0].startswith("mtf_models, ")


def test_a_file_is_shown_stage_by_stage(pairs, tmp_path):
    outcome = mtf("tasks", "show", pairs, "--vocab=bytes", "--length=inputs:8,targets:6")
    assert outcome.status == 0, outcome.err
    assert "pairs, split train: 4 examples" in outcome.out
    for stage in ("raw 1", "preprocessed 1", "tokenised 2"):
        assert f"\n{stage}\n" in outcome.out
    assert "  inputs: [102 100 119 1]\n" in outcome.out  # c, a, t: their bytes and 3; the end
    # 4, 4, 6 and 14 ids, of which the last loses 6; 6, 5, 5 and 2 in rows of 6.
    assert "inputs: 4 to 14 ids, mean 7.0, median 6, 95 % up to 14" in outcome.out
    assert "cut to 8: 25.0% of examples, 21.4% of ids" in outcome.out
    assert "targets: 2 to 6 ids" in outcome.out and "25.0% one example to a row" in outcome.out


def test_characters_that_the_vocabulary_lacks(tmp_path):
    (tmp_path / "snow.txt").write_text("snow \u96ea\n")
    outcome = mtf("tasks", "show", tmp_path / "snow.txt", "--show=1")
    assert outcome.status == 0, outcome.err
    assert "characters that the vocabulary lacks: '\u96ea' 1" in outcome.out


def test_a_vocabulary_is_trained_on_a_feature(pairs, tmp_path):
    made = tmp_path / "my.model"
    words = ["--size=20", "--model_type=char", "--features=targets", f"--output={made}"]
    outcome = mtf("tasks", "train-vocab", pairs, *words)
    assert outcome.status == 0, outcome.err
    assert "trained on targets of pairs" in outcome.out
    model = sentencepiece.SentencePieceProcessor(model_file=str(made))
    pieces = {model.id_to_piece(i) for i in range(model.get_piece_size())}
    assert {"k", "z", "d"} <= pieces and not {"c", "l", "o"} & pieces


REFUSED = {
    "no such task": (["show", "nothing_like_it"], "no task or mixture 'nothing_like_it'"),
    "a mixture": (["show", "words_and_verses"], "words_and_verses is a mixture: take one of"),
    "no such split": (["show", "{pairs}", "--split=dev"], "no split 'dev' in pairs"),
    "lengths of other features": (["show", "{pairs}", "--length=x:1"], '"inputs:128,targets:128"'),
    "an action that is none": (["glue"], "invalid choice: 'glue'"),
    "a flag that is none": (
        ["show", "x", "--spilt=dev"],
        "flag --spilt; did you mean --split",
    ),
    "a feature that is none": (
        ["train-vocab", "{pairs}", "--output=a.model", "--features=text"],
        "no texts called text before it is tokenised: it has inputs, targets",
    ),
    "a name that is no model's": (["train-vocab", "{pairs}", "--output=a.txt"], "named FILE.model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown(pairs, name):
    words, message = REFUSED[name]
    outcome = mtf("tasks", *(word.format(pairs=pairs) for word in words))
    assert outcome.status == 2
    assert message in outcome.err
