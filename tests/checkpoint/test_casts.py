import logging

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from mtf_models.checkpoint.casts import Casts
from mtf_models.errors import CheckpointError


def test_up_casts_are_exact_and_down_casts_round_to_even(caplog):
    casts = Casts()
    up = casts.apply("a", np.array([1, -2.5, 3.140625, 66048], ml_dtypes.bfloat16), tf.float32)
    assert up.dtype == np.float32
    np.testing.assert_array_equal(up, [1, -2.5, 3.140625, 66048])
    down = casts.apply("b", np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32), tf.bfloat16)
    assert down.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(down.astype(np.float32), [1.0, 1.015625])
    casts.apply("b", np.ones(2, np.float32), tf.bfloat16)
    casts.apply("c", np.ones(2, np.float32), tf.float32)

    with caplog.at_level(logging.INFO, "mtf_models"):
        casts.report()
    assert caplog.messages == [
        "cast bf16→fp32: 1 tensors",
        "cast fp32→bf16: 1 tensors",
    ]


@pytest.mark.parametrize(
    "value,dtype",
    [
        (np.array([1, 66048], ml_dtypes.bfloat16), tf.float16),
        (np.array([3.4e38], np.float32), tf.bfloat16),
        (np.array([2**40], np.int64), tf.int32),
    ],
)
def test_values_that_do_not_fit_are_refused(value, dtype):
    with pytest.raises(CheckpointError, match=f"Variable a has values up to .*{dtype.name}"):
        Casts().apply("a", value, dtype)


def test_infinities_and_nans_pass():
    value = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(Casts().apply("a", value, tf.float16), value)
