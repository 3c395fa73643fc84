"""The original's beam searches and greedy decoding on a table of logits (fixtures/ops)."""

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.decode import rows
from mtf_models.decode.step import Step

LENGTH = 6
"""The original's loops leave the last of seven positions empty."""


class Logits(Step):
    """log softmax(table[previous] + position's logits + row's logits)."""

    def __init__(self, case, times=1):
        self.case, self.times = case, times

    def repeated(self, times):
        return Logits(self.case, self.times * times)

    def __call__(self, previous, position, caches):
        table, positions, bias = (self.named(previous.mesh, n) for n in ("table", "pos", "bias"))
        prev, vocab = table.shape
        found = mtf.gather(table, previous, prev)
        found += mtf.gather(positions, position, positions.shape.dims[0])
        found += rows.repeated(bias, self.times)
        return mtf.log_softmax(found, vocab), {}

    def named(self, mesh, name):
        shape = mtf.Shape(str(self.case[f"in_shape/{name}"]))
        return mtf.import_tf_tensor(mesh, self.case[f"in/{name}"], shape)


@pytest.fixture(scope="module")
def recorded(fixtures_dir):
    cases = {}
    with np.load(fixtures_dir / "ops" / "ops.npz") as arrays:
        for key in arrays.files:
            case, what = key.split("/", 1)
            cases.setdefault(case, {})[what] = arrays[key]
    return cases


VOCAB = mtf.Dimension("vocab", 9)

SEARCHES = {
    "beam_search_exact": {"alpha": 0.6},
    "beam_search_no_early_stop": {"alpha": 0.6, "stop_early": False},
    "beam_search_prefilter0": {"alpha": 0.6},
    "beam_search_prefilter2": {"alpha": 0.6, "num_prefilter": 2},
    "beam_search_alpha0_len4": {"alpha": 0.0, "stop_early": False, "length": 4},
}


@pytest.mark.parametrize("name", SEARCHES)
def test_beam_searches(run, recorded, name):
    case, options = recorded[name], dict(SEARCHES[name])
    length = options.pop("length", LENGTH)
    beam = case["out/ids"].shape[1]
    ids, scores, _ = run(
        [[0] * length] * 2, Logits(case), vocab=VOCAB, beam_size=beam, num_return=beam, **options
    )
    np.testing.assert_array_equal(ids, case["out/ids"][:, :, :length])
    np.testing.assert_allclose(scores, case["out/scores"], rtol=1e-5)


def test_greedy_decoding(run, recorded):
    case = recorded["greedy_decode_toy"]
    ids, _, _ = run([[0] * LENGTH] * 2, Logits(case), vocab=VOCAB)
    right = case["out/ids"][:, :LENGTH]
    # The original goes on after the end of a row until all have ended.
    ended = np.cumsum(right == 1, 1) - (right == 1)
    np.testing.assert_array_equal(ids, np.where(ended > 0, 0, right))
