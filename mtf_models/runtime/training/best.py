"""The best checkpoint that was evaluated, by one metric, in a folder of its own.

That folder, `best` in the run's, is a run folder: every command takes it as its `--model_dir`.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from mtf_models import processes
from mtf_models.checkpoint import CheckpointManager
from mtf_models.checkpoint.names import files_of, prefix_of, steps_in
from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.mesh import Variable
from mtf_models.runtime.folder.metrics import METRICS_FILE
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE
from mtf_models.runtime.folder.run_folder import BEST_FOLDER
from mtf_models.runtime.whole_file import writing

_LESS_IS_BETTER = ("loss", "perplexity", "error", "distance")


class Best:
    """Keeps the best checkpoint of a run.

    Args:
        folder: the run folder.
        asked: "task/metric"; "min:" or "max:" before it says what is best, where the name does not
            (less is better of a loss, a perplexity, an error or a distance, else more is).
        begun: the step that the run goes on from. What lies in the folder of the best from later
            steps belongs to work that is done again, and is removed.

    Raises:
        ConfigError: if that is no task and metric.
    """

    def __init__(self, folder: Path, asked: str, begun: int) -> None:
        way, name = _read(asked)
        less = any(word in name.rpartition("/")[2] for word in _LESS_IS_BETTER)
        self.name, self.sign = name, -1.0 if way == "min" or (not way and less) else 1.0
        self._run, self._folder = folder, folder / BEST_FOLDER
        self._highest = -math.inf
        for row in _rows(folder / METRICS_FILE):
            value = row.get(name)
            if isinstance(row.get("step"), int) and row["step"] <= begun and value is not None:
                self._highest = max(self._highest, self.sign * value)
        if processes.current().leads and self._folder.is_dir():
            self._remove_after(begun)

    def _remove_after(self, begun: int) -> None:
        for step in steps_in(self._folder):
            for file in files_of(prefix_of(self._folder, step)) if step > begun else ():
                file.unlink()

    @property
    def text(self) -> str:
        """What is kept."""
        return f"the {'highest' if self.sign > 0 else 'lowest'} {self.name}"

    def offer(
        self, step: int, found: Mapping[str, float], variables: Mapping[str, Variable]
    ) -> str:
        """Keeps the present values if they are the best so far.

        Args:
            step: the number of steps made.
            found: "task/metric" to value.
            variables: of the checkpoint.

        Returns:
            A line that says so; empty if they are not.

        Raises:
            ConfigError: if the metric is not among them.
            CheckpointError: if the checkpoint cannot be written.
        """
        if self.name not in found:
            raise ConfigError(
                f"--keep_best={self.name} is not among what is evaluated"
                f"{did_you_mean(self.name, found)}"
            )
        value = self.sign * found[self.name]
        if not value > self._highest:
            return ""
        self._highest = value
        CheckpointManager(self._folder, keep=1).save(step, variables, {})
        if processes.current().leads:
            with writing(self._folder):
                shutil.copy(self._run / CONFIG_FILE, self._folder / CONFIG_FILE)
        return f"kept step {step} in {self._folder}: {self.text} so far, {found[self.name]:.4g}"


def check_task(asked: str, tasks: Iterable[str]) -> None:
    """Refuses a metric of a task that is not evaluated.

    Args:
        asked: see `Best`.
        tasks: what is evaluated.

    Raises:
        ConfigError: if the task is none of them, or that is no task and metric.
    """
    task, names = _read(asked)[1].partition("/")[0], list(tasks)
    if task not in names:
        raise ConfigError(
            f"--keep_best={asked} names the task {task!r}, which is not evaluated in training"
            f"{did_you_mean(task, names)}"
        )


def _read(asked: str) -> tuple[str, str]:
    """What is best, "min", "max" or "" where it is not said, and the task and metric."""
    way, colon, name = asked.rpartition(":")
    if (colon and way not in ("min", "max")) or not all(name.partition("/")):
        raise ConfigError(
            f"--keep_best={asked} is no task and metric: write TASK/METRIC, such as "
            "kjv_web/bleu, or min:TASK/METRIC where less is better."
        )
    return way, name


def _rows(file: Path) -> list[dict]:
    if not file.exists():
        return []
    rows = []
    for line in file.read_bytes().splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # A line that a killed process left torn.
            continue
    return [row for row in rows if isinstance(row, dict)]
