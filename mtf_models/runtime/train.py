"""The training loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mtf_models.checkpoint import CheckpointManager
from mtf_models.config import Config
from mtf_models.errors import ConfigError, failing_run
from mtf_models.runtime import prepare
from mtf_models.runtime.build import model_from_config
from mtf_models.runtime.evaluate import evaluate
from mtf_models.runtime.metrics import MetricsWriter
from mtf_models.runtime.options import TrainOptions
from mtf_models.runtime.progress import Progress
from mtf_models.runtime.run_folder import RunFolder
from mtf_models.runtime.settings import RunSettings, batch_size_on, total_steps
from mtf_models.runtime.trainer import Trainer


@dataclass
class _Run:
    """One training run, ready to go."""

    trainer: Trainer
    manager: CheckpointManager
    folder: RunFolder
    config: Config
    settings: RunSettings
    steps: int
    batch_size: int
    position: dict[str, Any] | None


def run(options: TrainOptions) -> None:
    """Trains, or goes on training, in `options.model_dir`.

    Raises:
        MtfError: if the run cannot start, with exit status 2 and nothing changed, or if it fails,
            with exit status 1.
    """
    folder = RunFolder(options.model_dir)
    prepare.register(options)
    config = _config(folder, options)
    ready = _prepare(folder, config, options)
    if ready.trainer.step_number >= ready.steps:
        print(
            f"{folder.path} is finished: it is at step {ready.trainer.step_number} of "
            f"{ready.steps}. Give a larger --steps to train on."
        )
        return
    with folder.locked():
        if options.overwrite:
            folder.clear()
        stream = _open_stream(ready)
        with failing_run(), contextlib.closing(stream):
            _train(ready, stream)


def _config(folder: RunFolder, options: TrainOptions) -> Config:
    """The config to train with, once it is sure that it may be used in the folder."""
    going_on = folder.config_file.exists() and not options.overwrite
    if options.resume:
        if not going_on:
            raise ConfigError(f"There is no run to resume in {folder.path}.")
        return prepare.read_recorded_config(folder.path, options)
    config = prepare.read_config(options)
    if going_on:
        recorded = prepare.read_recorded_config(
            folder.path, TrainOptions(model_dir=options.model_dir)
        )
        folder.check_same(recorded, config)
    return config


def _prepare(folder: RunFolder, config: Config, options: TrainOptions) -> _Run:
    """Builds model and trainer and takes up the last checkpoint; changes nothing on disk."""
    settings = prepare.settings_of(config)
    if settings.train_dataset_fn is None:
        raise ConfigError(
            "The config names no training data: bind run.train_dataset_fn, or include "
            "'examples/dataset.gin' and bind MIXTURE_NAME."
        )
    going_on = folder.has_run() and not options.overwrite
    mesh = prepare.mesh_of(settings, going_on and options.mesh is None, options.strict_mesh)
    batch_size = batch_size_on(mesh, settings)
    with config.active():
        steps = total_steps(mesh, settings)
    model = model_from_config(config, mesh, settings.seed, options.pad_vocab, options.strict)
    trainer = Trainer(model)
    manager = CheckpointManager(folder.path, keep=settings.keep_checkpoint_max)
    position = None
    latest = manager.latest() if going_on else None
    if latest is not None:
        position = trainer.restore(manager, latest).get("position")
    return _Run(trainer, manager, folder, config, settings, steps, batch_size, position)


def _open_stream(ready: _Run) -> Any:
    """The training batches, from where the run stands."""
    lengths = dict(ready.settings.sequence_length)
    if "inputs" not in ready.trainer.model.network.feature_names:
        lengths.pop("inputs", None)
    with ready.config.active():
        return ready.settings.train_dataset_fn(
            sequence_length=lengths,
            batch_size=ready.batch_size,
            seed=ready.settings.seed,
            position=ready.position,
        )


def _train(ready: _Run, stream: Iterator[dict[str, Any]]) -> None:
    trainer, settings = ready.trainer, ready.settings
    first = trainer.step_number
    ready.folder.describe(ready.config, trainer.model)
    writer = MetricsWriter(ready.folder.path, after=first)
    print(_headline(ready, stream), flush=True)
    progress = Progress(first, ready.steps)
    saved = first
    try:
        while trainer.step_number < ready.steps:
            features = next(stream)
            metrics = trainer.step(features)
            step = trainer.step_number
            tokens = sum(
                int((features[n] != 0).sum()) for n in ("inputs", "targets") if n in features
            )
            rate = progress.update(metrics, tokens)
            writer.write(step, {**metrics, "tokens_per_second": rate}, "train")
            if step % settings.save_checkpoints_steps == 0 or step == ready.steps:
                ready.manager.save(step, trainer.variables, {"position": stream.position})
                saved = step
            if settings.eval_every_steps and step % settings.eval_every_steps == 0:
                _evaluate(ready, writer)
    except KeyboardInterrupt:
        progress.close()
        _save_interrupted(ready, stream, saved)
        raise
    progress.close()
    if settings.eval_every_steps == 0 or ready.steps % settings.eval_every_steps:
        _evaluate(ready, writer)
    writer.flush()
    print(_farewell(ready))


def _evaluate(ready: _Run, writer: MetricsWriter) -> None:
    """Evaluates the held-out split of the config's task and shows some examples."""
    if ready.settings.eval_dataset_fn is None:
        return
    with ready.config.active():
        name, count = ready.settings.eval_dataset_fn()
    for found in evaluate(ready.trainer.model, name, "validation", count):
        print(f"\n{found.text()}\n", flush=True)
        writer.write(ready.trainer.step_number, found.rows(), "eval")


def _save_interrupted(ready: _Run, stream: Any, saved: int) -> None:
    step = ready.trainer.step_number
    if step > saved:
        ready.manager.save(step, ready.trainer.variables, {"position": stream.position})
    print(
        f"\nInterrupted after step {step}; everything is saved in {ready.folder.path}. The same "
        "command goes on from there.",
        flush=True,
    )


def _headline(ready: _Run, stream: Any) -> str:
    """Where, how and how much: the first lines of a run."""
    model = ready.trainer.model
    left = ready.steps - ready.trainer.step_number
    lengths = ready.settings.sequence_length
    names = model.network.feature_names
    tokens = ready.batch_size * sum(lengths[n] for n in names)
    counts = stream.peek()
    examples = counts.examples * left
    per_epoch = stream.examples_per_epoch
    epochs = f", {examples / per_epoch:.1f} epochs of {per_epoch:,}" if per_epoch else ""
    dtype = model.variable_dtype
    lines = [
        f"devices    {', '.join(model.mesh.devices)}",
        f"mesh       {model.mesh}   layout {model.mesh.rules}",
        f"parameters {model.parameters:,}, {dtype.slice.name}; computes in {dtype.activation.name}",
        f"batch      {ready.batch_size} rows of {' + '.join(f'{lengths[n]} {n}' for n in names)} = "
        f"{tokens:,} tokens; the first holds {counts.examples:,} examples",
        f"steps      {ready.trainer.step_number} to {ready.steps}: {tokens * left:,} tokens, about "
        f"{examples:,} examples{epochs}",
        f"folder     {ready.folder.path}",
    ]
    return "\n".join(lines)


def _farewell(ready: _Run) -> str:
    """What to type next."""
    path = ready.folder.path
    return (
        f"Trained to step {ready.steps}. Next:\n"
        f"  mtf eval --model_dir={path}\n"
        f"  mtf infer --model_dir={path} --input=words.txt --output=out.jsonl\n"
        f"  tensorboard --logdir={path}"
    )
