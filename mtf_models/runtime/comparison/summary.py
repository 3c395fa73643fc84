"""What the runs of a comparison measured, and a table of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtf_models.runtime.folder.metrics import METRICS_FILE

_POINTS = 50
"""Of a curve, each the mean of the steps up to it since the one before."""


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        steps: the last step of each point of its curve.
        losses: the mean training loss there.
        held_out: metric to value, of the last evaluation.
        tokens_per_second: of the whole run, its first step not counted.
    """

    steps: tuple[int, ...]
    losses: tuple[float, ...]
    held_out: dict[str, float]
    tokens_per_second: float


@dataclass(frozen=True)
class Variant:
    """A variant of a model, trained from several seeds."""

    name: str
    parameters: int
    runs: tuple[Run, ...]


def read_run(folder: Path) -> Run:
    """Reads what a finished run wrote to its folder."""
    text = (folder / METRICS_FILE).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    trained = [row for row in rows if "loss" in row]
    last = trained[-1]["step"]
    points: dict[int, list[float]] = {}
    for row in trained:
        end = last * -(-row["step"] * _POINTS // last) // _POINTS
        points.setdefault(end, []).append(row["loss"])
    evaluated = [row for row in rows if row["step"] == last and "loss" not in row]
    return Run(
        steps=tuple(points),
        losses=tuple(statistics.fmean(losses) for losses in points.values()),
        held_out={n: x for row in evaluated for n, x in row.items() if n != "step"},
        tokens_per_second=trained[-1].get("tokens_per_second", 0.0),
    )


def table(variants: Sequence[Variant]) -> str:
    """A table in Markdown: mean over the seeds ± standard deviation of a sample."""
    names = list(dict.fromkeys(n for v in variants for run in v.runs for n in run.held_out))
    heads = ["variant", "parameters", "training loss", *names, "tokens/s"]
    rows = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for variant in variants:
        columns = [[run.losses[-1] for run in variant.runs]]
        columns += [[run.held_out[n] for run in variant.runs if n in run.held_out] for n in names]
        speeds = [run.tokens_per_second for run in variant.runs]
        cells = [_spread(values) for values in columns]
        rows.append(
            [variant.name, f"{variant.parameters:,}", *cells, f"{statistics.median(speeds):,.0f}"]
        )
    seeds = len(variants[0].runs)
    ending = f"\n{seeds} {'seed' if seeds == 1 else 'seeds'} each; tokens/s is the median run's.\n"
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n" + ending


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.4f}"
