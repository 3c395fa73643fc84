"""The commands of docs/hugging_face.md, typed one after the other, shortened, on a tiny model."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM = "from mtf_models.cli.main import main; raise SystemExit(main())"
# A folder of the name that the document uses.
MADE = """
import mtf_models as mtf
sizes = ["d_model = 8", "d_ff = 8", "num_heads = 2", "d_kv = 4", "num_layers = 1"]
model = mtf.build_model(["examples/kjv_web_tiny.gin"], sizes)
mtf.Trainer(model, learning_rate=0.1).save("tiny")
"""
LENGTHS = '--gin_param=utils.run.sequence_length = {"inputs": 32, "targets": 32}'
SHORTER = {
    **{name: [LENGTHS, "--num_examples=4"] for name in ("score", "infer", "eval")},
    "export": [LENGTHS],
    "train": [
        "--steps=2",
        "--batch_size=2",
        LENGTHS,
        "--gin_param=mesh_eval_dataset_fn.num_eval_examples = 4",
    ],
}


@pytest.mark.slow
def test_the_document_runs(repository, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(repository)}

    def run(program, *words):
        typed = [sys.executable, "-c", program, *words]
        subprocess.run(typed, cwd=tmp_path, check=True, env=environment, timeout=600)

    run(MADE)
    run(PROGRAM, "convert", "tiny", "--to=hugging_face", "--output=flan-t5-small")
    text = (repository / "docs" / "hugging_face.md").read_text("utf-8")
    commands = [shlex.split(c) for block in BLOCK.findall(text) for c in block.splitlines()]
    assert [words[:2] for words in commands] == [
        ["mtf", name]
        for name in ("inspect", "score", "infer", "eval", "export", "train", "convert", "convert")
    ]
    for words in commands:
        run(PROGRAM, *words[1:], *SHORTER.get(words[1], []))
    first, last = (
        json.loads((tmp_path / name / "config.json").read_text("utf-8"))
        for name in ("flan-t5-small", "flan-kjv")
    )
    assert first == last
    assert (tmp_path / "flan-kjv" / "spiece.model").is_file()
