"""Every gradient equals the original's."""

import numpy as np


def test_every_gradient(recorded, model):
    found = {n: g.numpy() for n, g in model.gradients(recorded.group("plain/")).items()}
    right = recorded.group("grad/")
    assert found.keys() == right.keys()
    # The recorded ones are themselves off by up to 2.1e-5 of a variable's largest entry, ours by
    # less than 1e-5, as the recomputation in float64 (test_float64.py) tells.
    # A sum of large terms that nearly cancel has their rounding errors.
    rounding = 1e-7 * max(np.max(np.abs(gradient)) for gradient in right.values())
    for name, gradient in right.items():
        difference = np.max(np.abs(found[name] - gradient))
        assert difference < 3e-5 * np.max(np.abs(gradient)) + rounding, name


def test_norms_of_gradients_of_packed_rows(recorded, model):
    found = model.gradients(recorded.group("packed/"))
    right = recorded.group("packed_train/grad_norm/")
    assert found.keys() == right.keys()
    rounding = 1e-7 * max(right.values())
    for name, norm in right.items():
        found_norm = np.linalg.norm(found[name].numpy())
        np.testing.assert_allclose(found_norm, norm, 1e-5, rounding, err_msg=name)
