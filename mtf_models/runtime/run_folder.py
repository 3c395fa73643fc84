"""The folder of a run: what is in it, and whether a run may go on there."""

from __future__ import annotations

import fcntl
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mtf_models import __version__, installation
from mtf_models.checkpoint import CheckpointManager
from mtf_models.config import Config
from mtf_models.errors import ConfigError
from mtf_models.runtime.metrics import METRICS_FILE
from mtf_models.runtime.model import Model

CONFIG_FILE = "operative_config.gin"
INFO_FILE = "model-info.txt"
_LOCK_FILE = ".lock"
_OURS = (
    CONFIG_FILE,
    INFO_FILE,
    METRICS_FILE,
    "checkpoint",
    "model.ckpt-*",
    "events.out.tfevents.*",
)

# What may change when a run goes on: how long and how often, and where it is computed.
_MAY_CHANGE = (
    "run.train_steps",
    "run.save_checkpoints_steps",
    "run.keep_checkpoint_max",
    "run.eval_every_steps",
    "run.mesh_shape",
    "run.mesh_devices",
    "run.layout_rules",
)


class RunFolder:
    """A run folder.

    Args:
        path: where it is, or will be.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; --model_dir is a folder.")

    @property
    def config_file(self) -> Path:
        """Where the config is recorded."""
        return self.path / CONFIG_FILE

    def has_run(self) -> bool:
        """Whether a run was begun here."""
        return self.config_file.exists() or bool(CheckpointManager(self.path).steps())

    def check_same(self, recorded: Config, config: Config) -> None:
        """Refuses to go on with a run under another config.

        Raises:
            ConfigError: listing the keys that differ and what can be done; nothing is changed.
        """
        found = [d for d in recorded.differences(config) if not d.key.endswith(_MAY_CHANGE)]
        if not found:
            return
        lines = "\n".join(f"  {d.key}: {d.ours} there, {d.theirs} here" for d in found)
        raise ConfigError(
            f"{self.path} holds a run of another config:\n{lines}\nTake a new --model_dir, go on "
            "with the run that is there by --resume, or delete it by --overwrite."
        )

    def clear(self) -> None:
        """Deletes what runs write, and nothing else."""
        for pattern in _OURS:
            for file in self.path.glob(pattern):
                file.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other training processes out.

        Raises:
            ConfigError: if one is there.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK_FILE).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(
                    f"Another process trains in {self.path}. Wait for it, or take another folder."
                ) from None
            yield

    def describe(self, config: Config, model: Model) -> None:
        """Writes the config and what the model is."""
        _write(self.config_file, config.text())
        _write(self.path / INFO_FILE, info_text(model))


def info_text(model: Model) -> str:
    """The model as text: versions, devices, variables with their shapes, splits and bytes."""
    mesh = model.mesh
    dtypes = model.variable_dtype._asdict()
    versions = {"mtf_models": __version__, **installation.versions()}
    lines = [
        f"command    {shlex.join(sys.argv)}",
        f"versions   {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"seed       {model.seed}",
        f"mesh       {mesh}",
        f"layout     {mesh.rules}",
        f"devices    {', '.join(mesh.devices)}",
        f"dtypes     {', '.join(f'{kind} {dtype.name}' for kind, dtype in dtypes.items())}",
        f"parameters {model.parameters:,}",
        "",
        f"{'bytes/device':>14}  variable",
    ]
    total = 0
    for variable in model.variables.values():
        split = [a for a in variable.layout if a]
        parts = 1
        for axis in split:
            parts *= mesh.axes[axis]
        each = variable.shape.size * variable.dtype.size // parts
        total += each
        over = f" split over {', '.join(split)}" if split else ""
        lines.append(f"{each:>14,}  {variable.name} {variable.shape}{over}")
    return "\n".join([*lines, f"{total:>14,}  all"]) + "\n"


def _write(file: Path, text: str) -> None:
    aside = file.with_name(file.name + ".tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(file)
