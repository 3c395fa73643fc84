"""What is recorded of small programs, against what one computes by hand."""

import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import LayoutError, MtfError, ShapeError
from mtf_models.mesh.recording.constants import known_value

MESH = mtf.Mesh("data:4;model:64", layout="batch:data,hidden:model")


def loss(x):
    w = mtf.get_variable(x.mesh, "w", "io:32,hidden:128")
    v = mtf.get_variable(x.mesh, "v", "hidden:128,io_out:16")
    h = mtf.relu(mtf.einsum([x, w], output_shape="batch:8,hidden:128"))
    y = mtf.einsum([h, v], output_shape="batch:8,io_out:16")
    return mtf.reduce_sum(mtf.square(y))


def test_forward_of_a_perceptron_on_a_mesh_that_is_not_there():
    recording = mtf.record(loss, {"x": "batch:8,io:32"}, MESH)
    assert recording.flops == 2 * 8 * 128 * (32 + 16)
    assert recording.flops_on_device == recording.flops // (4 * 64)
    assert recording.exchanged == {
        ("all-reduce", ("model",)): 2 * 16 * 4,  # y, whose summed dimension is split
        ("all-reduce", ("data",)): 4,  # the loss
    }
    assert [(v.name, v.bytes) for v in recording.variables] == [
        ("w", 32 * 2 * 4),
        ("v", 2 * 16 * 4),
    ]
    assert recording.memory.variables == 32 * 2 * 4 + 2 * 16 * 4
    einsums = [o for o in recording.operations if o.place == "einsum"]
    assert [(o.inputs, o.outputs) for o in einsums] == [
        (
            [mtf.Shape("batch:8,io:32"), mtf.Shape("io:32,hidden:128")],
            [mtf.Shape("batch:8,hidden:128")],
        ),
        (
            [mtf.Shape("batch:8,hidden:128"), mtf.Shape("hidden:128,io_out:16")],
            [mtf.Shape("batch:8,io_out:16")],
        ),
    ]


def test_gradients_sum_over_the_batch_axis():
    recording = mtf.record(loss, {"x": "batch:8,io:32"}, MESH, gradients=True)
    # The derivative by x is of no use: three products backward's four.
    assert recording.flops == 2 * 8 * 128 * (2 * 32 + 3 * 16)
    assert recording.exchanged == {
        ("all-reduce", ("model",)): 2 * 16 * 4,
        ("all-reduce", ("data",)): 4 + (32 * 2 + 2 * 16) * 4,
    }
    phases = {(o.place, o.phase) for o in recording.operations}
    assert ("einsum", "forward") in phases and ("einsum", "backward") in phases


def test_what_stays_in_place_is_not_exchanged():
    def renamed(x):
        return mtf.rename_dimension(x, "c", "d")

    assert mtf.record(renamed, {"x": "batch:8,hidden:128,c:4"}, MESH).exchanged == {}


def test_a_dimension_made_whole_is_gathered():
    def renamed(x):
        return mtf.rename_dimension(x, "hidden", "whole")

    recording = mtf.record(renamed, {"x": "batch:8,hidden:128,c:4"}, MESH)
    assert recording.exchanged == {("all-gather", ("model",)): 2 * 128 * 4 * 4}


def test_a_split_that_moves_is_one_all_to_all():
    mesh = mtf.Mesh("all:8", layout="batch:all,experts:all")

    def exchange(x):
        return mtf.reshape(x, "group:16,experts:8,d:4")

    recording = mtf.record(exchange, {"x": "batch:16,e:8,d:4"}, mesh)
    assert recording.exchanged == {("all-to-all", ("all",)): 16 * 8 * 4 * 4 // 8}


def test_every_fault_of_the_layout_is_listed():
    mesh = mtf.Mesh("a:3", layout="batch:a,hidden:a")
    with pytest.raises(LayoutError, match="1\\..*\n.*2\\."):
        mtf.record(loss, {"x": "batch:8,io:32"}, mesh)


def test_gradients_need_a_scalar():
    with pytest.raises(ShapeError, match="one scalar"):
        mtf.record(lambda x: x, {"x": "batch:8"}, MESH, gradients=True)


def test_nothing_is_allocated_however_large():
    recording = mtf.record(
        lambda x: mtf.reduce_sum(mtf.einsum([x, x], output_shape="a:1000000")),
        {"x": ("a:1000000,b:1000000", tf.bfloat16)},
        mtf.Mesh(),
    )
    assert recording.flops == 2 * 10**12
    assert recording.memory.peak >= 2 * 10**12


def test_memory_of_a_chain_is_two_buffers():
    def chain(x):
        for _ in range(5):
            x = mtf.einsum([x, x], output_shape="a:64,b:64")
            x = mtf.cast(mtf.cast(x, tf.bfloat16), tf.float32)
        return x

    memory = mtf.record(chain, {"x": "a:64,b:64"}, mtf.Mesh()).memory
    whole = 64 * 64 * 4
    # The input stays; beside it a product's operand and result.
    assert memory.peak == 3 * whole


def test_constants_that_gradients_make():
    with tf.Graph().as_default():
        order = tf.concat([tf.range(0, 1), tf.stack([tf.constant(1) + 1]), tf.range(1, 2)], 0)
        found = known_value(tf.math.invert_permutation(order))
        np.testing.assert_array_equal(found, [0, 2, 1])
        assert known_value(tf.raw_ops.Placeholder(dtype=tf.int32, shape=[2])) is None


def test_what_has_its_own_derivative_is_counted_in_both_directions():
    a, b = mtf.Dimension("a", 8), mtf.Dimension("b", 4)
    shape = mtf.Shape([a, b])

    def product(x, w):
        return mtf.einsum([x, w], output_shape=[a])

    def slopes(x, w, y, dy):
        return mtf.einsum([dy, w], output_shape=shape), mtf.einsum([dy, x], output_shape=[b])

    def loss(x):
        w = mtf.get_variable(x.mesh, "w", [b])
        with mtf.variable_scope("inner"):
            return mtf.reduce_sum(mtf.custom_gradient(product, slopes, [x, w]))

    recording = mtf.record(loss, {"x": shape}, MESH, gradients=True)
    products = [o for o in recording.operations if o.place == "inner/einsum"]
    # The derivative by x is of no use.
    assert [(o.phase, o.flops) for o in products] == [("forward", 64), ("backward", 64)]
    assert products[1].inputs == [mtf.Shape([a]), shape]
    assert products[1].outputs == [mtf.Shape([b])]
    whole = next(o for o in recording.operations if o.place == "inner/custom_gradient")
    assert (whole.inputs, whole.outputs) == ([shape, mtf.Shape([b])], [mtf.Shape([a])])


def test_loops_are_refused_and_not_passed_over():
    def loop(x):
        return mtf.while_loop(lambda x: mtf.less(mtf.reduce_sum(x), 9.0), lambda x: [x + 1.0], [x])

    with pytest.raises(MtfError, match="loops"):
        mtf.record(loop, {"x": "batch:8"}, mtf.Mesh())


def test_what_is_said_of_a_device_that_is_too_small():
    recording = mtf.record(loss, {"x": "batch:8,io:32"}, MESH)
    need = recording.memory.peak
    assert recording.fits(need).startswith("fits in")
    assert recording.fits(need - 1).startswith("does not fit in")
    assert "smaller batch" in recording.fits(need - 1)
    assert "Adafactor" in recording.fits(recording.memory.variables - 1)


def test_the_examples_of_the_guide(repository):
    text = (repository / "docs" / "counting.md").read_text("utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    names: dict = {}
    exec(compile(program, "counting.md", "exec"), names)
    assert "fit" in names["recording"].fits(1.0)
