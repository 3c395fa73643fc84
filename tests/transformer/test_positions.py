"""Where positions are: golden values of the buckets, and the formula of the sinusoids."""

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.transformer.positions import relative_position_bucket, sinusoid_positions

BIDIRECTIONAL = {
    0: 0,
    -1: 1,
    -7: 7,
    -8: 8,
    -12: 9,
    -16: 10,
    -23: 11,
    -32: 12,
    -46: 13,
    -64: 14,
    -91: 15,
    -128: 15,
    -1000: 15,
    1: 17,
    8: 24,
    16: 26,
    64: 30,
    91: 31,
    128: 31,
    1000: 31,
}
"""Memory position minus query position -> bucket, of 32 buckets up to distance 128."""

UNIDIRECTIONAL = {
    1: 0,
    100: 0,
    **{-n: n for n in range(16)},
    **{-16: 16, -18: 16, -19: 17, -20: 17, -21: 18, -23: 18, -24: 19, -26: 19, -27: 20, -30: 20},
    **{-31: 21, -34: 21, -35: 22, -39: 22, -40: 23, -45: 23, -46: 24, -51: 24, -52: 25, -58: 25},
    **{-59: 26, -66: 26, -67: 27, -76: 27, -77: 28, -86: 28, -87: 29, -98: 29, -99: 30, -112: 30},
    **{-113: 31, -128: 31, -1000: 31},
}
"""With the boundaries of all logarithmic buckets; what is ahead counts as distance 0."""


@pytest.mark.parametrize(
    ("bidirectional", "golden"), [(True, BIDIRECTIONAL), (False, UNIDIRECTIONAL)]
)
def test_buckets(bidirectional, golden):
    positions = np.array(list(golden), np.int32)
    shape = mtf.Shape([mtf.Dimension("pairs", len(golden))])
    relative = mtf.import_tf_tensor(mtf.Mesh(), positions, shape)
    found = relative_position_bucket(relative, bidirectional)
    assert dict(zip(golden, found.numpy().tolist(), strict=True)) == golden


def test_sinusoids():
    length, d_model = mtf.Dimension("length", 50), mtf.Dimension("d_model", 8)
    found = sinusoid_positions(mtf.Mesh(), length, d_model)
    rates = 1e4 ** -(np.arange(4) / 3)  # wavelengths from 2 pi to 10000 times 2 pi
    angles = np.arange(50)[:, None] * rates
    right = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_allclose(found, right, atol=1e-5)
