"""What all benchmarks write down: where and when, medians with their spread, a file."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mtf_models import installation, machine

Figures = dict[str, Any]


def of_this_machine() -> Figures:
    """The date, the machine and the versions of what is installed."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.processor() or platform.machine()}, {machine.cpu_count()} CPUs",
        "versions": installation.versions(),
    }


def write(figures: Figures, file: str | None) -> None:
    """Writes figures as JSON, if there is a file for them."""
    if file:
        Path(file).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def spread(name: str, values: Sequence[float], digits: int) -> Figures:
    """The median, the least and the most of several measurements.

    Args:
        name: what was measured; `<name>_min` and `<name>_max` stand beside it.
        values: the measurements.
        digits: behind the point.
    """
    found = {
        name: statistics.median(values),
        f"{name}_min": min(values),
        f"{name}_max": max(values),
    }
    return {key: round(value, digits) for key, value in found.items()}


def spread_text(figures: Figures, name: str) -> str:
    """What `spread` found, for a table."""
    least, most = figures[f"{name}_min"], figures[f"{name}_max"]
    return f"{figures[name]:,} ({least:,} to {most:,})"


def seconds(function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a call takes.

    Args:
        function: is called once.
        clock: what counts; `time.process_time` counts what this process computes on all cores.
    """
    start = clock()
    function()
    return clock() - start
