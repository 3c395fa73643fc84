"""`mtf infer` with beams, draws and every kind of input, and `mtf score`."""

import json

import numpy as np
import pytest
from commands import mtf

from mtf_models.runtime.folder.load import load_model

STEP = 5


@pytest.fixture
def infer(trained, tmp_path):
    def infer(content, *words, name="in.txt"):
        given, made = tmp_path / name, tmp_path / "out.jsonl"
        given.write_text(content)
        made.unlink(missing_ok=True)
        files = (f"--input={given}", f"--output={made}", f"--step={STEP}")
        outcome = mtf("infer", f"--model_dir={trained[0]}", *files, *words)
        rows = [json.loads(x) for x in made.read_text("utf-8").split("\n")[:-1]]
        return outcome, rows

    return infer


def row_of(text):
    return [*(byte + 3 for byte in text.encode()), 1]


def test_beams_are_those_of_the_model(trained, infer):
    outcome, rows = infer("n1\nn22\n", "--beam_size=4", "--num_return=3", "--alpha=0.5")
    assert outcome.status == 0, outcome.err
    model = load_model(trained[0], step=STEP)
    inputs = np.zeros([2, 8], int)
    for row, text in zip(inputs, ("n1", "n22"), strict=True):
        row[: len(text) + 1] = row_of(text)
    options = {"beam_size": 4, "num_return": 3, "alpha": 0.5, "stop_early": False}
    found = model.decode({"inputs": inputs}, max_decode_length=8, **options)
    for row, ids, scores in zip(rows, found.ids.numpy(), found.scores.numpy(), strict=True):
        texts = [bytes(i - 3 for i in x if i > 2).decode("utf-8", "ignore") for x in ids.tolist()]
        assert row["predictions"] == texts
        assert row["scores"] == pytest.approx(scores.tolist(), rel=1e-4)
        assert row["prediction"] == texts[0] and row["score"] == row["scores"][0]
    assert outcome.out.endswith("Compiled 1 graphs.\n")


def test_draws_depend_on_seed_and_line_alone(infer):
    draw = ("--temperature=1.0", "--top_k=30", "--top_p=0.95")
    lines = ["n1", "n22", "n1", "n3", ""]
    _, first = infer("\n".join(lines) + "\n", *draw, "--seed=1", "--batch_size=4")
    _, again = infer("\n".join(lines) + "\n", *draw, "--seed=1", "--batch_size=1")
    assert [r["prediction"] for r in again] == [r["prediction"] for r in first]
    _, turned = infer("n3\nn1\n", *draw, "--seed=1")
    assert [r["prediction"] for r in turned] == [first[3]["prediction"], first[0]["prediction"]]
    _, other = infer("\n".join(lines) + "\n", *draw, "--seed=2")
    assert [r["prediction"] for r in other] != [r["prediction"] for r in first]


def test_what_else_a_file_says_is_kept(infer):
    lines = '{"inputs": "n1", "targets": "1", "id": 7}\n{"inputs": "\\u2028"}\n'
    _, rows = infer(lines, name="in.jsonl")
    assert rows[0]["id"] == 7 and rows[0]["target"] == "1"
    assert [row["input"] for row in rows] == ["n1", "\u2028"]
    _, rows = infer("n1\t1\n", name="in.tsv")
    assert rows[0]["input"] == "n1" and rows[0]["target"] == "1"


def test_names_of_the_output_are_not_an_examples(trained, tmp_path):
    given, made = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text('{"inputs": "n1"}\n{"inputs": "n1", "score": 3, "input": "n2"}\n')
    files = (f"--input={given}", f"--output={made}")
    outcome = mtf("infer", f"--model_dir={trained[0]}", *files)
    assert outcome.status == 2
    assert "in.jsonl has input, score, which are names of what the output says" in outcome.err
    assert not made.exists()


def test_a_split_of_a_task(trained, tmp_path):
    made = tmp_path / "out.jsonl"
    words = ("--task=numbered", "--split=train", "--num_examples=3", f"--output={made}")
    assert mtf("infer", f"--model_dir={trained[0]}", *words).status == 0
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    assert [row["input"] for row in rows] == ["n0", "n1", "n2"]
    assert [row["target"] for row in rows] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--temperature=-1"], "temperature=-1.0 is not a number from 0"),
        (["--beam_size=2", "--num_return=3"], "num_return=3 is more than beam_size=2"),
        (["--beam_size=2", "--top_p=0.5"], "has no top_p"),
        (["--beam_size=2", "--stop=x"], "--stop ends texts while they are decoded"),
        (["--stop=x", "--stop="], "--stop is an empty text"),
        (["--beam_size=2", "--repetition_penalty=2"], "has no repetition_penalty"),
        (["--task=numbered"], "Give either --input=FILE or --task=NAME"),
        (["--split=train"], "--split is of a --task"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_decoded(trained, tmp_path, words, error):
    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    given.write_text("n1\n")
    files = (f"--input={given}", f"--output={made}")
    outcome = mtf("infer", f"--model_dir={trained[0]}", *files, *words)
    assert outcome.status == 2
    assert error in outcome.err
    assert list(tmp_path.iterdir()) == [given]


LENGTH = "--gin_param=Bitransformer.decode.max_decode_length = 2"
ENDLESS = "--gin_param=sample_autoregressive.never_end = True"


def test_the_config_says_how_many_ids_are_decoded(infer, folder):
    _, rows = infer("n22\n", ENDLESS)
    assert len(rows[0]["prediction"]) > 2
    _, rows = infer("n22\n", ENDLESS, LENGTH)
    assert len(rows[0]["prediction"]) <= 2
    outcome = mtf("eval", f"--model_dir={folder}", ENDLESS, LENGTH)
    assert outcome.status == 0, outcome.err
    lines = [line.split("  ") for line in outcome.out.splitlines() if "  ≠  " in line]
    assert lines and all(len(line[2]) <= 2 for line in lines)


def test_an_interrupted_run_goes_on(trained, tmp_path, monkeypatch):
    from mtf_models.runtime.using.partial_output import PartialOutput

    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    given.write_text("n1\nn2\nn3\n")
    files = (f"--input={given}", f"--output={made}")
    words = ("infer", f"--model_dir={trained[0]}", *files, "--batch_size=2")
    add = PartialOutput.add

    def interrupted(output, rows):
        add(output, rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(PartialOutput, "add", interrupted)
    outcome = mtf(*words)
    assert outcome.status == 130
    assert f"2 of 3 are in {made}.partial; the same command goes on" in outcome.out
    monkeypatch.undo()
    outcome = mtf(*words, "--beam_size=2")
    assert outcome.status == 2 and "has the rows of another request" in outcome.err
    (other := tmp_path / "other.gin").write_text("Bitransformer.decode.max_decode_length = 2\n")
    outcome = mtf(*words, f"--gin_file={other}")
    assert outcome.status == 2 and "has the rows of another request" in outcome.err
    other.unlink()
    outcome = mtf(*words, "--batch_size=1")
    assert outcome.status == 0 and outcome.out.startswith("Going on after 2 of 3")
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    assert [row["input"] for row in rows] == ["n1", "n2", "n3"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


@pytest.mark.parametrize("command", ["infer", "score"])
def test_nothing_is_written_over(trained, tmp_path, command):
    given = tmp_path / "pairs.tsv"
    given.write_text("n1\t1\n")
    outcome = mtf(command, f"--model_dir={trained[0]}", f"--input={given}", f"--output={given}")
    assert outcome.status == 2
    assert f"--output={given} is there already, and stays as it is" in outcome.err
    assert given.read_text() == "n1\t1\n"
    assert list(tmp_path.iterdir()) == [given]


def test_options_without_effect_are_named(infer):
    outcome, _ = infer("n1\n", "--alpha=0.5", "--seed=1")
    assert "mtf: warning: --alpha=0.5 is of a beam search" in outcome.err
    assert "mtf: warning: --seed=1 is of drawing" in outcome.err
    outcome, _ = infer("n1\n", "--alpha=0.5", "--beam_size=2")
    assert "--alpha" not in outcome.err


def test_score(trained, tmp_path):
    pairs = [("n1", "1"), ("n22", "22"), ("n3", "7"), ("", "")]
    given, made = tmp_path / "pairs.tsv", tmp_path / "out.jsonl"
    given.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    words = ("score", f"--model_dir={trained[0]}", f"--input={given}")
    outcome = mtf(*words, f"--output={made}")
    assert outcome.status == 0, outcome.err
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    assert [(row["input"], row["target"]) for row in rows] == pairs
    assert [row["token_ids"] for row in rows] == [row_of(target) for _, target in pairs]
    model = load_model(trained[0])
    features = {name: np.zeros([4, 8], int) for name in ("inputs", "targets")}
    for i, pair in enumerate(pairs):
        for name, text in zip(features, pair, strict=True):
            features[name][i, : len(text) + 1] = row_of(text)
    logits = model(features).logits.numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    total, tokens = 0.0, 0
    for i, row in enumerate(rows):
        ids = row["token_ids"]
        right = log_p[i, np.arange(len(ids)), ids]
        assert row["token_log_probabilities"] == pytest.approx(right.tolist(), abs=1e-4)
        assert row["log_probability"] == pytest.approx(right.sum(), abs=1e-4)
        total, tokens = total + right.sum(), tokens + len(ids)
    printed = mtf(*words)
    assert [json.loads(line) for line in printed.out.splitlines()] == rows
    for text in (outcome.out, printed.err):
        last = text.splitlines()[-1].split()
        assert last[0] == "perplexity"
        assert float(last[1]) == pytest.approx(np.exp(-total / tokens), rel=1e-4)


def test_score_a_split(trained):
    outcome = mtf("score", f"--model_dir={trained[0]}", "--task=numbered", "--num_examples=2")
    lines = outcome.out.splitlines()
    assert [json.loads(line)["target"] for line in lines] == ["0", "1"]
    assert "perplexity " in outcome.err


def test_stop_strings_end_predictions(infer):
    lines = "n1\nn22\nn3\n"
    draw = ("--temperature=1.0", "--seed=4")
    _, whole = infer(lines, *draw)
    stop = whole[0]["prediction"][1]
    _, rows = infer(lines, *draw, f"--stop={stop}", "--stop=~~~~")
    assert [r["prediction"] for r in rows] == [r["prediction"].split(stop)[0] for r in whole]


DRAWN = pytest.param(("--temperature=1.0",), marks=pytest.mark.slow)


@pytest.mark.parametrize("more", [(), ("--beam_size=2",), DRAWN], ids=str)
def test_predictions_begin_with_the_prefix(trained, infer, more):
    _, rows = infer("n1\nn22\n", "--prefix=ab", "--max_decode_length=4", *more)
    model = load_model(trained[0], step=STEP)
    inputs = [row_of("n1") + [0] * 5, row_of("n22") + [0] * 4]
    prefix = [row_of("ab")[:-1]] * 2
    asked = {"beam_size": 2} if "--beam_size=2" in more else {}
    asked |= {"temperature": 1.0} if "--temperature=1.0" in more else {}
    found = model.decode({"inputs": inputs}, prefix=prefix, max_steps=4, **asked)
    for row, ids in zip(rows, found.ids.numpy().tolist(), strict=True):
        assert row["prediction"].startswith("ab")
        ids = ids[: ids.index(1)] if 1 in ids else ids
        assert row["prediction"] == bytes(i - 3 for i in ids if i > 2).decode("utf-8", "ignore")


def test_repetition_is_held_back(infer):
    endless = "--gin_param=sample_autoregressive.never_end = True"
    lines = "n1\nn22\n"
    _, rows = infer(lines, endless)
    assert any(len(set(row["prediction"])) < len(row["prediction"]) for row in rows)
    for words in (("--no_repeat_ngram=1",), ("--repetition_penalty=1e6",)):
        _, rows = infer(lines, endless, *words)
        assert all(len(set(row["prediction"])) == len(row["prediction"]) for row in rows)
