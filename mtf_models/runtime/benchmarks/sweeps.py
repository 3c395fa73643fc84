"""`mtf bench train` again and again, each time in a process of its own with other flags."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mtf_models.errors import MtfError
from mtf_models.runtime.benchmarks.figures import Figures
from mtf_models.runtime.benchmarks.starting import MTF
from mtf_models.runtime.options import BenchOptions

_log = logging.getLogger("mtf_models")

_KEPT = ("step_ms", "step_ms_min", "step_ms_max", "first_step_s", "tokens_per_second")


@dataclass(frozen=True)
class Case:
    """One of the runs.

    Attributes:
        varied: what differs from run to run.
        value: of what is varied.
        flags: of `mtf bench train`, which make it so.
    """

    varied: str
    value: int | str
    flags: tuple[str, ...]


def measured(cases: Iterable[Case], options: BenchOptions, steps: int) -> list[Figures]:
    """Times each case in a new process, whose peak memory is then its own; a line tells of each.

    Args:
        cases: what is run, in order.
        options: what else is passed on: gin files and bindings, batch size, seed.
        steps: timed in each, after the one that compiles.

    Returns:
        For each "varied", "value", the times of its steps and its peak memory.

    Raises:
        MtfError: if a process fails, with the last line that it wrote.
    """
    given = [*_flags(options), "--no_peers", f"--steps={steps}"]
    return [_measured(case, [*given, *case.flags]) for case in cases]


def _measured(case: Case, flags: list[str]) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.json"
        command = ["bench", "train", *flags, f"--json={file}"]
        done = subprocess.run(
            [sys.executable, "-c", MTF, *command], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise MtfError(
                f"{case.varied} {case.value}: mtf {' '.join(command)} ended with "
                f"{done.returncode}: {said}"
            )
        found = json.loads(file.read_text(encoding="utf-8"))
    row = {"varied": case.varied, "value": case.value, **{key: found[key] for key in _KEPT}}
    row["peak_memory_mb"] = found["peak_memory_mb"]
    _log.info(
        "%s %s: first step %.1f s, then %.0f ms each, %d MB at the peak",
        *(row[key] for key in ("varied", "value", "first_step_s", "step_ms", "peak_memory_mb")),
    )
    return row


def _flags(options: BenchOptions) -> list[str]:
    """The flags of what is passed on."""
    lists = ("gin_file", "gin_param", "module_import")
    flags = [f"--{name}={value}" for name in lists for value in getattr(options, name)]
    single = {name: getattr(options, name) for name in ("batch_size", "seed")}
    flags += [f"--{name}={value}" for name, value in single.items() if value is not None]
    return [*flags, "--pad_vocab"] if options.pad_vocab else flags
