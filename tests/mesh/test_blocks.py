"""Blocks give the derivatives of tensors that only some of them use."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.testing import Placement

USES = {"after the first": lambda begin: begin > 0, "in the first": lambda begin: begin == 0}


@pytest.mark.parametrize("placement", [Placement("", ""), Placement("r:2", "b:r")], ids=str)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("use", USES)
def test_what_only_some_blocks_use_has_its_gradient(use, mode, placement):
    mesh, rng = placement.make(), np.random.default_rng(0)
    # Blocks of 4, of which the last one has 2.
    shapes = {"x": "a:10 b:2", "y": "a:10 b:2", "idle": "a:10 b:2", "whole": "b:2"}
    numbers = {n: rng.normal(size=mtf.Shape(s).to_integer_list) for n, s in shapes.items()}
    numbers = {n: np.float32(x) for n, x in numbers.items()}

    def fn(begin, x, y, idle, whole):
        return [x * y * whole if USES[use](begin) else x]

    def slopes():
        x, y, idle, whole = (mtf.import_tf_tensor(mesh, numbers[n], s) for n, s in shapes.items())
        with tf.GradientTape() as tape:
            sources = [x, y, idle, whole]
            tape.watch([t.value for t in sources])
            [z] = mtf.in_blocks(fn, [x, y, idle], [whole], x.shape.dims[0], 4)
            loss = mtf.reduce_sum(z)
        return [g.value for g in mtf.gradients(tape, loss, sources)]

    with mesh.calling():
        found = tf.function(slopes, autograph=False)() if mode == "compiled" else slopes()
    found = [
        mtf.Tensor(mesh, mtf.Shape(s), g).numpy()
        for s, g in zip(shapes.values(), found, strict=True)
    ]
    used = np.array([[USES[use](i // 4 * 4)] for i in range(10)])
    x, y, idle, whole = numbers.values()
    wanted = [
        np.where(used, y * whole, 1),
        np.where(used, x * whole, 0),
        np.zeros_like(idle),
        np.sum(np.where(used, x * y, 0), axis=0),
    ]
    for slope, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(slope, right, rtol=1e-5, atol=1e-6)
