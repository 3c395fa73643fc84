import ast
import statistics

MAX_FILE = 500
MEDIAN_FILE = 150
MAX_FUNCTION = 60


def line_counts(repository):
    files = sorted((repository / "mtf_models").rglob("*.py"))
    return {path: len(path.read_text("utf-8").splitlines()) for path in files}


def test_no_file_is_too_long(repository):
    assert {p: n for p, n in line_counts(repository).items() if n > MAX_FILE} == {}


def test_the_median_file_is_short(repository):
    assert statistics.median(line_counts(repository).values()) <= MEDIAN_FILE


def test_no_function_is_too_long(modules):
    functions = {
        f"{path}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: n for name, n in functions.items() if n > MAX_FUNCTION} == {}
