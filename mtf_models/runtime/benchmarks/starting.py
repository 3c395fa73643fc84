"""How long it takes until something happens: help, the import, the first training step."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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
_EXAMPLE = "examples/g2p_tiny.gin"
_MTF = "from mtf_models.cli.main import main; raise SystemExit(main())"


def run(options: BenchOptions) -> None:
    """Times new processes in turn, after one of each that is not timed, and prints the figures.

    The first of them prepares the data of the example, where they are not there yet, and fills the
    system's cache of files. Without gin files the step is that of the first example.

    Raises:
        MtfError: if a process fails.
    """
    refuse_idle(options, "new processes", "gin_file", "gin_param", "module_import")
    files = options.gin_file or (_EXAMPLE,)
    given = {"gin_file": files, **{n: getattr(options, n) for n in ("gin_param", "module_import")}}
    flags = [f"--{name}={value}" for name, values in given.items() for value in values]
    cases: dict[str, Callable[[], float]] = {
        "python": lambda: until_end(["-c", "pass"]),
        "import mtf_models": lambda: until_end(["-c", "import mtf_models"]),
        "mtf --help": lambda: until_end(["-c", _MTF, "--help"]),
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
    begun = time.perf_counter()
    with _started(arguments) as process:
        said = process.communicate()[1]
    if process.returncode:
        raise _failed(arguments, said)
    return time.perf_counter() - begun


def until_first_step(flags: list[str]) -> float:
    """Seconds from the start of `mtf train` until it has written what its first step measured."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "run" / METRICS_FILE
        arguments = ["-c", _MTF, "train", *flags, f"--model_dir={metrics.parent}"]
        begun = time.perf_counter()
        with _started(arguments) as process:
            try:
                while not (metrics.exists() and metrics.stat().st_size):
                    if process.poll() is not None:
                        raise _failed(arguments, process.stderr.read())
                    time.sleep(0.02)
                return time.perf_counter() - begun
            finally:
                process.kill()
                process.communicate()


def _started(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _failed(arguments: list[str], said: str) -> MtfError:
    line = (said.strip().splitlines() or ["it said nothing"])[-1]
    return MtfError(f"python {' '.join(arguments)} failed, and is measured when it works: {line}")


def _text(found: Figures) -> str:
    lines = [
        f"machine  {found['machine']}, {found['date']}",
        f"seconds  from the start of the process, median of {found['rounds']} (least to most)",
    ]
    width = max(len(row["what"]) for row in found["runs"]) + 2
    lines += [f"{r['what']:<{width}}{spread_text(r, 'seconds')}" for r in found["runs"]]
    return "\n".join(lines)
