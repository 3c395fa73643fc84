"""What `Model.decode` and `Model.score` give, and what they refuse."""

import re

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime.model.draws import uniforms

INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
PROMPTS = np.array([[5, 7, 9, 0], [11, 0, 0, 0], [0, 0, 0, 0]], np.int32)


def ending(model, weight=40.0):
    """Makes the end likely and id 0, which whole sequences take for padding, unlikely."""
    name = "decoder/logits/kernel"
    kernel = model.variables[name]
    value = kernel.numpy()
    value[:, 0] = 0.0
    value[:, 1] *= weight
    kernel.assign(value)
    return model


@pytest.fixture(scope="module")
def model(build):
    return ending(build("t5_tiny", "num_layers = 1", seed=4))


@pytest.fixture(scope="module")
def lm(build):
    return build("lm_tiny", "num_layers = 1", seed=4)


def test_shapes(model, lm):
    one = model.decode({"inputs": INPUTS}, beam_size=3, max_decode_length=5)
    assert one.ids.shape == mtf.Shape("batch:3 length:5")
    assert one.scores.shape == one.log_probabilities.shape == mtf.Shape("batch:3")
    two = model.decode({"inputs": INPUTS}, beam_size=3, num_return=2, max_decode_length=5)
    assert two.ids.shape == mtf.Shape("batch:3 beam:2 length:5")
    assert two.scores.shape == mtf.Shape("batch:3 beam:2")
    np.testing.assert_array_equal(two.ids.numpy()[:, 0], one.ids)
    drawn = lm.decode({"inputs": PROMPTS}, temperature=1.0, num_return=2, max_decode_length=3)
    assert drawn.ids.shape == mtf.Shape("batch:3 beam:2 length:7")


def test_rescoring_and_garbage_after_the_end(model):
    options = {"num_return": 4, "max_decode_length": 6, "stop_early": False}
    found = model.decode({"inputs": INPUTS}, beam_size=4, **options)
    ids = found.ids.numpy().reshape([12, 6])
    assert (ids == 1).any(axis=1).sum() > 3
    inputs = np.repeat(INPUTS, 4, axis=0)
    scores = model.score({"inputs": inputs, "targets": ids}).numpy()
    there = found.scores.numpy().ravel() > -1e6
    found_scores = found.log_probabilities.numpy().ravel()
    np.testing.assert_allclose(found_scores[there], scores[there], rtol=1e-5)
    after = np.cumsum(ids == 1, axis=1) - (ids == 1) > 0
    garbage = np.where(after, 7, ids)
    assert (garbage != ids).any()
    again = model.score({"inputs": inputs, "targets": garbage})
    np.testing.assert_allclose(again, scores, rtol=1e-6)


def test_scores_of_tokens_sum_to_the_score(model):
    targets = np.array([[5, 6, 1, 0], [7, 1, 8, 9], [2, 3, 4, 5]])
    features = {"inputs": INPUTS, "targets": targets}
    tokens = model.token_scores(features).numpy()
    np.testing.assert_array_equal(tokens != 0, [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(tokens.sum(axis=1), model.score(features), rtol=1e-6)


@pytest.mark.parametrize("options", [{"temperature": 1.0, "top_k": 20}, {"beam_size": 3}], ids=str)
def test_a_row_is_decoded_alike_in_any_batch(model, options):
    wide = np.pad(INPUTS, [[0, 0], [0, 2]])
    together = model.decode({"inputs": wide}, max_decode_length=6, **options)
    for row in range(3):
        alone = model.decode({"inputs": INPUTS[row : row + 1]}, max_decode_length=6, **options)
        np.testing.assert_array_equal(alone.ids.numpy()[0], together.ids.numpy()[row])
        np.testing.assert_allclose(alone.scores.numpy()[0], together.scores.numpy()[row], rtol=1e-5)


@pytest.mark.nightly
def test_small_batches_are_decoded_again_and_again_on_a_mesh(build):
    # Were ids constants of the graph to it, the mesh would make the loop anew, and fail.
    mesh = mtf.Mesh("model:8", layout="heads:model,d_ff:model,vocab:model")
    alone, spread = (build("t5_tiny", mesh=m, seed=0) for m in (None, mesh))
    rng = np.random.default_rng(0)
    for _ in range(3):
        ids = rng.integers(2, 100, [2, 5])
        right, found = (m.decode({"inputs": ids}, beam_size=3) for m in (alone, spread))
        np.testing.assert_array_equal(found.ids, right.ids)
        np.testing.assert_allclose(found.scores, right.scores, rtol=1e-5)
    assert spread.compilations == 1


def test_seeds(lm):
    def draw(**options):
        return lm.decode(
            {"inputs": PROMPTS[[0, 0]]}, temperature=1.0, max_decode_length=6, **options
        ).ids.numpy()

    first = draw(seed=1)
    np.testing.assert_array_equal(first, draw(seed=1))
    assert (first != draw(seed=2)).any()
    # Equal rows are equal, unless they are told apart.
    np.testing.assert_array_equal(first[0], first[1])
    apart = draw(seed=1, row_numbers=[0, 1])
    np.testing.assert_array_equal(apart[0], first[0])
    assert (apart[0] != apart[1]).any()


def test_the_numbers_of_a_row_are_uniform_and_its_own():
    contents = [np.array([3, 4]), np.array([3, 4, 5])]
    found = uniforms(7, contents, [0, 0], 2, 5000)
    assert found.shape == (2, 2, 5000) and found.dtype == np.float32
    assert found.min() >= 0 and found.max() < 1
    flat = found.reshape([4, -1])
    np.testing.assert_allclose(flat.mean(axis=1), 0.5, atol=0.02)
    np.testing.assert_allclose(np.corrcoef(flat), np.eye(4), atol=0.05)
    np.testing.assert_array_equal(uniforms(7, contents[1:], [0], 1, 10)[0, 0], found[1, 0, :10])


def test_no_sample_is_padding_of_the_vocabulary(build):
    """10,000 draws of a vocabulary of 100 in a table of 128 rows."""
    sizes = ["d_model = 8", "d_ff = 8", "num_heads = 1", "d_kv = 4", "num_layers = 1"]
    model = build("t5_tiny", *sizes)
    kernel = model.variables["decoder/logits/kernel"]
    value = kernel.numpy()
    assert value.shape == (8, 128)
    value[:, 100:] = 50 * np.sign(value[:, :28])  # far likelier than all others, or never
    kernel.assign(value)
    inputs = {"inputs": np.arange(2, 12).reshape([10, 1])}
    options = {"temperature": 1.5, "num_return": 500, "max_decode_length": 2, "never_end": True}
    ids = model.decode(inputs, **options).ids.numpy()
    assert ids.size == 10_000
    assert 2 <= ids.max() < 100
    beams = model.decode(inputs, beam_size=4, num_return=4, max_decode_length=2).ids.numpy()
    assert beams.max() < 100


def test_more_beams_than_ids(model):
    found = model.decode({"inputs": INPUTS}, beam_size=130, num_return=130, max_decode_length=2)
    ids, scores = found.ids.numpy(), found.scores.numpy()
    assert ids.shape == (3, 130, 2)
    there = scores > -1e6
    assert 2 <= ids[there].max() < 100 and not ids[~there].any()
    assert len({tuple(row) for row in ids[0][there[0]].tolist()}) == there[0].sum() > 5


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prefix_is_forced(model, beam_size):
    prefix = np.array([[8, 0], [9, 12], [0, 0]])
    options = {"beam_size": beam_size, "max_decode_length": 6}
    found = model.decode({"inputs": INPUTS}, prefix=prefix, **options)
    ids = found.ids.numpy()
    assert ids[0, 0] == 8 and ids[1, :2].tolist() == [9, 12]
    plain = model.decode({"inputs": INPUTS}, **options).ids.numpy()
    np.testing.assert_array_equal(ids[2], plain[2])
    tokens = model.token_scores({"inputs": INPUTS, "targets": ids}).numpy()
    given = np.pad(prefix > 0, [[0, 0], [0, 4]])
    expected = np.where(given, 0, tokens).sum(axis=1)
    np.testing.assert_allclose(found.log_probabilities, expected, rtol=1e-5)


def test_steps_are_counted_from_the_end_of_a_prompt(lm):
    options = {"never_end": True, "repetition_penalty": 100.0}
    found = lm.decode({"inputs": PROMPTS}, max_steps=2, **options).ids.numpy()
    assert found.shape == (3, 6)
    assert [np.flatnonzero(row)[-1] for row in found] == [4, 2, 1]
    wide = np.pad(PROMPTS, [[0, 0], [0, 3]])
    again = lm.decode({"inputs": wide}, max_steps=2, **options).ids.numpy()
    np.testing.assert_array_equal(again[:, :6], found)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"beam_size": 2, "temperature": 0.7}, "has no temperature"),
        ({"max_decode_length": 0}, "max_decode_length = 0"),
        ({"max_steps": -1}, "max_steps = -1"),
        ({"seed": -1}, "seed = -1"),
        ({"num_return": 3}, "would all be the same"),
        ({"top_k": 3}, "set a temperature above 0"),
        ({"beam_sizes": 3}, "no argument beam_sizes; did you mean beam_size"),
    ],
)
def test_what_does_not_fit_is_refused(model, options, error):
    with pytest.raises(ConfigError, match=error):
        model.decode({"inputs": INPUTS}, **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"prefix": np.ones([2, 1], int)}, "the batch sizes differ"),
        ({"prefix": np.full([3, 1], 100)}, "targets has the id 100"),
        ({"prefix": np.ones([3, 6], int)}, "The prefix has 6 positions, and 6 are decoded"),
        ({"temperature": 1.0, "row_numbers": [1]}, "1 row_numbers and 3 rows"),
    ],
)
def test_what_does_not_fit_the_rows_is_refused(model, options, error):
    with pytest.raises(DataError, match=error):
        model.decode({"inputs": INPUTS}, **options)


def test_a_decoder_alone_takes_no_prefix(lm):
    with pytest.raises(ConfigError, match="as inputs: give no prefix"):
        lm.decode({"inputs": PROMPTS}, prefix=PROMPTS)


def test_the_guides_examples_run(model, repository):
    guide = (repository / "docs" / "decoding.md").read_text("utf-8")
    names = {"model": model, "ids": INPUTS, "targets": INPUTS}
    for block in re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL):
        exec(compile(block, "decoding.md", "exec"), names)
    assert names["best"].ids.shape == mtf.Shape("batch:3 length:6")
    assert names["many"].ids.shape == mtf.Shape("batch:3 beam:3 length:6")
    assert names["followed"].ids.shape == mtf.Shape("batch:3 length:6")
