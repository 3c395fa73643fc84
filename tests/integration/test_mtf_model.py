"""The methods of `MtfModel` on the folder of a run of the original."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from commands import mtf as command

import mtf_models as mtf
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.run_folder import CONFIG_FILE, RunFolder
from mtf_models.runtime.training import fine_tune, train

FIXTURE = Path(__file__).parent / "cli_run_tiny"
VOCABULARY = 'get_vocabulary.mixture_or_task_name = "hundred"'


def read(path):
    return path.read_text("utf-8").splitlines()


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FIXTURE, tmp_path / "model")


def make(folder, **arguments):
    return mtf.MtfModel(
        folder,
        batch_size=4,
        sequence_length={"inputs": 12, "targets": 10},
        module_import=["hundred_task"],
        extra_gin_bindings=[VOCABULARY, "beam_search.num_prefilter = 0"],
        **arguments,
    )


def test_it_predicts_and_scores_what_the_original_did(folder, tmp_path, caplog):
    model = make(folder, tpu="", model_parallelism=8)
    assert "without meaning here: tpu, model_parallelism" in caplog.text
    output = tmp_path / "decoded"
    model.predict(folder / "inputs.txt", output, beam_size=4, temperature=0.0)
    assert read(tmp_path / "decoded-3") == read(FIXTURE / "outputs.txt-3")
    texts = [read(folder / name) for name in ("inputs.txt", "targets.txt")]
    scores = model.score(*texts)
    right = np.array(read(FIXTURE / "scores.scores"), float)
    np.testing.assert_allclose(scores, right, 1e-5)
    files = [str(folder / name) for name in ("inputs.txt", "targets.txt")]
    assert model.score(*files, scores_file=str(tmp_path / "found")) == scores
    assert read(tmp_path / "found.targets") == read(FIXTURE / "scores.targets")


def test_it_evaluates(folder):
    recorded = np.load(FIXTURE / "io.npz")
    model = make(folder)
    found = model.eval("hundred", eval_with_score=True)
    # The evaluation's loss is the mean over the 40 positions of 4 examples.
    mean = -float(recorded["eval/loss"]) * 40 / 4
    assert found[3]["hundred"]["mean_score"] == pytest.approx(mean, rel=1e-5)
    by_task = model.score(mixture_or_task_name="hundred", mixture_or_task_split="train")
    assert np.mean(by_task) == pytest.approx(mean, rel=1e-5)
    found = model.eval("hundred", checkpoint_steps=[3], summary_dir=folder / "decoded")
    assert found == {3: {"hundred": {"exactly": 0.0}}}
    assert len(read(folder / "decoded" / "hundred_3_predictions")) == 4
    assert not (folder / "commands").exists()  # There is no command.


def test_fine_tuning_is_begun_as_the_original_does(folder, tmp_path, monkeypatch):
    """In float32 although the folder records bfloat16, on tasks of t5 without importing it."""
    with (folder / "operative_config.gin").open("a") as config_file:
        config_file.write('\nget_variable_dtype.activation_dtype = "bfloat16"\n')
    begun = []
    monkeypatch.setattr(train, "run", begun.append)
    model = mtf.MtfModel(tmp_path / "tuned", sequence_length={"inputs": 12, "targets": 10})
    model.finetune("glue_ax_v002", 2, folder)
    (given,) = begun
    config = fine_tune.read_config(RunFolder(given.model_dir), given)
    assert config.query("get_variable_dtype.activation_dtype") == "float32"
    assert config.query("get_variable_dtype.slice_dtype") == "float32"
    assert config.query("mesh_train_dataset_fn.mixture_or_task_name") == "glue_ax_v002"
    assert config.query("run.train_steps") == 3 + 2


def test_each_member_of_an_ensemble_can_have_its_own_batch(folder, monkeypatch):
    begun = []
    monkeypatch.setattr(train, "run", lambda given, **_: begun.append(given))
    make(folder, ensemble_inputs=2).train("hundred", steps=5)
    assert prepare.read_config(begun[0]).query("run.ensemble_inputs") == 2


@pytest.mark.nightly
def test_it_fine_tunes_and_trains_on(folder, tmp_path):
    model = make(tmp_path / "tuned")
    model.finetune("hundred", 2, folder)
    reader = tf.train.load_checkpoint(str(tmp_path / "tuned" / "model.ckpt-5"))
    assert reader.get_tensor("global_step") == 5
    model.train("hundred", steps=6)
    assert (tmp_path / "tuned" / "model.ckpt-6.index").exists()


def test_what_it_refuses(folder, tmp_path):
    model = make(folder)
    with pytest.raises(ConfigError, match="both of targets and mixture_or_task_name"):
        model.score("a", "b", mixture_or_task_name="hundred")
    with pytest.raises(ConfigError, match="neither of targets and mixture_or_task_name"):
        model.score("a")
    with pytest.raises(ConfigError, match="cannot be encoded inside a SavedModel"):
        model.export()
    with pytest.raises(CheckpointError, match="no checkpoint of step 9; there are steps 3"):
        model.eval("hundred", checkpoint_steps=9)
    with pytest.raises(ConfigError, match="There is no config for"):
        make(tmp_path / "nowhere").eval("hundred")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.json").write_text("{}")
    (theirs / "model.safetensors").touch()
    with pytest.raises(ConfigError, match="mtf convert .*theirs --output=FOLDER"):
        make(theirs).eval("hundred")
    with pytest.raises(ConfigError, match="give the name under which gin knows it"):
        make(folder, learning_rate_schedule=lambda step: 0.1)
    with pytest.raises(ConfigError, match="predict_fn"):
        make(folder, predict_fn=print)


@pytest.mark.nightly
def test_it_exports_what_it_predicts(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    model = mtf.MtfModel(folder, batch_size=4, sequence_length={"inputs": 8, "targets": 8})
    (tmp_path / "in.txt").write_text("n1\nn22\n")
    model.predict(str(tmp_path / "in.txt"), str(tmp_path / "out"), beam_size=2, temperature=0.0)
    path = Path(model.export(beam_size=2, temperature=0.0))
    assert path.parent == folder / "export"
    predict = tf.saved_model.load(str(path)).signatures["serving_default"]
    found = predict(inputs=tf.constant(["n1", "n22"]))
    assert [x.decode() for x in found["outputs"].numpy()] == read(tmp_path / "out-20")
    flags = (f"--gin_file={folder / CONFIG_FILE}", "--gin_param=run.mode = 'export_score'")
    target = f"--gin_param=run.export_path = '{tmp_path / 'scores'}'"
    outcome = command("run", f"--model_dir={folder}", *flags, target)
    assert outcome.status == 0, outcome.err
    (path,) = (tmp_path / "scores").iterdir()
    score = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert sorted(score.structured_input_signature[1]) == ["inputs", "targets"]
    assert (score(inputs=found["inputs"], targets=found["outputs"])["scores"].numpy() < 0).all()


def test_the_guides_example_runs(trained, repository, tmp_path, monkeypatch, capsys):
    guide = (repository / "docs" / "old_command_lines.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert "cmudict_g2p" in block and "finetune_steps=1000" in block
    block = block.replace("cmudict_g2p", "numbered").replace("steps=1000", "steps=2")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained[0], "runs/pretrained")
    Path("in.txt").write_text("n1\nn2\n")
    exec(compile(block, "old_command_lines.md", "exec"), {})
    assert "{22: {'numbered': {" in capsys.readouterr().out
    assert len(read(Path("out.txt-22"))) == 2
