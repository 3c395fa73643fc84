"""Llama, Gemma 2, ModernBERT and LongT5 from gin alone compute what transformers' models do."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf

PEER = Path(__file__).with_name("modern_peer.py")
# They are imported in a process of their own: torch and TensorFlow do not go into one.
ABSENT = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")

SIZES = (
    "d_model = 24",
    "d_ff = 20",
    "num_heads = 6",
    "d_kv = 4",
    "utils.run.vocabulary = (64, 64)",
    "Unitransformer.vocab_divisor = 64",
    "utils.run.sequence_length = {'inputs': 12, 'targets': 12}",
    "get_variable_dtype.activation_dtype = 'float32'",
)
GEMMA = (
    "num_blocks = 1",
    "num_memory_heads = 2",
    "d_kv = 8",
    "LocalSelfAttention.radius = 4",
    "logits_caps = {'logits_soft_cap': 2.0}",
    "Unitransformer.logits_soft_cap = 3.0",
)
LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """What transformers' models have and compute, by name."""
    folder = tmp_path_factory.mktemp("peers")
    words = [sys.executable, PEER, folder]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return {path.stem: dict(np.load(path)) for path in folder.iterdir()}


def ours(weights, model):
    """Values of the variables of a model, of what transformers' model has: all of it."""
    left = {n.split("/", 1)[1]: v for n, v in weights.items() if n.startswith("weights/")}
    (take,) = (take for name, take in TAKES.items() if name in left)
    values = take(left, model)
    assert not left, f"of no use: {list(left)}"
    assert set(values) == set(model.variables)
    return values


def head_scaled(q, size):
    """Here the scale of the logits is in the queries."""
    return q * size**-0.5


def take_decoder(left, model):
    gemma = "model.layers.0.pre_feedforward_layernorm.weight" in left
    head = 8 if gemma else 4
    left_norm = (lambda n: 1 + left.pop(n)) if gemma else left.pop  # theirs is 0 at first
    values = {"transformer/embedding": left.pop("model.embed_tokens.weight")}
    values["transformer/rms_norm/scale"] = left_norm("model.norm.weight")
    lm_head = left.pop("lm_head.weight")
    if not gemma:
        values["transformer/logits/kernel"] = lm_head.T
    for name in [n for n in model.variables if n.endswith(("Attention/q", "wi_0/kernel"))]:
        _, block, layer, kind, *_ = name.split("/")
        blocks = 2 if gemma else 1
        number = int(block[-3:]) * blocks + int(layer[-3:]) // 2
        theirs, scope = f"model.layers.{number}", f"transformer/{block}/{layer}"
        attends = "Attention" in kind
        for letter in "qkvo" if attends else "":
            value = left.pop(f"{theirs}.self_attn.{letter}_proj.weight").T
            value = head_scaled(value, head) if letter == "q" else value
            values[f"{scope}/{kind}/{letter}"] = value
        for part, proj in () if attends else (("wi_0", "gate"), ("wi_1", "up"), ("wo", "down")):
            values[f"{scope}/{kind}/{part}/kernel"] = left.pop(f"{theirs}.mlp.{proj}_proj.weight").T
        before, after = NORMS[gemma, attends]
        values[f"{scope}/rms_norm/scale"] = left_norm(f"{theirs}.{before}_layernorm.weight")
        if gemma:
            values[f"{scope}/rms_norm_after/scale"] = left_norm(
                f"{theirs}.{after}_layernorm.weight"
            )
    return values


NORMS = {
    (False, True): ("input", None),
    (False, False): ("post_attention", None),
    (True, True): ("input", "post_attention"),
    (True, False): ("pre_feedforward", "post_feedforward"),
}


def take_bert(left, model):
    norm = "layer_prepostprocess/layer_norm/layer_norm_scale"
    kernel = np.random.default_rng(0).normal(size=(24, 64))
    values = {
        "transformer/embedding": left.pop("embeddings.tok_embeddings.weight"),
        f"transformer/embedding_norm/{norm}": left.pop("embeddings.norm.weight"),
        f"transformer/true_layer_norm/{norm}": left.pop("final_norm.weight"),
        "transformer/logits/kernel": kernel,
    }
    for number in range(6):
        block, place = divmod(number, 3)
        kind = "LocalSelfAttention" if place else "SelfAttention"
        attention, dense = (
            f"transformer/block_{block:03d}/layer_{2 * place + i:03d}" for i in (0, 1)
        )
        q, k, v = np.split(left.pop(f"layers.{number}.attn.Wqkv.weight").T, 3, axis=1)
        values[f"{attention}/{kind}/q"] = head_scaled(q, 4)
        values[f"{attention}/{kind}/k"], values[f"{attention}/{kind}/v"] = k, v
        values[f"{attention}/{kind}/o"] = left.pop(f"layers.{number}.attn.Wo.weight").T
        wi = np.split(left.pop(f"layers.{number}.mlp.Wi.weight").T, 2, axis=1)
        for part, value in zip(("wi_0", "wi_1"), wi, strict=True):
            values[f"{dense}/DenseReluDense/{part}/kernel"] = value
        wo = left.pop(f"layers.{number}.mlp.Wo.weight").T
        values[f"{dense}/DenseReluDense/wo/kernel"] = wo
        values[f"{dense}/true_layer_norm/{norm}"] = left.pop(f"layers.{number}.mlp_norm.weight")
        if number:
            scale = left.pop(f"layers.{number}.attn_norm.weight")
            values[f"{attention}/true_layer_norm/{norm}"] = scale
    return values


def take_long(left, model):
    values = {
        "transformer/embedding": left.pop("shared.weight"),
        "transformer/logits/kernel": np.random.default_rng(0).normal(size=(24, 64)),
        "transformer/rms_norm/scale": left.pop("encoder.final_layer_norm.weight"),
    }
    np.testing.assert_array_equal(
        left.pop("encoder.embed_tokens.weight"), values["transformer/embedding"]
    )
    for number in range(2):
        theirs, scope = f"encoder.block.{number}.layer", f"transformer/block_{number:03d}"
        attention = f"{theirs}.0.TransientGlobalSelfAttention"
        ours = f"{scope}/layer_000/TransientGlobalSelfAttention"
        for letter in "qkvo":
            values[f"{ours}/{letter}"] = left.pop(f"{attention}.{letter}.weight").T
        norm = left.pop(f"{attention}.global_input_layer_norm.weight")
        values[f"{ours}/global_rms_norm/scale"] = norm
        for name in ("relative_attention_bias", "global_relative_attention_bias"):
            if not number:
                values[f"{ours}/{name}"] = left.pop(f"{attention}.{name}.weight").T
        for part in ("wi_0", "wi_1", "wo"):
            kernel = left.pop(f"{theirs}.1.DenseReluDense.{part}.weight").T
            values[f"{scope}/layer_001/DenseReluDense/{part}/kernel"] = kernel
        for place in (0, 1):
            scale = left.pop(f"{theirs}.{place}.layer_norm.weight")
            values[f"{scope}/layer_{place:03d}/rms_norm/scale"] = scale
    return values


TAKES = {
    "model.embed_tokens.weight": take_decoder,
    "layers.0.attn.Wo.weight": take_bert,
    "encoder.block.0.layer.0.layer_norm.weight": take_long,
}
LONG = (
    "utils.run.model_type = 'aligned'",
    "num_layers = 2",
    "make_layer_stack.layers = [@TransientGlobalSelfAttention, @DenseReluDense]",
    "TransientGlobalSelfAttention.num_heads = 6",
    "TransientGlobalSelfAttention.key_value_size = 4",
    "TransientGlobalSelfAttention.radius = 3",
    "TransientGlobalSelfAttention.global_block_size = 3",
    "TransientGlobalSelfAttention.relative_attention_num_buckets = 8",
)
KINDS = {
    "longt5": ("t5.1.1.small", *LONG),
    "llama": ("llama3.8b", "num_layers = 2", "SelfAttention.num_memory_heads = 2"),
    "gemma2": ("gemma2.2b", *GEMMA),
    "modernbert": (
        "modernbert",
        "num_layers = 2",
        "LocalSelfAttention.radius = 3",
        "LocalSelfAttention.look_ahead = 2",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spread", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["one device", "split"]
)
def test_logits_are_those_of_transformers(peers, kind, spread):
    file, *params = KINDS[kind]
    mesh = mtf.Mesh("batch:3;model:2", layout=LAYOUT) if spread else None
    model = mtf.build_model([f"models/{file}.gin"], [*SIZES, *params], mesh=mesh)
    peer = peers[kind]
    for name, value in ours(peer, model).items():
        model.variables[name].assign(value.astype(np.float32))
    ids, right = peer["ids"], peer["output"]
    if kind in ("modernbert", "longt5"):
        real_rows = (ids != 0).astype(np.int32)
        packing = {"segmentation": real_rows, "position": np.indices(ids.shape)[1] * real_rows}
        features = {"inputs": ids, "targets": ids}
        features |= {f"{n}_{part}": x for n in features for part, x in packing.items()}
        right = right @ model.variables["transformer/logits/kernel"].numpy()
    else:  # They read what stands before each target.
        features = {"targets": np.concatenate([ids[:, 1:], ids[:, 1:2]], axis=1)}
    real = ids != 0 if kind in ("modernbert", "longt5") else np.ones_like(ids, bool)
    found = model(features).logits.numpy()
    assert np.abs(right[real]).max() > 1
    np.testing.assert_allclose(found[real], right[real], rtol=1e-4, atol=1e-4)
