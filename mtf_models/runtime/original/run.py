"""The original's `run`: what the gin files of an old command line say, mode by mode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtf_models.config import Config, skipping
from mtf_models.errors import ConfigError, did_you_mean, failing_run
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.bindings.task_modules import query_task
from mtf_models.runtime.bindings.tasks import Evaluated
from mtf_models.runtime.folder import checkpoint_steps, prepare
from mtf_models.runtime.folder.recorded_mesh import mesh_for
from mtf_models.runtime.options import RunOptions, TrainOptions
from mtf_models.runtime.original import evaluate, export, infer, perplexity, score
from mtf_models.runtime.original.recorded_command import recorded_command
from mtf_models.runtime.original.used_model import UsedModel
from mtf_models.runtime.training import train

MODES = (
    "train",
    "eval",
    "score_eval",
    "perplexity_eval",
    "infer",
    "score_from_strings",
    "score_from_dataset",
)
"""What `run.mode` can be."""

_WATCHING = ("eval", "score_eval", "perplexity_eval")
"""Modes that wait for checkpoints as they come, unless they are told which ones to use."""


_log = logging.getLogger("mtf_models")


def run(options: RunOptions) -> None:
    """Does what the gin files say.

    Raises:
        MtfError: if it cannot be started, with exit status 2 and nothing changed, or if it fails,
            with exit status 1.
    """
    say_without_meaning(options)
    use_data_folders(options)
    names = options.additional_deprecated_gin_references
    with (
        skipping(names, options.skip_all_gin_unknowns),
        recorded_command(options.model_dir),
    ):
        given = _train_options(options)
        prepare.register(given)
        config, given = as_the_original(given)
        settings = prepare.settings_of(config)
        mode = checked_mode(settings.mode)
        if mode == "train":
            # The original goes on under whatever config it is given.
            train.run(given, refuses_other_config=False)
        elif mode in export.MODES:
            export.export_model(
                Path(options.model_dir),
                config,
                settings.export_checkpoint_step,
                settings.export_path or None,
                by_score=mode == "export_score",
            )
        else:
            use(Path(options.model_dir), config, settings, mode)


def use(folder: Path, config: Config, settings: RunSettings, mode: str) -> list[Any]:
    """Runs a mode that uses a trained model, for each checkpoint that is asked for.

    Args:
        folder: the run folder.
        config: of the mode.
        settings: of the config.
        mode: any but "train".

    Returns:
        What came of it for each checkpoint.

    Raises:
        MtfError: if something that it needs is not there.
    """
    work = _work(folder, config, settings, mode)
    wanted = settings.eval_checkpoint_step
    watches = wanted is None and mode in _WATCHING
    steps = checkpoint_steps.steps_of(folder, wanted, watches)
    if mode.startswith("score_from"):
        steps = iter([_only(list(steps))])
    if watches:
        print(f"Waiting for checkpoints in {folder}; Ctrl-C ends it.", flush=True)
    return at_each(steps, folder, config, work)


def at_each(
    steps: Iterable[int], folder: Path, config: Config, work: Callable[[UsedModel], Any]
) -> list[Any]:
    """Does something with a model at each of some checkpoints.

    Args:
        steps: of the checkpoints; without end where they are waited for.
        folder: the run folder.
        config: of the model.
        work: what is done.

    Returns:
        What `work` returned, for each checkpoint.
    """
    found, used = [], None
    for step in steps:
        # Where checkpoints are waited for, the first one may be long in coming.
        used = used or UsedModel(folder, config, mesh_for(config, config, as_asked=False))
        with failing_run(), config.active():
            found.append(work(used.at(step)))
    return found


def say_without_meaning(options: RunOptions) -> None:
    """Names the flags that mean nothing here, in one line."""
    if options.without_meaning:
        flags = ", ".join(f"--{name}" for name in options.without_meaning)
        _log.warning("Flags without meaning here, as they are for TPUs: %s.", flags)


def use_data_folders(options: RunOptions) -> None:
    """Sets where datasets and cached tasks are looked for."""
    if options.t5_tfds_data_dir is not None:
        from mtf_models.data.prepared import use_data_dir

        use_data_dir(options.t5_tfds_data_dir)
    if options.additional_task_cache_dirs:
        import seqio

        seqio.add_global_cache_dirs(list(options.additional_task_cache_dirs))


def checked_mode(mode: str) -> str:
    """The mode, if there is one of this name.

    Raises:
        ConfigError: if there is none.
    """
    known = (*MODES, *export.MODES)
    if mode not in known:
        raise ConfigError(f"run.mode is {mode!r}, which is no mode{did_you_mean(mode, known)}")
    return mode


def _train_options(options: RunOptions) -> TrainOptions:
    return TrainOptions(
        model_dir=options.model_dir,
        gin_file=options.gin_file,
        gin_param=options.gin_param,
        gin_location_prefix=options.gin_location_prefix,
        module_import=options.module_import,
    )


def as_the_original(
    given: TrainOptions, read: Callable[[TrainOptions], Config] = prepare.read_config
) -> tuple[Config, TrainOptions]:
    """The config with what the original always binds: vocabularies of the task, and float32.

    Args:
        given: names gin files and bindings.
        read: reads a config from such options.

    Returns:
        The config, and the options that come to it.
    """
    config = read(given)
    bindings = []
    if query_task(config, "get_vocabulary") is not None:
        bindings.append("utils.run.vocabulary = @mesh_transformer.get_vocabulary()")
    asked = [config.query(f"get_variable_dtype.{kind}_dtype") for kind in ("slice", "activation")]
    if "bfloat16" in asked:
        _log.info("Computing in float32, as the original does without TPUs.")
    bindings += [
        'utils.get_variable_dtype.slice_dtype = "float32"',
        'utils.get_variable_dtype.activation_dtype = "float32"',
    ]
    given = replace(given, gin_param=(*given.gin_param, *bindings))
    return read(given), given


def _only(steps: list[int]) -> int:
    if len(steps) != 1:
        raise ConfigError(
            f"run.eval_checkpoint_step asks for the steps {', '.join(map(str, steps))}, and scores "
            "are of one checkpoint: name one, or -1 for the latest."
        )
    return steps[0]


def _work(
    folder: Path, config: Config, settings: RunSettings, mode: str
) -> Callable[[UsedModel], Any]:
    """What is done with each checkpoint; what can be checked before is."""
    if mode.startswith("score_from"):
        score.check_outputs(config.query)
    if mode == "infer":
        infer.check_files(config.query)
        return infer.infer_model
    if mode == "score_from_strings":
        score.check_texts(config.query)
        return score.score_from_strings
    if mode == "score_from_dataset":
        return lambda used: score.score_from_dataset(used, settings.dataset_split)
    name, count, options = _evaluated(config, settings)
    split = settings.dataset_split
    if mode == "perplexity_eval":
        steps = settings.perplexity_eval_steps
        return lambda used: perplexity.evaluate_perplexity(used, name, split, steps, count)
    target = Path(settings.eval_summary_dir or folder / f"{split}_eval")
    if settings.eval_dir_suffix:
        target = target.with_name(f"{target.name}_{settings.eval_dir_suffix}")

    def evaluated(used: UsedModel) -> None:
        by_score = mode == "score_eval"
        results = evaluate.evaluate_tasks(
            used, name, split, count, by_score=by_score, options=options
        )
        evaluate.report(used, results, target, settings.output_eval_examples)

    return evaluated


def _evaluated(config: Config, settings: RunSettings) -> Evaluated:
    """What is evaluated; it has the split."""
    from mtf_models.data.tasks import tasks_with_split

    if settings.eval_dataset_fn is not None:
        with config.active():
            found = settings.eval_dataset_fn()
    else:
        name = query_task(config, "mesh_train_dataset_fn")
        if settings.mode != "perplexity_eval" or name is None:
            raise ConfigError(
                f"Mode {settings.mode} needs a task: bind run.eval_dataset_fn = "
                "@mesh_eval_dataset_fn and mesh_eval_dataset_fn.mixture_or_task_name."
            )
        found = Evaluated(name)
    tasks_with_split(found.name, settings.dataset_split)
    return found
