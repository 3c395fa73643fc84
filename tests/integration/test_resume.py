"""A run that was killed or stopped and goes on is the run that was not.

On one device, and on the meshes of CPU devices tried here, TensorFlow gives the same bits every
time, so "is" means equal to the bit.
"""

import os
import signal

import pytest
import watched
from commands import GIVEN, HERE, finish, parameters, same_bits, start, train, training_rows

from mtf_models.runtime.training.trainer import Trainer

MESHES = {
    "one": (),
    "two": ("--mesh=model:2", "--layout=heads:model,d_ff:model,vocab:model"),
}


@pytest.fixture(params=["one", pytest.param("two", marks=pytest.mark.nightly)])
def mesh(request):
    return MESHES[request.param]


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The file in which the examples of each step are noted."""
    file = tmp_path / "notes.jsonl"
    monkeypatch.setattr(Trainer, "step", watched.noting(file))
    return file


@pytest.fixture
def signalled(monkeypatch):
    """Makes training receive a signal in the midst of a step."""

    def signal_in(step, number):
        make = Trainer.step

        def signalled_step(trainer, features):
            if trainer.step_number + 1 == step:
                os.kill(os.getpid(), number)
            return make(trainer, features)

        monkeypatch.setattr(Trainer, "step", signalled_step)

    return signal_in


def killed(where, folder, notes, *words):
    """Runs `mtf train` in a process of its own until it is killed."""
    command = ["train", *GIVEN, f"--model_dir={folder}", *words]
    outcome = finish(start(notes, where, *command, program=(HERE / "watched.py",)))
    assert outcome.status == -signal.SIGKILL, outcome.err
    return outcome


def test_killed_twice_and_resumed(tmp_path, notes, mesh):
    """Killed after step 7, then while step 10 is saved."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(whole, *mesh).status == 0
    expected = dict(watched.read(notes))
    notes.unlink()

    killed("step:7", parts, notes, *mesh)
    killed("save:10", parts, notes, *mesh)
    assert (parts / "model.ckpt-10.data-00000-of-00001").exists()
    outcome = train(parts, *mesh)
    assert outcome.status == 0, outcome.err
    assert f"Ignored torn checkpoint {parts / 'model.ckpt-10'}: its index is missing" in outcome.err

    made = watched.read(notes)
    assert [step for step, _ in made] == [*range(1, 8), *range(6, 11), *range(6, 21)]
    assert {(step, tuple(ids)) for step, ids in made} == {
        (s, tuple(i)) for s, i in expected.items()
    }

    taken = [number for step in range(1, 21) for number in expected[step]]
    assert sorted(taken[:37]) == sorted(taken[37:74]) == list(range(37))
    assert taken[:37] != taken[37:74]
    assert training_rows(parts) == training_rows(whole)
    assert same_bits(parameters(parts), parameters(whole))


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_stopped_by_a_signal(folder, signalled, number, status, word):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signalled(23, number)
    outcome = train(folder, "--steps=25", "--save_every=100")
    assert outcome.status == status
    said = f"{word.capitalize()} after step 23; everything is saved in {folder}."
    assert said in outcome.out
    assert f"mtf: {word}\n" in outcome.err
    assert (folder / "model.ckpt-23.index").exists()
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_stopped_and_resumed(trained, tmp_path, signalled):
    signalled(8, signal.SIGINT)
    folder = tmp_path / "run"
    assert train(folder).status == 130
    outcome = train(folder)
    assert outcome.status == 0
    assert "8 to 20" in outcome.out
    assert training_rows(folder) == training_rows(trained[0])
    assert same_bits(parameters(folder), parameters(trained[0]))


def test_stopped_while_evaluating(tmp_path, monkeypatch):
    """An evaluation is left at once, after the steps before it are saved."""
    from mtf_models.runtime.model.model import Model

    def score(model, features):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on after the signal")

    monkeypatch.setattr(Model, "score", score)
    folder = tmp_path / "run"
    outcome = train(folder, "--eval_every=3", "--save_every=100")
    assert outcome.status == 130
    assert "Interrupted after step 3; everything is saved" in outcome.out
    assert (folder / "model.ckpt-3.index").exists()


def test_the_second_signal_stops_at_once(tmp_path, monkeypatch):
    def step(trainer, features):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on after the second signal")

    monkeypatch.setattr(Trainer, "step", step)
    # A process started in the background may ignore it.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = train(tmp_path / "run")
    finally:
        signal.signal(signal.SIGINT, former)
    assert outcome.status == 130
    assert "saved" not in outcome.out
    assert not list((tmp_path / "run").glob("model.ckpt-*"))
