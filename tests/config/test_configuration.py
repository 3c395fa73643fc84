import threading

import gin
import pytest

from mtf_models.config import Difference, parse_text
from mtf_models.errors import ConfigError

STACK = """\
depth = 2
toy_stack.depth = %depth
toy_stack.layers = [@ToyDense, @ToyAttention]
ToyDense.hidden = 3
decoder/ToyDense.hidden = 4
"""


def test_two_configurations_are_active_in_turn(toys):
    wide = parse_text("ToyDense.hidden = 100")
    narrow = parse_text("ToyDense.hidden = 1")
    for config, hidden in [(wide, 100), (narrow, 1), (wide, 100)]:
        with config.active():
            assert toys.ToyDense().hidden == hidden
    assert toys.ToyDense().hidden == 16


def test_blocks_can_be_nested(toys):
    wide = parse_text("ToyDense.hidden = 100")
    narrow = parse_text("ToyDense.hidden = 1")
    with wide.active():
        with narrow.active():
            assert toys.ToyDense().hidden == 1
            with narrow.active():
                assert toys.ToyDense().hidden == 1
        assert toys.ToyDense().hidden == 100


def test_a_failure_in_the_block_leaves_no_trace(toys):
    config = parse_text("ToyDense.hidden = 100")
    with pytest.raises(KeyError), config.active():
        raise KeyError
    assert toys.ToyDense().hidden == 16


def test_bindings_made_outside_come_back(toys):
    gin.parse_config("ToyAttention.heads = 5")
    gin.finalize()
    try:
        with parse_text("ToyDense.hidden = 100").active():
            assert toys.ToyAttention().heads == 4
        assert toys.ToyAttention().heads == 5
        assert gin.config_is_locked()
    finally:
        gin.clear_config()


def test_threads_do_not_see_each_others_configuration(toys):
    seen = []

    def build(hidden):
        for _ in range(20):
            with parse_text(f"ToyDense.hidden = {hidden}").active():
                seen.append(toys.ToyDense().hidden == hidden)

    threads = [threading.Thread(target=build, args=[hidden]) for hidden in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 60


def test_scopes_and_references_work_as_in_gin(toys):
    with parse_text(STACK).active():
        with gin.config_scope("decoder"):
            layers = toys.toy_stack()
        assert [layer.hidden for layer in toys.toy_stack()[::2]] == [3, 3]
    assert [type(layer).__name__ for layer in layers] == ["ToyDense", "ToyAttention"] * 2
    assert layers[0].hidden == 4


def test_a_query_evaluates_macros_and_references(toys):
    config = parse_text(STACK + "ToyAttention.kind = [@decoder/ToyModel.toy_decode, %depth]")
    assert config.query("toy_stack.depth") == 2
    assert config.query("toy.stack.toy_stack.layers")[0] is toys.ToyDense
    assert config.query("%depth") == 2
    assert config.query("ToyAttention.kind")[1] == 2


def test_a_query_falls_back_to_outer_scopes_then_to_the_default():
    config = parse_text(STACK)
    assert config.query("decoder/ToyDense.hidden") == 4
    assert config.query("encoder/ToyDense.hidden") == 3
    assert config.query("decoder/inner/ToyDense.hidden") == 4
    assert config.query("ToyDense.activation") is None
    assert config.query("ToyDense.activation", "gelu") == "gelu"
    assert config.query("%width", 7) == 7
    with pytest.raises(ConfigError, match=r"did you mean ToyDense"):
        config.query("ToyDens.hidden")
    with pytest.raises(ConfigError, match=r"selector\.parameter"):
        config.query("ToyDense")


def test_text_is_sorted_short_and_parsed_back_to_itself():
    config = parse_text("toy.layers.ToyDense.activation = 'gelu'\n" + STACK)
    assert config.text() == (
        "depth = 2\n"
        "\n"
        "toy_stack.depth = %depth\n"
        "toy_stack.layers = [@ToyDense, @ToyAttention]\n"
        "\n"
        "ToyDense.activation = 'gelu'\n"
        "ToyDense.hidden = 3\n"
        "\n"
        "decoder/ToyDense.hidden = 4\n"
    )
    assert parse_text(config.text()).text() == config.text()


def test_long_values_are_broken_into_lines_that_can_be_read_back():
    names = [f"variable_{number:03d}" for number in range(40)]
    config = parse_text(f"ToyAttention.kind = {names!r}\nToyDense.activation = {'word ' * 60!r}")
    assert max(map(len, config.text().splitlines())) <= 100
    again = parse_text(config.text())
    assert again.query("ToyAttention.kind") == names
    assert again.query("ToyDense.activation") == "word " * 60


def test_a_configuration_cannot_be_changed():
    config = parse_text(STACK)
    with pytest.raises(TypeError):
        config.macros["depth"] = 3
    with pytest.raises(AttributeError):
        config.macros = {}


def test_differences_are_those_of_values():
    ours = parse_text("width = 3\nToyDense.hidden = %width\nToyAttention.heads = 2")
    theirs = parse_text("ToyAttention.heads = 8\ntoy.layers.ToyDense.hidden =\\\n  3")
    assert ours.differences(theirs) == [Difference("ToyAttention.heads", "2", "8")]
    assert theirs.differences(ours) == [Difference("ToyAttention.heads", "8", "2")]


def test_an_unset_parameter_has_its_outer_value_or_its_default():
    ours = parse_text(
        "ToyDense.hidden = 16\ndecoder/ToyAttention.heads = 3\nToyAttention.heads = 3"
    )
    theirs = parse_text("ToyAttention.heads = 3\ntoy_stack.layers = [@ToyDense]")
    assert ours.differences(theirs) == [Difference("toy_stack.layers", None, "[@ToyDense]")]


def test_the_operative_text_holds_what_was_used_defaults_included(toys):
    config = parse_text(STACK)
    assert config.operative_text() == ""
    with config.active():
        toys.ToyDense()
        inside = config.operative_text()
    assert inside == "ToyDense.activation = 'relu'\nToyDense.hidden = 3\n"
    with config.active():
        toys.toy_stack()
    assert config.operative_text() == (
        "depth = 2\n"
        "\n"
        "toy_stack.depth = %depth\n"
        "toy_stack.layers = [@ToyDense, @ToyAttention]\n"
        "\n"
        "ToyAttention.heads = 4\n"
        "ToyAttention.kind = None\n"
        "ToyAttention.size = 8\n"
        "\n"
        "ToyDense.activation = 'relu'\n"
        "ToyDense.hidden = 3\n"
    )
    assert parse_text(config.operative_text()).differences(config) == [
        Difference("decoder/ToyDense.hidden", "3", "4")
    ]
