"""How fast the input pipeline of a config is on one core, beside the model that it feeds."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from typing import Any

from mtf_models.errors import ConfigError
from mtf_models.runtime.benchmarks.figures import (
    Figures,
    of_this_machine,
    seconds,
    spread,
    spread_text,
    write,
)
from mtf_models.runtime.benchmarks.idle_options import refuse_idle
from mtf_models.runtime.bindings.settings import training_rows
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import BenchOptions, ConfigOptions
from mtf_models.runtime.training.trainer import Trainer

_CONFIGS = (
    "examples/g2p_tiny.gin",
    "examples/kjv_web_tiny.gin",
    "examples/span_corruption_tiny.gin",
)
_TAKES = (*(f.name for f in dataclasses.fields(ConfigOptions)), "pad_vocab", "batch_size", "seed")
_ROUNDS = 10
_BATCHES = 8


def run(options: BenchOptions) -> None:
    """Measures the pipelines of the examples, or that of the gin files, and prints the figures.

    Raises:
        MtfError: if a config cannot be built or names no training data, or an option does nothing.
    """
    refuse_idle(options, "input pipelines", *_TAKES)
    prepare.register(options)
    rounds = options.steps or _ROUNDS
    configs = [options.gin_file] if options.gin_file else [(file,) for file in _CONFIGS]
    found = {**of_this_machine(), "rounds": rounds, "batches": _BATCHES}
    found["runs"] = [
        time_reading(dataclasses.replace(options, gin_file=files), rounds) for files in configs
    ]
    print(_text(found))
    write(found, options.json)


def time_reading(options: BenchOptions, rounds: int) -> Figures:
    """Reads batches, and then trains on some of them.

    Batches are made by a thread ahead of their use, so what counts for them is the time that the
    whole process computes, as if on one core. Steps count by the clock.

    Args:
        options: name the config.
        rounds: of several batches each; and as many steps are timed, after one that compiles.

    Returns:
        Tokens, padding not counted, and examples per second that are read and trained on: median,
        least and most; and how many times faster the former is.

    Raises:
        ConfigError: if the config names no training data.
    """
    config = prepare.read_config(options)
    settings = prepare.settings_of(config)
    if settings.train_dataset_fn is None:
        raise ConfigError(
            f"{', '.join(options.gin_file)} names no training data: bind run.train_dataset_fn, or "
            "include 'examples/dataset.gin' and bind MIXTURE_NAME."
        )
    mesh = prepare.mesh_of(settings)
    rows = training_rows(mesh, settings)
    model = model_from_config(config, mesh, settings.seed, options.strict, None, rows)
    read: dict[str, list[float]] = {"examples": [], "tokens": []}
    # What gin binds of an objective is asked for as examples are read.
    with config.active(), contextlib.closing(_stream(model, rows)) as stream:
        features = next(stream)
        for _ in range(rounds):
            counts = []

            def take(counts: list[Any] = counts) -> None:
                for _ in range(_BATCHES):
                    counts.append(stream.peek())
                    next(stream)

            spent = seconds(take, time.process_time)
            read["examples"].append(sum(c.examples for c in counts) / spent)
            read["tokens"].append(sum(sum(c.tokens.values()) for c in counts) / spent)
    trainer = Trainer(model)
    trainer.step(features)
    tokens = sum(int((features[n] != 0).sum()) for n in model.network.feature_names)
    trained = [tokens / seconds(lambda: trainer.step(features)) for _ in range(rounds)]
    return {
        "config": ", ".join(options.gin_file),
        "rows": rows,
        **spread("examples_per_second", read["examples"], 0),
        **spread("tokens_per_second", read["tokens"], 0),
        **spread("trained_tokens_per_second", trained, 0),
        "times_model": round(statistics.median(read["tokens"]) / statistics.median(trained), 1),
    }


def _stream(model: Model, rows: int) -> Any:
    """The training batches, from the first one on."""
    settings = model.settings
    lengths = dict(settings.sequence_length)
    if "inputs" not in model.network.feature_names:
        lengths.pop("inputs", None)
    return settings.train_dataset_fn(
        sequence_length=lengths,
        batch_size=rows,
        seed=settings.seed,
        position=None,
        dataset_split=settings.dataset_split,
    )


def _text(found: Figures) -> str:
    lines = [
        f"machine  {found['machine']}, {found['date']}",
        f"rounds   {found['rounds']} of {found['batches']} batches; per second, median (least to "
        "most): read by one core, trained by all",
        f"{'config':<36}{'examples read':<34}{'tokens read':<42}{'tokens trained':<34}{'times':>6}",
    ]
    for row in found["runs"]:
        read, tokens, trained = (
            spread_text(row, name)
            for name in ("examples_per_second", "tokens_per_second", "trained_tokens_per_second")
        )
        lines.append(
            f"{row['config']:<36}{read:<34}{tokens:<42}{trained:<34}{row['times_model']:>6}"
        )
    return "\n".join(lines)
