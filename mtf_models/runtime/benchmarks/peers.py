"""The same model in transformers, in processes beside this one, for steps that alternate."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mtf_models import machine
from mtf_models.checkpoint.hugging_face_config import fields_of
from mtf_models.errors import MtfError
from mtf_models.optimize.adafactor import AdafactorOptimizer
from mtf_models.runtime.benchmarks import transformers_steps
from mtf_models.runtime.conversion.architecture_of_model import architecture_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.training.trainer import Trainer

_KINDS = {"transformers, eager": False, "transformers, compiled": True}


class PeerFailed(MtfError):
    """The process of a peer ended."""


class Peer:
    """One way to use transformers, in a process that has warmed up.

    Attributes:
        name: of the way.
        times: the seconds of the steps made.
        peak_memory_mb: of its process.
    """

    def __init__(self, name: str, process: subprocess.Popen[str], errors: Any) -> None:
        self.name = name
        self.times: list[float] = []
        self.peak_memory_mb = 0
        self._process = process
        self._errors = errors
        self._answer()

    def step(self) -> None:
        """Makes one step.

        Raises:
            PeerFailed: if the process ended.
        """
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.times.append(answer["seconds"])
        self.peak_memory_mb = answer["peak_memory_mb"]

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._errors.seek(0)
        said = (self._errors.read().strip().splitlines() or ["it said nothing"])[-1]
        raise PeerFailed(f"The process of {self.name} ended: {said}")


def not_installed() -> str | None:
    """What of transformers and torch is missing; None if both are there."""
    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    if missing:
        return f'{" and ".join(missing)} not installed (pip install "mtf_models[peers]")'
    return None


def why_none(trainer: Trainer) -> str | None:
    """Why transformers cannot train beside this trainer; None if it can."""
    if missing := not_installed():
        return missing
    if type(trainer.optimizer) is not AdafactorOptimizer:
        return f"{type(trainer.optimizer).__name__} is not Adafactor"
    if set(trainer.model.network.feature_names) != {"inputs", "targets"}:
        return "the model is no encoder-decoder"
    try:
        architecture_of(trainer.model)
    except MtfError as error:
        return str(error).splitlines()[0]
    return None


@contextmanager
def running(model: Model, shapes: dict[str, tuple[int, int]]) -> Iterator[list[Peer]]:
    """The peers of a model.

    Args:
        model: what they train too, from other initial values.
        shapes: batch and length of "inputs" and "targets".

    Raises:
        PeerFailed: if a process ended.
    """
    spec = {
        "config": fields_of(architecture_of(model), "float32"),
        "batch": shapes["inputs"][0],
        **{name: length for name, (_, length) in shapes.items()},
        "dtype": model.variable_dtype.activation.name,
        "threads": machine.cpu_count(),
    }
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                started(name, transformers_steps.__name__, {**spec, "compiled": compiled})
            )
            for name, compiled in _KINDS.items()
        ]


@contextmanager
def started(name: str, module: str, spec: dict[str, Any]) -> Iterator[Peer]:
    """A peer in a process that ends with the block.

    Args:
        name: of the peer.
        module: what the process runs, see `transformers_steps`.
        spec: what it is given.

    Raises:
        PeerFailed: if the process ended before it had warmed up.
    """
    command = [sys.executable, "-m", module, json.dumps(spec)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield Peer(name, process, errors)
        finally:
            process.kill()
            process.wait()
