"""How long it takes until something happens: help, the import, the first training step."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mtf_models.errors import MtfError
from mtf_models.runtime.benchmarks.figures import (
    Figures,
    of_this_machine,
    spread,
    spread_text,
    write,
)
from mtf_models.runtime.benchmarks.idle_options import refuse_idle
from mtf_models.runtime.folder.metrics import METRICS_FILE
from mtf_models.runtime.options import BenchOptions

_ROUNDS = 5
_MINUTES = 30  # That a process may take; the first one may have to prepare data.
_EXAMPLE = "examples/g2p_tiny.gin"
MTF = "from mtf_models.cli.main import main; raise SystemExit(main())"
"""The program of the command `mtf`, for the interpreter that runs this."""


def run(options: BenchOptions) -> None:
    """Times new processes in turn, after one of each that is not timed, and prints the figures.

    The first of them prepares the data of the example, where they are not there yet, and fills the
    system's cache of files. Without gin files the step is that of the first example.

    Raises:
        MtfError: if a process fails, or takes half an hour.
    """
    refuse_idle(options, "new processes", "gin_file", "gin_param", "module_import")
    files = options.gin_file or (_EXAMPLE,)
    given = {"gin_file": files, **{n: getattr(options, n) for n in ("gin_param", "module_import")}}
    flags = [f"--{name}={value}" for name, values in given.items() for value in values]
    cases: dict[str, Callable[[], float]] = {
        "python": lambda: until_end(["-c", "pass"]),
        "import mtf_models": lambda: until_end(["-c", "import mtf_models"]),
        "mtf --help": lambda: until_end(["-c", MTF, "--help"]),
        f"first step, {', '.join(files)}": lambda: until_first_step(flags),
    }
    rounds = options.steps or _ROUNDS
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, measure in cases.items():
            spent = measure()
            if number:
                times[name].append(spent)
    runs = [{"what": name, **spread("seconds", times[name], 2)} for name in cases]
    found = {**of_this_machine(), "rounds": rounds, "runs": runs}
    print(_text(found))
    write(found, options.json)


def until_end(arguments: list[str]) -> float:
    """Seconds from the start of a Python process to its end."""
    with _started(arguments) as started:
        status = started.process.wait()
        spent = started.seconds()
        if status:
            raise started.fault()
        return spent


def until_first_step(flags: list[str]) -> float:
    """Seconds from the start of `mtf train` until it has written what its first step measured."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "run" / METRICS_FILE
        arguments = ["-c", MTF, "train", *flags, f"--model_dir={metrics.parent}"]
        with _started(arguments) as started:
            while not (metrics.exists() and metrics.stat().st_size):
                if started.process.poll() is not None:
                    raise started.fault()
                time.sleep(0.02)
            return started.seconds()


@dataclass
class _Started:
    """A Python process.

    Attributes:
        arguments: its own.
        begun: when it was started.
        process: as started.
        said: the file that holds what it wrote to its standard error.
    """

    arguments: list[str]
    begun: float
    process: subprocess.Popen[bytes]
    said: IO[str]

    def seconds(self) -> float:
        """How long ago it was started."""
        return time.perf_counter() - self.begun

    def fault(self) -> MtfError:
        """Why it ended as it should not."""
        self.said.seek(0)
        why = (self.said.read().strip().splitlines() or ["it said nothing"])[-1]
        if self.seconds() >= 60 * _MINUTES:
            why = f"it was ended after {_MINUTES} minutes"
        return MtfError(
            f"python {' '.join(self.arguments)} failed, and is measured when it works: {why}"
        )


@contextlib.contextmanager
def _started(arguments: list[str]) -> Iterator[_Started]:
    """A process that is killed afterwards, and when it takes too long."""
    # Not a pipe: it would be full at some time, and the process wait until somebody reads it.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        limit = threading.Timer(60 * _MINUTES, process.kill)
        limit.start()
        try:
            yield _Started(arguments, begun, process, said)
        finally:
            limit.cancel()
            process.kill()
            process.wait()


def _text(found: Figures) -> str:
    lines = [
        f"machine  {found['machine']}, {found['date']}",
        f"seconds  from the start of the process, median of {found['rounds']} (least to most)",
    ]
    width = max(len(row["what"]) for row in found["runs"]) + 2
    lines += [f"{r['what']:<{width}}{spread_text(r, 'seconds')}" for r in found["runs"]]
    return "\n".join(lines)
