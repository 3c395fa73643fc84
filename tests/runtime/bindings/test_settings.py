"""What a config says of a run."""

import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings import settings

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


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("save_checkpoints_steps", 0, "is 0; it is a whole number from 1"),
        ("save_checkpoints_steps", 2.5, "is 2.5; it is a whole number from 1"),
        ("keep_checkpoint_max", 0, "is 0; it is a whole number from 1"),
        ("perplexity_eval_steps", 0, "is 0; it is a whole number from 1"),
        ("save_checkpoints_steps", None, "is None; it is a whole number from 1"),
        ("eval_every_steps", -1, "is -1; it is a whole number from 0"),
        ("train_steps", -5, "is -5; it is a whole number from 0"),
        ("batch_size", 0, r"is 0; write a number from 1, or \("),
        ("batch_size", ("tokens_per_batch", -8), r"is \('tokens_per_batch', -8\); write"),
        ("sequence_length", 0, "of inputs is 0; it is a whole number from 1"),
        ("sequence_length", "64", "is '64'; write a number, or feature name to number"),
        ("sequence_length", {"inputs": 8, "targets": 0}, "of targets is 0; it is a whole number"),
    ],
)
def test_numbers_out_of_range_are_refused(name, value, fault):
    with pytest.raises(ConfigError, match=rf"run\.{name} {fault}"):
        settings.RunSettings(**{name: value})


def test_all_numbers_out_of_range_are_refused_at_once():
    with pytest.raises(ConfigError) as error:
        settings.RunSettings(batch_size=0, eval_every_steps=-1, sequence_length=-2)
    for name in ("batch_size is 0", "eval_every_steps is -1", "targets is -2"):
        assert name in str(error.value)


def test_the_least_numbers_are_taken():
    made = settings.RunSettings(batch_size=1, train_steps=0, eval_every_steps=0, sequence_length=1)
    assert made.keep_checkpoint_max is None
    assert made.sequence_length == {"inputs": 1, "targets": 1}
