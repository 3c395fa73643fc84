"""Every layer, stack, vocabulary and model of the package keeps what is promised of all.

By default one case of each class runs eagerly on one layout, those of a subject together, but for
whole models; the tests marked slow run those too, and compile every case on layouts that split its
dimensions in every way.
"""

import gc

import pytest

import mtf_models as mtf
from layer_cases import CASES, SUBJECTS
from layer_cases.case import ROWS, X, together
from mtf_models.errors import ConfigError
from mtf_models.runtime.model.catalogue import classes
from mtf_models.runtime.registry import register
from mtf_models.testing import Placement, check_layer, covering
from mtf_models.transformer.feed_forward import DenseReluDense

# Where variables begin at 0 the gradients of others would be 0, whatever they should be.
NOISE = 0.1


def lacking():
    """The classes that no case is of."""
    made = {found for found in classes() if found.__module__.startswith("mtf_models.")}
    return {found.__name__ for found in made - {case.cls for case in CASES}}


def test_every_class_has_a_case():
    register()
    assert lacking() == set()


def test_a_class_without_a_case_is_noticed():
    register()

    class NewLayer(DenseReluDense):
        __module__ = "mtf_models.transformer.new"

    assert lacking() == {"NewLayer"}
    del NewLayer
    gc.collect()  # Classes are known as long as they are there.
    assert lacking() == set()


def test_names_tell_cases_apart():
    assert len({case.name for case in CASES}) == len(CASES)


TO_ENCODERS = [case for case in CASES if "encoded" in case.inputs]


@pytest.mark.parametrize("case", TO_ENCODERS, ids=lambda case: case.name)
def test_layers_that_attend_to_an_encoder_say_that_there_is_none(case):
    mesh = mtf.Mesh()
    given = [
        mtf.import_tf_tensor(mesh, a.astype("f" if a.dtype.kind == "f" else "i"), s)
        for s, a in (X, ROWS)
    ]
    with mtf.VariableStore(mesh).eager(), pytest.raises(ConfigError) as error:
        case.function(*given)
    assert "attends to an encoder, and this stack has none" in str(error.value)
    assert "decoder/make_layer_stack.layers" in str(error.value)


QUICK = ("feed forward", "vocabularies")


def by_cost(subject):
    marks = [] if subject.name in QUICK else [pytest.mark.slow]
    if subject.name == "models":
        marks = [pytest.mark.nightly]
    return pytest.param(subject, id=subject.name, marks=marks)


@pytest.mark.parametrize("subject", [by_cost(subject) for subject in SUBJECTS])
def test_classes_keep_what_is_promised(subject):
    function, inputs = together(subject.first_cases)
    placements = [Placement("m:2", subject.layout)]
    check_layer(function, inputs, placements=placements, modes=["eager"], noise=NOISE)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_keep_what_is_promised_on_layouts_that_cover(case):
    check_layer(case.function, case.inputs, placements=covering, noise=NOISE)
