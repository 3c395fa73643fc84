"""Language models over inputs and targets in one row, and prefixes that are seen from all of it."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.prefix import delimited_inputs_mask, prefix_priority

# Two examples and padding; one example whose targets are going on; inputs alone.
ROWS = np.array(
    [
        [5, 6, 1, 20, 21, 1, 7, 1, 22, 1, 0, 0],
        [8, 9, 10, 1, 23, 24, 25, 26, 0, 0, 0, 0],
        [8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    np.int32,
)
SEGMENTS = np.array([[1] * 6 + [2] * 4 + [0] * 2, [1] * 8 + [0] * 4, [1] * 4 + [0] * 8], np.int32)
INPUTS = np.array(
    [
        [1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
)
PREFIX = "Unitransformer.input_full_attention = True"
DELIMITED = "run.model_type = 'delimited_lm'"
LENGTHS = "run.sequence_length = {'inputs': 6, 'targets': 6}"


def visible(row, segments):
    """[reader, read]: what each position sees, written down from the definition."""
    size = len(segments)
    inside = INPUTS[row] | np.pad(INPUTS[row], [1, 0])[:-1]
    seen = np.zeros([size, size], bool)
    for i in range(size):
        for j in range(size):
            seen[i, j] = j <= i or (inside[i] and inside[j])
            seen[i, j] &= segments[i] == segments[j] and segments[i] > 0
    return seen


@pytest.mark.parametrize("layout", ["", "batch:a", "length:a"])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_inputs_are_found_by_their_ends(layout, wrap):
    mesh = mtf.Mesh("a:3" if layout == "batch:a" else "a:4" if layout else "", layout)
    shape = mtf.Shape("batch:3 length:12")
    ids = mtf.import_tf_tensor(mesh, ROWS * np.array([[1], [-1], [1]], np.int32), shape)

    def both(value):
        ids = mtf.Tensor(mesh, shape, value)
        return mtf.to_int32(delimited_inputs_mask(ids)).value, prefix_priority(ids).value

    with mesh.calling():
        mask, priority = wrap(both)(ids.value)
    fetched = [mtf.Tensor(mesh, shape, x).numpy() for x in (mask, priority)]
    np.testing.assert_array_equal(fetched[0], INPUTS)
    inside = INPUTS | np.pad(INPUTS, [[0, 0], [1, 0]])[:, :-1]
    np.testing.assert_array_equal(fetched[1], np.where(inside, 0, np.arange(12)))


def test_positions_of_a_prefix_see_it_whole_and_no_target_is_seen_early(build):
    model = build("lm_tiny", PREFIX, "num_layers = 1", seed=1)
    size = ROWS.shape[1]
    for row in (0, 1):
        # Each copy has one other token that is no end; it is read one position later.
        copies = np.repeat(ROWS[row : row + 1], size + 1, axis=0)
        for position in range(size):
            if copies[position, position] > 1:
                copies[position, position] += 40
        segments = np.broadcast_to(SEGMENTS[row], copies.shape)
        logits = model({"targets": copies, "targets_segmentation": segments}).logits.numpy()
        differs = np.abs(logits[:-1] - logits[-1]).max(axis=-1) > 1e-5
        expected = np.zeros([size, size], bool)
        for position in range(size - 1):
            if ROWS[row, position] > 1 and SEGMENTS[row, position] == SEGMENTS[row, position + 1]:
                expected[position] = visible(row, SEGMENTS[row])[:, position + 1]
        np.testing.assert_array_equal(differs, expected)


def test_padding_behind_an_unpacked_row_is_not_seen(build):
    model = build("lm_tiny", PREFIX, "num_layers = 1", seed=1)
    tight = model({"targets": ROWS[1:2, :8]}).logits.numpy()
    loose = model({"targets": ROWS[1:2]}).logits.numpy()
    np.testing.assert_allclose(loose[:, :8], tight, atol=1e-5 * np.abs(tight).max())


def cross_entropy(logits, targets):
    log_z = np.log(np.sum(np.exp(logits.astype(np.float64)), axis=-1))
    return log_z - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]


@pytest.mark.parametrize(
    ("params", "in_training", "in_evaluation"),
    [
        ((), "all", "all"),
        (("Unitransformer.loss_on_targets_only = True",), "targets", "targets"),
        ((DELIMITED, LENGTHS), "all", "targets"),
        ((DELIMITED, LENGTHS, "Unitransformer.loss_on_targets_only = True"), "targets", "targets"),
    ],
)
def test_what_counts_in_the_loss(build, params, in_training, in_evaluation):
    model = build("lm_tiny", "Unitransformer.z_loss = 0.0", "num_layers = 1", *params)
    features = {"targets": ROWS[1:2]}
    if DELIMITED in params:
        features = {"inputs": ROWS[1:2, :4], "targets": ROWS[1:2, 4:]}
    for mode, counted in (("train", in_training), ("eval", in_evaluation)):
        out = model(features, mode)
        weights = ROWS[1:2] > 0
        if counted == "targets":
            weights &= INPUTS[1:2] == 0
        right = np.sum(cross_entropy(out.logits.numpy(), ROWS[1:2]) * weights) / weights.size
        assert float(out.loss) == pytest.approx(right, rel=1e-5)


def test_two_vocabularies_are_not_joined(build):
    with pytest.raises(ConfigError, match="Inputs have a vocabulary of 50 ids and targets one of"):
        build("lm_tiny", DELIMITED, LENGTHS, "run.vocabulary = (50, 100)")


def test_joined_rows_are_the_rows_of_a_language_model(build):
    plain = build("lm_tiny", PREFIX, "num_layers = 1", seed=1)
    joining = build("lm_tiny", PREFIX, "num_layers = 1", DELIMITED, LENGTHS, seed=1)
    right = plain({"targets": ROWS[1:2]}).logits.numpy()
    found = joining({"inputs": ROWS[1:2, :4], "targets": ROWS[1:2, 4:]}).logits.numpy()
    real = ROWS[1] > 0
    np.testing.assert_allclose(found[:, real], right[:, real], atol=1e-5 * np.abs(right).max())


@pytest.mark.parametrize(
    ("beam_size", "mesh"),
    [(1, ""), (2, ""), pytest.param(1, "batch:2;model:4", marks=pytest.mark.nightly)],
)
def test_a_prefix_model_decodes_what_it_predicts(build, beam_size, mesh):
    layout = "batch:batch,heads:model,d_ff:model,vocab:model" if mesh else ""
    mesh = mtf.Mesh(mesh, layout=layout)
    model = build("lm_tiny", PREFIX, DELIMITED, LENGTHS, seed=3, mesh=mesh)
    table = model.variables["transformer/embedding"]
    table.assign(table.numpy() * 2)  # for predictions that differ
    inputs = np.array([[5, 6, 7, 1], [9, 1, 0, 0]], np.int32)
    result = model.decode({"inputs": inputs}, beam_size=beam_size, max_decode_length=5)
    targets = np.pad(result.ids.numpy(), [[0, 0], [0, 1]])
    features = {"inputs": inputs, "targets": targets}
    scores = model.score(features).numpy()
    np.testing.assert_allclose(result.log_probabilities.numpy(), scores, rtol=1e-4)
    if beam_size == 1:
        logits = model(features).logits.numpy()[..., :100]
        for row, length in enumerate((inputs > 0).sum(axis=1)):
            count = (targets[row] > 0).sum()
            predicted = logits[row, length : length + count].argmax(axis=-1)
            np.testing.assert_array_equal(predicted, targets[row, :count])
