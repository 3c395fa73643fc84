"""What a config says of a run."""

import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.runtime import settings

LENGTHS = {"inputs": 512, "targets": 128}


@pytest.mark.parametrize(
    ("batch_size", "replicas", "sequences"),
    [
        (12, 4, 12),
        (("sequences_per_batch", 12), 4, 12),
        (("sequences_per_replica", 12), 4, 48),
        (("tokens_per_batch", 65536), 4, 128),
        (("tokens_per_replica", 2048), 4, 16),
        (("tokens_per_replica", 2048), 1, 4),
    ],
)
def test_batch_sizes(batch_size, replicas, sequences):
    assert settings.compute_batch_size(batch_size, LENGTHS, replicas) == sequences


@pytest.mark.parametrize(
    ("batch_size", "message"),
    [
        (("tokens_per_step", 2048), "sequences_per_batch"),
        (("words_per_batch", 2048), "tokens_per_replica"),
        (("tokens_per_batch", 1000), "nearest are 512 and 1024"),
    ],
)
def test_other_batch_sizes_are_refused(batch_size, message):
    with pytest.raises(ConfigError, match=message):
        settings.compute_batch_size(batch_size, LENGTHS, 1)


def test_a_replica_is_a_part_of_the_batch():
    made = settings.RunSettings(batch_size=("sequences_per_replica", 3))
    mesh = mtf.Mesh("batch:2;model:4", layout="batch:batch,heads:model")
    assert settings.batch_size_on(mesh, made) == 6
    assert settings.batch_size_on(mtf.Mesh("model:8", layout="heads:model"), made) == 3


def test_steps_are_counted_or_computed_from_tokens():
    made = settings.RunSettings(batch_size=128, sequence_length=LENGTHS, train_steps=7)
    assert settings.total_steps(mtf.Mesh(), made) == 7
    made = settings.RunSettings(batch_size=128, sequence_length=LENGTHS)
    assert settings.total_steps(mtf.Mesh(), made) == 2**36 // (128 * 512)


def test_one_length_is_that_of_all_features():
    made = settings.RunSettings(sequence_length=64)
    assert made.sequence_length == {"inputs": 64, "targets": 64}


def test_dtypes_are_read_by_name():
    found = settings.get_variable_dtype("bfloat16", "float32", "bfloat16")
    assert [d.name for d in found] == ["bfloat16", "float32", "bfloat16"]


def test_the_model_types_are_those_of_the_original():
    with pytest.raises(ConfigError, match=r"'delimitedlm'; did you mean delimited_lm"):
        settings.RunSettings(model_type="delimitedlm")
