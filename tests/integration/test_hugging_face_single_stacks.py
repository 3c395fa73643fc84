"""GPT-2 and BERT to and from Hugging Face's format; transformers' own models are the judge."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import mtf as command
from judge import convert, needs_transformers, run_peer
from safetensors.numpy import load_file, save_file

import mtf_models as mtf
from mtf_models.errors import CheckpointError, ConfigError, DataError
from mtf_models.runtime.conversion import hugging_face
from mtf_models.runtime.conversion.compare_logits import Comparison

PEER = Path(__file__).with_name("single_stack_peer.py")
pytestmark = needs_transformers

NAMES = ("gpt2", "gpt2_untied", "gpt2_exact", "bert", "bert_relu")
QUICK = ("gpt2", "bert")
each_name = pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
LIMIT = 1e-4
WEIGHTS = "model.safetensors"


def peer(*words):
    run_peer(PEER, *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders that transformers wrote, and beside each what it computes."""
    folder = tmp_path_factory.mktemp("made")
    peer("make", folder)
    return folder


@pytest.fixture(scope="module")
def exported(made, tmp_path_factory):
    """The same models through our format and back, run by transformers again."""
    root = tmp_path_factory.mktemp("exported")
    nothing = Comparison(compared=False, reason="the test does it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hugging_face, "compare", lambda *_: nothing)
        for name in NAMES:
            convert(made / name, root / f"{name}_ours")
            convert(root / f"{name}_ours", root / name, "--to=hugging_face")
    peer("run", *(root / name for name in NAMES))
    return root


def features_of(right):
    if "types" not in right:
        return {"targets": right["ids"]}
    return {"inputs": right["ids"], "targets": right["ids"], "inputs_token_type": right["types"]}


@each_name
def test_their_models_compute_the_same_here(made, name):
    right = np.load(made / f"{name}.npz")
    logits = mtf.load_model(made / name)(features_of(right)).logits.numpy()
    assert logits.shape == right["logits"].shape
    assert np.max(np.abs(logits - right["logits"])) < LIMIT


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_on_a_mesh_too(made, name):
    right = np.load(made / f"{name}.npz")
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,d_ff:model,vocab:model")
    logits = mtf.load_model(made / name, mesh=mesh)(features_of(right)).logits.numpy()
    assert np.max(np.abs(logits - right["logits"])) < LIMIT


@each_name
def test_there_and_back(made, exported, name):
    before, after = (load_file(folder / name / WEIGHTS) for folder in (made, exported))
    assert sorted(before) == sorted(after)
    for tensor, value in before.items():
        np.testing.assert_array_equal(value, after[tensor], err_msg=tensor)
    fields = [
        json.loads((folder / name / "config.json").read_text()) for folder in (made, exported)
    ]
    same = set(fields[0]) & set(fields[1]) - {"bos_token_id", "pad_token_id"}
    assert {k: fields[0][k] for k in same} == {k: fields[1][k] for k in same}
    right, found = np.load(made / f"{name}.npz"), np.load(exported / name / "outputs.npz")
    np.testing.assert_array_equal(found["logits"], right["logits"])


def test_a_conversion_ends_by_comparing(made, tmp_path):
    outcome = convert(made / "bert", tmp_path / "ours")
    assert "logits     largest difference" in outcome.out
    report = json.loads((tmp_path / "ours" / "conversion.json").read_text())["comparison"]
    assert report["largest_difference"] < LIMIT < report["largest_logit"]


def test_names_of_old_files(made, tmp_path):
    """Without the first part, with masks of attention; norms in gamma and beta, other heads."""
    masks = {"h.0.attn.bias": np.ones([1, 1, 40, 40], np.float32)}
    old = {
        "gpt2": lambda name: name.removeprefix("transformer."),
        "bert": lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ),
    }
    more = {"gpt2": masks, "bert": {"bert.pooler.dense.bias": np.ones([24], np.float32)}}
    for name, rename in old.items():
        (tmp_path / name).mkdir()
        text = (made / name / "config.json").read_text()
        (tmp_path / name / "config.json").write_text(text)
        tensors = load_file(made / name / WEIGHTS)
        renamed = {rename(n): value for n, value in tensors.items()}
        assert sorted(renamed) != sorted(tensors)
        save_file({**renamed, **more[name]}, tmp_path / name / WEIGHTS)
        right = np.load(made / f"{name}.npz")
        logits = mtf.load_model(tmp_path / name)(features_of(right)).logits.numpy()
        assert np.max(np.abs(logits - right["logits"])) < LIMIT


@pytest.mark.parametrize(
    ("name", "fields", "parts"),
    [
        (
            "gpt2",
            dict(scale_attn_by_inverse_layer_idx=True, rope=1, n_head=5, embd_pdrop=0.3),
            ["scale_attn_by_inverse_layer_idx = true (only false)", "rope = 1 (not known here)"]
            + ["n_head = 5 (only a divisor of n_embd, 24)", "embd_pdrop = 0.3"],
        ),
        (
            "bert",
            dict(position_embedding_type="relative_key", hidden_act="mish", layer_norm_eps="a"),
            ['position_embedding_type = "relative_key" (only "absolute")', 'hidden_act = "mish"']
            + ['layer_norm_eps = "a" (only a number)'],
        ),
        ("bert", dict(architectures=["BertModel"]), ["architectures: BertModel"]),
    ],
)
def test_fields_that_cannot_be_had_are_all_listed(made, tmp_path, name, fields, parts):
    before = json.loads((made / name / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**before, **fields}))
    (tmp_path / WEIGHTS).write_bytes((made / name / WEIGHTS).read_bytes())
    with pytest.raises(CheckpointError) as caught:
        mtf.load_model(tmp_path)
    assert all(part in str(caught.value) for part in parts)


def test_types_of_tokens_that_are_not_there(made):
    model = mtf.load_model(made / "bert")
    ids = np.full([1, 4], 5)
    features = {"inputs": ids, "targets": ids, "inputs_token_type": ids}
    with pytest.raises(DataError, match="values from 5 to 5.* 2 types"):
        model(features)
    with pytest.raises(DataError, match="inputs_token_type is not a feature"):
        mtf.load_model(made / "gpt2")({"targets": ids, "inputs_token_type": ids})


def test_other_language_models_are_refused_with_what_differs(tmp_path):
    sizes = ["d_model = 16", "d_ff = 24", "num_heads = 2", "d_kv = 8", "num_layers = 1"]
    model = mtf.build_model(["models/lm.base.gin"], sizes)
    mtf.Trainer(model, learning_rate=0.1).save(tmp_path / "run")
    outcome = command("convert", tmp_path / "run", "--to=hugging_face", "--output=out")
    assert outcome.status == 2
    assert "SelfAttention.use_bias = False" in outcome.err
    assert "SelfAttention.relative_attention_type = 'bias_shared'" in outcome.err


def test_biases_that_a_layer_would_ignore_are_refused():
    layers = "make_layer_stack.layers = [@ExpertsSelfAttention]"
    with pytest.raises(ConfigError, match="use_bias = True, which it does nothing with"):
        mtf.build_model(["models/lm.base.gin"], [layers, "SelfAttention.use_bias = True"])
