"""Models to and from Hugging Face's format; transformers' own models are the judge."""

import json
from pathlib import Path

import numpy as np
import pytest
from judge import convert, needs_transformers, run_peer
from safetensors.numpy import load_file

import mtf_models as mtf
from mtf_models.checkpoint import Reader
from mtf_models.runtime.conversion import hugging_face
from mtf_models.runtime.conversion.compare_logits import Comparison

PEER = Path(__file__).with_name("transformers_peer.py")
pytestmark = needs_transformers

FAMILIES = ("t5", "t5_v1_1", "t5_silu", "mt5", "mt5_joined", "umt5", "switch", "one_head")
QUICK = ("t5_v1_1", "umt5", "switch")
FIXTURES = ("t5_1_0_tiny", "t5_1_1_tiny")
EXPERTS = "bi_switch_tiny"
LIMIT = 1e-4
SMALL = ["d_model = 16", "d_ff = 24", "num_heads = 3", "d_kv = 5", "num_layers = 1"]
VOCAB = [f"make_bitransformer.{side}_vocab_size = 100" for side in ("input", "output")]
FLOAT32 = "get_variable_dtype.activation_dtype = 'float32'"
LEGACY = ["LayerStack.norm_epsilon = 1e-6", "LayerStack.dropout_rate = %dropout_rate"]


def peer(*words):
    run_peer(PEER, *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders that transformers wrote, and beside each what it computes."""
    folder = tmp_path_factory.mktemp("made")
    peer("make", folder)
    return folder


@pytest.fixture
def uncompared(monkeypatch):
    """Conversions without the comparison at their end, where the test makes its own."""
    nothing = Comparison(compared=False, reason="the test does it")
    monkeypatch.setattr(hugging_face, "compare", lambda *_: nothing)


def values(prefix):
    reader = Reader(prefix)
    return {name: reader.read(name) for name in reader.names if "slot" not in name}


def small(*params, file="models/t5.1.1.base.gin"):
    return mtf.build_model([file], [*SMALL, *VOCAB, FLOAT32, *params])


def trained(model, folder, steps=2):
    """The folder of a run of a few steps, with slots."""
    trainer = mtf.Trainer(model, learning_rate=0.02)
    losses = [trainer.step(batch(seed))["loss"] for seed in range(steps)]
    trainer.save(folder)
    return losses


def batch(seed):
    generator = np.random.default_rng(seed)
    return {n: generator.integers(2, 100, [2, 12]) for n in ("inputs", "targets")}


@pytest.mark.parametrize(
    "family", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES]
)
def test_their_models_compute_the_same_here(made, family):
    right = np.load(made / f"{family}.npz")
    model = mtf.load_model(made / family)
    features = {name: right[name] for name in ("inputs", "targets")}
    logits = model(features).logits.numpy()
    assert logits.shape == right["logits"].shape
    real = features["targets"] != 0
    assert np.max(np.abs(logits - right["logits"])[real]) < LIMIT
    ids = model.decode(features, max_decode_length=12).ids.numpy()
    np.testing.assert_array_equal(ids[:, : right["greedy"].shape[1]], right["greedy"])
    assert not ids[:, right["greedy"].shape[1] :].any()


@pytest.mark.parametrize("family", ["t5_v1_1", "umt5", "switch"])
def test_there_and_back_from_theirs(made, family, tmp_path, uncompared):
    convert(made / family, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "theirs", "--to=hugging_face")
    before, after = (
        {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}
        for folder in (made / family, tmp_path / "theirs")
    )
    assert sorted(before) == sorted(after)
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name], err_msg=name)
    fields = [
        json.loads((f / "config.json").read_text()) for f in (made / family, tmp_path / "theirs")
    ]
    same = set(fields[0]) & set(fields[1]) - {"tie_word_embeddings"}
    assert {k: fields[0][k] for k in same} == {k: fields[1][k] for k in same}
    assert {"vocab_size", "num_decoder_layers", "dense_act_fn", "model_type"} <= same


@pytest.fixture(scope="module")
def exported(tmp_path_factory, fixtures_dir):
    """Source checkpoint and written folder of models of ours, run by transformers."""
    root = tmp_path_factory.mktemp("exported")
    sources = {name: fixtures_dir / name / "model.ckpt-0" for name in (*FIXTURES, EXPERTS)}
    models = {
        "legacy": small(*LEGACY, file="models/t5.1.0.base.gin"),
        "each_bias": small('SelfAttention.relative_attention_type = "bias"'),
    }
    for name, model in models.items():
        mtf.Trainer(model, learning_rate=0.02).save(root / f"{name}_run")
        sources[name] = root / f"{name}_run" / "model.ckpt-0"
    nothing = Comparison(compared=False, reason="the test does it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hugging_face, "compare", lambda *_: nothing)
        for name, source in sources.items():
            convert(source, root / name, "--to=hugging_face")
    for name in FIXTURES:
        with np.load(fixtures_dir / name / "io.npz") as recorded:
            features = {n: recorded[f"plain/{n}"][:3] for n in ("inputs", "targets")}
        np.savez(root / name / "features.npz", **features)
    for name in models:
        np.savez(root / name / "features.npz", **batch(7))
    # Which tokens of it are dropped is another rule there.
    peer("run", *(root / name for name in sources if name != EXPERTS))
    return {name: (source, root / name, models.get(name)) for name, source in sources.items()}


@pytest.mark.parametrize("name", FIXTURES)
def test_models_of_the_original_compute_the_same_there(exported, fixtures_dir, name):
    with np.load(fixtures_dir / name / "io.npz") as recorded:
        right = recorded["eval/logits"][0, :3]
        real = recorded["plain/targets"][:3] != 0
    found = np.load(exported[name][1] / "outputs.npz")["logits"]
    assert np.max(np.abs(found - right)[real]) < LIMIT


@pytest.mark.parametrize("name", ["legacy", "each_bias"])
def test_our_models_compute_the_same_there(exported, name):
    _, folder, model = exported[name]
    right = np.load(folder / "outputs.npz")
    logits = model(batch(7)).logits.numpy()
    assert np.max(np.abs(logits - right["logits"])) < LIMIT
    ids = model.decode(batch(7), max_decode_length=12).ids.numpy()
    np.testing.assert_array_equal(ids[:, : right["greedy"].shape[1]], right["greedy"])


@pytest.mark.parametrize("name", [*FIXTURES, EXPERTS, "legacy", "each_bias"])
def test_there_and_back_from_ours(exported, name, tmp_path, uncompared):
    source, folder, _ = exported[name]
    convert(folder, tmp_path / "back", "--to=mtf")
    before, after = values(source), values(tmp_path / "back" / "model.ckpt-0")
    assert list(before) == list(after)
    for variable, value in before.items():
        np.testing.assert_array_equal(value, after[variable], err_msg=variable)
        assert value.dtype == after[variable].dtype


@pytest.mark.slow
def test_fine_tuning_goes_on_as_it_would_have(tmp_path):
    trained(small(), tmp_path / "run")
    outcomes = [
        convert(tmp_path / "run", tmp_path / "theirs", "--to=hugging_face"),
        convert(tmp_path / "theirs", tmp_path / "back"),
    ]
    assert "optimizer slots" in outcomes[0].out
    for outcome, folder in zip(outcomes, ("theirs", "back"), strict=True):
        assert "logits     largest difference" in outcome.out
        report = json.loads((tmp_path / folder / "conversion.json").read_text())["comparison"]
        assert report["compared"]
        assert report["largest_difference"] < LIMIT < report["largest_logit"]
    losses = [
        trained(mtf.load_model(tmp_path / name), tmp_path / f"{name}_on", 3)
        for name in ("run", "back")
    ]
    assert losses[0] == losses[1]
    assert losses[0][2] != losses[0][0]
