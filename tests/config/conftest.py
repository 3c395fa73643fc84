"""Small configurables under names of their own, and the real ones of the package."""

from types import SimpleNamespace

import gin
import pytest

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.runtime import registry


@configurable(module="toy.layers")
class ToyAttention:
    def __init__(self, heads=4, size=8, kind=None):
        self.heads, self.size, self.kind = heads, size, kind


@configurable(module="toy.layers")
class ToyCrossAttention(ToyAttention):
    def __init__(self, kind="cross", **kwargs):
        super().__init__(kind=kind, **kwargs)


@configurable(module="toy.layers", denylist=["mesh"])
class ToyDense:
    def __init__(self, mesh=None, hidden=16, activation="relu"):
        self.hidden, self.activation = hidden, activation


@configurable(module="toy.stack")
def toy_stack(layers=REQUIRED, depth=1):
    return [layer() for _ in range(depth) for layer in layers]


@configurable(module="ToyModel", name="toy_decode")
def decode(inputs, beam=1):
    return inputs, beam


@configurable(module="toy.stack")
def toy_options(**kwargs):
    return kwargs


@pytest.fixture(scope="session")
def toys():
    """What gin files can bind and refer to in these tests."""
    return SimpleNamespace(
        ToyAttention=ToyAttention,
        ToyCrossAttention=ToyCrossAttention,
        ToyDense=ToyDense,
        toy_stack=toy_stack,
        decode=decode,
        toy_options=toy_options,
    )


@pytest.fixture(scope="session")
def zoo():
    """The configurables of the package, registered."""
    registry.register()


@pytest.fixture(autouse=True)
def untouched_gin():
    """No test leaves a trace in gin's state."""
    yield
    assert gin.config_str().strip() == ""
    assert not gin.config_is_locked()
