"""The README's `mtf` commands, typed one after the other in an empty folder, shortened."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Later flags override earlier ones, so a command is run as written but for its length.
SHORTER = {
    "train": ["--steps=4", "--gin_param=mesh_eval_dataset_fn.num_eval_examples = 20"],
    "compare": ["--steps=2", "--gin_param=compare.seeds = [0]"],
    "eval": ["--num_examples=20"],
    "bench": [
        "--steps=1",
        "--no_peers",
        "--gin_param=d_model = 32",
        "--gin_param=num_layers = 1",
    ],
}


def readme_commands(repository):
    for block in BLOCK.findall((repository / "README.md").read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            yield from (command.strip() for command in line.split("&&"))


@pytest.mark.slow
def test_the_readme_runs(repository, tmp_path):
    program = "from mtf_models.cli.main import main; raise SystemExit(main())"
    seen = set()
    for command in readme_commands(repository):
        if command.startswith("printf"):
            subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        if not command.startswith("mtf "):
            continue
        words = shlex.split(command)[1:]
        seen.add(words[0])
        typed = [sys.executable, "-c", program, *words, *SHORTER.get(words[0], [])]
        environment = {**os.environ, "PYTHONPATH": str(repository)}
        subprocess.run(typed, cwd=tmp_path, check=True, env=environment, timeout=600)
    assert {"train", "eval", "infer", "inspect", "doctor", "bench"} <= seen
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["input"] for row in rows] == ["mesh", "tensor", "transformer"]
    assert all(isinstance(row["prediction"], str) for row in rows)
