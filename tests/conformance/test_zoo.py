"""Every layer, stack, vocabulary and model of the package keeps what is promised of all.

By default one case of each class runs eagerly on one layout, those of a subject together; the
tests marked slow compile every case on layouts that split its dimensions in every way.
"""

import importlib
import inspect
import pkgutil

import pytest

from layer_cases import CASES, SUBJECTS
from layer_cases.case import together
from mtf_models import transformer
from mtf_models.configurable import registered
from mtf_models.testing import Placement, check_layer, covering
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.stack import LayerStack

# Where variables begin at 0 the gradients of others would be 0, whatever they should be.
NOISE = 0.1


def classes(modules):
    """What has to keep the promises: layers, stacks, and whatever else gin may name."""
    names = {selector.rsplit(".", 1)[1] for selector in registered()}
    return {
        found
        for module in modules
        for found in vars(module).values()
        if inspect.isclass(found)
        and found.__module__ == module.__name__
        and not inspect.isabstract(found)
        and not found.__name__.startswith("_")
        and (issubclass(found, TransformerLayer | LayerStack) or found.__name__ in names)
    }


def modules():
    packages = pkgutil.walk_packages(transformer.__path__, f"{transformer.__name__}.")
    return [importlib.import_module(found.name) for found in packages]


def lacking(modules):
    """The classes that no case is of."""
    return {found.__name__ for found in classes(modules) - {case.cls for case in CASES}}


def test_every_class_has_a_case():
    assert lacking(modules()) == set()


def test_a_class_without_a_case_is_noticed(monkeypatch):
    module = importlib.import_module("mtf_models.transformer.feed_forward")

    class New(module.DenseReluDense):
        __module__ = module.__name__

    monkeypatch.setattr(module, "New", New, raising=False)
    assert lacking(modules()) == {"New"}


def test_names_tell_cases_apart():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_classes_keep_what_is_promised(subject):
    function, inputs = together(subject.first_cases)
    placements = [Placement("m:2", subject.layout)]
    check_layer(function, inputs, placements=placements, modes=["eager"], noise=NOISE)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_keep_what_is_promised_on_layouts_that_cover(case):
    check_layer(case.function, case.inputs, placements=covering, noise=NOISE)
