"""A model of one's own files: trained with a vocabulary, then used on its folder alone."""

import hashlib
import json
import shutil

import pytest
from commands import hashes, mtf

from mtf_models.data.vocabularies.training import train_vocabulary

TINY = ["d_model = 16", "d_ff = 16", "num_layers = 1", "num_heads = 2", "d_kv = 8"]
LENGTHS = 'utils.run.sequence_length = {"inputs": 12, "targets": 12}'
MODEL = ["--gin_file=models/t5.1.1.small.gin", *(f"--gin_param={p}" for p in [*TINY, LENGTHS])]
FLOAT32 = '--gin_param=get_variable_dtype.activation_dtype = "float32"'
WORDS = ["able", "baker", "charlie", "delta", "easy", "fox", "golf", "hotel", "item", "jig"]
# One line has no tab, one has two, one is empty; one ends as in Windows and the last one does not.
BAD = b"a\tb\nonly one field\nc\td\te\n\nf\tg\r\nlast\tline"


def train(folder, *words):
    return mtf("train", *MODEL, FLOAT32, "--batch_size=4", f"--model_dir={folder}", *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on files, moved away with nothing but its folder left, and what it printed."""
    away = tmp_path_factory.mktemp("away")
    pairs = [(word, word[::-1]) for word in WORDS]
    (away / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (away / "held_out.jsonl").write_text(
        "".join(json.dumps({"source": a + "s", "reversed": "s" + b}) + "\n" for a, b in pairs[:3])
    )
    train_vocabulary([x for pair in pairs for x in pair], away / "words.model", 40, "char")
    outcome = train(
        away / "run",
        f"--train_file={away / 'pairs.tsv'}",
        f"--vocab={away / 'words.model'}",
        "--extra_ids=5",
        "--steps=2",
    )
    folder = tmp_path_factory.mktemp("kept") / "run"
    (away / "run").rename(folder)
    shutil.rmtree(away)
    return folder, outcome


def infer(folder, given, output, *words):
    outcome = mtf(
        "infer", f"--model_dir={folder}", f"--input={given}", f"--output={output}", *words
    )
    return outcome, [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def test_the_run_and_what_it_records(made):
    folder, outcome = made
    assert outcome.status == 0, outcome.err
    record = json.loads((folder / "vocabulary.json").read_text())
    (copy,) = (folder / "vocabulary").iterdir()
    assert set(record) == {"inputs", "targets"}
    assert record["inputs"]["extra_ids"] == 5
    assert record["inputs"]["size"] == record["targets"]["size"]
    assert copy.name == "words.model"
    text = (folder / "operative_config.gin").read_text()
    assert "pairs.tsv" in text and "words.model" in text


def test_seven_lines_in_batches_of_four_give_seven_lines_in_order(made, tmp_path):
    folder, _ = made
    given = tmp_path / "in.txt"
    given.write_text("\n".join(WORDS[:7]))
    four, by_four = infer(folder, given, tmp_path / "four.jsonl", "--batch_size=4")
    one, by_one = infer(folder, given, tmp_path / "one.jsonl", "--batch_size=1")
    assert four.status == one.status == 0, four.err + one.err
    assert [row["input"] for row in by_four] == WORDS[:7]
    assert [row["prediction"] for row in by_four] == [row["prediction"] for row in by_one]


def test_a_file_is_evaluated_with_the_vocabulary_of_the_run(made, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "run")
    (tmp_path / "held_out.csv").write_text("targets,inputs\nelba,able\nxof,fox\n")
    outcome = mtf("eval", f"--model_dir={folder}", f"--task={tmp_path / 'held_out.csv'}")
    assert outcome.status == 0, outcome.err
    assert "held_out, 2 examples: sequence_accuracy" in outcome.out
    row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert set(row) >= {"held_out/loss", "held_out/sequence_accuracy"}


def test_another_vocabulary_is_refused_with_what_differs(made, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "run")
    before = hashes(folder)
    outcome = mtf("eval", f"--model_dir={folder}", "--task=kjv_web")
    assert outcome.status == 2
    assert f"vocabulary of kjv_web is not the one that {folder} was trained with" in outcome.err
    assert "inputs: size" in outcome.err and "now 32100, extra_ids 5, now 100" in outcome.err
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    words = [f"--train_file={tmp_path / 'pairs.tsv'}", "--vocab=bytes"]
    outcome = mtf(
        "train", f"--init_from={folder}", f"--model_dir={tmp_path / 'more'}", "--steps=1", *words
    )
    assert outcome.status == 2
    assert "kind SentencePieceVocabulary, now ByteVocabulary" in outcome.err
    assert hashes(folder) == before and not (tmp_path / "more").exists()


@pytest.mark.parametrize("command", ["export", "serve"])
def test_another_vocabulary_is_neither_exported_nor_served(made, tmp_path, command):
    given = {"export": f"--output={tmp_path / 'saved'}", "serve": "--port=0"}[command]
    outcome = mtf(command, f"--model_dir={made[0]}", "--task=kjv_web", given)
    assert outcome.status == 2
    assert f"vocabulary of kjv_web is not the one that {made[0]} was trained with" in outcome.err
    assert not (tmp_path / "saved").exists()


def test_a_vocabulary_file_that_has_changed_is_refused(made, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "run")
    record = json.loads((folder / "vocabulary.json").read_text())
    for one in record.values():
        one["sha256"] = hashlib.sha256(b"what it was").hexdigest()
    (folder / "vocabulary.json").write_text(json.dumps(record))
    given = tmp_path / "in.txt"
    given.write_text("able\n")
    outcome = mtf("infer", f"--model_dir={folder}", f"--input={given}", f"--output={tmp_path}/out")
    assert outcome.status == 2
    assert "inputs: sha256" in outcome.err and not (tmp_path / "out").exists()


def test_lines_that_do_not_fit_end_training_or_are_left_out(tmp_path):
    file = tmp_path / "file.tsv"
    file.write_bytes(BAD)
    words = [f"--train_file={file}", "--vocab=bytes", "--steps=1"]
    outcome = train(tmp_path / "run", *words)
    assert outcome.status == 2
    assert f"{file}:2: expected 2 fields, found 1: 'only one field'" in outcome.err
    assert not (tmp_path / "run").exists()
    outcome = train(tmp_path / "run", *words, "--on_bad=skip")
    assert outcome.status == 0, outcome.err
    assert "Skipped 3 of 6 lines" in outcome.err
    assert "1 × expected 2 fields, found 1" in outcome.err
    assert "epochs of 3\n" in outcome.out


REFUSED = {
    "no such vocabulary": (["--vocab=t6"], "There is no vocabulary 't6'"),
    "three vocabularies": (["--vocab=t5,t5,t5"], "3 vocabularies are given for inputs and targets"),
    "no such metric": (["--metrics=blue"], "no metric blue; did you mean bleu?"),
    "columns that cannot be read": (["--columns=1,2"], "--columns=1,2 cannot be read"),
    "two tasks": (["--task=kjv_web"], "either --train_file=FILE or --task=NAME"),
    "a name that is taken": ([], "There is a task 'kjv_web' already"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tasks_of_files_that_cannot_be(tmp_path, name):
    words, message = REFUSED[name]
    file = tmp_path / ("kjv_web.tsv" if name == "a name that is taken" else "pairs.tsv")
    file.write_text("a\tb\n")
    outcome = train(tmp_path / "run", f"--train_file={file}", *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "run").exists()


def test_flags_of_files_without_a_file(tmp_path):
    outcome = train(tmp_path / "run", "--task=kjv_web", "--on_bad=skip", "--vocab=bytes")
    assert outcome.status == 2
    assert "--vocab, --on_bad belong to a task of files" in outcome.err
