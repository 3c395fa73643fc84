"""How layouts go through TensorFlow's operations where no pin says what they are.

Each rule tells what layout the results have when the operands have theirs, and what layout the
operands are asked to have when the results have theirs. They describe what DTensor does in
TensorFlow 2.16 to 2.21.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording.program import Node

ANY = "any"
"""In a request: split over whatever axis, or over none."""

Layouts = Sequence[Layout | None]
Axes = dict[str, int]
Forward = Callable[[Node, Layouts, Axes], list[Layout | None]]
Backward = Callable[[Node, Layouts, Axes], list[Layout | None]]


class Rule(NamedTuple):
    """How layouts go through one kind of operation.

    Attributes:
        forward: takes the operands' layouts, those known, and gives the results'.
        backward: takes the results' layouts, and gives those that the operands are asked for.
    """

    forward: Forward
    backward: Backward


def whole(sizes: Sequence[int]) -> Layout:
    """The layout of a value that is nowhere split."""
    return (None,) * len(sizes)


def _nothing(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [None] * len(node.inputs)


def _all_whole(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [whole(s) for s in node.sizes]


def _operands_whole(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [whole(s) for s in node.input_sizes]


def _first_only(found: Layout | None, node: Node) -> list[Layout | None]:
    """A request to the first operand; the others are parameters, and whole."""
    return [found, *(whole(s) for s in node.input_sizes[1:])]


# Elementwise


def merged(a: Layout, b: Layout) -> Layout:
    """The layout of an operation on each element of two values that are broadcast."""
    rank = max(len(a), len(b))
    a, b = ((None,) * (rank - len(x)) + tuple(x) for x in (a, b))

    def one(i: int) -> str | None:
        elsewhere = a[i] and a[i] in b and b.index(a[i]) != i
        elsewhere = elsewhere or b[i] and b[i] in a and a.index(b[i]) != i
        return None if elsewhere else a[i] or b[i]

    return tuple(one(i) for i in range(rank))


def _elementwise_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    known = [layout for layout in layouts if layout is not None]
    if not known:
        return [None]
    total = known[0]
    for layout in known[1:]:
        total = merged(total, layout)
    return [(None,) * (len(node.sizes[0]) - len(total)) + tuple(total)]


def broadcast_operand(layout: Layout, sizes: Sequence[int]) -> Layout:
    """What the layout of a result says of an operand of these sizes that is broadcast to it."""
    aligned = layout[len(layout) - len(sizes) :]
    return tuple(axis if n > 1 else None for axis, n in zip(aligned, sizes, strict=True))


def _elementwise_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.inputs)
    return [broadcast_operand(layouts[0], sizes) for sizes in node.input_sizes]


# Reductions


def reduced(node: Node) -> tuple[set[int], bool]:
    """The places that are summed out, and whether they stay with size 1."""
    rank = len(node.input_sizes[0])
    if node.type == "L2Loss":
        return set(range(rank)), False
    places = np.asarray(node.constant(1)).reshape(-1)
    return {int(p) % rank for p in places} if rank else set(), node.attribute("keep_dims")


def reduced_layout(node: Node, layout: Layout) -> Layout:
    """The layout of a reduction of a value that is laid out so."""
    places, keep = reduced(node)
    return tuple(
        None if i in places else axis for i, axis in enumerate(layout) if keep or i not in places
    )


def _reduce_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [None if layouts[0] is None else reduced_layout(node, layouts[0])]


def _reduce_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.inputs)
    places, keep = reduced(node)
    left = iter(layouts[0])
    found = []
    for i in range(len(node.input_sizes[0])):
        if i in places:
            found.append(ANY)
            if keep:
                next(left)
        else:
            found.append(next(left))
    return [tuple(found), *[None] * (len(node.inputs) - 1)]


# Shapes


def segments(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Where the smallest runs of equal size begin in both shapes; sizes of 1 begin none."""
    starts = []
    i = j = 0
    while i < len(a) and j < len(b):
        while i < len(a) and a[i] == 1:
            i += 1
        while j < len(b) and b[j] == 1:
            j += 1
        if i >= len(a) or j >= len(b):
            break
        starts.append((i, j))
        left, right = a[i], b[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * a[i], i + 1
            else:
                right, j = right * b[j], j + 1
    return starts


def reshaped(layout: Layout, sizes: Sequence[int], target: Sequence[int], axes: Axes) -> Layout:
    """The layout of a reshape: splits stay where they begin a run and divide it."""
    found: list[str | None] = [None] * len(target)
    for i, j in segments(sizes, target):
        axis = layout[i]
        if axis and target[j] % axes[axis] == 0:
            found[j] = axis
    return tuple(found)


def _reshape_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None]
    return [reshaped(layouts[0], node.input_sizes[0], node.sizes[0], axes)]


def _reshape_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.inputs)
    found = reshaped(layouts[0], node.sizes[0], node.input_sizes[0], axes)
    return [found, *[None] * (len(node.inputs) - 1)]


def _transpose_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None]
    return [tuple(layouts[0][p] for p in node.constant(1))]


def _transpose_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    found = None
    if layouts[0] is not None:
        found = tuple(layouts[0][i] for i in np.argsort(node.constant(1)))
    return _first_only(found, node)


def _axis_put_in(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None]
    place = int(node.constant(1)) % len(node.sizes[0])
    return [(*layouts[0][:place], None, *layouts[0][place:])]


def _axis_taken_out(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return _first_only(None, node)
    place = int(node.constant(1)) % len(node.sizes[0])
    return _first_only((*layouts[0][:place], *layouts[0][place + 1 :]), node)


def _broadcast_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None]
    return [(None,) * (len(node.sizes[0]) - len(layouts[0])) + tuple(layouts[0])]


def _broadcast_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    found = layouts[0] and broadcast_operand(layouts[0], node.input_sizes[0])
    return _first_only(found, node)


def kept_where_equal(layout: Layout, sizes: Sequence[int], target: Sequence[int]) -> Layout:
    """The splits of the dimensions that an operation leaves whole in size."""
    return tuple(axis if n == m else None for axis, n, m in zip(layout, sizes, target, strict=True))


def _equal_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    known = [
        x for x, s in zip(layouts, node.input_sizes, strict=True) if len(s) == len(node.sizes[0])
    ]
    if not known or known[0] is None:
        return [None] * len(node.sizes)
    return [kept_where_equal(known[0], node.input_sizes[0], s) for s in node.sizes]


def _equal_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return _first_only(None, node)
    rank = len(node.sizes[0])
    return [
        kept_where_equal(layouts[0], node.sizes[0], s) if len(s) == rank else whole(s)
        for s in node.input_sizes
    ]


def _same(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return list(layouts)


def _pack_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    known = [x for x in layouts if x is not None]
    if not known:
        return [None]
    place = node.attribute("axis") % len(node.sizes[0])
    total = known[0]
    for layout in known[1:]:
        total = merged(total, layout)
    return [(*total[:place], None, *total[place:])]


def _pack_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.inputs)
    place = node.attribute("axis") % len(node.sizes[0])
    return [(*layouts[0][:place], *layouts[0][place + 1 :])] * len(node.inputs)


# Selection


def gather_places(node: Node) -> tuple[int, int]:
    """The axis that is looked up, and the number of batch dimensions."""
    return int(node.constant(2)) % len(node.input_sizes[0]), node.attribute("batch_dims")


def _gather_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    table, at, _ = layouts
    if table is None and at is None:
        return [None]
    axis, batch = gather_places(node)
    table = table or whole(node.input_sizes[0])
    at = at or whole(node.input_sizes[1])
    used = {a for i, a in enumerate(table) if i != axis and a}
    places = [None if a in used else a for a in at[batch:]]
    return [(*table[:axis], *places, *table[axis + 1 :])]


def _gather_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None, None, ()]
    axis, batch = gather_places(node)
    count = len(node.input_sizes[1]) - batch
    out = layouts[0]
    table = (*out[:axis], None, *out[axis + count :])
    return [table, (*out[:batch], *out[axis : axis + count]), ()]


def _segment_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [whole(node.sizes[0])]
    return [(None, *layouts[0][len(node.input_sizes[1]) :])]


def _segment_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    _, at, _ = node.input_sizes
    data = whole(node.input_sizes[0])
    if layouts[0] is not None:
        data = (*(None,) * len(at), *layouts[0][1:])
    return [data, whole(at), ()]


def along(node: Node) -> int:
    """The axis that an operation works along."""
    if node.type in ("Softmax", "LogSoftmax", "TopKV2"):
        return len(node.input_sizes[0]) - 1
    return int(node.constant(1)) % len(node.input_sizes[0])


def _along_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.sizes)
    place = along(node)
    if all(len(s) == len(layouts[0]) for s in node.sizes):
        return [(*layouts[0][:place], None, *layouts[0][place + 1 :])] * len(node.sizes)
    return [(*layouts[0][:place], *layouts[0][place + 1 :])]


def _along_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return _first_only(None, node)
    place = along(node)
    rest = layouts[0]
    if len(rest) == len(node.input_sizes[0]):
        rest = (*rest[:place], *rest[place + 1 :])
    return _first_only((*rest[:place], None, *rest[place:]), node)


# Pins


def _pin_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [node.layout]


def _gradient_forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    return [layouts[1]]


def _gradient_backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None, None]
    return [whole(node.input_sizes[0]), layouts[0]]


ELEMENTWISE = frozenset(
    """Abs Add AddN AddV2 Bitcast BitwiseAnd BitwiseOr BitwiseXor Cast CheckNumerics Cos Div
    DivNoNan Elu EluGrad Equal Erf Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Identity
    Inv InvGrad IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Less LessEqual Log Log1p LogicalAnd
    LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg NotEqual Pow PreventGradient RealDiv
    Reciprocal ReciprocalGrad Relu ReluGrad Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad
    Sigmoid SigmoidGrad Sign Sin Softplus Sqrt SqrtGrad Square SquaredDifference StopGradient Sub
    Tanh TanhGrad TruncateDiv Xdivy Xlogy ZerosLike OnesLike""".split()
)
REDUCTIONS = frozenset(["All", "Any", "L2Loss", "Max", "Mean", "Min", "Prod", "Sum"])
MADE_WHOLE = frozenset(
    """Const Fill Range Shape Size Rank BroadcastGradientArgs StatelessRandomGetKeyCounter
    StatelessRandomUniformV2 StatelessRandomUniformIntV2 StatelessRandomNormalV2
    StatelessTruncatedNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomGetAlg""".split()
)

_ELEMENTWISE = Rule(_elementwise_forward, _elementwise_backward)
_REDUCTION = Rule(_reduce_forward, _reduce_backward)
_MADE_WHOLE = Rule(_all_whole, _operands_whole)
_EQUAL = Rule(_equal_forward, _equal_backward)
_ALONG = Rule(_along_forward, _along_backward)

OTHERS = {
    "Pin": Rule(_pin_forward, _pin_forward),
    "PinGradient": Rule(_gradient_forward, _gradient_backward),
    "Placeholder": Rule(_pin_forward, _nothing),
    "IdentityN": Rule(_same, _same),
    "Reshape": Rule(_reshape_forward, _reshape_backward),
    "Squeeze": Rule(_reshape_forward, _reshape_backward),
    "Transpose": Rule(_transpose_forward, _transpose_backward),
    "ExpandDims": Rule(_axis_put_in, _axis_taken_out),
    "BroadcastTo": Rule(_broadcast_forward, _broadcast_backward),
    "Pack": Rule(_pack_forward, _pack_backward),
    "GatherV2": Rule(_gather_forward, _gather_backward),
    "UnsortedSegmentSum": Rule(_segment_forward, _segment_backward),
    "Softmax": Rule(_same, _same),
    "LogSoftmax": Rule(_same, _same),
    "Cumsum": _ALONG,
    "TopKV2": _ALONG,
    "ArgMax": _ALONG,
    "ArgMin": _ALONG,
    **dict.fromkeys(["Slice", "Pad", "PadV2", "Tile", "ConcatV2"], _EQUAL),
}


def rule_of(node: Node) -> Rule:
    """The rule of an operation; of one that is not known everything is whole."""
    if node.type in ELEMENTWISE:
        return _ELEMENTWISE
    if node.type in REDUCTIONS:
        return _REDUCTION
    return OTHERS.get(node.type, _MADE_WHOLE)
