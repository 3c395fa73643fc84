"""The table of the original's names against the sources that are installed beside t5."""

import ast
import importlib.util
from pathlib import Path

import pytest

from mtf_models.config.names import original, resolve, short
from mtf_models.config.original_names import LIVING

# Arguments that only code passes are left out of the table, but for those of classes.
SOURCES = [("mesh_tensorflow", "mesh_tensorflow"), ("t5", "t5/models"), ("t5", "t5/data")]


def is_configurable(decorator):
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(call) == "gin.configurable"


def module_of(decorator, default):
    for keyword in getattr(decorator, "keywords", []):
        if keyword.arg == "module":
            return ast.literal_eval(keyword.value)
    return default


def parameters_with_defaults(node):
    if isinstance(node, ast.ClassDef):
        node = next((n for n in node.body if getattr(n, "name", "") == "__init__"), None)
        if node is None:
            return []
    arguments = node.args
    defaults = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    return [a.arg for a in (*defaults, *arguments.kwonlyargs) if a.arg != "variable_dtype"]


def configurables():
    """Selector and parameters with a default of everything that the installed sources register."""
    for package, folder in SOURCES:
        spec = importlib.util.find_spec(package)
        if spec is None:
            continue
        root = Path(spec.submodule_search_locations[0]).parent
        for path in sorted((root / folder).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                for decorator in getattr(node, "decorator_list", []):
                    if is_configurable(decorator):
                        yield (
                            f"{module_of(decorator, module)}.{node.name}",
                            (parameters_with_defaults(node)),
                        )


@pytest.fixture(scope="module")
def installed():
    found = dict(configurables())
    if not any(name.startswith("mesh_tensorflow") for name in found):
        pytest.skip("the original is not installed")
    return found


def test_every_name_of_the_original_is_known(installed):
    known = {*original(), *(f"{m}.{name}" for m, names in LIVING.items() for name in names)}
    assert sorted(installed.keys() - known) == []
    # Bound by t5's infer_multi_file.gin only.
    assert known - installed.keys() == {"mesh_tensorflow.transformer.utils.decode_from_files"}


def test_every_parameter_with_a_default_is_known(installed):
    missing = {
        f"{name}.{parameter}"
        for name, parameters in installed.items()
        if name in original()
        for parameter in parameters
        if parameter not in original()[name].parameters
    }
    assert missing == set()


def test_inherited_parameters_are_known():
    cross = original()["mesh_tensorflow.transformer.transformer_layers.EncDecAttention"]
    assert cross.parameters["num_heads"] == 8
    assert cross.parameters["relative_attention_type"] is None


@pytest.mark.parametrize(
    ("full", "brief"),
    [
        ("mesh_tensorflow.transformer.transformer.Unitransformer", "Unitransformer"),
        ("mesh_tensorflow.transformer.utils.run", "run"),
        ("mesh_tensorflow.transformer.utils.decode", "utils.decode"),
        ("mesh_tensorflow.optimize.product_learning_rate", "optimize.product_learning_rate"),
        # gin has a configurable `constant` of its own.
        (
            "mesh_tensorflow.transformer.learning_rate_schedules.constant",
            "learning_rate_schedules.constant",
        ),
        ("Bitransformer.decode", "Bitransformer.decode"),
        ("Unitransformer.sample_autoregressive", "Unitransformer.sample_autoregressive"),
    ],
)
def test_the_shortest_name_means_the_full_one(full, brief):
    assert short(full) == brief
    assert resolve(brief).selector == full
