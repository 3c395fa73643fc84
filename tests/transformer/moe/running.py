"""Mixtures of experts as layers, run on arrays with given weights."""

import numpy as np

import mtf_models as mtf
from mtf_models.transformer.context import Context

RNG = np.random.default_rng(1)


def context(x, mode="eval", real=None, **kwargs):
    length = x.shape.get_dim_by_name("length")
    return Context(
        mesh=x.mesh,
        mode=mode,
        variable_dtype=kwargs.pop("dtype", mtf.VariableDType()),
        length_dim=length,
        memory_length_dim=mtf.Dimension("memory_length", length.size),
        d_model=x.shape.dims[-1],
        position=mtf.mtf_range(x.mesh, length),
        autoregressive=False,
        sequence_id=real,
        **kwargs,
    )


def tables(experts, hidden=16, gated=False, width=8):
    """Weights by name and shape."""
    wi = ["wi_0/kernel", "wi_1/kernel"] if gated else ["wi/kernel"]
    shapes = {n: f"experts:{experts} d_model:{width} expert_hidden:{hidden}" for n in wi}
    shapes["wo/kernel"] = f"experts:{experts} expert_hidden:{hidden} d_model:{width}"
    return {n: (s, RNG.normal(size=mtf.Shape(s).to_integer_list)) for n, s in shapes.items()}


def call(layer, x, weights, mode="eval", real=None, mesh=None, **kwargs):
    """The output, and the context with losses and reports, of arrays."""
    mesh = mesh or mtf.Mesh()
    batch, length, width = x.shape
    named = mtf.import_tf_tensor(
        mesh, np.float32(x), f"batch:{batch} length:{length} d_model:{width}"
    )
    if real is not None:
        real = mtf.import_tf_tensor(mesh, np.int32(real), f"batch:{batch} length:{length}")
    values = {
        n: mtf.import_tf_tensor(mesh, np.float32(a), s).value for n, (s, a) in weights.items()
    }
    inner = context(named, mode, real, **kwargs)
    with mtf.VariableStore(mesh).serving(values), mtf.random_stream(mtf.RandomStream((0, 1))):
        y = layer.call(inner, named)
    return y.numpy(), inner


def routed(layer, x, gating, experts, **kwargs):
    weights = tables(experts, width=x.shape[-1])
    name = f"{layer.moe_gating}_gating/kernel"
    weights[name] = (f"d_model:{x.shape[-1]} expert_unsplit:{experts}", gating)
    return call(layer, x, weights, **kwargs)


def one_expert(experts, width=8):
    """A router that sends whatever has a positive first feature to expert 0, with weight 1."""
    gating = np.zeros((width, experts))
    gating[0, 0] = 1e3
    return gating


def positive(*sizes):
    x = RNG.normal(size=sizes)
    x[..., 0] = 1.0
    return x
