"""docs/mnist.md: its program runs, learns, and splits what it says that it splits."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="module")
def program(repository):
    """What the names of the program stand for when it has ended."""
    page = (repository / "docs" / "mnist.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block.count("\n") < 120
    names = {}
    exec(compile(block, "docs/mnist.md", "exec"), names)
    return names


def test_layouts_do_not_change_its_losses(program):
    (alone, _), *others = program["results"]
    assert len(alone) == 120 and len(others) == 2
    for losses, _ in others:
        np.testing.assert_allclose(losses, alone, atol=1e-5)


def test_it_finds_nine_of_ten_digits(program):
    assert all(accuracy > 0.9 for _, accuracy in program["results"])


def test_it_begins_without_an_opinion(program):
    assert abs(program["results"][0][0][0] - np.log(10)) < 0.1


def test_its_blocks_are_those_of_the_image(program):
    """The first block of every row of blocks, next to the second, is the upper half."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, found = next(program["batches"]())
    upper = np.concatenate([images[:, 0, 0], images[:, 0, 1]], axis=2)[..., 0]
    np.testing.assert_array_equal(upper * 16, digits.images[order[:48], :4])
    np.testing.assert_array_equal(found, digits.target[order[:48]])


def test_each_mesh_splits_what_the_page_says(program):
    images = program["image_shape"]
    _, blocks, mixed = program["meshes"]
    assert blocks.layout(images) == (None, "b1", "b2", None, None, None)
    assert mixed.layout(images) == ("b1", None, None, None, None, None)
    store = program["Classifier"](mixed).store
    assert store.variables["hidden/kernel"].layout[-1] == "b2"


def test_a_step_runs_eagerly_too(program):
    mesh = program["meshes"][-1]
    model = program["Classifier"](mesh)
    images, digits = next(program["batches"]())
    features = model.features(images, digits.astype(np.int32))
    with mesh.calling():
        loss = model._train(features)
    np.testing.assert_allclose(float(loss), program["results"][0][0][0], atol=1e-5)
