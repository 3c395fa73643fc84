import base64
import hashlib
import sys
from importlib import metadata

import pytest
from packaging.version import Version

from mtf_models import installation


@pytest.mark.parametrize("name", installation.OVERLAPPED)
def test_installed_files_are_those_of_the_release(name):
    distribution = metadata.distribution(name)
    assert not Version(distribution.version).is_prerelease
    assert len(distribution.files) > 20
    assert installation.changed_files(distribution) == []


def make_distribution(folder, files, recorded):
    """A distribution `demo`, whose RECORD holds the hashes of other contents than its files."""
    info = folder / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
        "Requires-Dist: absent-library>=3\n"
        "Requires-Dist: numpy<1.0\n"
        "Requires-Dist: packaging>=20\n"
        "Requires-Dist: another-absent; extra == 'test'\n"
    )
    lines = ["demo-1.0.dist-info/RECORD,,", "demo-1.0.dist-info/METADATA,,"]
    for name, content in recorded.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"demo/{name},sha256={digest},{len(content)}")
    (info / "RECORD").write_text("\n".join(lines) + "\n")
    (folder / "demo").mkdir()
    for name, content in files.items():
        (folder / "demo" / name).write_bytes(content)
    return metadata.PathDistribution(info)


def test_a_changed_and_a_missing_file_are_found(tmp_path):
    recorded = {"kept.py": b"x = 1\n", "tampered.py": b"x = 1\n", "gone.py": b""}
    files = {"kept.py": b"x = 1\n", "tampered.py": b"x = 2\n", "extra.py": b"x = 3\n"}
    assert installation.changed_files(make_distribution(tmp_path, files, recorded)) == [
        "demo/tampered.py (not the release's)",
        "demo/gone.py (missing)",
    ]


def test_a_missing_record_is_found(tmp_path):
    distribution = make_distribution(tmp_path, {}, {})
    (tmp_path / "demo-1.0.dist-info" / "RECORD").unlink()
    assert installation.changed_files(distribution) == ["RECORD (missing)"]


def test_unmet_requirements_are_all_listed(tmp_path, monkeypatch):
    make_distribution(tmp_path, {}, {})
    monkeypatch.syspath_prepend(tmp_path)
    numpy = metadata.version("numpy")
    assert installation.unmet_requirements("demo") == [
        "demo needs absent-library>=3, which is not installed.",
        f"demo needs numpy<1.0; {numpy} is installed.",
    ]


def test_this_package_finds_all_that_it_needs():
    assert installation.unmet_requirements() == []


def test_a_package_that_is_not_installed():
    assert "is not installed" in installation.unmet_requirements("no-such-package")[0]


def test_versions():
    found = installation.versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["tensorflow"] == metadata.version("tensorflow")
    assert found["mtf_models"] == metadata.version("mtf_models")


def test_the_mending_command_pins_what_is_installed():
    command = installation.mending_command(["seqio", "absent-library", "t5"])
    assert command.startswith(f"{sys.executable} -m pip install --force-reinstall --no-deps ")
    seqio, t5 = metadata.version("seqio"), metadata.version("t5")
    assert command.endswith(f"seqio=={seqio} absent-library t5=={t5}")


def test_gin_is_gin_config():
    assert installation.gin_origin() is None


def test_a_module_in_the_place_of_gin_config_is_found(tmp_path, monkeypatch):
    (tmp_path / "gin").mkdir()
    (tmp_path / "gin" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gin", raising=False)
    assert installation.gin_origin() == str(tmp_path / "gin" / "__init__.py")


def test_the_gin_files_of_t5():
    assert (installation.t5_gin_folder() / "dataset.gin").is_file()
