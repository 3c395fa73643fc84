"""Two processes of two devices each are one process of four: in losses, files and endings."""

import json
import os
import re
import signal
import time

import pytest
from commands import GIVEN, finish, hashes, mtf, parameters, start, train, training_rows

from mtf_models.processes import Cluster
from mtf_models.processes.launcher import free_addresses

MESH = ("--mesh=batch:2;model:2", "--layout=batch:batch,heads:model,d_ff:model,vocab:model")
DATA = ("data-00000-of-00002", "data-00001-of-00002")  # each process wrote one
ENOUGH = 600  # seconds, on a machine with much else to do


def launch(*words, flags=("--processes=2",), **environment):
    return start("launch", *flags, "--", *words, **environment)


def train_words(folder, *words):
    return ["train", *GIVEN, f"--model_dir={folder}", *MESH, *words]


def losses(folder):
    return {row["step"]: row["loss"] for row in training_rows(folder)}


def children(launcher):
    """The processes that a launcher started, in order."""
    with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children") as file:
        return [int(word) for word in file.read().split()]


def wait_for_step(folder, step, process):
    """Until the metrics tell of a step."""
    deadline = time.monotonic() + ENOUGH
    file = folder / "metrics.jsonl"
    while not file.exists() or f'"step": {step}' not in file.read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid):
    return os.path.exists(f"/proc/{pid}") and "Z" not in _state(pid)


def _state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_two_processes_train_as_one_and_one_goes_on(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    outcome = finish(launch(*train_words(together, "--steps=6", "--save_every=6")))
    assert outcome.status == 0, outcome.err
    # What process 0 says, and nothing twice.
    assert outcome.out.count("step 6/6") == 1
    assert "devices    task:0/CPU:0, task:0/CPU:1, task:1/CPU:0, task:1/CPU:1" in outcome.out
    assert sorted(hashes(together)) == sorted(
        [".lock", "checkpoint", "metrics.jsonl", "model-info.txt"]
        + ["operative_config.gin", "vocabulary.json"]
        + [f"model.ckpt-6.{end}" for end in (*DATA, "extra.json", "index")]
        + [file.name for file in together.glob("events.*")]
    )
    assert len(list(together.glob("events.*"))) == 1

    assert train(alone, *MESH, "--steps=9", "--save_every=6").status == 0
    assert train(together, "--steps=9", "--mesh=").status == 0  # on one device
    expected, found = losses(alone), losses(together)
    assert list(found) == [*range(1, 10)]
    assert found == pytest.approx(expected, abs=1e-5)
    ours, theirs = parameters(together, 6), parameters(alone, 6)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], abs=1e-5), name


@pytest.mark.nightly
def test_a_run_of_two_processes_is_taken_up_by_two(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 8), (parts, 4), (parts, 8)):
        assert finish(launch(*train_words(folder, f"--steps={steps}"))).status == 0
    assert losses(whole) == pytest.approx(losses(parts), abs=1e-6)
    outcome = finish(launch("eval", f"--model_dir={parts}", "--module_import=numbered_task"))
    assert outcome.status == 0, outcome.err
    before = [json.loads(line) for line in (parts / "metrics.jsonl").read_text().splitlines()]
    evaluations = [row for row in before if "numbered/loss" in row and row["step"] == 8]
    assert len(evaluations) == 2  # once in training, once by itself, and not twice
    assert evaluations[0] == pytest.approx(evaluations[1])


@pytest.mark.nightly
@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_process_ends_all_and_the_run_goes_on(tmp_path, index):
    folder = tmp_path / "run"
    launcher = launch(*train_words(folder, "--steps=100000", "--save_every=5"))
    wait_for_step(folder, 7, launcher)
    pids = children(launcher)
    os.kill(pids[index], signal.SIGKILL)
    killed = time.monotonic()
    outcome = finish(launcher)
    assert time.monotonic() - killed < 120  # it says 20 seconds
    assert outcome.status == 128 + signal.SIGKILL
    assert re.search(rf"process {index} \(\S+\) was killed by SIGKILL", outcome.err)
    # The words of the first process are shown, and those of another only if that fails.
    noticed = re.search(rf"Process {index} \(\S+\) has died", outcome.err)
    assert bool(noticed) == (index != 0)
    assert not any(map(is_alive, pids))
    saved = max(int(file.name.split("-")[1][:-6]) for file in folder.glob("*.index"))
    outcome = mtf("train", "--resume", f"--model_dir={folder}", f"--steps={saved + 1}")
    assert outcome.status == 0, outcome.err


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_stops_all_after_saving_once(tmp_path, number):
    folder = tmp_path / "run"
    launcher = launch(*train_words(folder, "--steps=100000", "--save_every=100000"))
    wait_for_step(folder, 3, launcher)
    pids = children(launcher)
    launcher.send_signal(number)
    outcome = finish(launcher)
    assert outcome.status == 128 + number, outcome.err
    step = int(re.search(r"after step (\d+); everything is saved", outcome.out)[1])
    assert (folder / f"model.ckpt-{step}.index").exists()
    assert len(list(folder.glob("*.index"))) == 1
    assert not any(map(is_alive, pids))
    assert "warning: killed" not in outcome.err


@pytest.mark.nightly
def test_processes_of_other_machines_and_configs_that_differ(tmp_path):
    """As a cluster starts them; the addresses are of this machine."""
    addresses, folder = free_addresses(2), tmp_path / "run"

    def member(index, *words):
        environment = {"TF_CONFIG": Cluster(addresses, index).tf_config()}
        return start(*train_words(folder, "--steps=2", *words), **environment)

    outcomes = [finish(p) for p in (member(0), member(1, "--gin_param=d_model = 64"))]
    for outcome in outcomes:
        assert outcome.status == 2, outcome.err
        assert re.search(r"config: .*d_model = 64 in process 1 \(127", outcome.err), outcome.err
    assert not folder.exists()

    outcomes = [finish(p) for p in (member(0), member(1))]
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes
    first, second = (outcome.out for outcome in outcomes)
    assert "step 2/2" in first
    names = [f"process {i} ({addresses[i]})" for i in (0, 1)]
    assert second == f"This is {names[1]} of 2; {names[0]} reports.\n"

    addresses, folder = free_addresses(2), tmp_path / "flags"
    given = f"--addresses={','.join(addresses)}"
    words = train_words(folder, "--steps=2")
    both = [launch(*words, flags=(given, f"--index={index}")) for index in range(2)]
    assert [finish(process).status for process in both] == [0, 0]
    assert losses(folder) == losses(tmp_path / "run")


@pytest.mark.nightly
def test_a_mesh_that_cannot_be_spread_is_refused(tmp_path):
    words = ["train", *GIVEN, f"--model_dir={tmp_path / 'run'}", "--mesh=model:4"]
    outcome = finish(launch(*words, flags=("--processes=3",)))
    assert outcome.status == 2
    assert "A mesh of 4 devices cannot be spread over 3 processes" in outcome.err
    assert not (tmp_path / "run").exists()
