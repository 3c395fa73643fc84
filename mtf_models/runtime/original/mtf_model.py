"""`MtfModel`: the methods of `t5.models.MtfModel`, without TPUs, on this package's runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gin

from mtf_models.checkpoint.hugging_face import convert_first
from mtf_models.config import Config
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.settings import BatchSize
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps, steps_of
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.options import TrainOptions
from mtf_models.runtime.original import evaluate
from mtf_models.runtime.original.export import export_model
from mtf_models.runtime.original.run import as_the_original, at_each, use
from mtf_models.runtime.original.used_model import UsedModel
from mtf_models.runtime.training import fine_tune, train

_log = logging.getLogger("mtf_models")


class MtfModel:
    """A model in a folder, which can be trained, fine-tuned, evaluated and used.

    Its config is that of `gin_files`, else the one that the folder records, else what gin holds:
    users of the original parse a file before they make the model.

    Args:
        model_dir: the run folder.
        tpu: without meaning here, as all arguments that speak of TPUs.
        batch_size: a number of sequences, or a pair of a method and a number.
        sequence_length: feature name to length; 512 for both by default.
        model_type: see `run.model_type`; None for the config's.
        layout_rules: dimension to mesh axis; None for the config's.
        mesh_shape: axes and sizes; None for one device.
        mesh_devices: names of devices, one for each part of the mesh.
        learning_rate_schedule: a number, the name of a schedule, or None for the config's.
        keep_checkpoint_max: how many of the latest checkpoints are kept; None for all.
        save_checkpoints_steps: steps between checkpoints.
        optimizer: the name of one, or None for the config's.
        variable_filter: what is trained, see `run.variable_filter`.
        ensemble_inputs: how many members an ensemble has, each of which trains on its own batch.
        extra_gin_bindings: applied last.
        gin_files: gin files of the model.
        gin_location_prefix: folders in which they are looked for too.
        module_import: modules that register tasks.

    Raises:
        ConfigError: if an argument can only be given by gin.
    """

    def __init__(
        self,
        model_dir: str | Path,
        tpu: Any = None,
        tpu_job_name: str | None = None,
        tpu_zone: str | None = None,
        gcp_project: str | None = None,
        tpu_topology: str | None = None,
        model_parallelism: int | None = None,
        batch_size: BatchSize = ("sequences_per_batch", 1),
        sequence_length: Mapping[str, int] | None = None,
        model_type: str | None = None,
        layout_rules: str | None = None,
        mesh_shape: str | None = None,
        mesh_devices: Sequence[str] | None = None,
        autostack: bool = True,
        learning_rate_schedule: float | str | None = None,
        keep_checkpoint_max: int | None = None,
        save_checkpoints_steps: int = 5000,
        optimizer: str | None = None,
        predict_fn: Any = None,
        variable_filter: str | None = None,
        ensemble_inputs: int | None = None,
        iterations_per_loop: int | None = None,
        extra_gin_bindings: Sequence[str] | None = None,
        *,
        gin_files: Sequence[str] = (),
        gin_location_prefix: Sequence[str] = (),
        module_import: Sequence[str] = (),
    ) -> None:
        _say_without_meaning(
            tpu=tpu,
            tpu_job_name=tpu_job_name,
            tpu_zone=tpu_zone,
            gcp_project=gcp_project,
            tpu_topology=tpu_topology,
            model_parallelism=model_parallelism,
            iterations_per_loop=iterations_per_loop,
            autostack=None if autostack else False,
        )
        _refuse(predict_fn=predict_fn)
        self.model_dir = str(model_dir)
        self.batch_size = batch_size
        self._gin_files = tuple(gin_files)
        self._folders = tuple(gin_location_prefix)
        self._modules = tuple(module_import)
        self._extra = tuple(extra_gin_bindings or ())
        self._bindings = {
            "sequence_length": dict(sequence_length or {"inputs": 512, "targets": 512}),
            "model_type": model_type,
            "layout_rules": layout_rules,
            "mesh_shape": mesh_shape or "",
            "mesh_devices": None if mesh_devices is None else list(mesh_devices),
            "learning_rate_schedule": _named(learning_rate_schedule, "learning_rate_schedule"),
            "keep_checkpoint_max": keep_checkpoint_max,
            "save_checkpoints_steps": save_checkpoints_steps,
            "optimizer": _named(optimizer, "optimizer"),
            "variable_filter": variable_filter,
            "ensemble_inputs": ensemble_inputs,
        }

    def train(
        self,
        mixture_or_task_name: str,
        steps: int,
        init_checkpoint: str | None = None,
        split: str = "train",
    ) -> None:
        """Trains until a step, or goes on.

        Args:
            mixture_or_task_name: what is read.
            steps: the step at which training ends.
            init_checkpoint: what a fresh run begins with, see `run.init_checkpoint`.
            split: of the dataset.
        """
        bound = {"dataset_split": split, "init_checkpoint": init_checkpoint}
        given = self._options(bound, steps=steps, task=mixture_or_task_name)
        train.run(as_the_original(given)[1], refuses_other_config=False)

    def finetune(
        self,
        mixture_or_task_name: str,
        finetune_steps: int,
        pretrained_model_dir: str,
        pretrained_checkpoint_step: int = -1,
        split: str = "train",
    ) -> None:
        """Makes more steps from a checkpoint of another run, under that run's config.

        Args:
            mixture_or_task_name: what is read.
            finetune_steps: how many steps.
            pretrained_model_dir: the folder of the other run.
            pretrained_checkpoint_step: its checkpoint; -1 for the latest.
            split: of the dataset.
        """
        latest = pretrained_checkpoint_step == -1
        given = self._options(
            {"dataset_split": split},
            gin_file=self._gin_files,
            steps=finetune_steps,
            task=mixture_or_task_name,
            init_from=str(pretrained_model_dir),
            init_step=None if latest else pretrained_checkpoint_step,
        )
        folder = RunFolder(self.model_dir)
        train.run(as_the_original(given, partial(fine_tune.read_asked_config, folder))[1])

    def eval(
        self,
        mixture_or_task_name: str,
        checkpoint_steps: CheckpointSteps = None,
        summary_dir: str | None = None,
        split: str = "validation",
        eval_with_score: bool = False,
        compute_sequence_length: bool = True,
    ) -> dict[int, dict[str, dict[str, float]]]:
        """Evaluates, prints and writes the metrics and texts of each task.

        Args:
            mixture_or_task_name: what is evaluated.
            checkpoint_steps: a step, several, "all", -1 for the latest; None for all there are.
            summary_dir: where to write; None for `<split>_eval` below the folder.
            split: of the dataset.
            eval_with_score: whether targets are scored, instead of inputs decoded.
            compute_sequence_length: whether the longest examples set the lengths, else the model's.

        Returns:
            Step to task to metric.
        """
        config = self._config({}, task=mixture_or_task_name)
        asked = prepare.evaluated_by(config, mixture_or_task_name)
        count = asked.num_examples
        lengths = None
        if compute_sequence_length:
            lengths = evaluate.longest_examples(mixture_or_task_name, split, count)
        folder = Path(summary_dir or Path(self.model_dir, f"{split}_eval"))

        def work(used: UsedModel) -> dict[str, dict[str, float]]:
            results = list(
                evaluate.evaluate_tasks(
                    used,
                    mixture_or_task_name,
                    split,
                    count,
                    eval_with_score,
                    lengths,
                    asked.options,
                )
            )
            evaluate.report(used, iter(results), folder, writes_examples=True)
            return {result.task: dict(result.metrics) for result in results}

        wanted = "all" if checkpoint_steps is None else checkpoint_steps
        steps = list(steps_of(Path(self.model_dir), wanted))
        found = at_each(steps, Path(self.model_dir), config, work)
        return dict(zip(steps, found, strict=True))

    def predict(
        self,
        input_file: str,
        output_file: str,
        checkpoint_steps: CheckpointSteps = -1,
        beam_size: int = 1,
        temperature: float = 1.0,
        keep_top_k: int = -1,
        vocabulary: Any = None,
    ) -> None:
        """Decodes each line of a file into a line of `<output_file>-<step>`.

        Args:
            input_file: one input a line.
            output_file: what is written, without the step.
            checkpoint_steps: see `eval`.
            beam_size: above 1 for a beam search.
            temperature: above 0 draws ids, 0 takes the likeliest.
            keep_top_k: draws among so many of the likeliest ids; -1 among all.
            vocabulary: None; the config's task has it.
        """
        _refuse(vocabulary=vocabulary)
        params = [
            *_decoding(beam_size, temperature, keep_top_k),
            f"decode_from_file.input_filename = {str(input_file)!r}",
            f"decode_from_file.output_filename = {str(output_file)!r}",
            "infer_model.decode_fn = @decode_from_file",
        ]
        self._use("infer", checkpoint_steps, params)

    def score(
        self,
        inputs: str | Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        mixture_or_task_name: str | None = None,
        mixture_or_task_split: str | None = None,
        scores_file: str | None = None,
        checkpoint_steps: CheckpointSteps = -1,
        vocabulary: Any = None,
    ) -> list[float]:
        """The log-likelihood of targets, given texts or a task.

        Args:
            inputs: a file with one text a line, or the texts.
            targets: likewise.
            mixture_or_task_name: in their place, a task or mixture.
            mixture_or_task_split: and its split.
            scores_file: of the files to write, without endings; None for none.
            checkpoint_steps: one, see `eval`.
            vocabulary: None; the config's task has it.

        Returns:
            A score for each target.

        Raises:
            ConfigError: if not exactly one of targets and a task is given.
        """
        _refuse(vocabulary=vocabulary)
        if (targets is None) == (mixture_or_task_name is None):
            both = "both" if targets is not None else "neither"
            raise ConfigError(
                f"score was given {both} of targets and mixture_or_task_name: give targets, with "
                "their inputs, or a task with mixture_or_task_split."
            )
        params = [f"save_scores.scores_filename = {scores_file!r}"]
        mode = "score_from_strings" if targets is not None else "score_from_dataset"
        params.append(f"{mode}.score_postprocess_fn = @save_scores")
        if targets is not None:
            given = {"inputs": inputs, "targets": targets}
            params += [f"score_from_strings.{n} = {_plain(x)!r}" for n, x in given.items()]
        else:
            params += [
                "score_from_dataset.score_dataset_fn = @mesh_eval_dataset_fn",
                f"utils.run.dataset_split = {mixture_or_task_split or 'validation'!r}",
            ]
        return self._use(mode, checkpoint_steps, params, mixture_or_task_name)[-1]

    def export(
        self,
        export_dir: str | None = None,
        checkpoint_step: int = -1,
        beam_size: int = 1,
        temperature: float = 1.0,
        keep_top_k: int = -1,
        vocabulary: Any = None,
        eval_with_score: bool = False,
    ) -> str:
        """Writes a SavedModel of one device, whose default signature decodes as is asked.

        Args:
            export_dir: a folder to make another in, named by the time; None for `export` below
                the run folder.
            checkpoint_step: the checkpoint; -1 for the latest.
            beam_size: see `predict`, as for those that follow.
            temperature: above 0 draws ids, 0 takes the likeliest.
            keep_top_k: draws among so many of the likeliest ids; -1 among all.
            vocabulary: None; the config's task has it.
            eval_with_score: whether the default signature scores targets instead.

        Returns:
            The folder of the SavedModel.
        """
        _refuse(vocabulary=vocabulary)
        config = self._config({}, _decoding(beam_size, temperature, keep_top_k))
        return str(
            export_model(
                Path(self.model_dir), config, checkpoint_step, export_dir, by_score=eval_with_score
            )
        )

    def _use(
        self, mode: str, steps: CheckpointSteps, params: Sequence[str], task: str | None = None
    ) -> list[Any]:
        config = self._config({"mode": mode, "eval_checkpoint_step": steps}, params, task)
        return use(Path(self.model_dir), config, prepare.settings_of(config), mode)

    def _config(
        self, bound: Mapping[str, Any], params: Sequence[str] = (), task: str | None = None
    ) -> Config:
        return as_the_original(self._options(bound, params, task=task))[0]

    def _options(
        self, bound: Mapping[str, Any], params: Sequence[str] = (), **options: Any
    ) -> TrainOptions:
        bindings = {**self._bindings, "batch_size": self.batch_size, **bound}
        files = options.pop("gin_file", None)
        held: tuple[str, ...] = ()
        if files is None:
            files, held = self._sources()
        texts = [
            f"utils.run.{name} = {value if isinstance(value, _Reference) else repr(value)}"
            for name, value in bindings.items()
            if value is not None
        ]
        given = TrainOptions(
            model_dir=self.model_dir,
            gin_file=files,
            gin_param=(*held, *texts, *params, *self._extra),
            gin_location_prefix=self._folders,
            module_import=self._modules,
            **options,
        )
        prepare.register(given)
        return given

    def _sources(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Gin files, and bindings that gin holds."""
        recorded = Path(self.model_dir, CONFIG_FILE)
        if self._gin_files or recorded.is_file():
            return self._gin_files or (str(recorded),), ()
        held = gin.config_str()
        if not held.strip():
            raise ConfigError(
                f"There is no config for {self.model_dir}: give gin_files, or parse a gin file "
                f"before.{convert_first(Path(self.model_dir))}"
            )
        return ("defaults/t5.gin",), (held,)


def _decoding(beam_size: int, temperature: float, keep_top_k: int) -> list[str]:
    """What says in gin how to decode."""
    drawing = {"temperature": temperature, "sampling_keep_top_k": keep_top_k}
    decoding = {"beam_size": beam_size, **drawing}
    return [
        *(f"Bitransformer.decode.{name} = {value!r}" for name, value in decoding.items()),
        *(f"Unitransformer.sample_autoregressive.{n} = {x!r}" for n, x in drawing.items()),
    ]


class _Reference(str):
    """A value that gin is to look up."""


def _named(value: float | str | None, name: str) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return _Reference(f"@{value.removeprefix('@')}")
    raise ConfigError(
        f"MtfModel was given {name}={value!r}, and a run folder records it by name: give the name "
        "under which gin knows it, a number, or bind it by extra_gin_bindings."
    )


def _plain(value: str | Sequence[str] | Path | None) -> Any:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, Path) else list(value)


def _refuse(**values: Any) -> None:
    given = [name for name, value in values.items() if value is not None]
    if given:
        raise ConfigError(
            f"MtfModel was given {', '.join(given)}, which this version does not take: the config "
            "and its task say what they said."
        )


def _say_without_meaning(**values: Any) -> None:
    given = [name for name, value in values.items() if value is not None]
    if given:
        _log.warning("MtfModel: without meaning here: %s.", ", ".join(given))
