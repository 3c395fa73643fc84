"""How time and memory of a training step grow with the sizes of a model."""

from __future__ import annotations

import itertools
import math

from mtf_models.runtime.benchmarks.figures import Figures, of_this_machine, spread_text, write
from mtf_models.runtime.benchmarks.idle_options import refuse_idle
from mtf_models.runtime.benchmarks.sweeps import Case, measured
from mtf_models.runtime.options import BenchOptions

_STEPS = 3
_KNEE = 1.15
"""The exponent beyond which growth is faster than in proportion, and not only noisy."""

_SMALL = ("--gin_file=models/t5.1.1.small.gin",)
_SWITCH = (
    "--gin_file=models/switch.base.8.gin",
    *(
        f"--gin_param={size}"
        for size in ("num_layers = 4", "d_model = 512", "d_ff = 1024", "num_heads = 6")
    ),
)
_BFLOAT16 = "--gin_param=utils.get_variable_dtype.activation_dtype = 'bfloat16'"


def run(options: BenchOptions) -> None:
    """Times steps of one row over lengths, vocabularies, layers and experts; prints the figures.

    T5 1.1 small in bfloat16 with 128 + 128 tokens is where all but one size stays; for the number
    of experts it is a Switch transformer of its width with 8 layers, of which every second has
    them.

    Raises:
        MtfError: if a process fails, for want of memory for one, or an option does nothing.
    """
    refuse_idle(options, "models of several sizes", "gin_param")
    steps = options.steps or _STEPS
    runs = measured(_cases(), options, steps)
    found = {**of_this_machine(), "steps": steps, "runs": with_exponents(runs)}
    print(_text(found))
    write(found, options.json)


def with_exponents(runs: list[Figures]) -> list[Figures]:
    """Adds to each row that follows one of the same kind the exponents of its growth.

    From x to x' time has the exponent log(t' / t) / log(x' / x): 0 where the size does not matter,
    1 in proportion, 2 for the square.

    Args:
        runs: "varied", "value", "step_ms" and "peak_memory_mb".
    """
    for before, row in itertools.pairwise(runs):
        if before["varied"] == row["varied"]:
            size = math.log(row["value"] / before["value"])
            for name in ("step_ms", "peak_memory_mb"):
                row[f"{name}_exponent"] = round(math.log(row[name] / before[name]) / size, 2)
    return runs


def knee(rows: list[Figures]) -> int | None:
    """The size beyond which time grows faster than in proportion; None if it never does.

    Args:
        rows: of one kind, from `with_exponents`.
    """
    for before, row in itertools.pairwise(rows):
        if row["step_ms_exponent"] > _KNEE:
            return before["value"]
    return None


def _cases() -> list[Case]:
    cases = [_case("length", n, *_SMALL, length=n) for n in (128, 256, 512, 1024, 2048, 4096)]
    for vocab in (32128, 64256, 128512, 250112):
        sizes = [
            f"transformer.make_bitransformer.{side}_vocab_size" for side in ("input", "output")
        ]
        flags = [f"--gin_param={size} = {vocab}" for size in sizes]
        cases.append(_case("vocabulary", vocab, *_SMALL, *flags))
    for layers in (2, 4, 8, 16):
        cases.append(_case("layers", layers, *_SMALL, f"--gin_param=num_layers = {layers}"))
    for experts in (2, 8, 32, 64):
        flag = f"--gin_param=moe.MoE1D.num_experts = {experts}"
        cases.append(_case("experts", experts, *_SWITCH, flag))
    return cases


def _case(varied: str, value: int, *flags: str, length: int = 128) -> Case:
    lengths = f"utils.run.sequence_length = {{'inputs': {length}, 'targets': {length}}}"
    return Case(varied, value, (*flags, _BFLOAT16, f"--gin_param={lengths}", "--batch_size=1"))


def _text(found: Figures) -> str:
    lines = [
        f"machine  {found['machine']}, {found['date']}",
        f"steps    of one row, median of {found['steps']} (least to most); growth is the exponent",
        f"{'':12}{'size':>8}  {'ms':34}{'growth':>7}{'MB':>9}{'growth':>8}",
    ]
    knees = []
    for varied, group in itertools.groupby(found["runs"], key=lambda row: row["varied"]):
        rows = list(group)
        for row in rows:
            time, memory = (row.get(f"{n}_exponent", "") for n in ("step_ms", "peak_memory_mb"))
            lines.append(
                f"{varied:12}{row['value']:8,}  {spread_text(row, 'step_ms'):34}{time:>7}"
                f"{row['peak_memory_mb']:9,}{memory:>8}"
            )
        beyond = knee(rows)
        knees.append(f"{varied}: " + ("never" if beyond is None else f"beyond {beyond:,}"))
    return "\n".join([*lines, f"faster than in proportion: {', '.join(knees)}"])
