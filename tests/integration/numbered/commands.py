"""Runs `mtf` as its users do, in this process or in another, and looks at what it leaves."""

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_models.cli.main import main

HERE = Path(__file__).parent
REPOSITORY = Path(__file__).parents[3]
GIVEN = (f"--gin_file={HERE / 'numbered.gin'}", "--module_import=numbered_task")
MTF = ("-m", "mtf_models.cli.main")


class Outcome(NamedTuple):
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


def mtf(*words):
    """Runs a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
    return Outcome(status, out.getvalue(), err.getvalue())


def train(folder, *words):
    """Runs `mtf train` on the numbered examples in this process."""
    return mtf("train", *GIVEN, f"--model_dir={folder}", *words)


def start(*words, program=MTF, cwd=None, **environment):
    """Starts a command in a process of its own, which buffers nothing."""
    path = os.pathsep.join([str(HERE), str(REPOSITORY)])
    return subprocess.Popen(
        [sys.executable, "-u", *map(str, program), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def finish(process):
    """Waits for a process that was started, long enough for a machine with much else to do."""
    out, err = process.communicate(timeout=900)
    return Outcome(process.returncode, out, err)


def rows(folder):
    """The rows of `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def training_rows(folder):
    """Those of training steps, without what depends on the machine."""
    return [
        {name: value for name, value in row.items() if name != "tokens_per_second"}
        for row in rows(folder)
        if "loss" in row
    ]


def parameters(folder, step=20):
    """Everything in a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(folder / f"model.ckpt-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def same_bits(ours, theirs):
    """Whether two checkpoints hold the same, to the bit."""
    return ours.keys() == theirs.keys() and all(
        np.array_equal(value, theirs[name]) for name, value in ours.items()
    )


def hashes(folder):
    """Every file of a folder, by what it holds."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
