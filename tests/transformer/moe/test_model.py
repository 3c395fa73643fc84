"""Mixtures in a model: recomputation, meshes, micro-batches, saving and restoring."""

import numpy as np
import pytest

import mtf_models as mtf

FILE = "tests/transformer/lm_tiny.gin"
PARAMS = [
    "num_layers = 1",
    "utils.run.sequence_length = {'targets': 8}",
    "make_layer_stack.layers = [@SelfAttention, @MoE1D]",
    "MoE1D.moe_gating = 'switch'",
    "MoE1D.num_experts = 4",
    "MoE1D.hidden_size = 16",
    "MoE1D.group_size = 8",
    "MoE1D.capacity_factor_train = 1.0",
    "MoE1D.min_expert_capacity = 1",
    "MoE1D.z_loss = 0.1",
]
TARGETS = np.random.default_rng(0).integers(2, 100, (8, 8))
SPLIT = "batch:2;model:2", "batch:batch,experts:batch,expert_hidden:model,heads:model"
LAYER = "transformer/block_000/layer_001/MoE1D"


@pytest.fixture(scope="module")
def build(request):
    file = str(request.config.rootpath / FILE)
    return lambda *params, mesh=None: mtf.build_model([file], [*PARAMS, *params], mesh)


@pytest.fixture(scope="module")
def model(build):
    return build()


@pytest.fixture(scope="module")
def gradients(model):
    return {n: g.numpy() for n, g in model.gradients({"targets": TARGETS}).items()}


def assert_same(found, right):
    assert found.keys() == right.keys()
    for name, gradient in right.items():
        error = np.max(np.abs(found[name].numpy() - gradient))
        assert error <= 1e-5 * np.max(np.abs(gradient)), name


def test_the_router_is_reported(model):
    out = model({"targets": TARGETS}, "train")
    assert list(out.losses) == [f"{LAYER}/balance_loss", f"{LAYER}/z_loss", "cross_entropy"]
    assert float(out.loss) == pytest.approx(sum(map(float, out.losses.values())), rel=1e-6)
    assert list(out.reports) == [f"{LAYER}/dropped"]
    assert 0 < float(out.reports[f"{LAYER}/dropped"]) < 1


def test_recomputed_layers_have_the_same_gradients_and_reports(build, model, gradients):
    # Jitter is drawn again for the backward pass.
    again = build("LayerStack.recompute_grads = True")
    assert_same(again.gradients({"targets": TARGETS}), gradients)
    reports = again({"targets": TARGETS}, "train").reports
    expected = model({"targets": TARGETS}, "train").reports
    assert {n: float(x) for n, x in reports.items()} == {n: float(x) for n, x in expected.items()}


def test_a_mesh_changes_nothing_and_takes_up_what_another_saved(build, model, gradients, tmp_path):
    mesh = mtf.Mesh(SPLIT[0], layout=SPLIT[1])
    split = build(mesh=mesh)
    assert_same(split.gradients({"targets": TARGETS}), gradients)
    trainer = mtf.Trainer(split, learning_rate=0.01)
    metrics = trainer.step({"targets": TARGETS})
    assert 0 < metrics[f"{LAYER}/dropped"] < 1 and metrics[f"{LAYER}/balance_loss"] > 0
    trainer.save(tmp_path)
    loaded = mtf.load_model(tmp_path)
    for name, variable in split.variables.items():
        np.testing.assert_array_equal(loaded.variables[name].numpy(), variable.numpy())


def test_a_router_that_sees_embeddings_learns_them_recomputed_or_not(build):
    bound = ["MoE1D.word_embed_mode = 'concat'", "MoE1D.switch_policy_train = 'argmax'"]
    model = build(*bound)
    assert model.variables[f"{LAYER}/switch_gating/kernel"].shape.size == 2 * 32 * 4
    right = {n: g.numpy() for n, g in model.gradients({"targets": TARGETS}).items()}
    again = build(*bound, "LayerStack.recompute_grads = True")
    assert_same(again.gradients({"targets": TARGETS}), right)
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,experts:batch,d_model:model")
    assert_same(build(*bound, mesh=mesh).gradients({"targets": TARGETS}), right)
    prompts = {"inputs": TARGETS[:, :3]}
    ids = model.decode(prompts, max_decode_length=6).ids.numpy()
    assert (ids[:, :3] == TARGETS[:, :3]).all()
