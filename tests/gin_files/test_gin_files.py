from importlib import resources

from mtf_models import gin_files


def test_a_checkout_reads_the_files_of_its_root(repository):
    assert gin_files.folder() == repository / "gin"


def test_gin_files_are_resources_of_subpackages(repository):
    for path in (repository / "gin").glob("*/*.gin"):
        package = resources.files(f"mtf_models.gin_files.{path.parent.name}")
        assert package.joinpath(path.name).read_text("utf-8") == path.read_text("utf-8")
