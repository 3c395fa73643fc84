"""Trains the variants of a config, each from several seeds, and tells how they differ."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from mtf_models.config import Config
from mtf_models.errors import ConfigError, MtfError
from mtf_models.runtime.bindings.comparison import Comparison, folder_name
from mtf_models.runtime.comparison import plot
from mtf_models.runtime.comparison.summary import Variant, read_run, table
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.options import CompareOptions, TrainOptions
from mtf_models.runtime.training import train
from mtf_models.runtime.whole_file import write_text

TABLE_FILE, NUMBERS_FILE, PLOT_FILE = (f"comparison.{end}" for end in ("md", "json", "svg"))


@dataclass(frozen=True)
class _Planned:
    """A variant that will be trained: its number of parameters, and a run for each seed."""

    name: str
    parameters: int
    runs: tuple[TrainOptions, ...]


def run(options: CompareOptions) -> None:
    """Trains every variant from every seed, each in a run folder of its own, and compares them.

    Runs that are finished are not made again, and one that was interrupted goes on.

    Args:
        options: of the command; gin binds `compare.variants` and `compare.seeds`.

    Raises:
        MtfError: if a variant cannot be built, before any is trained, or if a run fails.
    """
    plot.require()
    plan = _plan(options)
    total = sum(len(variant.runs) for variant in plan)
    runs = [(variant.name, run) for variant in plan for run in variant.runs]
    for number, (name, one) in enumerate(runs, start=1):
        print(f"\n== {name}, seed {one.seed} (run {number} of {total})", flush=True)
        train.run(one)
    folder = Path(options.model_dir)
    found = [
        Variant(v.name, v.parameters, tuple(read_run(Path(run.model_dir)) for run in v.runs))
        for v in plan
    ]
    text = table(found)
    write_text(folder / TABLE_FILE, text)
    write_text(folder / NUMBERS_FILE, json.dumps([asdict(v) for v in found], indent=1) + "\n")
    plot.draw(found, folder / PLOT_FILE)
    print(f"\n{text}\nWritten to {folder}: {TABLE_FILE}, {NUMBERS_FILE} and {PLOT_FILE}.")


def _plan(options: CompareOptions) -> list[_Planned]:
    """All runs; every variant is built first, so that none fails when others are trained."""
    taken = {f.name for f in fields(TrainOptions)}
    given = {n: v for n, v in vars(options).items() if n in taken}
    common = TrainOptions(**given)
    prepare.register(common)
    with prepare.read_config(common).active():
        comparison = Comparison()
    plan, faults = [], []
    for name, bindings in comparison.variants.items():
        variant = replace(common, gin_param=(*common.gin_param, *bindings))
        try:
            parameters = _parameters(prepare.read_config(variant))
        except MtfError as error:
            faults.append(f"{name}: {error}")
            continue
        folder = Path(options.model_dir, folder_name(name))
        runs = [
            replace(variant, seed=seed, model_dir=str(folder / f"seed_{seed}"))
            for seed in comparison.seeds
        ]
        plan.append(_Planned(name, parameters, tuple(runs)))
    if faults:
        lines = "".join(f"\n  {fault}" for fault in faults)
        raise ConfigError(f"Nothing was trained: some variants cannot be built.{lines}")
    return plan


def _parameters(config: Config) -> int:
    settings = prepare.settings_of(config)
    return model_from_config(config, prepare.mesh_of(settings)).parameters
