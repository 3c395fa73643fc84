"""`mtf run --use_model_api`: an old command line in terms of `MtfModel`."""

from __future__ import annotations

from collections.abc import Callable

from mtf_models.config import skipping
from mtf_models.errors import ConfigError
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps
from mtf_models.runtime.options import RunOptions
from mtf_models.runtime.original.mtf_model import MtfModel
from mtf_models.runtime.original.recorded_command import recorded_command
from mtf_models.runtime.original.run import say_without_meaning, use_data_folders

_DEFAULT_TASK = "wmt_t2t_ende_v003"
"""The original's, where `--mixture_or_task` is not given."""


def run(options: RunOptions) -> None:
    """Does what `--mode` and the flags after it say.

    Raises:
        MtfError: if it cannot be done.
    """
    say_without_meaning(options)
    use_data_folders(options)
    names = options.additional_deprecated_gin_references
    with (
        skipping(names, options.skip_all_gin_unknowns),
        recorded_command(options.model_dir),
    ):
        _modes(options)[options.mode]()


def _modes(options: RunOptions) -> dict[str, Callable[[], object]]:
    steps = _steps(options)
    name = options.mixture_or_task or _DEFAULT_TASK
    # Lines of a file are read by the task that the config names, unless the flags name one.
    named = options.mixture_or_task or options.mode not in ("predict", "score")
    vocabulary = [f"get_vocabulary.mixture_or_task_name = {name!r}"] if named else []

    def model() -> MtfModel:
        return MtfModel(
            options.model_dir,
            batch_size=options.batch_size,
            sequence_length={
                "inputs": options.input_sequence_length,
                "targets": options.target_sequence_length,
            },
            extra_gin_bindings=[*options.gin_param, *vocabulary],
            gin_files=options.gin_file,
            gin_location_prefix=options.gin_location_prefix,
            module_import=options.module_import,
        )

    return {
        "train": lambda: model().train(name, options.train_steps),
        "finetune": lambda: model().finetune(
            name,
            options.train_steps,
            _required(options, "pretrained_model_dir"),
            _one(options, steps),
        ),
        "eval": lambda: model().eval(
            name, steps, options.eval_summary_dir or None, options.eval_split
        ),
        "predict": lambda: model().predict(
            _required(options, "input_file"),
            _required(options, "output_file"),
            steps,
            options.beam_size,
            options.temperature,
            options.keep_top_k,
        ),
        "score": lambda: _score(model(), options, steps),
        "export_predict": lambda: _export(model(), options, steps),
        "export_score": lambda: _export(model(), options, steps, by_score=True),
    }


def _score(model: MtfModel, options: RunOptions, steps: CheckpointSteps) -> None:
    output = _required(options, "output_file")
    if options.target_file:
        model.score(
            inputs=options.input_file or None,
            targets=options.target_file,
            scores_file=output,
            checkpoint_steps=steps,
        )
    else:
        model.score(
            mixture_or_task_name=options.mixture_or_task or _DEFAULT_TASK,
            mixture_or_task_split=options.eval_split,
            scores_file=output,
            checkpoint_steps=steps,
        )


def _export(
    model: MtfModel, options: RunOptions, steps: CheckpointSteps, by_score: bool = False
) -> None:
    model.export(
        options.export_dir or None,
        _one(options, steps),
        options.beam_size,
        options.temperature,
        options.keep_top_k,
        eval_with_score=by_score,
    )


def _steps(options: RunOptions) -> CheckpointSteps:
    if options.checkpoint_mode == "specific":
        return list(options.checkpoint_steps)
    return -1 if options.checkpoint_mode == "latest" else options.checkpoint_mode


def _one(options: RunOptions, steps: CheckpointSteps) -> int:
    if isinstance(steps, list) and len(steps) == 1:
        return steps[0]
    if steps == -1:
        return -1
    raise ConfigError(
        f"--mode={options.mode} takes one checkpoint, and {steps} were asked for: give one of "
        "--checkpoint_steps, or --checkpoint_mode=latest."
    )


def _required(options: RunOptions, name: str) -> str:
    value = getattr(options, name)
    if not value:
        raise ConfigError(f"--mode={options.mode} needs --{name}.")
    return value
