"""Whether a converted model computes what its source does, on fixed tokens."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from mtf_models import __version__
from mtf_models.errors import CheckpointError
from mtf_models.runtime.conversion import transformers_logits
from mtf_models.runtime.model.model import Model

REPORT_FILE = "conversion.json"
_TOLERANCE = 1e-4
# Long enough for every bucket of relative positions; the second row has padding in both.
_INPUTS, _TARGETS = 144, 136


@dataclass(frozen=True)
class Comparison:
    """What came out.

    Attributes:
        compared: whether there was anything to compare with.
        reason: why not.
        largest_difference: of any logit.
        largest_logit: in size.
    """

    compared: bool
    reason: str | None = None
    largest_difference: float | None = None
    largest_logit: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the difference is rounding, in float32."""
        return self.largest_difference <= _TOLERANCE * max(1.0, self.largest_logit)

    def __str__(self) -> str:
        if not self.compared:
            return f"not compared: {self.reason}"
        return (
            f"largest difference {self.largest_difference:.2e} of logits up to "
            f"{self.largest_logit:.3g}, in float32"
        )


def compare(model: Model, folder: Path, name: str | Path) -> Comparison:
    """Compares a model with what transformers makes of a Hugging Face folder.

    Args:
        model: computes in float32.
        folder: of Hugging Face's kind.
        name: what messages call it, which may be written aside.

    Raises:
        CheckpointError: if transformers cannot open the folder, or the two differ by more than
            rounding.
    """
    missing = _missing()
    if missing:
        names = " ".join(missing)
        return Comparison(False, f"not installed: {names} (pip install {names})")
    network = model.network
    limits = [n for n in network.longest_features.values() if n is not None]
    features = fixed_features(
        network.vocab_sizes["targets"], network.feature_names, min(limits, default=None)
    )
    theirs = _their_logits(folder, name, features)
    if isinstance(theirs, str):
        return Comparison(False, theirs)
    ours = model(features).logits.numpy()[..., : theirs.shape[-1]]
    real = features["targets"] != 0
    difference = float(np.max(np.abs(ours - theirs)[real]))
    found = Comparison(True, None, difference, float(np.max(np.abs(theirs[real]))))
    if not found.agrees:
        raise CheckpointError(
            f"The converted model does not compute what its source does ({found}), so nothing was "
            "written. Report it with the config.json and the versions of transformers and this "
            "package."
        )
    return found


def fixed_features(
    vocab_size: int, names: Sequence[str] = ("inputs", "targets"), longest: int | None = None
) -> dict[str, np.ndarray]:
    """The tokens that are compared, [2, length] int32; the same at every time.

    Args:
        vocab_size: ids are below it.
        names: of the features that the model reads.
        longest: where positions have embeddings, how many; both features have one length then, and
            the same ids, as of models of one stack.
    """
    generator = np.random.default_rng(0)
    if longest is not None:
        ids = generator.integers(2, vocab_size, [2, min(_TARGETS, longest)], dtype=np.int32)
        return dict.fromkeys(names, ids)
    inputs = generator.integers(2, vocab_size, [2, _INPUTS], dtype=np.int32)
    targets = generator.integers(2, vocab_size, [2, _TARGETS], dtype=np.int32)
    inputs[1, _INPUTS // 2 :] = 0
    targets[1, _TARGETS // 3 :] = 0
    return {"inputs": inputs, "targets": targets}


def write_report(folder: Path, source: Path, comparison: Comparison) -> None:
    """Records in a folder what it was made from and how the comparison came out."""
    report = {
        "source": str(source.absolute()),
        "versions": _versions(),
        "comparison": dataclasses.asdict(comparison),
    }
    (folder / REPORT_FILE).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _missing() -> list[str]:
    """What the other side needs and is not here."""
    return [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]


def _their_logits(
    folder: Path, name: str | Path, features: dict[str, np.ndarray]
) -> np.ndarray | str:
    """[batch, length, vocab], or why there are none."""
    with tempfile.TemporaryDirectory() as temporary:
        files = [str(Path(temporary, file)) for file in ("features.npz", "logits.npy")]
        np.savez(files[0], **features)
        process = subprocess.run(
            [sys.executable, "-m", transformers_logits.__name__, str(folder.absolute()), *files],
            capture_output=True,
            text=True,
            check=False,
        )
        last = (process.stderr.strip().splitlines() or [""])[-1]
        if process.returncode < 0:
            ended_by = signal.Signals(-process.returncode).name
            return f"the process that ran transformers was ended by {ended_by}"
        if process.returncode == transformers_logits.CANNOT_RUN:
            return f"transformers cannot be imported ({last})"
        if process.returncode:
            raise CheckpointError(f"transformers cannot run {name}: {last}")
        return np.load(files[1])


def _versions() -> dict[str, str]:
    found = {"mtf_models": __version__}
    for name in ("safetensors", "torch", "transformers"):
        if importlib.util.find_spec(name):
            found[name] = metadata.version(name)
    return found
