"""What equals itself in another run, unless something else is asked for."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.request import request_of

TRAINED = Path(__file__).parents[2] / "fixtures" / "t5_1_1_tiny"
MODEL = SimpleNamespace(config=SimpleNamespace(bindings={}))


def hugging_face(folder):
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"first")
    return folder / "model.safetensors"


def ours(folder):
    for file in TRAINED.glob("model.ckpt-3.*"):
        shutil.copy(file, folder)
    return folder / "model.ckpt-3.index"


@pytest.mark.parametrize("make", [hugging_face, ours])
def test_another_model_under_the_same_name_is_another_request(tmp_path, make):
    def request():
        options = InferOptions(model_dir=str(tmp_path), output="out.jsonl")
        return request_of(options, MODEL, 3, {}, [])

    file = make(tmp_path)
    first = request()
    assert request() == first
    os.utime(file, ns=(0, 12345))
    assert request() != first
