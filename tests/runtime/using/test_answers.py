"""An answer is told while it is decoded, and Ctrl-C leaves what there is of it."""

import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
import seqio

import mtf_models as mtf
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using import answers as module

LENGTH = 300
TINY = [
    *(f"{name} = {size}" for name, size in {"d_model": 16, "d_ff": 16, "num_heads": 2}.items()),
    "num_layers = 1",
    "d_kv = 8",
    "utils.run.vocabulary = (259, 259)",
    "utils.run.sequence_length = {'inputs': 8, 'targets': 8}",
    "sample_autoregressive.never_end = True",
]


@pytest.fixture(scope="module")
def model():
    """A model that writes letters."""
    model = mtf.build_model(["models/t5.1.1.small.gin"], TINY, seed=1)
    kernel = model.variables["decoder/logits/kernel"]
    value = np.zeros_like(kernel.numpy())
    letters = np.arange(ord("a"), ord("z") + 1) + 3
    value[:, letters] = np.random.default_rng(1).normal(size=[16, len(letters)])
    kernel.assign(value)
    return model


@pytest.fixture
def answers(model, monkeypatch):
    feature = seqio.Feature(seqio.ByteVocabulary())
    task = SimpleNamespace(output_features={"inputs": feature, "targets": feature})
    monkeypatch.setattr(module, "load_for_use", lambda options: (model, 1))
    monkeypatch.setattr(module, "task_of", lambda model, options: task)
    return module.Answers(InferOptions(model_dir="", max_decode_length=LENGTH))


def test_pieces_are_the_answer(answers):
    told = []
    row, stopped = answers.answer("x", told.append)
    assert not stopped
    assert len(told) == LENGTH and "".join(told) == row["prediction"]


def test_ctrl_c_leaves_what_there_is(answers):
    whole, _ = answers.answer("x", lambda piece: None)
    told = []

    def tell(piece):
        told.append(piece)
        if len(told) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if len(told) >= 3:
            time.sleep(0.1)  # Until the main thread has heard it.

    # A process started in the background may ignore it.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        row, stopped = answers.answer("x", tell)
    finally:
        signal.signal(signal.SIGINT, former)
    assert stopped
    assert 3 <= len(told) < LENGTH
    assert row["prediction"] == "".join(told)
    assert whole["prediction"].startswith(row["prediction"])
