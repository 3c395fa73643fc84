import pytest

SAY_NOTHING = {"utils", "util", "helpers", "helper", "misc", "common"}


def test_gin_holds_no_python(repository):
    # A gin/__init__.py would be imported in place of gin-config.
    assert list((repository / "gin").rglob("*.py")) == []


def test_gin_files_lie_in_subfolders(repository):
    assert [path.name for path in (repository / "gin").iterdir() if path.is_file()] == []
    assert list((repository / "gin").rglob("*.gin")) != []


def test_data_is_no_package(repository):
    assert not (repository / "data" / "__init__.py").exists()


@pytest.mark.parametrize("folder", ["mtf_models", "data", "tests"])
def test_names_say_what_a_file_is_about(repository, folder):
    paths = (repository / folder).rglob("*")
    assert [path for path in paths if path.stem.removeprefix("test_") in SAY_NOTHING] == []


def test_every_folder_of_the_package_is_a_package(repository):
    folders = [
        path
        for path in (repository / "mtf_models").rglob("*")
        if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py"))
    ]
    assert [path for path in folders if not (path / "__init__.py").exists()] == []


def test_the_package_is_typed(repository):
    assert (repository / "mtf_models" / "py.typed").exists()
