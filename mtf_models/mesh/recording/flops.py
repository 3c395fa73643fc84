"""How many floating-point operations a program's products take."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording import products
from mtf_models.mesh.recording.program import Node, Value

_CONVOLUTIONS = {
    # Which operand has the filter's sizes, or the result; and what is computed for each of them.
    "Conv2D": ("input", 1, "result", 0),
    "Conv3D": ("input", 1, "result", 0),
    "Conv2DBackpropInput": ("input", 1, "input", 2),
    "Conv3DBackpropInputV2": ("input", 1, "input", 2),
    "Conv2DBackpropFilter": ("result", 0, "input", 2),
    "Conv3DBackpropFilterV2": ("result", 0, "input", 2),
}


def flops_of(node: Node) -> int:
    """The multiplications and additions of a product, two for each pair of factors.

    Operations on single elements and sums count as nothing, as is the custom: they take the time
    that moving the elements takes.
    """
    if node.type == "Einsum":
        return 2 * math.prod(_letter_sizes(node).values())
    if node.type in _CONVOLUTIONS:
        side, at, other, place = _CONVOLUTIONS[node.type]
        kernel = (node.input_sizes if side == "input" else node.sizes)[at]
        positions = (node.input_sizes if other == "input" else node.sizes)[place]
        return 2 * math.prod(kernel[:-1]) * math.prod(positions)
    if node.type in ("MatMul", "BatchMatMulV2"):
        transposed = node.attribute("transpose_a" if node.type == "MatMul" else "adj_x")
        return 2 * node.input_sizes[0][-2 if transposed else -1] * math.prod(node.sizes[0])
    return 0


def flops_on_device(node: Node, layouts: Mapping[Value, Layout], axes: Mapping[str, int]) -> int:
    """The part of the operations that each device does."""
    total = flops_of(node)
    if not total:
        return 0
    result = layouts[Value(node.index, 0)]
    if node.type == "Einsum":
        local = products.local(node, [layouts[value] for value in node.inputs], result)
        used = {axis for layout in (*local.operands, local.result) for axis in layout if axis}
    else:
        used = {axis for axis in result if axis}
    return total // math.prod(axes[axis] for axis in used)


def _letter_sizes(node: Node) -> dict[str, int]:
    terms = products.equation_of(node).operands
    return {
        letter: size
        for term, sizes in zip(terms, node.input_sizes, strict=True)
        for letter, size in zip(term, sizes, strict=True)
    }
