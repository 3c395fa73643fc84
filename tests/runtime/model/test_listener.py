"""A listener sees each position of decoding on one device, and may end rows."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError

INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
PROMPTS = np.array([[5, 7, 9, 0], [11, 0, 0, 0], [0, 0, 0, 0]], np.int32)
NEVER = {"never_end": True}


@pytest.fixture(scope="module")
def model(build):
    return build("t5_tiny", "num_layers = 1", seed=4)


@pytest.fixture(scope="module")
def lm(build):
    return build("lm_tiny", "num_layers = 1", seed=4)


def heard(model, inputs, **options):
    positions, ids = [], []

    def listener(position, token):
        positions.append(position)
        ids.append(token)

    found = model.decode({"inputs": inputs}, listener=listener, **options)
    return positions, np.stack(ids, axis=1), found


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}])
def test_it_hears_what_is_returned(model, options):
    positions, ids, found = heard(model, INPUTS, max_decode_length=5, **NEVER, **options)
    assert positions == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(ids, found.ids)
    alone = model.decode({"inputs": INPUTS}, max_decode_length=5, **NEVER, **options)
    np.testing.assert_array_equal(alone.ids, found.ids)
    np.testing.assert_array_equal(alone.scores, found.scores)


def test_ids_that_are_given_are_not_heard(lm):
    positions, ids, found = heard(lm, PROMPTS, max_steps=2, **NEVER)
    for row, given in enumerate((3, 1, 0)):
        there = dict(zip(positions, ids[row].tolist(), strict=True))
        assert [there.pop(given + i) for i in range(2)] == found.ids.numpy()[row][
            given : given + 2
        ].tolist()
        assert set(there.values()) <= {-1}


def test_it_ends_rows(model):
    whole = model.decode({"inputs": INPUTS}, max_decode_length=6, **NEVER).ids.numpy()
    ends = {0: 4, 1: 1, 2: 2}
    calls = []

    def listener(position, token):
        calls.append(position)
        return np.array([position >= ends[row] for row in range(3)])

    found = model.decode({"inputs": INPUTS}, max_decode_length=6, listener=listener, **NEVER)
    for row, end in ends.items():
        np.testing.assert_array_equal(found.ids.numpy()[row, : end + 1], whole[row, : end + 1])
        assert not found.ids.numpy()[row, end + 1 :].any()
    assert calls == [0, 1, 2, 3, 4]


def test_what_it_raises_comes_through_and_the_next_call_is_as_ever(model):
    class Refusal(Exception):
        pass

    def refuse(position, token):
        calls.append(position)
        raise Refusal

    calls, before = [], model.compilations
    with pytest.raises(Refusal):
        model.decode({"inputs": INPUTS}, max_decode_length=6, listener=refuse, **NEVER)
    assert calls == [0]
    heard(model, INPUTS, max_decode_length=6, **NEVER)
    assert model.compilations <= before + 1  # However many functions listen.


def test_a_beam_search_has_none(model):
    with pytest.raises(ConfigError, match="no listener"):
        model.decode({"inputs": INPUTS}, beam_size=2, listener=print)


def test_a_mesh_has_none(build):
    mesh = mtf.Mesh("batch:2", layout="batch:batch")
    model = build("t5_tiny", "num_layers = 1", mesh=mesh)
    with pytest.raises(ConfigError, match="one device"):
        model.decode({"inputs": INPUTS[:2]}, max_decode_length=3, listener=print)
