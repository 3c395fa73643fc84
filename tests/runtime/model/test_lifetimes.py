"""What was traced goes with the model it was traced for: nothing in the process holds it."""

import gc

import pytest
import tensorflow as tf

import mtf_models as mtf


def alive():
    """How many graphs and meshes there are."""
    for _ in range(3):
        gc.collect()
    kinds = (tf.Graph, mtf.Mesh)
    return [sum(isinstance(x, kind) for x in gc.get_objects()) for kind in kinds]


def call(build, features, mesh):
    build("t5_tiny", "num_layers = 1", mesh=mesh)(features)


def decode(build, features, mesh):
    build("t5_tiny", "num_layers = 1", mesh=mesh).decode(
        {"inputs": features["inputs"]}, max_decode_length=3
    )


def train(build, features, mesh):
    mtf.Trainer(build("t5_tiny", "num_layers = 1", mesh=mesh), learning_rate=0.1).step(features)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["", "batch:2"])
def test_a_model_that_is_gone_leaves_no_graph(mesh, build, features):
    def use(how):
        how(build, features, mtf.Mesh(mesh, layout="batch:batch") if mesh else None)
        return alive()

    for how in (call, decode, train):  # What the first ones make for all stays.
        before = use(how)
    for how in (call, decode, train):
        assert use(how) == before, how.__name__
