import gin
import pytest

from mtf_models.config import parse, parse_text
from mtf_models.errors import ConfigError


def faults(text):
    with pytest.raises(ConfigError) as error:
        parse_text(text, "my.gin")
    return str(error.value)


def test_every_fault_is_reported_with_its_place_and_the_nearest_names():
    message = faults(
        "ToyAttention.heads = 2\n"
        "ToyAtention.heads = 2\n"
        "toy.layers.ToyDense.hiden = 3\n"
        "toy_stack.depth = %dept\n"
        "toy_stack.layers = [@ToyDense, @encoder/ToyDens]\n"
        "depth = 3\n"
        "ToyDense.mesh = 1\n"
    )
    assert message.splitlines() == [
        "6 faults in the configuration:",
        "  my.gin:2: there is no configurable 'ToyAtention'; did you mean ToyAttention or "
        "ToyCrossAttention?",
        "  my.gin:3: ToyDense has no parameter 'hiden'; did you mean hidden?",
        "  my.gin:5: in @encoder/ToyDens: there is no configurable 'ToyDens'; "
        "did you mean ToyDense?",
        "  my.gin:7: ToyDense.mesh is set by the program and cannot be bound",
        "  my.gin:4: the macro %dept is not defined; did you mean depth?",
        "  my.gin:6: nothing uses the macro depth; did you mean dept?",
    ]


def test_names_of_the_original_are_near_before_they_are_built():
    assert "did you mean Unitransformer" in faults("Unitransfomer.d_model = 3")


def test_a_misspelt_parameter_of_an_inheriting_class_is_found():
    assert "ToyCrossAttention has no parameter 'headz'; did you mean heads?" in faults(
        "ToyCrossAttention.headz = 1"
    )


def test_a_function_of_any_arguments_takes_any():
    config = parse_text("toy_options.whatever = 1")
    assert config.query("toy_options.whatever") == 1


def test_a_parameter_on_the_command_line_is_named_by_its_flag():
    with pytest.raises(ConfigError, match=r"--gin_param 2:1: there is no configurable 'Nope'"):
        parse([], ["ToyDense.hidden = 1", "Nope.x = 1"])


def test_an_ambiguous_name_asks_for_more_of_it():
    assert "write optimize.product_learning_rate or learning_rate_schedules." in faults(
        "product_learning_rate.offset = 1"
    )


def test_macros_may_be_defined_after_their_use_and_through_others():
    config = parse_text("ToyDense.hidden = %a\na = %b\nb = %c/d\nc/d = 9")
    assert config.query("ToyDense.hidden") == 9


def test_a_macro_that_is_defined_by_itself_is_refused():
    message = faults("ToyDense.hidden = %a\na = [%b]\nb = {'x': %a}")
    assert "my.gin:2: the macro a is defined by itself" in message
    assert "my.gin:3: the macro b is defined by itself" in message


def test_an_unused_macro_is_noticed():
    assert parse_text("spare = 1").notices == ("macros that nothing uses: spare",)


def test_a_misspelt_scope_is_refused_and_an_unknown_one_noticed():
    assert "my.gin:1: nothing opens the scope of encodr/ToyDense.hidden; did you mean encoder?" in (
        faults("encodr/ToyDense.hidden = 1")
    )
    config = parse_text("student/decoder/ToyDense.hidden = 1\nmine/ToyDense.hidden = 2")
    assert config.notices == ("scopes that no model of this package opens: mine",)
    text = "toy_stack.layers = [@mine/ToyDense]\nmine/ToyDense.hidden = 2"
    assert parse_text(text).notices == ()


def test_constants_of_the_program_are_macros_too():
    gin.constant("toy.constants.WIDTH", 11)
    try:
        assert parse_text("ToyDense.hidden = %WIDTH").query("ToyDense.hidden") == 11
    finally:
        gin.clear_config(clear_constants=True)


def test_configurables_registered_with_gin_itself_are_bound_and_checked():
    @gin.configurable(module="elsewhere.layers")
    def foreign_layer(units=1):
        return units

    config = parse_text("foreign_layer.units = 5")
    with config.active():
        assert foreign_layer() == 5
    assert "foreign_layer has no parameter 'unit'; did you mean units?" in faults(
        "foreign_layer.unit = 5"
    )


def test_modules_of_users_are_imported(tmp_path, monkeypatch):
    (tmp_path / "toy_extension.py").write_text(
        "from mtf_models.configurable import configurable\n"
        "@configurable(module='toy_extension')\n"
        "def toy_extension_rate(value=1): return value\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = parse_text("toy_extension_rate.value = 2\nimport toy_extension")
    assert config.query("toy_extension_rate.value") == 2
    assert "my.gin:1: the module no_such_module cannot be imported" in faults(
        "import no_such_module"
    )


def test_dynamic_registration_is_refused():
    assert "dynamic registration is not supported" in faults(
        "from __gin__ import dynamic_registration"
    )


def test_what_only_the_program_can_set_is_refused(zoo):
    with pytest.raises(ConfigError) as error:
        parse_text(
            "LayerStack.layers = []\nUnitransformer.layer_stack = None\nsublayer_dropout.x = 3",
            "a.gin",
        )
    for line, key in enumerate(
        ("LayerStack.layers", "Unitransformer.layer_stack", "sublayer_dropout.x"), 1
    ):
        assert f"a.gin:{line}: {key} is set by the program and cannot be bound" in str(error.value)
