"""A picture of training losses: a line for each variant, and the spread of its seeds."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_models.errors import ConfigError
from mtf_models.runtime.comparison.summary import Variant
from mtf_models.runtime.whole_file import aside, writing

_STYLE = {"svg.hashsalt": "mtf_models", "axes.spines.top": False, "axes.spines.right": False}


def require() -> None:
    """Refuses to begin what ends with a picture that cannot be drawn.

    Raises:
        ConfigError: if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "A comparison is drawn with matplotlib, which is not installed: pip install "
            "'mtf_models[plot]'."
        )


def draw(variants: Sequence[Variant], file: Path) -> None:
    """Draws the mean loss over steps, and a band from the lowest seed to the highest.

    Args:
        variants: whose runs all have the same steps.
        file: where to; an SVG.

    Raises:
        DataError: if it cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE), writing(file), aside(file) as beside:
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for variant in variants:
            losses = np.array([run.losses for run in variant.runs])
            steps = variant.runs[0].steps
            (line,) = axes.plot(steps, losses.mean(axis=0), label=variant.name)
            band = losses.min(axis=0), losses.max(axis=0)
            axes.fill_between(steps, *band, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set(xlabel="step", ylabel="training loss")
        axes.legend(frameon=False)
        figure.savefig(beside, format="svg", metadata={"Date": None})
