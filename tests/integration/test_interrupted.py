"""Ctrl-C while `mtf infer` and `mtf score` compute: what is done stays, and is gone on with."""

import json
import os
import signal
import time

import pytest
from commands import finish, mtf, start

from mtf_models.runtime.model.model import Model

CALLS = {"infer": "decode", "score": "token_scores"}
PAIRS = "n1\t1\nn2\t2\nn3\t3\nn4\t4\nn5\t5\n"


@pytest.fixture
def signalled(monkeypatch):
    """Sends this process the signal in the second batch, which goes on."""
    # A process started in the background may ignore it.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)

    def signalled(command):
        compute, calls = getattr(Model, CALLS[command]), []

        def computed(model, *args, **more):
            calls.append(command)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)  # Until the main thread has heard it.
            return compute(model, *args, **more)

        monkeypatch.setattr(Model, CALLS[command], computed)

    yield signalled
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def words(trained, tmp_path):
    given = tmp_path / "in.tsv"
    given.write_text(PAIRS)
    return (f"--model_dir={trained[0]}", f"--input={given}", "--batch_size=2")


@pytest.mark.parametrize("command", CALLS)
def test_what_is_done_is_kept(words, signalled, tmp_path, monkeypatch, command):
    whole, made = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert mtf(command, *words, f"--output={whole}").status == 0
    signalled(command)
    outcome = mtf(command, *words, f"--output={made}")
    assert outcome.status == 130
    assert "Stopping after this batch" in outcome.err and "mtf: interrupted" in outcome.err
    assert f"4 of 5 are in {made}.partial; the same command goes on" in outcome.out
    lines = (tmp_path / "out.jsonl.partial").read_text("utf-8").splitlines()
    assert [json.loads(line)["place"] for line in lines[1:]] == [0, 1, 2, 3]
    monkeypatch.undo()
    outcome = mtf(command, *words, f"--output={made}")
    assert outcome.status == 0 and outcome.out.startswith("Going on after 4 of 5")
    # Of a batch of other rows the last digit may be another.
    for found, right in zip(
        *(f.read_text("utf-8").splitlines() for f in (made, whole)), strict=True
    ):
        found, right = json.loads(found), json.loads(right)
        assert found.keys() == right.keys()
        for name in found.keys() - {"input", "target", "prediction", "token_ids"}:
            assert found.pop(name) == pytest.approx(right.pop(name), rel=1e-4)
        assert found == right
    assert not (tmp_path / "out.jsonl.partial").exists()


def test_scores_that_are_printed_are_printed(words, signalled):
    signalled("score")
    outcome = mtf("score", *words)
    assert outcome.status == 130
    assert [json.loads(line)["target"] for line in outcome.out.splitlines()] == list("1234")
    assert "4 of 5 were printed" in outcome.err and "perplexity" not in outcome.err


def test_the_last_batch_is_the_end(words, signalled, tmp_path):
    signalled("infer")
    made = tmp_path / "out.jsonl"
    assert mtf("infer", *words[:2], f"--output={made}", "--batch_size=3").status == 0
    assert len(made.read_text().splitlines()) == 5


DECODING = """
import sys
from mtf_models.cli.main import main
from mtf_models.runtime.model.model import Model
decode = Model.decode
Model.decode = lambda *args, **more: print("decoding") or decode(*args, **more)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.nightly
def test_the_second_time_it_ends_at_once(words, tmp_path):
    made = tmp_path / "out.jsonl"
    endless = ("--gin_param=sample_autoregressive.never_end = True", "--max_decode_length=1000000")
    given = (*words, "--module_import=numbered_task", f"--output={made}")
    process = start("infer", *given, *endless, program=("-c", DECODING))
    while "decoding" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    while "Stopping after this batch" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert finish(process).status == -signal.SIGINT
    assert not made.exists()
