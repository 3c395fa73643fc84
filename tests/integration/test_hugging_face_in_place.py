"""Every command on a Hugging Face folder as it lies there; transformers is the judge."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import hashes, mtf, rows, training_rows
from judge import needs_transformers, run_peer

from mtf_models.datasets.vocabs import t5_model
from mtf_models.errors import DataError
from mtf_models.runtime.folder.load import load_model
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.folder.vocabulary_record import check

pytestmark = needs_transformers

PEER = Path(__file__).with_name("in_place_peer.py")
PAIRS = [
    ["a word", "one"],
    ["another one", "two of them"],
    ["in the beginning", "end"],
    ["A  naïve ＡＢＣ, 日本 and ½", "“quoted”, 1,234.5 %"],
]
SHORT = '--gin_param=utils.run.sequence_length = {"inputs": 64, "targets": 64}'
FAMILIES = ("byt5", "t5", "t5_json")
each_family = pytest.mark.parametrize(
    "name", [f if f == "t5" else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES]
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of transformers with tokenizers, a file of pairs, and what they come to."""
    folder = tmp_path_factory.mktemp("made")
    run_peer(PEER, folder, t5_model(), json.dumps(PAIRS))
    (folder / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in PAIRS))
    before = hashes(folder)
    yield folder
    assert hashes(folder) == before


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Of the pieces that are taken out of a tokenizer.json."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def right(made):
    """What transformers made of the pairs."""
    return lambda name: json.loads((made / f"{name}.json").read_text())


def done(command, folder, *words):
    """The outcome of a command on a folder, which must succeed."""
    outcome = mtf(command, f"--model_dir={folder}", SHORT, *words)
    assert outcome.status == 0, outcome.err
    return outcome


@each_family
def test_scores(made, right, name, tmp_path):
    done("score", made / name, f"--input={made / 'pairs.tsv'}", f"--output={tmp_path / 'out'}")
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    for row, pair in zip(found, right(name)["pairs"], strict=True):
        assert row["token_ids"] == pair["ids"]
        np.testing.assert_allclose(row["token_log_probabilities"], pair["scores"], atol=1e-4)


@each_family
def test_predictions(made, right, name, tmp_path):
    words = (f"--input={made / 'pairs.tsv'}", f"--output={tmp_path / 'out'}")
    done("infer", made / name, *words, "--max_decode_length=6")
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    wanted = [pair["prediction"].strip() for pair in right(name)["pairs"]]
    assert [row["prediction"].strip() for row in found] == wanted


def test_inspection(made, right):
    outcome = mtf("inspect", made / "byt5")
    assert f"parameters {right('byt5')['parameters']:,} in " in outcome.out
    assert "encoder/block_000/layer_000/SelfAttention/q [16, 8] float32" in outcome.out


def test_evaluation_goes_where_it_is_told(made, right, tmp_path):
    task = f"--task={made / 'pairs.tsv'}"
    refused = mtf("eval", f"--model_dir={made / 'byt5'}", task)
    assert refused.status == 2
    assert "in which nothing is written: say where results go, --output=FOLDER" in refused.err
    done("eval", made / "byt5", task, f"--output={tmp_path / 'results'}")
    (row,) = rows(tmp_path / "results")
    scores = [score for pair in right("byt5")["pairs"] for score in pair["scores"]]
    assert row["pairs/loss"] == pytest.approx(-np.mean(scores), abs=1e-4)
    samples = tmp_path / "results" / "validation_eval" / "pairs_0.jsonl"
    assert len(samples.read_text().splitlines()) == len(PAIRS)


@pytest.mark.nightly
def test_fine_tuning_is_that_of_the_converted_folder(made, tmp_path):
    words = (f"--task={made / 'pairs.tsv'}", "--steps=2", "--batch_size=2", "--seed=1", SHORT)
    outcome = mtf("convert", made / "byt5", f"--output={tmp_path / 'converted'}")
    assert outcome.status == 0, outcome.err
    said = {"converted": ("--vocab=bytes", "--extra_ids=125"), "byt5": ()}
    for name, more in said.items():
        source = (tmp_path if name == "converted" else made) / name
        folder = tmp_path / f"{name}_tuned"
        outcome = mtf("train", f"--init_from={source}", f"--model_dir={folder}", *words, *more)
        assert outcome.status == 0, outcome.err
        assert f"begun from {source}" in outcome.out
    found = [training_rows(tmp_path / f"{name}_tuned") for name in said]
    assert found[0] == found[1]
    assert [row["step"] for row in found[0]] == [1, 2]
    # The new run is one of its own, whatever becomes of what it began with.
    vocabulary = json.loads((tmp_path / "byt5_tuned" / "vocabulary.json").read_text())
    assert vocabulary["inputs"]["size"] == 384
    assert load_model(tmp_path / "byt5_tuned").variables.keys()


@pytest.mark.nightly
def test_an_export_answers_as_the_folder_does(made, right, tmp_path):
    import tensorflow as tf

    done("export", made / "byt5", f"--output={tmp_path / 'saved'}", "--max_decode_length=6")
    function = tf.saved_model.load(str(tmp_path / "saved")).signatures["greedy"]
    found = function(inputs=tf.constant([pair[0] for pair in PAIRS]))
    texts = found["outputs"].numpy()
    wanted = [pair["prediction"] for pair in right("byt5")["pairs"]]
    assert [text.decode() for text in texts.reshape(-1)] == wanted


@pytest.mark.parametrize("name", ["t5", "t5_json"])
def test_the_task_that_is_served_has_the_vocabulary_of_the_folder(made, name):
    import seqio

    folder = model_folder(made / name)
    task = seqio.get_mixture_or_task(folder.task(load_model(made / name).config))
    file = str(made / name / "spiece.model") if name == "t5" else t5_model()
    for feature in task.output_features.values():
        assert feature.vocabulary.vocab_size == 32100
        assert feature.vocabulary.sentencepiece_model_file == file


@pytest.mark.parametrize("name", ["t5", "t5_json"])
def test_registered_tasks_of_the_same_vocabulary_are_read(made, name):
    """The pieces are T5's, as those of the task are."""
    found = model_folder(made / name)
    check(found, "kjv_web", cure="")
    with pytest.raises(DataError, match="is not the one that"):
        check(found, "kjv_web_bytes_lm", cure="")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("infer", "--model_dir={gpt2}", "--input={pairs}", "--output={new}"), "it has tokenizer"),
        (("infer", "--model_dir={byt5}", "--task=kjv_web", "--output={new}"), "is not the one"),
        (("score", "--model_dir={t5}", "--task=kjv_web", "--allow_partial"), "=True"),
        (("eval", "--model_dir={t5}", "--output={new}"), "names no task to read: give --task=NAME"),
        (("eval", "--model_dir={t5}", "--output={new}", "--steps=all"), "leave out steps=all"),
        (("eval", "--model_dir={t5}", "--output={new}", "--step=3"), "leave out step=3"),
        (("inspect", "{t5}", "--step=3"), "leave out step=3"),
        (("train", "--model_dir={t5}", "--gin_file=examples/kjv_web_tiny.gin"), "--init_from="),
        (("train", "--init_from={t5}", "--steps=1", "--model_dir={new}"), "no training data"),
        (
            ("train", "--init_from={byt5}", "--steps=1", "--model_dir={new}", "--task=kjv_web"),
            "is not the one that",
        ),
    ],
)
def test_refusals(made, tmp_path, words, message):
    places = {name: made / name for name in ("byt5", "t5", "gpt2")}
    places |= {"pairs": made / "pairs.tsv", "new": tmp_path / "new"}
    outcome = mtf(*(word.format(**places) for word in words))
    assert outcome.status == 2
    assert message in outcome.err, outcome.err
    assert not (tmp_path / "new").exists()
