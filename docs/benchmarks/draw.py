"""Draws train.json and decode.json, as `mtf bench` wrote them here, into benchmarks.svg beside.

python docs/benchmarks/draw.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parent
OURS, THEIRS = "mtf_models", "transformers"
STYLE = {
    "svg.hashsalt": OURS,
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def read(name: str) -> dict[str, Any]:
    """The figures of one benchmark."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def draw_training(axes: Axes, figures: dict[str, Any]) -> None:
    """Tokens per second of each side."""
    rates = {OURS: figures["tokens_per_second"]}
    rates |= {name: peer["tokens_per_second"] for name, peer in figures["peers"].items()}
    names = [name.replace(", ", ",\n") for name in rates]
    colors = ["C0", *["C1"] * (len(names) - 1)]
    axes.bar_label(axes.bar(names, list(rates.values()), 0.6, color=colors), fmt="{:,.0f}")
    axes.set(title=f"training, {figures['activations']}", ylabel="tokens/s")


def draw_decoding(axes: Axes, figures: dict[str, Any]) -> None:
    """Ids per second of both sides, for each dtype, batch and beam."""
    runs = figures["runs"]
    for shift, name, key in (
        (-0.2, OURS, "tokens_per_second"),
        (0.2, THEIRS, "transformers_tokens_per_second"),
    ):
        places = [place + shift for place in range(len(runs))]
        axes.bar(places, [run.get(key, 0) for run in runs], 0.4, label=name)
    names = [f"{r['dtype'][0]}{r['dtype'][-2:]}\n{r['batch']} x {r['beams']}" for r in runs]
    axes.set_xticks(range(len(runs)), names)
    axes.set(title="decoding: dtype, rows x beams", ylabel="ids/s")
    axes.legend(frameon=False)


def draw(file: Path) -> None:
    """Draws both into a file."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        training, decoding = figure.subplots(1, 2, width_ratios=(2, 3))
        draw_training(training, read("train"))
        draw_decoding(decoding, read("decode"))
        figure.savefig(file, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "benchmarks.svg")
