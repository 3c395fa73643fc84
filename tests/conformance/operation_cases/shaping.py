"""Making tensors, and the shapes that they take."""

import numpy as np

import mtf_models as mtf
from operation_cases.case import (
    A,
    B,
    C,
    D,
    case,
    normal,
)

CASES = [
    case(
        "constant",
        lambda x: x * mtf.constant(x.mesh, 3, x.shape, x.dtype),
        lambda x: 3 * x,
        x=normal(A),
    ),
    case("zeros", lambda x: x + mtf.zeros(x.mesh, [A, B], x.dtype), lambda x: x, x=normal(A, B)),
    case("ones", lambda x: x + mtf.ones(x.mesh, "b:16", x.dtype), lambda x: x + 1, x=normal(A, B)),
    case(
        "mtf_range",
        lambda x: x * mtf.mtf_range(x.mesh, B, x.dtype),
        lambda x: x * np.arange(16),
        x=normal(A, B),
    ),
    case(
        "range",
        lambda x: x * mtf.range(x.mesh, A, x.dtype),
        lambda x: x * np.arange(8),
        x=normal(A),
    ),
    case(
        "import_tf_tensor",
        lambda x: x * mtf.import_tf_tensor(x.mesh, np.arange(16), [B], x.dtype),
        lambda x: x * np.arange(16),
        x=normal(A, B),
    ),
    case(
        "broadcast",
        lambda x: mtf.broadcast(x, [B, D, A]),
        lambda x: np.broadcast_to(x[:, None], (16, 3, 8)),
        x=normal(B, A),
    ),
    case("transpose", lambda x: mtf.transpose(x, [B, A]), lambda x: x.T, x=normal(A, B)),
    case(
        "rename_dimension",
        lambda x: mtf.rename_dimension(x, "a", "c"),
        lambda x: x,
        x=normal(A, B),
    ),
    case("reshape", lambda x: mtf.reshape(x, [C, B]), lambda x: x, x=normal(A, B)),
    case(
        "reshape",
        lambda x: mtf.reshape(x, "e:8,f:4,g:4"),
        lambda x: x.reshape(8, 4, 4),
        x=normal(A, B),
    ),
    case("reshape", lambda x: mtf.reshape(x, "e:128"), lambda x: x.reshape(128), x=normal(A, B)),
    case(
        "replace_dimensions",
        lambda x: mtf.replace_dimensions(x, [A, B], [("e", 16), ("f", 8)]),
        lambda x: x.reshape(16, 8, 3),
        x=normal(A, B, D),
    ),
]
