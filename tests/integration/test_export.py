"""`mtf export`: what it writes is opened in a process that has TensorFlow alone."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import seqio
import tensorflow as tf
from commands import finish, hashes, mtf, parameters, start, train

from mtf_models.errors import ConfigError
from mtf_models.runtime.using import export, saved_model
from mtf_models.runtime.using.text_codec import codec_of

READER = Path(__file__).parent / "bare_tensorflow.py"
MESH = ("--mesh=batch:2;model:2", "--layout=batch:batch,d_ff:model,heads:model,vocab:model")
# As many ids are decoded as targets have, and not as inputs have.
LENGTHS = "--gin_param=utils.run.sequence_length = {'inputs': 8, 'targets': 6}"
BEAM = ("--beam_size=4", "--alpha=0.9")
OF_TRAINING = re.compile("_slot_|^global_step$")
ONE, FIVE = ["n1"], ["n22", "", "été", "n3 and more than eight", "n1"]


def bare(folder, *calls):
    """What signatures of a SavedModel return in a process without this package."""
    outcome = finish(start(folder, json.dumps(calls), program=(READER,), PYTHONPATH=""))
    assert outcome.status == 0, outcome.err
    return json.loads(outcome.out)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A run folder of a model that was trained on 2x2 devices, and what was exported of it."""
    root = tmp_path_factory.mktemp("exported")
    outcome = train(root / "run", *MESH, LENGTHS, "--steps=3")
    assert outcome.status == 0, outcome.err
    words = (f"--model_dir={root / 'run'}", f"--output={root / 'model'}", *BEAM)
    outcome = mtf("export", *words)
    assert outcome.status == 0, outcome.err
    return root, outcome


@pytest.fixture(scope="session")
def opened(exported):
    """What the exported model returns elsewhere."""
    seeds = [{"inputs": FIVE, "seed": 1}, {"inputs": FIVE[::-1], "seed": 1}]
    return bare(
        exported[0] / "model",
        *(("greedy", {"inputs": texts}) for texts in (ONE, FIVE)),
        *(("beam", {"inputs": texts}) for texts in (ONE, FIVE)),
        *(("sample", given) for given in [*seeds, {"inputs": FIVE, "seed": 2}]),
        ("score", {"inputs": FIVE, "targets": ["1", "", "22", "été", "123456789"]}),
        ("greedy", {"inputs": []}),
        ("serving_default", {"inputs": FIVE}),
    )


def live(root, texts, *words):
    """What `mtf infer` makes of texts on the mesh of the run."""
    given, made = root / "in.txt", root / "out.jsonl"
    given.write_text("".join(f"{text}\n" for text in texts))
    made.unlink(missing_ok=True)
    files = (f"--model_dir={root / 'run'}", f"--input={given}", f"--output={made}")
    outcome = mtf("infer", *files, *words)
    assert outcome.status == 0, outcome.err
    return [json.loads(line) for line in made.read_text("utf-8").split("\n")[:-1]]


@pytest.mark.parametrize(("way", "words"), [(0, []), (2, BEAM)])
def test_it_gives_the_texts_of_the_live_model(exported, opened, way, words):
    expected = live(exported[0], FIVE, *words)
    assert any(len(row["prediction"]) > 4 for row in expected)
    one, five = opened["found"][way : way + 2]
    assert five["inputs"] == FIVE
    assert five["outputs"] == [row["prediction"] for row in expected]
    assert five["scores"] == pytest.approx([row["score"] for row in expected], abs=1e-4)
    assert five["trimmed"] == [0, 0, 0, 15, 0]
    assert one["outputs"] == five["outputs"][-1:]
    assert one["scores"] == pytest.approx(five["scores"][-1:], abs=1e-5)


def test_it_draws_by_the_seed_and_the_text_alone(opened):
    drawn, turned, other = opened["found"][4:7]
    assert turned["outputs"] == drawn["outputs"][::-1]
    assert other["outputs"] != drawn["outputs"]


def test_it_scores_as_mtf_score_does(exported, opened):
    root, _ = exported
    given = root / "pairs.tsv"
    targets = ["1", "", "22", "été", "123456789"]
    given.write_text("".join(f"{i}\t{t}\n" for i, t in zip(FIVE, targets, strict=True)))
    outcome = mtf("score", f"--model_dir={root / 'run'}", f"--input={given}")
    assert outcome.status == 0, outcome.err
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    found = opened["found"][7]
    assert found["scores"] == pytest.approx([row["log_probability"] for row in rows], abs=1e-4)
    assert found["targets"] == targets
    assert found["trimmed"] == [0, 0, 0, 15, 4]


@pytest.mark.slow
def test_the_guides_example_runs(exported, repository, tmp_path):
    guide = (repository / "docs" / "export.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert "exported/g2p" in block
    block = block.replace("exported/g2p", str(exported[0] / "model"))
    # As in a process without this package.
    program = (
        f"import sys\nsys.path.append({str(READER.parent)!r})\nimport bare_tensorflow\n{block}"
    )
    outcome = finish(start(program=("-c", program), cwd=tmp_path, PYTHONPATH=""))
    assert outcome.status == 0, outcome.err
    assert len(outcome.out.splitlines()) == 3


def test_as_many_ids_are_decoded_as_are_asked_for(exported, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(export, "write", lambda what, folder: found.append(what.plans))
    words = (f"--model_dir={exported[0] / 'run'}", f"--output={tmp_path / 'model'}")
    assert mtf("export", *words, "--max_decode_length=3").status == 0
    assert mtf("export", *words).status == 0
    assert [{plan.added for plan in plans.values()} for plans in found] == [{3}, {6}]


def test_no_rows_give_no_rows(opened):
    assert opened["found"][8]["outputs"] == []


def test_the_default_is_what_the_config_says(opened):
    assert opened["found"][9] == opened["found"][1]


def test_it_needs_tensorflow_alone(opened, exported):
    assert opened["signatures"] == ["beam", "greedy", "sample", "score", "serving_default"]
    assert opened["loaded"] == []
    # Nothing says on which device of the machine that it was made on.
    assert opened["devices"] == [""]
    assert "opens with tensorflow alone" in exported[1].out


def test_it_holds_each_variable_once(exported):
    root, _ = exported
    reader = tf.train.load_checkpoint(str(root / "model" / "variables" / "variables"))
    names = [n for n in reader.get_variable_to_shape_map() if not n.startswith("_")]
    stored = sorted((reader.get_tensor(n) for n in names), key=lambda x: (x.size, x.sum()))
    trained = [x for n, x in parameters(root / "run", step=3).items() if not OF_TRAINING.search(n)]
    trained = sorted(trained, key=lambda x: (x.size, x.sum()))
    for ours, theirs in zip(stored, trained, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    size = 4 * sum(x.size for x in trained)
    files = (root / "model" / "variables").glob("variables.data*")
    assert sum(file.stat().st_size for file in files) == pytest.approx(size, rel=0.1)
    # What comes on top does not depend on the size of the model.
    assert (root / "model" / "saved_model.pb").stat().st_size < 3_000_000


def refused(*words):
    outcome = mtf("export", *words)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    return outcome.err


def test_a_folder_that_is_there_stays(exported):
    root, _ = exported
    before = hashes(root / "model")
    words = (f"--model_dir={root / 'run'}", f"--output={root / 'model'}")
    assert "is not empty, and stays as it is" in refused(*words)
    assert hashes(root / "model") == before


def test_what_cannot_be_exported_is_refused(exported, tmp_path):
    root, _ = exported
    output = f"--output={tmp_path / 'model'}"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "operative_config.gin").write_bytes(
        (root / "run" / "operative_config.gin").read_bytes()
    )
    assert "no checkpoint" in refused(f"--model_dir={tmp_path / 'run'}", output)
    assert "one device" in refused(f"--model_dir={root / 'run'}", output, "--mesh=batch:2")
    assert "A beam search has a beam_size above 1" in refused(
        f"--model_dir={root / 'run'}", output, "--beam_size=1"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_a_full_disk_leaves_nothing(exported, tmp_path, files_of_at_most, monkeypatch):
    module = tf.Module()
    module.large = tf.Variable(tf.zeros([2**14]))
    monkeypatch.setattr(saved_model, "_built", lambda export, texts: (module, {}))
    with files_of_at_most(2**14):
        outcome = mtf("export", f"--model_dir={exported[0] / 'run'}", f"--output={tmp_path / 'm'}")
    assert outcome.status == 1
    assert "cannot be written" in outcome.err and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_vocabularies_without_operations_are_refused():
    with pytest.raises(ConfigError, match="PassThroughVocabulary.*SentencePieceVocabulary and"):
        codec_of(seqio.PassThroughVocabulary(10))
