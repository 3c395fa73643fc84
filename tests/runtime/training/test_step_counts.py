"""What the graph of a training step of T5 1.1 small may have, counted and not timed."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.mesh.variable import Variable

LENGTH, ROWS, VOCAB = 128, 8, 32128
PARAMS = [
    f"run.sequence_length = {{'inputs': {LENGTH}, 'targets': {LENGTH}}}",
    f"run.batch_size = ('sequences_per_batch', {ROWS})",
    "utils.get_variable_dtype.activation_dtype = 'bfloat16'",
]

# What neither computes nor moves anything.
FREE = ("Const", "Reshape")

# What is counted: at the most how many, and what more would mean.
LIMITS = {
    "operations of one layer of encoder and decoder": (
        470,
        "something is computed again in each layer that one place could compute for all",
    ),
    "operations of everything else": (
        285,
        "the embedding, the loss or the step itself has grown",
    ),
    "casts of a variable": (
        1,
        "a weight is made narrow at each use, and not once for the step",
    ),
    "bytes of the largest tensor": (
        4 * VOCAB * 512,
        "a tensor is larger than the logits in bfloat16 and the table in float32: the logits are "
        "wide outside of the compiled parts, or attention or a mask is whole for all heads",
    ),
    "bytes of constants": (
        2 * 4 * ROWS * LENGTH * 512 + 2**13,
        "zeros are filled in for more than the embeddings of both sides: TensorFlow fills them in "
        "when it compiles, and keeps them as long as the step",
    ),
}


@pytest.fixture(scope="module")
def graph():
    """Traces the step of a model of so many layers; none of its variables is initialised."""
    graphs = {}

    def graph(layers):
        if layers not in graphs:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Variable, "_initial_value", zeros)
                graphs[layers] = needed(traced(layers))
        return graphs[layers]

    return graph


def zeros(variable):
    with tf.init_scope():
        return tf.zeros(variable.shape.to_integer_list)


def traced(layers):
    params = [*PARAMS, f"num_layers = {layers}"]
    model = mtf.build_model(["models/t5.1.1.small.gin"], params, seed=0)
    trainer = mtf.Trainer(model)
    ids = np.ones([ROWS, LENGTH], np.int32)
    inputs = model.tensors({"inputs": ids, "targets": ids})
    for name, value in {"learning_rate": np.float32(0.1), "step": np.int32(3)}.items():
        inputs[name] = mtf.import_tf_tensor(model.mesh, value, mtf.Shape())

    def step(values):
        named = {n: mtf.Tensor(x.mesh, x.shape, values[n]) for n, x in inputs.items()}
        return {n: x.value for n, x in trainer.compute_step(named).items()}

    values = {n: x.value for n, x in inputs.items()}
    return tf.function(step, autograph=False).get_concrete_function(values).graph


def needed(graph):
    """The operations that results and assignments depend on."""
    reached, kept = {x.op.name for x in graph.outputs}, []
    for operation in reversed(graph.get_operations()):
        if operation.name in reached or operation.type.startswith("Assign"):
            kept.append(operation)
            reached |= {x.op.name for x in operation.inputs}
            reached |= {op.name for op in operation.control_inputs}
    return kept


def check(name, found):
    most, reason = LIMITS[name]
    assert found <= most, f"{name}: {found}, and {most} at the most. Perhaps {reason}."


def test_operations(graph):
    one, two = (sum(op.type not in FREE for op in graph(layers)) for layers in (1, 2))
    check("operations of one layer of encoder and decoder", two - one)
    check("operations of everything else", 2 * one - two)


def test_casts_of_variables(graph):
    casts = Counter()
    for operation in graph(1):
        source = operation
        while source.type in ("Cast", "Identity", "StopGradient"):
            source = source.inputs[0].op
        if operation.type == "Cast" and source.type == "ReadVariableOp":
            casts[source.inputs[0].name] += 1
    assert len(casts) > 10
    check("casts of a variable", max(casts.values()))


def test_bytes_of_the_largest_tensor(graph):
    sizes = [
        x.shape.num_elements() * x.dtype.size
        for op in graph(1)
        for x in op.outputs
        if x.shape.is_fully_defined() and x.dtype.is_floating
    ]
    check("bytes of the largest tensor", max(sizes))


def test_bytes_of_constants(graph):
    filled = [x for op in graph(1) if op.type in ("Const", "Fill", "ZerosLike") for x in op.outputs]
    check("bytes of constants", sum(x.shape.num_elements() * x.dtype.size for x in filled))


def test_one_compilation_for_all_steps(build, features):
    trainer = mtf.Trainer(build("t5_tiny"))
    losses = [trainer.step(features)["loss"] for _ in range(3)]
    assert trainer._step.compilations == 1 and len(set(losses)) == 3
