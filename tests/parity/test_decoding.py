"""Greedy decoding equals the original's."""

import numpy as np


def test_greedy_ids(recorded, model):
    # A language model continues its prompts by the length of the targets.
    length = recorded["plain/targets"].shape[1] if recorded.is_lm else None
    result = model.decode({"inputs": recorded["decode/inputs"]}, max_decode_length=length)
    np.testing.assert_array_equal(result.ids, recorded["decode/greedy_ids_cleaned"])


def test_scores_are_those_of_the_decoded_ids(recorded, model):
    inputs = recorded["decode/inputs"]
    if recorded.is_lm:  # prompts are read and not scored
        result = model.decode({"inputs": inputs}, max_decode_length=8)
        prompts = model.score({"targets": np.pad(inputs, [[0, 0], [0, 8]])})
        rescored = model.score({"targets": result.ids}) - prompts
    else:
        result = model.decode({"inputs": inputs})
        rescored = model.score({"inputs": inputs, "targets": result.ids})
    np.testing.assert_allclose(result.scores, rescored, rtol=1e-5)
