"""Which variable of an initial checkpoint each variable of a model begins from."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.config import parse
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.initial_names import matched
from mtf_models.runtime.registry import register
from mtf_models.runtime.training.initial_checkpoint import InitialCheckpoint, begin

FOLDER = Path(__file__).parents[2] / "fixtures" / "t5_1_1_tiny"
SIZES = ("make_bitransformer.input_vocab_size = 100", "make_bitransformer.output_vocab_size = 100")
FLEXIBLE = (
    "flexible_ckpt_init_mapping.new_layers = [[1], None]",
    "init_checkpoint_variable_mapping.mapping_fn = @flexible_ckpt_init_mapping()",
)
FILTERED = (
    "one/flexible_ckpt_init_mapping.return_mapping_fn = False",
    "should_load_variable.filter_fn = @one/flexible_ckpt_init_mapping()",
)
# A layer more after the first one of each block of the encoder.
INSERTED = """encoder/make_layer_stack.layers = [
    @transformer_layers.SelfAttention,
    @transformer_layers.DenseReluDense,
    @transformer_layers.DenseReluDense]"""


def scopes(tower, blocks, layers, rest="rms_norm/scale"):
    return [
        f"{tower}/block_{block:03d}/layer_{layer:03d}/{rest}"
        for block in range(blocks)
        for layer in range(layers)
    ]


def match(wanted, stored, *params):
    register()
    with parse([], params).active():
        return matched(wanted, stored)


def test_without_bindings_names_are_the_same_or_historical():
    wanted = ["a/rms_norm/scale", "b", "c"]
    found, skipped = match(wanted, ["a/layer_norm/scale", "b", "d"])
    assert (found, skipped) == ({"a/rms_norm/scale": "a/layer_norm/scale", "b": "b"}, [])


def test_inserted_layers_move_the_others():
    wanted = ["shared/embedding", *scopes("encoder", 2, 3), *scopes("decoder", 2, 3)]
    stored = ["shared/embedding", *scopes("encoder", 2, 2), *scopes("decoder", 2, 3)]
    found, skipped = match(wanted, stored, *FLEXIBLE)
    assert skipped == []
    moved = {name: other for name, other in found.items() if name != other}
    assert moved == {
        f"encoder/block_{block}/layer_002/rms_norm/scale": (
            f"encoder/block_{block}/layer_001/rms_norm/scale"
        )
        for block in ("000", "001")
    }
    new = scopes("encoder", 2, 3)[1::3]
    assert set(wanted).difference(found) == set(new)
    assert match(wanted, stored, *FLEXIBLE, *FILTERED, "one/" + FLEXIBLE[0])[1] == new


def test_blocks_may_be_cut_in_another_way():
    binding = "init_checkpoint_variable_mapping.mapping_fn = @flexible_ckpt_init_mapping()"
    wanted, stored = scopes("transformer", 3, 4, "q"), scopes("transformer", 6, 2, "q")
    found, _ = match(wanted, stored, binding)
    assert found == dict(zip(wanted, stored, strict=True))


@configurable(module="names_of_a_user")
def renamed(name):
    return None if name == "new" else name.replace("ours", "theirs")


@configurable(module="names_of_a_user")
def wanted_at_all(name):
    return name != "b"


def test_functions_of_a_users_own():
    found, skipped = match(
        ["ours/a", "new", "b"],
        ["theirs/a", "new", "b", "ours/a"],
        "init_checkpoint_variable_mapping.mapping_fn = @renamed",
        "should_load_variable.filter_fn = @wanted_at_all",
    )
    assert (found, skipped) == ({"ours/a": "theirs/a"}, ["b"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (FLEXIBLE[1:], "encoder/ has 6 layers, 0 new ones left out.* 4: name in"),
        (
            ("flexible_ckpt_init_mapping.new_layers = [[1]]", FLEXIBLE[1]),
            r"new_layers is \[\[1\]\]; give a list of numbers for each of encoder/, decoder/",
        ),
    ],
)
def test_numbers_of_layers_that_do_not_fit_are_refused(params, message):
    wanted = [*scopes("encoder", 2, 3), *scopes("decoder", 2, 3)]
    stored = [*scopes("encoder", 2, 2), *scopes("decoder", 2, 3)]
    with pytest.raises(ConfigError, match=message):
        match(wanted, stored, *params)


def test_a_model_with_inserted_layers_begins_with_the_old_ones(caplog):
    config = str(FOLDER / "operative_config.gin")
    model = mtf.build_model(
        [config], [*SIZES, INSERTED, *FLEXIBLE, *FILTERED, "one/" + FLEXIBLE[0]]
    )
    trainer = mtf.Trainer(model)
    begun = begin(trainer, InitialCheckpoint.find(FOLDER))
    stored = tf.train.load_checkpoint(str(FOLDER / "model.ckpt-3"))
    scope = "encoder/block_001/layer_00{}/DenseReluDense/wo/kernel"
    for name in (scope.format(2), scope.format(2) + "_slot_vr"):
        right = stored.get_tensor(name.replace("layer_002", "layer_001"))
        np.testing.assert_array_equal(trainer.variables[name].numpy(), right)
    assert scope.format(1) in begun.new
    assert len(begun.new) == 2 * 4  # of two blocks: a norm and three kernels
    assert trainer.step_number == 3
