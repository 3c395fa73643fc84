"""What a training step costs on meshes of virtual devices, which share the cores there are."""

from __future__ import annotations

from mtf_models.runtime.benchmarks.figures import Figures, of_this_machine, spread_text, write
from mtf_models.runtime.benchmarks.idle_options import refuse_idle
from mtf_models.runtime.benchmarks.sweeps import Case, measured
from mtf_models.runtime.options import BenchOptions

_MESHES = (
    "",
    "batch:1",
    "batch:2",
    "model:2",
    "batch:4",
    "batch:2;model:2",
    "batch:8",
    "batch:4;model:2",
)
_LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"
_TAKES = ("gin_file", "gin_param", "module_import", "layout", "batch_size", "seed", "pad_vocab")
_STEPS = 3


def run(options: BenchOptions) -> None:
    """Times the same steps on one device and on meshes of 1 to 8, and prints the figures.

    Since all devices are the cores of this machine, more of them never make a step faster: what is
    to be seen is what the exchange between them and its compilation cost.

    Raises:
        MtfError: if the model does not fit on a mesh, or an option does nothing.
    """
    refuse_idle(options, "training on several meshes", *_TAKES)
    layout = options.layout or _LAYOUT
    cases = [
        Case("mesh", mesh or "none", (f"--mesh={mesh}", f"--layout={layout}") if mesh else ())
        for mesh in _MESHES
    ]
    steps = options.steps or _STEPS
    runs = measured(cases, options, steps)
    alone = runs[0]
    for row in runs:
        row["times_one_device"] = round(row["step_ms"] / alone["step_ms"], 2)
    found = {**of_this_machine(), "layout": layout, "steps": steps, "runs": runs}
    print(_text(found))
    write(found, options.json)


def _text(found: Figures) -> str:
    lines = [
        f"machine  {found['machine']}, {found['date']}; virtual devices share it",
        f"layout   {found['layout']}; median of {found['steps']} steps (least to most)",
        f"{'mesh':18}{'first step':>12}  {'ms':32}{'times':>6}{'MB':>9}",
    ]
    for row in found["runs"]:
        first = f"{row['first_step_s']} s"
        lines.append(
            f"{row['value']:18}{first:>12}  {spread_text(row, 'step_ms'):32}"
            f"{row['times_one_device']:6}{row['peak_memory_mb']:9,}"
        )
    return "\n".join(lines)
