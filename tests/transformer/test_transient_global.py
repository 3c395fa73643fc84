"""Local attention with a global side: its blocks, packed rows, split lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.sequence_blocks import SequenceBlocks
from mtf_models.transformer.transient_global import TransientGlobalSelfAttention

LENGTH = 16
SIZES = (7, 2, 4)  # Two blocks of 3 and a rest, no block, one and a rest; then padding.
ROW = np.repeat([1, 2, 3, 0], [*SIZES, LENGTH - sum(SIZES)]).astype(np.int32)
X = np.random.default_rng(0).normal(size=(2, LENGTH, 8)).astype(np.float32)


def plain_blocks(row, size):
    """[length] the block of a position, and the sequence of each block, position by position."""
    number, owners = np.full(len(row), -1), []
    for sequence in dict.fromkeys(row[row > 0].tolist()):
        places = np.flatnonzero(row == sequence)
        whole = len(places) // size
        if whole:
            inside = np.minimum(np.arange(len(places)) // size, whole - 1)
            number[places] = inside + len(owners)
            owners += [sequence] * whole
    return number, owners + [0] * (len(row) // size - len(owners))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 4), st.integers(1, 5))
def test_blocks_of_sequences(sizes, padding, size):
    row = np.repeat([*range(1, len(sizes) + 1), 0], [*sizes, padding]).astype(np.int32)
    size = min(size, len(row))
    length = mtf.Dimension("length", len(row))
    named = mtf.import_tf_tensor(mtf.Mesh(), row[None], [mtf.Dimension("batch", 1), length])
    blocks = SequenceBlocks.of(named, length, size)
    number, owners = plain_blocks(row, size)
    np.testing.assert_array_equal(blocks.number.numpy()[0], number)
    np.testing.assert_array_equal(blocks.owner.numpy()[0], owners)


@pytest.fixture
def attend(make_context):
    """The layer's output, with variables that follow from a seed."""

    def attend(x, rows, mesh="", autoregressive=False):
        mesh = mtf.Mesh(mesh, layout="length:length,heads:model")
        batch, size, width = x.shape
        length, d_model = mtf.Dimension("length", size), mtf.Dimension("d_model", width)
        layer = TransientGlobalSelfAttention(
            radius=3,
            global_block_size=3,
            num_heads=2,
            key_value_size=4,
            relative_attention_type="bias",
        )
        dims = [mtf.Dimension("batch", batch), length]
        sequence_id = None if rows is None else mtf.import_tf_tensor(mesh, rows, dims)
        with mtf.VariableStore(mesh, seed=3).eager():
            context = make_context(
                dims[0],
                length,
                d_model,
                mesh,
                autoregressive=autoregressive,
                sequence_id=sequence_id,
            )
            return layer.call(context, mtf.import_tf_tensor(mesh, x, [*dims, d_model])).numpy()

    return attend


def test_sequences_in_a_row_are_what_they_are_alone(attend):
    packed = attend(X, np.stack([ROW, ROW]))
    begin = 0
    for size in SIZES:
        place = slice(begin, begin + size)
        alone = attend(X[:, place], None)
        np.testing.assert_allclose(packed[:, place], alone, rtol=1e-4, atol=1e-5)
        begin += size


def test_a_position_sees_far_ones_through_their_block(attend):
    far = X.copy()
    far[:, -1] += 1.0
    moved = np.abs(attend(far, None) - attend(X, None)).max((0, 2))
    assert moved[0] > 1e-4


def test_a_split_length_changes_nothing(attend):
    rows = np.stack([ROW, np.ones_like(ROW)])
    split = attend(X, rows, "length:2;model:2")
    np.testing.assert_allclose(split, attend(X, rows), rtol=1e-4, atol=1e-5)


def test_a_decoder_is_refused(attend):
    with pytest.raises(ConfigError, match="this stack is autoregressive: put it into an encoder"):
        attend(X, None, autoregressive=True)
