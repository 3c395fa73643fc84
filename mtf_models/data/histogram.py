"""The histogram of lengths, as text and as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import rich.bar
import rich.console
import rich.table

from mtf_models.data.lengths import Lengths
from mtf_models.errors import DataError

_BINS = 12
_BAR_WIDTH = 40
_WIDTH = 78


def histogram_text(lengths: Lengths) -> str:
    """A line for each range of lengths: how many examples there are, and a bar."""
    counts, edges = np.histogram(lengths.sizes, _edges(lengths.sizes))
    table = rich.table.Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column(width=_BAR_WIDTH)
    for count, begin, end in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        cut = " cut" if begin > lengths.limit else ""
        last = int(end) - 1
        bar = rich.bar.Bar(max(counts.max(), 1), 0, count, width=_BAR_WIDTH)
        table.add_row(f"{int(begin)}-{last}" if last > begin else f"{last}", f"{count:,}", bar, cut)
    text = io.StringIO()
    rich.console.Console(file=text, width=_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def write_histograms(found: Mapping[str, Lengths], path: str | Path) -> None:
    """Draws a histogram for each feature into one picture.

    Args:
        found: feature to its lengths.
        path: of the picture; its ending is the format, such as .png.

    Raises:
        DataError: if matplotlib is not installed, or the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError(
            "Pictures are drawn by matplotlib, which is not installed: pip install matplotlib."
        ) from error
    figure = Figure(figsize=(5 * len(found), 4), layout="constrained")
    for axes, (name, lengths) in zip(
        np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True
    ):
        axes.hist(lengths.sizes, bins=_edges(lengths.sizes))
        axes.axvline(lengths.limit, linestyle="--", label=f"length of a row, {lengths.limit}")
        axes.set(title=name, xlabel="tokens", ylabel="examples")
        axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be written: {error}.") from error


def _edges(sizes: np.ndarray) -> np.ndarray:
    """Edges of ranges of whole lengths, all of one width."""
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // _BINS)
    return np.arange(low, high + width + 1, width)
