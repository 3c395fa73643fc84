import json
from importlib import metadata

from mtf_models import installation
from mtf_models.cli import doctor
from mtf_models.cli.main import main


def test_this_environment_is_healthy(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("All is well.\n")
    for name in ("tensorflow-datasets", "seqio", "gin-config"):
        assert f"{name} " in shown
        assert metadata.version(name) in shown
    assert "CPU:0" in shown


def test_findings_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert findings["faults"] == []
    assert findings["versions"]["tensorflow"] == metadata.version("tensorflow")
    assert findings["machine"]["devices"].startswith("CPU:0")


def test_a_broken_overlap_is_a_fault_with_the_command_that_mends_it(monkeypatch, capsys):
    changed = [f"seqio/{name}.py (not the release's)" for name in "abcde"]
    monkeypatch.setattr(installation, "OVERLAPPED", ("seqio",))
    monkeypatch.setattr(installation, "changed_files", lambda _: changed)
    assert main(["doctor"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    version = metadata.version("seqio")
    assert f"5 files of seqio {version} are not as released" in last
    assert "seqio/a.py (not the release's), " in last
    assert "and 2 more" in last
    assert last.endswith(f"pip install --force-reinstall --no-deps seqio=={version}")


def test_faults_come_last_and_are_numbered():
    findings = doctor.Findings(versions={"seqio": None}, faults=["One.", "Two."])
    assert doctor.report(findings).splitlines() == [
        "Versions",
        "  seqio  not installed",
        "Machine",
        "Folders",
        "Faults",
        "  1. One.",
        "  2. Two.",
    ]


def test_a_missing_release_is_left_to_the_requirements():
    assert doctor.overlaps({"tensorflow-datasets": None, "seqio": None}) == []
