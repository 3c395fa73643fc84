"""A beam search with caches finds what one without finds, which is written here in NumPy.

That one calls the whole model on every hypothesis as it grows.
"""

import numpy as np
import pytest

EOS, REAL = 1, 100
NEW, BEAM, ALPHA = 16, 4, 0.6
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)


def searched(model, row):
    """The best sequence for a row of inputs, and its score."""
    alive, sums, found = np.zeros([BEAM, NEW], np.int32), np.full(BEAM, -np.inf), []
    sums[0] = 0.0
    for count in range(NEW):
        # What stands where an id is predicted is not read, and must not be padding.
        asked = np.where(np.arange(NEW) == count, 2, alive)
        logits = model({"inputs": np.tile(row, [BEAM, 1]), "targets": asked}).logits.numpy()
        logits = logits[:, count].astype(np.float64)
        every = sums[:, np.newaxis] + logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        every = every[:, :REAL]
        best = np.argsort(-every, axis=None)[: 2 * BEAM]
        candidates = [(every[p, i], p, i) for p, i in zip(*divmod(best, REAL), strict=True)]
        for total, parent, last in candidates:
            if last == EOS:
                score = total / ((6 + count) / 6) ** ALPHA
                found.append((score, [*alive[parent, :count].tolist(), EOS]))
        going = [c for c in candidates if c[2] != EOS][:BEAM]
        alive = alive[[parent for _, parent, _ in going]]
        alive[:, count] = [last for *_, last in going]
        sums = np.array([total for total, *_ in going])
    score, ids = max(found) if found else (sums[0], alive[0].tolist())
    return ids, score


@pytest.fixture
def model(build, of_varied_ids):
    """A model whose sequences end at several lengths."""
    return of_varied_ids(build("t5_tiny", seed=2), ending=1.2)


def test_caches_change_no_beam(model):
    found = model.decode({"inputs": INPUTS}, beam_size=BEAM, alpha=ALPHA, max_decode_length=NEW)
    ends = []
    for row, ids, score in zip(INPUTS, found.ids.numpy(), found.scores.numpy(), strict=True):
        right, right_score = searched(model, row)
        ends.append(len(right))
        assert 0 not in right
        assert ids.tolist() == right + [0] * (NEW - len(right))
        assert score == pytest.approx(right_score, rel=1e-5)
    assert ends == [6, NEW, 11]
