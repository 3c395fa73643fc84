"""The folder of a run: what is in it, and whether a run may go on there."""

from __future__ import annotations

import fcntl
import functools
import logging
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mtf_models import __version__, installation, processes
from mtf_models.checkpoint import is_hugging_face_folder
from mtf_models.checkpoint.locate import prefix_in
from mtf_models.config import Config
from mtf_models.config.statements import Import, read
from mtf_models.data.vocabularies.places import COPIES
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.runtime.folder.metrics import METRICS_FILE
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE
from mtf_models.runtime.folder.vocabulary_record import RECORD_FILE, record
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.whole_file import write_text

_log = logging.getLogger("mtf_models")

INFO_FILE = "model-info.txt"
BEST_FOLDER = "best"
"""The subfolder, a run folder too, of the best checkpoint that was evaluated."""
_LOCK_FILE = ".lock"
_OURS = (
    CONFIG_FILE,
    INFO_FILE,
    METRICS_FILE,
    RECORD_FILE,
    f"{COPIES}/*",
    "checkpoint",
    "model.ckpt-*.index",
    "model.ckpt-*.data-?????-of-?????",
    "model.ckpt-*.extra.json",
    "model.ckpt-*.meta",
    "events.out.tfevents.*",
)

# What may change when a run goes on: how long and how often, and where it is computed.
_MAY_CHANGE = (
    "run.train_steps",
    "run.save_checkpoints_steps",
    "run.keep_checkpoint_max",
    "run.eval_every_steps",
    "run.keep_best",
    "mesh_eval_dataset_fn.task_options",
    "run.mesh_shape",
    "run.mesh_devices",
    "run.layout_rules",
    "run.mode",
)


class RunFolder:
    """A run folder.

    Args:
        path: where it is, or will be.

    Raises:
        ConfigError: if there is a file, or a checkpoint is meant.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if prefix_in(self.path) is not None:
            raise ConfigError(
                f"{self.path} is a checkpoint, and a run needs a folder: --model_dir="
                f"{self.path.parent} goes on with its run, --init_from={self.path} begins another "
                "one from it."
            )
        if is_hugging_face_folder(self.path):
            raise ConfigError(
                f"{self.path} is a Hugging Face folder, in which nothing is written: give "
                f"--init_from={self.path} to begin with it, and a new --model_dir."
            )
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(
                f"{self.path} is a file, and --model_dir is a folder: give another path."
            )

    @property
    def config_file(self) -> Path:
        """Where the config is recorded."""
        return self.path / CONFIG_FILE

    def check_same(self, recorded: Config, config: Config, refuses: bool = True) -> None:
        """Refuses to go on with a run under another config.

        Args:
            recorded: of the folder.
            config: of the command.
            refuses: whether a difference is an error; else it is listed, once.

        Raises:
            ConfigError: listing the keys that differ and what can be done; nothing is changed.
        """
        lines = differences(recorded, config, allowed=_MAY_CHANGE)
        if lines and not refuses:
            _say_once(f"{self.path} holds a run of another config, which goes on:\n{lines}")
        elif lines:
            raise ConfigError(
                f"{self.path} holds a run of another config:\n{lines}\nTake a new --model_dir, go "
                "on with the run that is there by --resume, or delete it by --overwrite."
            )

    def clear(self) -> None:
        """Deletes what training writes, the best checkpoint with the others, and nothing else.

        Of several processes the first one does it.
        """
        if not processes.current().leads:
            return
        best = self.path / BEST_FOLDER
        for folder in (self.path, best):
            for file in (file for pattern in _OURS for file in folder.glob(pattern)):
                file.unlink()
        if best.is_dir() and not any(best.iterdir()):
            best.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other training processes out of the folder, which is made if need be.

        It is removed again if nothing is written. Of several processes that train together the
        first one does it, and the others wait for that.

        Raises:
            CheckpointError: if a process trains there, or the folder cannot be made.
        """
        made = not self.path.exists()
        group = processes.current()
        with ExitStack() as stack:

            def lock() -> None:
                if group.leads:
                    stack.enter_context(self._lock_file())

            group.together("locking the run folder", lock)
            try:
                yield
            finally:
                names = [file.name for file in self.path.iterdir()] if group.leads else []
                if made and names == [_LOCK_FILE]:
                    (self.path / _LOCK_FILE).unlink()
                    self.path.rmdir()

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK_FILE).open("w")
        except OSError as error:
            raise CheckpointError(
                f"The run folder {self.path} cannot be written: {error.strerror}. Take another "
                "--model_dir, or mend its permissions."
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(
                    f"Another process trains in {self.path}. Wait for it, or take another folder."
                ) from None
            yield

    def describe(self, config: Config, model: Model, modules: Sequence[str] = ()) -> None:
        """Writes config, model and vocabularies; of several processes the first one does.

        Args:
            config: of the run.
            model: as built from it.
            modules: what was imported before the config was read; recorded with it, as are those
                that were recorded before.

        Raises:
            CheckpointError: if they cannot be written.
        """
        if not processes.current().leads:
            return
        modules = dict.fromkeys([*self._recorded_modules(), *config.imports, *modules])
        imports = "".join(f"import {module}\n" for module in modules)
        self._write(self.config_file, f"{imports}\n{config.text()}".lstrip())
        self._write(self.path / INFO_FILE, info_text(model))
        record(self.path, config)

    def _recorded_modules(self) -> list[str]:
        if not self.config_file.exists():
            return []
        text = self.config_file.read_text(encoding="utf-8")
        return [s.module for s in read(text, str(self.config_file)) if isinstance(s, Import)]

    def _write(self, file: Path, text: str) -> None:
        write_text(file, text, CheckpointError, "Make room, or take another --model_dir.")


@functools.cache
def _say_once(text: str) -> None:
    _log.warning(text)


def differences(there: Config, here: Config, allowed: tuple[str, ...] = ()) -> str:
    """What differs between two configs, a line for each key.

    Args:
        there: of the folder.
        here: of the command.
        allowed: ends of keys that may differ.
    """
    found = [d for d in there.differences(here) if not d.key.endswith(allowed)]
    return "\n".join(f"  {d.key}: {_shown(d.ours)} there, {_shown(d.theirs)} here" for d in found)


def info_text(model: Model) -> str:
    """A model as text: command, versions, devices, and its variables."""
    versions = {**installation.versions(), "mtf_models": __version__}
    lines = [
        f"command    {shlex.join(sys.argv)}",
        f"versions   {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"seed       {model.seed}",
        f"devices    {', '.join(model.mesh.devices)}",
    ]
    return "\n".join(lines) + "\n" + variables_text(model)


def variables_text(model: Model) -> str:
    """A model's variables as text: each with its shape, its split, and the bytes on each device."""
    mesh = model.mesh
    dtypes = model.variable_dtype._asdict()
    lines = [
        f"mesh       {mesh}",
        f"layout     {mesh.rules}",
        f"dtypes     {', '.join(f'{kind} {dtype.name}' for kind, dtype in dtypes.items())}",
        f"parameters {model.parameters:,}",
        "",
        f"{'bytes/device':>16}  variable",
    ]
    total = 0
    for variable in model.variables.values():
        axes = [axis for axis in variable.layout if axis]
        parts = math.prod(mesh.axes[axis] for axis in axes)
        each = variable.shape.size * variable.dtype.size // parts
        total += each
        split = f"  split over {', '.join(axes)}" if axes else ""
        sizes = ", ".join(map(str, variable.shape))
        lines.append(f"{each:>16,}  {variable.name} [{sizes}]{split}")
    return "\n".join([*lines, f"{total:>16,}  all"]) + "\n"


def _shown(value: str | None) -> str:
    return "unset" if value is None else value
