"""Models from folders: what is recorded there, and what does not fit."""

import logging
import shutil

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import CheckpointError

SMALL = """
include "models/t5.1.1.small.gin"
num_layers = 1
d_model = 8
d_ff = 8
num_heads = 1
d_kv = 8
utils.get_variable_dtype.activation_dtype = "float32"
"""


@pytest.fixture
def folder(tmp_path):
    """Makes a run folder of a model with so many pieces and sentinels."""

    def make(recorded, trained):
        config = SMALL + f"utils.run.vocabulary = ({trained}, {trained})\n"
        (tmp_path / "trained.gin").write_text(config)
        model = mtf.build_model([str(tmp_path / "trained.gin")])
        mtf.Trainer(model).save(tmp_path)
        text = SMALL + (f"utils.run.vocabulary = ({recorded}, {recorded})\n" if recorded else "")
        (tmp_path / "operative_config.gin").write_text(text)
        return tmp_path, model

    return make


def test_weights_are_loaded_and_slots_left(folder):
    path, model = folder(recorded=32100, trained=32100)
    loaded = mtf.load_model(path)
    assert loaded.variables.keys() == model.variables.keys()
    for name, variable in model.variables.items():
        np.testing.assert_array_equal(loaded.variables[name].numpy(), variable.numpy())


def test_a_vocabulary_without_its_sentinels_is_refused(folder):
    path, _ = folder(recorded=32000, trained=32100)
    with pytest.raises(CheckpointError) as caught:
        mtf.load_model(path)
    assert (
        "embedding has 32128 rows; tokenizer gives 32000; 100 sentinel ids then padding to 128 "
        "gives 32128: set extra_ids=100"
    ) in str(caught.value)


def test_another_vocabulary_is_refused(folder):
    path, _ = folder(recorded=32100, trained=250)
    with pytest.raises(
        CheckpointError, match="has 256 rows; tokenizer gives 32100; padding gives 32128"
    ):
        mtf.load_model(path)


@pytest.mark.parametrize("pieces", [32001, 32100, 32128])
def test_all_vocabularies_of_as_many_rows_fit(folder, pieces):
    path, _ = folder(recorded=pieces, trained=32100)
    row = np.array([[pieces - 1, 1]])
    logits = mtf.load_model(path)({"inputs": row, "targets": row}).logits
    assert logits.shape.get_dim_by_name("vocab").size == 32128


def test_without_a_vocabulary_that_of_the_checkpoint_is_taken(folder):
    path, _ = folder(recorded=None, trained=300)
    assert mtf.load_model(path).variables["shared/embedding"].shape == mtf.Shape(
        "vocab:384 d_model:8"
    )


def test_without_a_model_type_the_checkpoint_tells_it(fixtures_dir):
    text = (fixtures_dir / "lm_tiny" / "operative_config.gin").read_text()
    assert "model_type" not in text
    model = mtf.load_model(fixtures_dir / "lm_tiny")
    assert model.network.feature_names == ("targets",)
    assert "transformer/embedding" in model.variables


def test_a_config_of_another_model_is_refused(fixtures_dir, tmp_path):
    copy = shutil.copytree(fixtures_dir / "t5_1_1_tiny", tmp_path / "copy")
    config = copy / "operative_config.gin"
    config.write_text(config.read_text() + "\nd_ff = 96\n")
    with pytest.raises(CheckpointError) as caught:
        mtf.load_model(copy, step=0)
    for name in ("wi_0", "wi_1", "wo"):
        assert f"encoder/block_001/layer_001/DenseReluDense/{name}/kernel is" in str(caught.value)


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no operative_config.gin"):
        mtf.load_model(tmp_path)


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    (tmp_path / "operative_config.gin").write_text(SMALL)
    with pytest.raises(CheckpointError, match="has no checkpoint; there is none"):
        mtf.load_model(tmp_path)


def test_a_step_that_is_not_there_is_refused_with_those_that_are(fixtures_dir):
    with pytest.raises(CheckpointError, match="of step 5; there are steps 0, 3"):
        mtf.load_model(fixtures_dir / "lm_tiny", step=5)


def test_the_latest_step_is_the_default(fixtures_dir):
    latest, third = (mtf.load_model(fixtures_dir / "lm_tiny", step=s) for s in (None, 3))
    name = "transformer/embedding"
    np.testing.assert_array_equal(latest.variables[name].numpy(), third.variables[name].numpy())


def test_another_mesh_is_recorded_and_not_used(fixtures_dir, tmp_path, caplog):
    copy = shutil.copytree(fixtures_dir / "lm_tiny", tmp_path / "copy")
    config = copy / "operative_config.gin"
    config.write_text(config.read_text() + "\nutils.run.mesh_shape = 'batch:128;model:2'\n")
    caplog.set_level(logging.INFO, "mtf_models")
    assert mtf.load_model(copy).mesh.size == 1
    assert any(
        "batch:128,model:2" in r.message and "one device" in r.message for r in caplog.records
    )


def test_the_seed_is_recorded_with_the_config(build, tmp_path):
    bound = "run.seed = 7"
    assert build("lm_tiny", bound).seed == 7
    assert build("lm_tiny", bound, seed=0).seed == 0
    assert build("lm_tiny").seed == 0
    model = build("lm_tiny", "num_layers = 1", seed=5)
    mtf.Trainer(model).save(tmp_path)
    loaded = mtf.load_model(tmp_path)
    assert loaded.seed == model.seed == 5
    assert loaded.config.query("run.seed") == 5
