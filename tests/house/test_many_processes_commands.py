"""The commands of docs/many_processes.md, typed one after the other, shortened."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM = "from mtf_models.cli.main import main; raise SystemExit(main())"
SHORTER = {
    "train": ["--steps=4", "--gin_param=mesh_eval_dataset_fn.num_eval_examples = 20"],
    "eval": ["--num_examples=20"],
}


@pytest.mark.slow
def test_the_document_runs(repository, tmp_path):
    text = (repository / "docs" / "many_processes.md").read_text("utf-8")
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    for line in "".join(BLOCK.findall(text)).splitlines():
        words = shlex.split(line)[1:]
        command = words[words.index("--") + 1] if "--" in words else words[0]
        typed = [sys.executable, "-c", PROGRAM, *words, *SHORTER[command]]
        subprocess.run(typed, cwd=tmp_path, check=True, env=environment, timeout=900)
    metrics = (tmp_path / "runs" / "two" / "metrics.jsonl").read_text("utf-8")
    rows = [json.loads(row) for row in metrics.splitlines()]
    losses = [row["cmudict_g2p/loss"] for row in rows if "cmudict_g2p/loss" in row]
    assert len(losses) == 3  # in training, by two processes, by one
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)
