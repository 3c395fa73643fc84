"""Decoding of a toy table, as every test here runs it."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.decode.decoding import decode
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts

sys.path.append(str(Path(__file__).parent))
from toy import VOCAB, Table  # noqa: E402


@pytest.fixture(params=["eager", "compiled"])
def run(request):
    """Decodes prompts with `Table` or another step; gives ids, scores and log-probabilities."""

    def run(prompts, step=None, mesh=None, uniforms=None, limits=None, vocab=VOCAB, **options):
        mesh = mesh or mtf.Mesh()
        given = {"prompts": named(mesh, np.array(prompts, np.int32), "batch", "length")}
        if uniforms is not None:
            draws = np.array(uniforms, np.float32)
            given["uniforms"] = named(mesh, draws, "batch", "beam", "length")
        if limits is not None:
            given["limits"] = named(mesh, np.array(limits, np.int32), "batch")
        shapes = {name: x.shape for name, x in given.items()}

        def compute(values):
            x = {n: mtf.Tensor(mesh, shapes[n], v) for n, v in values.items()}
            rows = Prompts.of(x["prompts"], x.get("limits"))
            asked = DecodeOptions(**options)
            found = decode(step or Table(), rows, vocab, asked, x.get("uniforms"))
            return [found.ids.value, found.scores.value, found.log_probabilities.value]

        values = {name: x.value for name, x in given.items()}
        if request.param == "compiled":
            with mesh.calling():
                graph = tf.function(compute, autograph=False).get_concrete_function(values)
                found = graph(values)
        else:
            found = compute(values)
        return [mesh.engine.fetch(value) for value in found]

    return run


def named(mesh, array, *names):
    return mtf.import_tf_tensor(mesh, array, mtf.Shape(zip(names, array.shape, strict=True)))
