"""docs/add_a_task.md as its reader follows it, in an empty folder."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
PROGRAM = "from mtf_models.cli.main import main; raise SystemExit(main())"


@pytest.mark.slow
def test_add_a_task(repository, tmp_path):
    path = os.pathsep.join([str(repository), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "TFDS_DATA_DIR": str(tmp_path / "data")}
    printed = ""
    for language, title, text in BLOCK.findall(
        (repository / "docs/add_a_task.md").read_text("utf-8")
    ):
        if language == "python":
            (tmp_path / title).parent.mkdir(exist_ok=True)
            (tmp_path / title).write_text(text)
            continue
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            typed = ["bash", "-c", line]
            if words[0] == "mtf":
                typed = [sys.executable, "-c", PROGRAM, *words[1:]]
            done = subprocess.run(
                typed, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
            )
            assert done.returncode == 0, line + done.stderr
            printed += done.stdout
    assert "glue_cola_v002" in printed and "squad_v010_allanswers" in printed
    rows = [json.loads(line) for line in (tmp_path / "words.jsonl").read_text().splitlines()]
    assert [row["input"] for row in rows] == ["cat", "dog"]
    assert (tmp_path / "pairs.model").exists()
    assert "rhymes, split train: 4 examples" in printed
    assert "rhymes, 2 examples: sequence_accuracy" in printed
