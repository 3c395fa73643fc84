import ast

import pytest

PRIVATE_TENSORFLOW = ".".join(["tensorflow", "python"])
BUILTIN_GENERICS = {"dict", "frozenset", "list", "set", "tuple", "type"}


@pytest.mark.parametrize("folder", ["mtf_models", "data", "gin"])
def test_tensorflow_is_used_through_its_public_interface(repository, folder):
    files = [p for p in (repository / folder).rglob("*") if p.suffix in (".py", ".gin")]
    assert [path for path in files if PRIVATE_TENSORFLOW in path.read_text("utf-8")] == []


class NewAxes(ast.NodeVisitor):
    """Finds subscripts with None or newaxis, which corrupt memory when a tensor is on a mesh."""

    def __init__(self):
        self.lines = []

    def visit_Subscript(self, node):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not is_type(node.value) and any(is_new_axis(part) for part in parts):
            self.lines.append(node.lineno)
        self.generic_visit(node)


def is_type(node):
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name in BUILTIN_GENERICS or name[:1].isupper()


def is_new_axis(node):
    is_none = isinstance(node, ast.Constant) and node.value is None
    return is_none or getattr(node, "attr", getattr(node, "id", "")) == "newaxis"


def new_axes(tree):
    visitor = NewAxes()
    visitor.visit(tree)
    return visitor.lines


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x[..., None]", [1]),
        ("f(x)[tf.newaxis]", [1]),
        ("x[:, newaxis, 0]", [1]),
        ("x[0, 1:]", []),
        ("def f(x: dict[str, None]) -> Callable[..., None]: ...", []),
        ("x: typing.Generator[int, None, None]", []),
    ],
)
def test_new_axes_are_found(source, found):
    assert new_axes(ast.parse(source)) == found


def test_no_subscript_makes_an_axis(modules):
    found = {path: new_axes(tree) for path, tree in modules.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def public_functions(body):
    """The public functions of a module or class, methods of its public classes included."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body)
        elif isinstance(node, ast.FunctionDef) and (
            not node.name.startswith("_") or node.name in ("__init__", "__call__")
        ):
            yield node


def untyped(function):
    """What a function leaves without a type."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    names = [
        argument.arg
        for argument in arguments
        if argument and argument.annotation is None and argument.arg not in ("self", "cls")
    ]
    returns = function.returns is not None or function.name == "__init__"
    return names if returns else [*names, "return"]


def test_public_functions_are_typed(modules):
    found = {
        f"{path}:{function.lineno} {function.name}": untyped(function)
        for path, tree in modules.items()
        for function in public_functions(tree.body)
    }
    assert {name: missing for name, missing in found.items() if missing} == {}
