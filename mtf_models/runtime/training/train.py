"""The training loop."""

from __future__ import annotations

import contextlib
import functools
import logging
from dataclasses import dataclass
from typing import Any

from mtf_models import installation, processes
from mtf_models.checkpoint import CheckpointManager
from mtf_models.config import Config
from mtf_models.errors import ConfigError, failing_run
from mtf_models.mesh import Mesh
from mtf_models.processes.agreement import check_same
from mtf_models.runtime.bindings.settings import RunSettings, total_steps, training_rows
from mtf_models.runtime.folder import prepare, vocabulary_record
from mtf_models.runtime.folder.metrics import MetricsWriter
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.folder.recorded_config import read_folder_config
from mtf_models.runtime.folder.recorded_mesh import mesh_for
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.folder.trained_folder import TrainedFolder
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.options import TrainOptions
from mtf_models.runtime.training import announce, fine_tune, initial_checkpoint
from mtf_models.runtime.training.best import Best, check_task
from mtf_models.runtime.training.initial_checkpoint import InitialCheckpoint
from mtf_models.runtime.training.own_rows import OwnRows
from mtf_models.runtime.training.progress import Progress
from mtf_models.runtime.training.stop import Stopped, StopSignals, stop_signals
from mtf_models.runtime.training.trainer import Trainer
from mtf_models.runtime.using.evaluation import SPLIT, Plan, evaluate

_log = logging.getLogger("mtf_models")


@dataclass
class _Run:
    """One training run.

    Attributes:
        evaluated: what is evaluated; None for nothing.
        best: keeps the best checkpoint that was evaluated, if that is asked for.
        allow_partial: of the options.
        source: what the run begins with, if not with random values.
        before: the config of the run that `source` is of, if it is known.
        text: what is said of the beginning, beside the headline.
        saved: the step of the last checkpoint.
        position: of the data, when the last checkpoint was taken up.
    """

    trainer: Trainer
    manager: CheckpointManager
    config: Config
    settings: RunSettings
    steps: int
    batch_size: int
    evaluated: Plan | None
    source: InitialCheckpoint | None
    before: Config | None
    allow_partial: bool = False
    text: str = ""
    saved: int = 0
    position: dict[str, Any] | None = None
    best: Best | None = None

    @functools.cached_property
    def rows(self) -> OwnRows:
        """The rows of a batch that this process reads."""
        return OwnRows(self.trainer.model.mesh, self.batch_size)

    def take_up(self) -> None:
        """Restores the last checkpoint, if there is one, else what the run begins with."""
        latest = self.manager.latest()
        if latest is None:
            self.begin()
        else:
            extra = self.trainer.restore(self.manager.folder, latest, self.allow_partial)
            self.position = extra.get("position")
            self.saved = latest
            if self.position is None:
                _log.warning(
                    "Checkpoint %d records no position in the data; they are read from the start.",
                    latest,
                )

    def begin(self) -> None:
        """Takes the values that the run begins with, if they are not random."""
        if self.source is not None:
            begun = initial_checkpoint.begin(self.trainer, self.source)
            self.text = fine_tune.text(self.trainer, begun, self.before)

    def save(self, stream: Any) -> None:
        """Writes a checkpoint of the present step, unless there is one."""
        step = self.trainer.step_number
        if step > self.saved:
            self.manager.save(step, self.trainer.variables, {"position": stream.position})
            self.saved = step


def run(options: TrainOptions, refuses_other_config: bool = True) -> None:
    """Trains, or goes on training, in `options.model_dir`.

    Args:
        options: of the command.
        refuses_other_config: whether a run of another config that is in the folder is an error,
            else what differs is listed.

    Raises:
        MtfError: if the run cannot start, with exit status 2 and nothing changed, or if it fails,
            with exit status 1.
        Stopped: if Ctrl-C or SIGTERM ends it, after saving.
    """
    fine_tune.check_options(options)
    folder = RunFolder(options.model_dir)
    prepare.register(options)
    config = _config(folder, options, refuses_other_config)
    _check_same(folder, config, options)
    ready = _prepare(folder, config, options)
    with folder.locked():
        ready.begin() if options.overwrite else ready.take_up()
        if ready.trainer.step_number >= ready.steps:
            print(announce.finished(folder.path, ready.trainer.step_number, ready.steps))
            return
        if folder.config_file.exists() and not options.overwrite:
            # Another process may have trained here until now.
            folder.check_same(read_folder_config(folder.path), config, refuses_other_config)
        # Data are read ahead in a thread of their own, under the bindings that are active here.
        with config.active(), contextlib.closing(_open_stream(ready)) as stream:
            stream.peek()  # Nothing is written or deleted before it is sure that there are data.
            processes.current().gather("ready to train")
            if options.overwrite:
                folder.clear()
            with failing_run():
                folder.describe(config, ready.trainer.model, options.module_import)
                _train(ready, stream)
                print(announce.read(stream))
    print(announce.farewell(folder.path, ready.steps))


def _config(folder: RunFolder, options: TrainOptions, refuses_other_config: bool) -> Config:
    """The config to train with, once it is sure that it may be used in the folder."""
    going_on = folder.config_file.exists() and not options.overwrite
    if options.resume:
        if not going_on:
            raise ConfigError(
                f"There is no run to resume in {folder.path}: it has no "
                f"{folder.config_file.name}. Give the folder of a run, or drop --resume."
            )
        return prepare.read_resumed_config(folder.path, options)
    if options.init_from is None:
        config = prepare.read_config(options)
    else:
        config = fine_tune.read_config(folder, options)
    if going_on:
        folder.check_same(read_folder_config(folder.path), config, refuses_other_config)
    return config


def _check_same(folder: RunFolder, config: Config, options: TrainOptions) -> None:
    """Refuses to start if another process of several is about to do something else."""
    group = processes.current()
    if group.count > 1:
        step = CheckpointManager(folder.path).latest()
        same = {"config": config.text(), "seed": config.query("utils.run.seed", 0), "step": step}
        flags = {"--overwrite": options.overwrite, "--resume": options.resume}
        values = {**installation.versions(), **same, **flags}
        check_same(group, {name: str(value) for name, value in values.items()})


def _prepare(folder: RunFolder, config: Config, options: TrainOptions) -> _Run:
    """Builds model and trainer; changes nothing on disk."""
    settings = prepare.settings_of(config)
    _check_vocabulary(folder, config, settings, options)
    if settings.train_dataset_fn is None:
        raise ConfigError(
            "The config names no training data: bind run.train_dataset_fn, or include "
            "'examples/dataset.gin' and bind MIXTURE_NAME."
        )
    evaluated = _evaluated(config, settings)
    mesh = _mesh(folder, config, options)
    batch_size = training_rows(mesh, settings)
    with config.active():
        steps = total_steps(mesh, settings)
    source = _source(folder, settings, options)
    reader = None if source is None else source.reader
    model = model_from_config(config, mesh, settings.seed, options.strict, reader, batch_size)
    before = None if source is None else fine_tune.config_of(source.folder)
    trainer = Trainer(model)
    return _Run(
        trainer,
        trainer.manager(folder.path),
        config,
        settings,
        steps,
        batch_size,
        evaluated,
        source,
        before,
        options.allow_partial,
    )


def _check_vocabulary(
    folder: RunFolder, config: Config, settings: RunSettings, options: TrainOptions
) -> None:
    """Refuses a vocabulary other than that of the run, or of the one that it begins with."""
    if not options.overwrite:
        cure = "Give back the files that it was trained with, or take a new --model_dir."
        vocabulary_record.check_config(TrainedFolder(folder.path), config, cure)
    if settings.init_checkpoint is not None and not settings.init_variable_filter:
        cure = (
            "Take that vocabulary; or leave the embeddings out, with run.init_variable_filter, and "
            "let them be learnt anew."
        )
        vocabulary_record.check_config(model_folder(settings.init_checkpoint), config, cure)


def _source(
    folder: RunFolder, settings: RunSettings, options: TrainOptions
) -> InitialCheckpoint | None:
    """What a run begins with that has no checkpoint of its own, if not with random values."""
    if settings.init_checkpoint is None:
        return None
    if CheckpointManager(folder.path).latest() is not None and not options.overwrite:
        return None
    return InitialCheckpoint.find(settings.init_checkpoint)


def _mesh(folder: RunFolder, config: Config, options: TrainOptions) -> Mesh:
    """The mesh asked for, or what fits of the one that the run, or the one before it, records."""
    recorded = None
    if folder.config_file.exists() and not options.overwrite:
        recorded = read_folder_config(folder.path)
    elif options.init_from is not None and not options.gin_file:
        recorded = fine_tune.config_of(model_folder(options.init_from))
    if recorded is None:
        return prepare.mesh_of(prepare.settings_of(config))
    return mesh_for(config, recorded, options.mesh is not None, options.strict_mesh)


def _evaluated(config: Config, settings: RunSettings) -> Plan | None:
    """What is evaluated in training: nothing where there is no held-out split."""
    from mtf_models.data.tasks import get_task_or_mixture

    tasks = []
    if settings.eval_dataset_fn is not None:
        with config.active():
            name, count, options = settings.eval_dataset_fn()
        plan = Plan(name, SPLIT, count, options=options)
        needed = settings.eval_every_steps or settings.keep_best
        if needed or SPLIT in get_task_or_mixture(name).splits:
            tasks = [task.name for task in plan.tasks()]
    if settings.keep_best:
        check_task(settings.keep_best, tasks)
    return plan if tasks else None


def _open_stream(ready: _Run) -> Any:
    """The training batches, from where the run stands."""
    lengths = dict(ready.settings.sequence_length)
    if "inputs" not in ready.trainer.model.network.feature_names:
        lengths.pop("inputs", None)
    part = {"process": ready.rows.process} if processes.current().count > 1 else {}
    return ready.settings.train_dataset_fn(
        sequence_length=lengths,
        batch_size=ready.batch_size,
        seed=ready.settings.seed,
        position=ready.position,
        dataset_split=ready.settings.dataset_split,
        **part,
    )


def _train(ready: _Run, stream: Any) -> None:
    """Trains to the last step, or to where a signal stops it; saves either way."""
    first, folder = ready.trainer.step_number, ready.manager.folder
    print(announce.headline(ready.trainer, stream, ready.batch_size, ready.steps), flush=True)
    for text in (fine_tune.trained_text(ready.trainer), ready.text):
        if text:
            print(text, flush=True)
    print(f"folder     {folder}", flush=True)
    with (
        contextlib.closing(MetricsWriter(folder, after=first)) as writer,
        contextlib.closing(Progress(first, ready.steps)) as progress,
        stop_signals() as signals,
    ):
        if ready.settings.keep_best:
            ready.best = Best(folder, ready.settings.keep_best, first)
        try:
            _loop(ready, stream, writer, progress, signals)
        except Stopped as stopped:
            ready.save(stream)
            progress.close()
            print(f"\n{announce.read(stream)}")
            print(announce.stopped(folder, stopped, ready.saved), flush=True)
            raise


def _loop(
    ready: _Run, stream: Any, writer: MetricsWriter, progress: Progress, signals: StopSignals
) -> None:
    trainer, settings = ready.trainer, ready.settings
    while trainer.step_number < ready.steps:
        fill = stream.peek().fill(stream.lengths)
        features = ready.rows.in_whole(next(stream))
        metrics = {n: x for n, x in trainer.step(features).items() if n != "step"}
        step = trainer.step_number
        tokens = sum(int((features[n] != 0).sum()) for n in trainer.model.network.feature_names)
        metrics |= {f"fill/{name}": share for name, share in fill.items()}
        rate = progress.update(step, metrics, tokens * ready.rows.process[1])
        writer.write(
            step, metrics if rate is None else {**metrics, "tokens_per_second": rate}, "train"
        )
        with progress.paused():
            if step % settings.save_checkpoints_steps == 0 or step == ready.steps:
                ready.save(stream)
            signals.check(step)
            every = settings.eval_every_steps
            if step == ready.steps or (every and step % every == 0):
                with signals.heeded_at_once():
                    _evaluate(ready, writer)


def _evaluate(ready: _Run, writer: MetricsWriter) -> None:
    """Evaluates the held-out split of the config's task and shows some examples."""
    if ready.evaluated is None:
        return
    step, values = ready.trainer.step_number, {}
    for found in evaluate(ready.trainer.model, ready.evaluated):
        print(f"\n{found.text()}\n", flush=True)
        writer.write(step, found.rows(), "eval")
        values |= found.rows()
    if ready.best and (kept := ready.best.offer(step, values, ready.trainer.variables)):
        print(kept, flush=True)
