"""The vocabularies of a model whose config names a task, or none."""

import pytest

from mtf_models.config import parse
from mtf_models.errors import ConfigError
from mtf_models.runtime.original.used_model import vocabularies_of


@pytest.fixture
def config():
    return parse(["models/t5.1.1.small.gin"])


@pytest.mark.parametrize("size", [32100, 32128])
def test_without_a_task_it_is_that_of_t5(config, size):
    found = vocabularies_of(config, {"inputs": size, "targets": size})
    assert found.targets.encode("the") == [8]  # As in T5's published vocabulary.


@pytest.mark.parametrize("size", [384, 32000, 250112])
def test_without_a_task_no_other_vocabulary_is_read_as_that_of_t5(config, size):
    with pytest.raises(ConfigError, match=f"not T5's of 32100 ids: it has {size} for targets"):
        vocabularies_of(config, {"inputs": 32128, "targets": size})
