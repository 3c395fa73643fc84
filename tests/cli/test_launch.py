"""What `mtf launch` refuses before it starts anything, and commands that run alone."""

import json

import pytest

from mtf_models.cli import launch
from mtf_models.cli.main import main

TRAIN = ["--", "train", "--gin_file=a.gin", "--model_dir=m"]


@pytest.fixture
def started(monkeypatch):
    """What would be started: for each process its cluster, the command and the environment."""
    calls = []
    monkeypatch.setattr(launch, "launch", lambda *what: calls.append(what) or 0)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return calls


def refusal(capsys, *words):
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code
    assert status == 2
    return capsys.readouterr().err


def test_processes_of_this_machine(started):
    assert main(["launch", "--processes=3", "--start_timeout=7", *TRAIN]) == 0
    ((clusters, command, environment),) = started
    assert [cluster.index for cluster in clusters] == [0, 1, 2]
    assert len({c.addresses for c in clusters}) == 1 and len(set(clusters[0].addresses)) == 3
    assert command[-3:] == ["train", "--gin_file=a.gin", "--model_dir=m"]
    assert environment["MTF_START_TIMEOUT"] == "7"


def test_one_process_of_many_machines(capsys, started, monkeypatch):
    assert main(["launch", "--addresses=a:1,b:1", "--index=1", *TRAIN]) == 0
    task = {"type": "worker", "index": 1}
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert main(["launch", *TRAIN]) == 0
    assert refusal(capsys, "launch", "--processes=2", *TRAIN).startswith(
        "mtf: error: --processes is given, and TF_CONFIG speaks of 2 processes"
    )
    for clusters, _, _ in started:
        assert [(c.addresses, c.index) for c in clusters] == [(("a:1", "b:1"), 1)]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--addresses=a:1,b:1", "--index=2", *TRAIN], "those of the processes are 0 to 1"),
        (["--addresses=a:1,a:1", "--index=0", *TRAIN], "a:1 is the address of 2 processes"),
        (["--addresses=a,b:x", "--index=0", *TRAIN], "'a' is no host:port; 'b:x' is no host:port"),
        (["--addresses=a:1,b:1", *TRAIN], "not clear from --addresses"),
        (["--processes=2", "--index=0", *TRAIN], "not clear from --processes and --index"),
        (TRAIN, "neither flags nor TF_CONFIG"),
        (["--processes=0", *TRAIN], "not a whole number from 1"),
        (["--processes=2", "--proceses=2", *TRAIN], "unknown flag --proceses"),
        (["--processes=2"], "nothing to launch"),
        (["--processes=2", "--", "infer", "--model_dir=m", "--input=i", "--output=o"], "mtf infer"),
        (["--processes=2", "--", "tarin"], "did you mean train"),
        (["--processes=2", "--", "train", "--stpes=2"], "did you mean --steps"),
        (["--processes=2", "--", "launch", "--processes=2"], "mtf launch runs in one process"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(capsys, started, words, said):
    assert said in refusal(capsys, "launch", *words)
    assert started == []


def test_a_malformed_tf_config_is_refused_by_every_command_of_a_run(capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": ')
    assert "TF_CONFIG is" in refusal(capsys, "launch", *TRAIN)
    for words in (TRAIN[1:], ["infer", "--model_dir=m", "--input=i", "--output=o"]):
        assert "and it is no JSON" in refusal(capsys, *words)


@pytest.mark.parametrize("command", ["infer", "score"])
def test_what_runs_in_one_process_says_so(capsys, monkeypatch, command):
    task = {"type": "worker", "index": 0}
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    message = refusal(capsys, command, "--model_dir=m", "--input=i", "--output=o")
    assert f"mtf {command} runs in one process" in message


def test_no_other_command_takes_a_second_one(capsys):
    assert "-- is for mtf launch" in refusal(capsys, "inspect", "a", "--", "train")
