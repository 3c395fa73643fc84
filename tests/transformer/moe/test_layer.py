"""The mixture of experts as a layer: what is kept and dropped, losses, layouts, bad options."""

import dataclasses

import numpy as np
import plain_routing as plain
import pytest
import tensorflow as tf
from running import RNG, call, context, one_expert, positive, routed, tables

import mtf_models as mtf
from mtf_models.errors import ConfigError, LayoutError
from mtf_models.testing import ONE_DEVICE, Placement, check_op
from mtf_models.transformer.moe.groups import number_of_groups
from mtf_models.transformer.moe.layer import MoE1D
from mtf_models.transformer.moe.mixture_faults import WORD_EMBED_MODES
from mtf_models.transformer.moe.routing import ROUTINGS


def by_capacity(**kwargs):
    return MoE1D(moe_gating="switch", min_expert_capacity=1, capacity_rounding="up", **kwargs)


def test_an_even_router_drops_nothing_at_factor_one():
    layer = by_capacity(num_experts=4, capacity_factor_eval=1.0, hidden_size=16)
    x = np.tile(np.eye(4, 8), (4, 1))[None]
    y, found = routed(layer, x, np.eye(8, 4) * 1e3, 4)
    assert layer.capacity(16, training=False) == 4
    assert (np.abs(y).max(-1) > 0).all() and float(found.reports["dropped"]) == 0


def test_an_expert_takes_so_many_tokens_of_each_sequence():
    layer = MoE1D(num_experts=4, moe_gating="switch", hidden_size=16, expert_capacity=2)
    y, found = routed(layer, positive(3, 5, 8), one_expert(4), 4)
    assert (np.abs(y[:, :2]).max(-1) > 0).all() and (y[:, 2:] == 0).all()
    assert float(found.reports["dropped"]) == pytest.approx(0.6)
    assert layer.capacity(1, training=False) == 1
    with pytest.raises(ConfigError, match="expert_capacity = 0"):
        MoE1D(expert_capacity=0)


@pytest.mark.parametrize(
    ("group", "experts", "factor", "minimum", "down", "up"),
    [
        (1024, 16, 1.25, 4, 80, 80),
        (1024, 16, 2.0, 4, 128, 128),
        (512, 128, 1.25, 4, 5, 5),
        (8, 16, 1.25, 4, 4, 4),
        (20, 4, 1.5, 2, 7, 8),
        (3, 8, 1.0, 1, 1, 1),
        (3, 8, 1.0, 0, 1, 1),
        (5, 4, 1.0, 1, 1, 2),
        (10, 11, 1.1, 1, 1, 1),
    ],
)
def test_capacity(group, experts, factor, minimum, down, up):
    for rounding, slots in {"down": down, "up": up}.items():
        layer = MoE1D(
            num_experts=experts,
            capacity_factor_train=factor,
            min_expert_capacity=minimum,
            capacity_rounding=rounding,
        )
        assert layer.capacity(group, training=True) == slots


@pytest.mark.parametrize(
    ("tokens", "size", "parts", "groups"),
    [(4096, 1024, 1, 4), (4096, 1024, 8, 8), (3000, 1024, 1, 2), (512, 1024, 4, 4), (40, 16, 1, 2)],
)
def test_number_of_groups(tokens, size, parts, groups):
    assert number_of_groups(tokens, size, parts) == groups


def test_the_z_loss_of_a_router_that_knows_nothing():
    layer = by_capacity(num_experts=4, hidden_size=16, z_loss=1.0)
    _, found = routed(layer, positive(2, 8, 8), np.zeros((8, 4)), 4, mode="train")
    assert float(found.losses["z_loss"]) == pytest.approx(np.log(4) ** 2)


@pytest.mark.parametrize("gating", [name for name in ROUTINGS if name != "random"])
def test_padding_takes_no_slots_and_is_not_counted(gating):
    x, router = RNG.normal(size=(1, 8, 8)), RNG.normal(size=(8, 4))
    real = np.array([[1, 0, 1, 1, 0, 0, 1, 0]])
    x *= real[..., None]
    layer = MoE1D(
        num_experts=4,
        hidden_size=16,
        moe_gating=gating,
        balance_over="tokens",
        z_loss=0.5,
        second_policy_eval="all",
        capacity_factor_eval=8.0,
    )
    weights = tables(4)
    weights[f"{gating}_gating/kernel"] = ("d_model:8 expert_unsplit:4", router)
    padded, with_padding = call(layer, x, weights, real=real)
    alone, without = call(layer, x[:, real[0] > 0], weights)
    np.testing.assert_allclose(padded[:, real[0] > 0], alone, rtol=1e-5, atol=1e-6)
    assert (padded[:, real[0] == 0] == 0).all()
    for name, loss in without.losses.items():
        assert float(with_padding.losses[name]) == pytest.approx(float(loss), rel=1e-5)


def feed_forward(x, gating, wi, wo):
    """A Switch layer of 4 groups of 4 tokens and 2 slots, token by token."""
    p = plain.softmax(x.reshape(4, 4, -1) @ gating)
    y = np.zeros((4, 4, x.shape[-1]))
    for group, tokens in enumerate(x.reshape(4, 4, -1)):
        slots, weights = plain.switch(p[group], np.ones(4), 2)
        for token in np.flatnonzero(slots[0] >= 0):
            expert = slots[0, token] // 2
            hidden = np.maximum(tokens[token] @ wi[expert], 0)
            y[group, token] = weights[0, token] * (hidden @ wo[expert])
    balance = np.mean([plain.balance(q, np.eye(4)[q.argmax(-1)], np.ones(4)) for q in p])
    z = np.mean(np.square(np.log(np.exp(x.reshape(4, 4, -1) @ gating).sum(-1))))
    return [y.reshape(x.shape), 0.01 * balance, 0.1 * z]


LAYER = MoE1D(
    num_experts=4,
    hidden_size=8,
    group_size=4,
    moe_gating="switch",
    capacity_factor_eval=2.0,
    min_expert_capacity=1,
    z_loss=0.1,
)
INPUTS = {
    "x": ("batch:4 length:4 d_model:4", RNG.normal(size=(4, 4, 4))),
    "gating": ("d_model:4 expert_unsplit:4", RNG.normal(size=(4, 4))),
    "wi": ("experts:4 d_model:4 expert_hidden:8", RNG.normal(size=(4, 4, 8))),
    "wo": ("experts:4 expert_hidden:8 d_model:4", RNG.normal(size=(4, 8, 4))),
}


def run_layer(x, gating, wi, wo):
    values = {"switch_gating/kernel": gating, "wi/kernel": wi, "wo/kernel": wo}
    inner = context(x)
    with mtf.VariableStore(x.mesh).serving({n: v.value for n, v in values.items()}):
        y = LAYER.call(inner, x)
    return [y, *inner.losses.values()]


@pytest.mark.parametrize(
    "placement",
    [
        ONE_DEVICE,
        Placement("batch:2", "batch:batch,experts:batch"),
        Placement("batch:4", "batch:batch"),
        Placement("model:4", "experts:model"),
        Placement("batch:2;model:4", "batch:batch,experts:model"),
        Placement("batch:4;model:2", "batch:batch,experts:batch,expert_hidden:model"),
    ],
    ids=str,
)
def test_the_layer_equals_plain_python_on_every_layout(placement):
    check_op(run_layer, INPUTS, feed_forward, placements=[placement], modes=["compiled"], rtol=1e-3)


def test_a_step_of_decoding_routes_all_rows_together_on_any_mesh():
    x, weights = RNG.normal(size=(4, 1, 8)), tables(2)
    weights["switch_gating/kernel"] = ("d_model:8 expert_unsplit:2", RNG.normal(size=(8, 2)))
    layer = MoE1D(num_experts=2, hidden_size=16, moe_gating="switch", min_expert_capacity=1)
    mesh = mtf.Mesh("batch:2", layout="batch:batch,experts:batch")
    alone, _ = call(layer, x, weights, mode="incremental")
    split, found = call(layer, x, weights, mode="incremental", mesh=mesh)
    np.testing.assert_allclose(split, alone, rtol=1e-5, atol=1e-6)
    assert found.losses == {}


def test_gated_experts():
    weights = tables(2, gated=True)
    layer = MoE1D(
        num_experts=2,
        hidden_size=16,
        activation=["gelu", "linear"],
        moe_gating="switch",
        capacity_factor_eval=4.0,
    )
    weights["switch_gating/kernel"] = ("d_model:8 expert_unsplit:2", one_expert(2))
    x = positive(1, 3, 8)
    y, _ = call(layer, x, weights)
    w = {n: a[0] for n, (_, a) in weights.items() if "gating" not in n}
    gate = tf.nn.gelu(x[0] @ w["wi_0/kernel"], approximate=True).numpy()
    right = gate * (x[0] @ w["wi_1/kernel"]) @ w["wo/kernel"]
    np.testing.assert_allclose(y[0], right, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_near_float32_and_routes_alike():
    weights = {n: (s, np.float32(tf.cast(a, tf.bfloat16))) for n, (s, a) in tables(4).items()}
    router = RNG.normal(size=(8, 4))
    weights["top_2_gating/kernel"] = ("d_model:8 expert_unsplit:4", router)
    layer = MoE1D(num_experts=4, hidden_size=16, second_policy_eval="all")
    x = np.float32(tf.cast(RNG.normal(size=(2, 8, 8)), tf.bfloat16))
    exact, by_float = call(layer, x, weights)
    narrow = mtf.VariableDType(activation=tf.bfloat16)
    mesh = mtf.Mesh()
    named = mtf.import_tf_tensor(mesh, x, "batch:2 length:8 d_model:8", tf.bfloat16)
    values = {n: tf.cast(a, tf.float32) for n, (_, a) in weights.items()}
    inner = context(named, dtype=narrow)
    with mtf.VariableStore(mesh).serving(values):
        y = layer.call(inner, named)
    assert y.dtype == tf.bfloat16
    error = np.abs(np.float32(y.numpy()) - exact).max()
    assert error < 0.02 * np.abs(exact).max()
    for name, loss in by_float.losses.items():  # The router is in float32 either way.
        assert float(inner.losses[name]) == pytest.approx(float(loss), rel=1e-5)


def test_jitter_and_dropout_are_for_training_only():
    layer = by_capacity(num_experts=4, hidden_size=16, switch_jitter=0.5, capacity_factor_train=2.0)
    x, router = RNG.normal(size=(1, 16, 8)), RNG.normal(size=(8, 4))
    state = RNG.bit_generator.state

    def output(layer, mode):
        RNG.bit_generator.state = state
        return routed(layer, x, router, 4, mode=mode)[0]

    still = dataclasses.replace(layer, switch_policy_train="argmax")
    np.testing.assert_array_equal(output(layer, "eval"), output(still, "eval"))
    assert np.abs(output(layer, "train") - output(still, "train")).max() > 1e-3
    dropping = dataclasses.replace(still, switch_policy_train="input_dropout", switch_dropout=0.5)
    assert np.abs(output(dropping, "train") - output(still, "train")).max() > 1e-3
    experts_drop = dataclasses.replace(still, dropout_rate=0.5)
    assert np.abs(output(experts_drop, "train") - output(still, "train")).max() > 1e-3
    np.testing.assert_array_equal(output(experts_drop, "eval"), output(still, "eval"))


def test_micro_batches_share_the_losses():
    x = RNG.normal(size=(2, 8, 8))
    layer = by_capacity(num_experts=4, hidden_size=16)
    _, whole = routed(layer, x, np.eye(8, 4), 4)
    _, part = routed(layer, x, np.eye(8, 4), 4, num_microbatches=4)
    for name, loss in whole.losses.items():
        assert float(part.losses[name]) == pytest.approx(float(loss) / 4)


def test_all_options_that_cannot_be_are_named():
    with pytest.raises(ConfigError) as error:
        MoE1D(
            moe_gating="swich",
            switch_policy_train="jitter",
            second_policy_eval="most",
            num_experts=0,
            capacity_factor_train=0.0,
            capacity_rounding="nearest",
            min_expert_capacity=-1,
        )
    text = str(error.value)
    assert "MoE1D has" in text and "did you mean switch" in text
    for part in ("switch_policy_train", "second_policy_eval", "num_experts = 0"):
        assert part in text
    assert "capacity_factor_train = 0.0" in text and "capacity_rounding" in text
    assert "min_expert_capacity = -1; give a whole number from 0" in text


@pytest.mark.parametrize(
    "option, value, remedy",
    [
        ("capacity_factor_train", "1.25", "a number above 0"),
        ("capacity_factor_eval", None, "a number above 0"),
        ("capacity_factor_eval", float("nan"), "a number above 0"),
        ("capacity_factor_train", float("inf"), "a number above 0"),
        ("loss_coef", -1, "a number from 0"),
        ("z_loss", "small", "a number from 0"),
        ("switch_temperature", -1.0, "a number from 0"),
        ("second_threshold_train", None, "a number from 0"),
        ("switch_jitter", -0.01, "a number from 0 to 1"),
        ("switch_dropout", 2.0, "a number from 0 to 1"),
        ("use_second_place_expert_prob", 1.5, "a number from 0 to 1"),
        ("num_experts", 4.0, "a whole number from 1"),
        ("min_expert_capacity", None, "a whole number from 0"),
        ("word_embed_mode", "conact", "did you mean concat"),
    ],
)
def test_values_that_cannot_be_are_named_with_what_can(option, value, remedy):
    with pytest.raises(ConfigError) as error:
        MoE1D(moe_gating="switch", **{option: value})
    assert f"MoE1D has {option} = {value!r}; " in str(error.value)
    assert remedy in str(error.value)


def test_a_token_cannot_go_to_more_experts_than_there_are():
    with pytest.raises(ConfigError, match="per_token = 3; there are only 2 experts"):
        MoE1D(moe_gating="top_n", num_experts=2)


def test_attention_of_experts_is_another_layer():
    with pytest.raises(ConfigError, match="ExpertsSelfAttention"):
        MoE1D(use_experts_attention=True)


def test_the_old_name_of_switch():
    assert MoE1D(moe_gating="rand_1").moe_gating == "switch"


def test_groups_that_do_not_divide_over_the_mesh_are_refused():
    x = RNG.normal(size=(4, 4, 8))
    layer = by_capacity(num_experts=4, hidden_size=16)
    mesh = mtf.Mesh("batch:4", layout="batch:batch")
    with pytest.raises(LayoutError, match=r"1 groups of 16 \(group_size = 1024\).* to 4"):
        routed(layer, x, np.eye(8, 4), 4, mesh=mesh, mode="train")
    following = dataclasses.replace(layer, groups_follow_mesh=True)
    y, _ = routed(following, x, np.eye(8, 4), 4, mesh=mesh, mode="train")
    assert y.shape == x.shape


@pytest.mark.parametrize("mode", ["eval", "prefill"])
def test_groups_that_do_not_divide_are_whole_where_nothing_is_learned(mode):
    x = RNG.normal(size=(4, 4, 8))
    layer = MoE1D(num_experts=4, hidden_size=16, moe_gating="switch")
    weights = {**tables(4), "switch_gating/kernel": ("d_model:8 expert_unsplit:4", np.eye(8, 4))}
    right, _ = call(layer, x, weights, mode=mode)
    mesh = mtf.Mesh("batch:4", layout="batch:batch,experts:batch")
    found, _ = call(layer, x, weights, mode=mode, mesh=mesh)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gating", ["ntlb", "expert_selection", "top_2", "random"])
def test_options_that_a_routing_does_not_read_are_refused(gating):
    with pytest.raises(ConfigError) as error:
        MoE1D(
            moe_gating=gating,
            switch_policy_train="sample",
            switch_policy_eval="sample",
            use_second_place_expert_prob=0.1,
        )
    for part in (
        "switch_policy_train = 'sample'",
        "switch_policy_eval",
        "expert_prob = 0.1",
        gating,
    ):
        assert part in str(error.value)


def reads_embeddings(mode, x, embedded, gating, gradient=False):
    """The output and the weights, or the gradient of the router's z-loss by the embeddings."""
    layer = MoE1D(
        num_experts=3, hidden_size=16, moe_gating="switch", word_embed_mode=mode, z_loss=1.0
    )
    mesh = mtf.Mesh()
    shape = "batch:1 length:6 d_model:8"
    value = tf.constant(embedded, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(value)
        weights = tables(3)
        rows = gating.shape[0]
        weights["switch_gating/kernel"] = (f"d_model:{rows} expert_unsplit:3", gating)
        embeddings = mtf.Tensor(mesh, mtf.Shape(shape), value)
        y, found = call(layer, x, weights, mesh=mesh, embeddings=embeddings)
        loss = found.losses["z_loss"].value
    return (tape.gradient(loss, value) if gradient else y), weights


@pytest.mark.parametrize("mode", WORD_EMBED_MODES)
def test_what_the_router_sees_of_the_embeddings(mode):
    """By hand: the expert of a token is the largest of what the router sees times its kernel."""
    x, embedded = RNG.normal(size=(1, 6, 8)), RNG.normal(size=(1, 6, 8))
    gating = RNG.normal(size=(16 if mode.startswith("concat") else 8, 3))
    seen = {
        "concat": np.concatenate([x, embedded], -1),
        "add": x + embedded,
        "embed_only": embedded,
    }[mode.removesuffix("_stop_grad")]
    logits = seen @ gating
    weight = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    y, weights = reads_embeddings(mode, x, embedded, gating)
    wi, wo = (weights[f"{name}/kernel"][1] for name in ("wi", "wo"))
    for place, expert in enumerate(logits[0].argmax(-1)):
        made = np.maximum(x[0, place] @ wi[expert], 0) @ wo[expert]
        np.testing.assert_allclose(y[0, place], weight[0, place, expert] * made, rtol=1e-4)


@pytest.mark.parametrize("mode", WORD_EMBED_MODES)
def test_where_the_embeddings_get_no_gradient_of_the_router(mode):
    x, embedded = RNG.normal(size=(1, 6, 8)), RNG.normal(size=(1, 6, 8))
    gating = RNG.normal(size=(16 if mode.startswith("concat") else 8, 3))
    gradient, _ = reads_embeddings(mode, x, embedded, gating, gradient=True)
    if mode.endswith("_stop_grad"):
        assert gradient is None or not gradient.numpy().any()
    else:
        assert np.abs(gradient.numpy()).max() > 1e-6


def test_refusals_of_embeddings():
    with pytest.raises(ConfigError, match="word_embed_mode = 'concat_grad'; did you mean concat"):
        MoE1D(word_embed_mode="concat_grad")
    with pytest.raises(ConfigError, match="there are no embeddings here"):
        layer = MoE1D(num_experts=3, hidden_size=16, moe_gating="switch", word_embed_mode="add")
        routed(layer, positive(1, 6, 8), np.zeros((8, 3)), 3)
