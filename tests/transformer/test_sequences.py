"""What a decoder reads: its targets one position later."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.sequences import Sequence, autoregressive_inputs

SHAPE = "batch:1 length:7"


@pytest.fixture(params=["", "length:model"])
def put(request):
    mesh = mtf.Mesh("model:7" if request.param else "", layout=request.param)
    return lambda row: mtf.import_tf_tensor(mesh, np.array([row], np.int32), SHAPE)


def test_targets_move_one_position_on(put):
    assert autoregressive_inputs(put([3, 9, 1, 4, 1, 0, 0]), None).numpy().tolist() == [
        [0, 3, 9, 1, 4, 1, 0]
    ]


def test_every_packed_sequence_starts_with_zero(put):
    targets, segments = put([3, 9, 1, 4, 1, 0, 0]), put([1, 1, 1, 2, 2, 0, 0])
    assert autoregressive_inputs(targets, segments).numpy().tolist() == [[0, 3, 9, 0, 4, 0, 0]]


def test_targets_without_loss_are_read_like_others(put):
    found = autoregressive_inputs(put([-3, -9, 5, 1, 0, 0, 0]), None)
    assert found.numpy().tolist() == [[0, 3, 9, 5, 1, 0, 0]]


def test_an_unpacked_row_is_one_sequence_with_its_padding_apart(put):
    sequence = Sequence.of({"inputs": put([4, 5, 1, 0, 0, 0, 0])}, "inputs")
    assert sequence.sequence_id.numpy().tolist() == [[1, 1, 1, 0, 0, 0, 0]]
    assert sequence.position is None
