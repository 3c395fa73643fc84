import inspect

import pytest

from mtf_models.config import parse_text
from mtf_models.configurable import REQUIRED, configurable, registered, signature_of


def test_a_class_stays_itself():
    class Plain:
        def __init__(self, size=1):
            self.size = size

    assert configurable(module="toy.identity")(Plain) is Plain


def test_a_subclass_inherits_the_bindings_of_its_parent(toys):
    config = parse_text("ToyAttention.heads = 7\nToyCrossAttention.size = 3")
    with config.active():
        layer = toys.ToyCrossAttention()
        parent = toys.ToyAttention()
    assert (layer.heads, layer.size, layer.kind) == (7, 3, "cross")
    assert (parent.heads, parent.size) == (7, 8)


def test_the_caller_wins_over_a_binding(toys):
    with parse_text("ToyAttention.heads = 7").active():
        assert toys.ToyAttention(heads=2).heads == 2


def test_a_function_can_be_bound_as_a_method(toys):
    with parse_text("ToyModel.toy_decode.beam = 4").active():
        assert toys.decode("x") == ("x", 4)


def test_what_must_be_bound_is_missed(toys):
    with parse_text("").active(), pytest.raises(RuntimeError, match=r"layers"):
        toys.toy_stack()


def test_a_name_can_be_taken_once():
    with pytest.raises(ValueError, match=r"already exists"):

        @configurable(module="toy.layers")
        class ToyDense:
            pass


def test_signatures_are_recorded():
    dense = registered()["toy.layers.ToyDense"]
    assert dict(dense.parameters) == {"mesh": None, "hidden": 16, "activation": "relu"}
    assert dense.denied == {"mesh"}
    assert registered()["toy.stack.toy_stack"].parameters["layers"] is REQUIRED


def test_arguments_handed_on_count_as_parameters(toys):
    parameters, takes_any = signature_of(toys.ToyCrossAttention)
    assert parameters == {"kind": "cross", "heads": 4, "size": 8}
    assert not takes_any
    assert signature_of(toys.toy_options) == ({}, True)
    assert signature_of(lambda x: x) == ({"x": inspect.Parameter.empty}, False)
