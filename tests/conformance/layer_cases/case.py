"""What a case of the list of layers is, and how a layer of a stack becomes one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import mtf_models as mtf
from mtf_models.testing import context_of

B, L, M = mtf.Dimension("batch", 4), mtf.Dimension("length", 8), mtf.Dimension("d_model", 8)
MEMORY = mtf.Dimension("memory_length", 8)

SEGMENTS = np.array(
    [[1] * 8, [1, 1, 1, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0, 0], [1, 2, 2, 2, 2, 2, 0, 0]],
    np.int32,
)
"""Whole rows, packed ones, and padding."""


class Case(NamedTuple):
    """A layer, a stack, a vocabulary or a model that must keep what is promised of all.

    Attributes:
        cls: what it is a case of.
        function: of named tensors, as `check_layer` takes it.
        inputs: a shape and an array for each.
        also: tells it from other cases of the class.
    """

    cls: type
    function: Callable
    inputs: dict
    also: str = ""

    @property
    def name(self):
        return f"{self.cls.__name__} {self.also}".strip()


def normal(*dims, seed=0):
    shape = mtf.Shape(dims)
    return shape, np.random.default_rng(seed).normal(size=shape.to_integer_list)


def integers(high, *dims):
    """From 1 on, since 0 is padding."""
    shape = mtf.Shape(dims)
    ids = np.random.default_rng(high).integers(1, high, shape.to_integer_list)
    return shape, ids.astype(np.int32)


X = normal(B, L, M)
ROWS = (mtf.Shape([B, L]), SEGMENTS)
INPUTS = {"x": X, "rows": ROWS}
ENCODED = {"encoded": normal(B, MEMORY, M, seed=1), "others": (mtf.Shape([B, MEMORY]), SEGMENTS)}


def layer(cls, also="", autoregressive=False, **kwargs):
    """A layer of a stack, on rows with padding; its losses are results too."""

    def function(x, rows):
        context = context_of(x, autoregressive=autoregressive, sequence_id=rows)
        y = context.masked(cls(**kwargs).call(context, x))
        return [y, *context.losses.values()]

    return Case(cls, function, INPUTS, also)


def causal(cls, also="", **kwargs):
    """The same in an autoregressive stack."""
    return layer(cls, also, autoregressive=True, **kwargs)


def decoder_layer(cls, also="", **kwargs):
    """A layer that attends to an encoder too, one of whose layers gave half of what it gave."""

    def function(x, rows, encoded=None, others=None):
        context = context_of(
            x,
            autoregressive=True,
            sequence_id=rows,
            encoder_output=encoded,
            encoder_sequence_id=others,
            encoder_layer_outputs=[] if encoded is None else [encoded * 0.5, encoded],
        )
        y = context.masked(cls(**kwargs).call(context, x))
        return [y, *context.losses.values()]

    return Case(cls, function, {**INPUTS, **ENCODED}, also)


class Subject(NamedTuple):
    """Cases that are run as one, which compiles and splits them together.

    Attributes:
        name: of the subject.
        cases: of its classes.
        layout: how two devices, the mesh axis `m`, share the work.
    """

    name: str
    cases: list
    layout: str

    @property
    def first_cases(self):
        """One case for each class."""
        return list({case.cls: case for case in reversed(self.cases)}.values())


def together(cases):
    """One function of the inputs of several cases, and these inputs."""
    inputs = {name: value for case in cases for name, value in case.inputs.items()}

    def function(*tensors):
        named = dict(zip(inputs, tensors, strict=True))
        results = []
        for case in cases:
            with mtf.variable_scope(case.name.replace(" ", "_")):
                results += case.function(*(named[name] for name in case.inputs))
        return results

    return function, inputs
