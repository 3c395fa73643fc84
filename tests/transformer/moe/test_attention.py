"""Attention whose projections experts compute equals NumPy, with and without a sequence to see."""

import numpy as np
import plain_routing as plain
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.attention import ExpertsEncDecAttention, ExpertsSelfAttention

BATCH, LENGTH, MEMORY, WIDTH, HIDDEN, EXPERTS = 2, 3, 4, 8, 6, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
ENCODED = RNG.normal(size=(BATCH, MEMORY, WIDTH)).astype(np.float32)
ENCODED[1, 2:] = 0
ENCODER_ID = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
OPTIONS = {"num_experts": EXPERTS, "hidden_size": HIDDEN, "capacity_factor_eval": 4.0}
OPTIONS |= {"num_heads": 2, "key_value_size": 4, "shared_kv": True}


@pytest.fixture(params=["one device", "split"])
def mesh(request):
    if request.param == "one device":
        return mtf.Mesh()
    return mtf.Mesh("batch:2;model:2", layout="batch:batch,experts:batch,heads:model")


def run(layer, mesh):
    """The output, and the weights as float64."""
    batch, length = mtf.Dimension("batch", BATCH), mtf.Dimension("length", LENGTH)
    memory, width = mtf.Dimension("memory_length", MEMORY), mtf.Dimension("d_model", WIDTH)
    ones = np.ones((BATCH, LENGTH), np.int32)
    context = Context(
        mesh=mesh,
        mode="eval",
        variable_dtype=mtf.VariableDType(),
        length_dim=length,
        memory_length_dim=mtf.Dimension("memory_length", LENGTH),
        d_model=width,
        position=mtf.mtf_range(mesh, length),
        autoregressive=False,
        sequence_id=mtf.import_tf_tensor(mesh, ones, [batch, length]),
        encoder_output=mtf.import_tf_tensor(mesh, ENCODED, [batch, memory, width]),
        encoder_sequence_id=mtf.import_tf_tensor(mesh, ENCODER_ID, [batch, memory]),
    )
    store = mtf.VariableStore(mesh, seed=3)
    with store.eager():
        y = layer.call(context, mtf.import_tf_tensor(mesh, X, [batch, length, width]))
    assert all(np.isfinite(float(loss)) for loss in context.losses.values())
    return y.numpy(), {n: v.numpy().astype(np.float64) for n, v in store.variables.items()}


def mixed(x, w, name):
    """What the likelier expert makes of each token, times its probability."""
    p = plain.softmax(x @ w["switch_gating/kernel"])
    expert = p.argmax(-1)
    hidden = np.maximum(np.einsum("bld,bldh->blh", x, w["wi/kernel"][expert]), 0)
    made = np.einsum("blh,blhk->blk", hidden, w[f"{name}/kernel"][expert])
    return made * p.max(-1)[..., None]


def attend(q, k, o, seen=None):
    q, k = (t.reshape(*t.shape[:2], 2, 4) for t in (q, k))
    logits = np.einsum("blhd,bmhd->bhlm", q, k)
    if seen is not None:
        logits = np.where(seen[:, None, None, :] > 0, logits, -np.inf)
    y = np.einsum("bhlm,bmhd->blhd", plain.softmax(logits), k)
    return y.reshape(*y.shape[:2], 8) @ o


def layer(cls=ExpertsSelfAttention, **options):
    return cls(**{**OPTIONS, "group_size": LENGTH, **options})


def test_a_position_sees_itself_only_as_in_the_original(mesh):
    y, w = run(layer(), mesh)
    assert set(w) == {
        *("switch_gating/kernel", "wi/kernel", "q_wo/kernel", "k_wo/kernel", "o"),
    }
    np.testing.assert_allclose(y, mixed(X, w, "k_wo") @ w["o"], rtol=1e-4, atol=1e-5)


def test_positions_see_the_sequence(mesh):
    y, w = run(layer(sees_sequence=True), mesh)
    right = attend(mixed(X, w, "q_wo") / 2, mixed(X, w, "k_wo"), w["o"])
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_experts_may_compute_queries_or_keys_alone(mesh):
    y, w = run(layer(expert_computation="q"), mesh)
    right = attend(mixed(X, w, "wo") / 2, X @ w["kv"], w["o"])
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)
    y, w = run(layer(expert_computation="kv"), mesh)
    right = attend(X @ w["q"], mixed(X, w, "wo"), w["o"])
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_a_decoder_sees_the_encoder(mesh):
    y, w = run(layer(ExpertsEncDecAttention, sees_sequence=True, group_size=1), mesh)
    right = attend(mixed(X, w, "q_wo") / 2, mixed(ENCODED, w, "k_wo"), w["o"], ENCODER_ID)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)
    y, w = run(layer(ExpertsEncDecAttention), mesh)
    np.testing.assert_allclose(y, mixed(X, w, "k_wo") @ w["o"], rtol=1e-4, atol=1e-5)


def test_options_that_cannot_be_are_all_named():
    with pytest.raises(ConfigError) as error:
        ExpertsSelfAttention(expert_computation="v", num_memory_heads=2, combine_dims=False)
    for part in ("expert_computation is 'v'", "shared_kv", "combine_dims", "num_memory_heads"):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match="ExpertsSelfAttention has moe_gating"):
        layer(moe_gating="swich")
