"""What gin says of a run: the original's `run`, and the functions that it refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.mesh import Dimension, Mesh
from mtf_models.mesh.devices import bfloat16_is_fast
from mtf_models.mesh.dtype import DTypeLike, VariableDType, as_dtype
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.optimize.schedules import Schedule
from mtf_models.runtime.bindings.variable_filter import VariableFilter

_UTILS = "mesh_tensorflow.transformer.utils"

MODEL_TYPES = ("bitransformer", "bi_student_teacher", "lm", "delimited_lm", "aligned")
"""An encoder and a decoder; two of those, of which one teaches the other; a language model; one
over inputs and targets in one sequence; one that predicts a target at each input."""

BatchSize = int | tuple[str, int]

_LEAST = {
    "train_steps": 0,
    "save_checkpoints_steps": 1,
    "keep_checkpoint_max": 1,
    "eval_every_steps": 0,
    "perplexity_eval_steps": 1,
    "total_run_steps": 0,
}

_CHOICES = {"init_steps": ("checkpoint", "zero"), "init_optimizer": ("keep", "fresh")}


@configurable(module=_UTILS)
def auto_train_steps(
    batch_size: int, sequence_length: Mapping[str, int], train_tokens: int = 2**36
) -> int:
    """How many steps read `train_tokens` tokens, the longest feature counted."""
    return train_tokens // (batch_size * max(sequence_length.values()))


@configurable(module=_UTILS, name="run")
@dataclass(frozen=True)
class RunSettings:
    """What gin binds for a run, as `run.*`.

    Args:
        model_type: one of `MODEL_TYPES`.
        vocabulary: the numbers of ids of inputs and targets, as `get_vocabulary` gives them; None
            for T5's.
        train_dataset_fn: gives the training batches.
        eval_dataset_fn: gives the task to evaluate.
        dataset_split: what `train_dataset_fn` reads.
        batch_size: a number of sequences, or a pair of a method and a number, where the method is
            "sequences_per_batch", "tokens_per_batch", "sequences_per_replica" or
            "tokens_per_replica".
        train_steps: the step at which training ends, or a function of batch size and lengths.
        sequence_length: feature name to length, or one length for all.
        mesh_shape: axes and sizes; empty for one device.
        mesh_devices: names of devices, one for each part of the mesh.
        layout_rules: which dimension is split over which axis.
        learning_rate_schedule: see `optimize.schedules.compute`.
        optimizer: its class.
        save_checkpoints_steps: steps between checkpoints.
        keep_checkpoint_max: how many of the latest are kept; None for all.
        eval_every_steps: steps between evaluations; 0 for one at the end.
        keep_best: "task/metric", by which the best checkpoint that is evaluated is kept in a folder
            of its own; see `runtime.training.best`. None for none.
        ensemble_inputs: how many members an ensemble has, each of which trains on a batch of its
            own; None where all train on the same.
        seed: of initial values, data order and dropout.
        mode: what the original's `run` does; see `runtime.original.run`.
        eval_checkpoint_step: which checkpoints it uses; see `runtime.folder.checkpoint_steps`.
        export_checkpoint_step: which checkpoint is exported; None for the latest.
        export_path: the folder to export into; empty for `export` below the run's.
        eval_summary_dir: where evaluations are written; None for a folder below the run's.
        eval_dir_suffix: is added to the name of that folder.
        output_eval_examples: whether inputs, targets and predictions are written there.
        perplexity_eval_steps: how many batches mode perplexity_eval reads at the most.
        total_run_steps: the number of steps that schedules count on; None for `train_steps`.
        variable_filter: what is trained: a regular expression that is searched for in names, or a
            function of a variable; None for everything.
        init_checkpoint: a checkpoint, or the folder of some, whose values the run begins with.
        init_variable_filter: a regular expression that is searched for in the names to be taken
            from there; `global_step` is one of them.
        init_steps: "checkpoint" counts steps, the schedule's too, on from those of the checkpoint;
            "zero" from 0.
        init_optimizer: "keep" takes the optimizer's slots from there too, as far as there are any;
            "fresh" leaves them at zero.
        init_strict: whether a variable that only the model or only the checkpoint has is an error;
            else it is reported. One that `variable_filter` chooses by name may be new in any case.

    Raises:
        ConfigError: if a value is none of those.
    """

    model_type: str = "bitransformer"
    vocabulary: tuple[int, int] | None = None
    train_dataset_fn: Callable[..., Any] | None = None
    eval_dataset_fn: Callable[..., Any] | None = None
    dataset_split: str = "train"
    batch_size: BatchSize = ("tokens_per_replica", 2048)
    train_steps: int | Callable[..., int] = auto_train_steps
    sequence_length: int | Mapping[str, int] | None = None
    mesh_shape: Any = ""
    mesh_devices: Sequence[str] | None = None
    layout_rules: Any = ""
    learning_rate_schedule: Schedule | None = None
    optimizer: Callable[..., Optimizer] | None = None
    save_checkpoints_steps: int = 5000
    keep_checkpoint_max: int | None = None
    eval_every_steps: int = 0
    keep_best: str | None = None
    ensemble_inputs: int | None = None
    seed: int = 0
    mode: str = "train"
    eval_checkpoint_step: Any = None
    export_checkpoint_step: int | None = None
    export_path: str = ""
    eval_summary_dir: str | None = None
    eval_dir_suffix: str | None = None
    output_eval_examples: bool = True
    perplexity_eval_steps: int = 100
    total_run_steps: int | None = None
    variable_filter: VariableFilter | None = None
    init_checkpoint: str | None = None
    init_variable_filter: str = ""
    init_steps: str = "checkpoint"
    init_optimizer: str = "keep"
    init_strict: bool = False

    def __post_init__(self) -> None:
        length = self.sequence_length
        if length is None or isinstance(length, int):
            both = dict.fromkeys(("inputs", "targets"), 512 if length is None else length)
            object.__setattr__(self, "sequence_length", both)
        faults = list(_faults(self))
        if faults:
            raise ConfigError("; ".join(faults) + ".")


@configurable(module=_UTILS)
def get_variable_dtype(
    master_dtype: DTypeLike = "float32",
    slice_dtype: DTypeLike = "float32",
    activation_dtype: DTypeLike | None = None,
) -> VariableDType:
    """The dtypes of a model.

    Args:
        master_dtype: of checkpoints.
        slice_dtype: that devices keep and optimizers update.
        activation_dtype: of computation; None for bfloat16 where the machine is fast at it, else
            float32.
    """
    if activation_dtype is None:
        activation_dtype = "bfloat16" if bfloat16_is_fast() else "float32"
    return VariableDType(*map(as_dtype, (master_dtype, slice_dtype, activation_dtype)))


def _faults(settings: RunSettings) -> Iterator[str]:
    if settings.model_type not in MODEL_TYPES:
        near = did_you_mean(str(settings.model_type), MODEL_TYPES).rstrip("?.")
        yield f"run.model_type is {settings.model_type!r}{near}"
    yield from _number_faults(settings)
    if not isinstance(settings.seed, int) or not 0 <= settings.seed < 2**31:
        yield f"run.seed is {settings.seed!r}; it is a whole number from 0 to {2**31 - 1}"
    for name in ("variable_filter", "init_variable_filter"):
        yield from _pattern_faults(name, getattr(settings, name))
    for name, known in _CHOICES.items():
        if (chosen := getattr(settings, name)) not in known:
            yield f"run.{name} is {chosen!r}; it can be {' or '.join(map(repr, known))}"
    vocabulary = settings.vocabulary
    sizes = vocabulary if isinstance(vocabulary, list | tuple) else [vocabulary]
    if vocabulary is not None and [type(size) for size in sizes] != [int, int]:
        yield (
            f"run.vocabulary is {vocabulary!r}; bind it to @mesh_transformer.get_vocabulary(), "
            "which asks the task"
        )


def _number_faults(settings: RunSettings) -> Iterator[str]:
    size = settings.batch_size
    pair = isinstance(size, list | tuple) and len(size) == 2
    if not _is_whole(size[1] if pair else size, 1):
        yield (
            f'run.batch_size is {size!r}; write a number from 1, or ("sequences_per_batch", '
            "a number from 1)"
        )
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        computed = name == "train_steps" and callable(value)
        unset = value is None and getattr(RunSettings, name) is None
        if not (computed or unset or _is_whole(value, least)):
            yield f"run.{name} is {value!r}; it is a whole number from {least}"
    lengths = settings.sequence_length
    if not isinstance(lengths, Mapping):
        yield f"run.sequence_length is {lengths!r}; write a number, or feature name to number"
        return
    for name, length in lengths.items():
        if not _is_whole(length, 1):
            yield f"run.sequence_length of {name} is {length!r}; it is a whole number from 1"


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _pattern_faults(name: str, pattern: Any) -> Iterator[str]:
    if pattern is None or callable(pattern):
        return
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        yield f"run.{name} is {pattern!r}, which is no regular expression: {error}"


def compute_batch_size(
    batch_size: BatchSize, sequence_length: Mapping[str, int], replicas: int
) -> int:
    """The number of sequences in a batch.

    Args:
        batch_size: see `RunSettings`.
        sequence_length: the longest feature counts for the methods that count tokens.
        replicas: into how many parts the mesh splits the batch.

    Raises:
        ConfigError: if the method is unknown, or the tokens are no whole number of sequences.
    """
    if isinstance(batch_size, int):
        return batch_size
    method, number = batch_size
    unit, _, scope = str(method).partition("_per_")
    if unit not in ("sequences", "tokens") or scope not in ("batch", "replica"):
        raise ConfigError(
            f"run.batch_size is {batch_size!r}; the method is sequences_per_batch, "
            "tokens_per_batch, sequences_per_replica or tokens_per_replica."
        )
    longest = max(sequence_length.values()) if unit == "tokens" else 1
    if number % longest:
        raise ConfigError(
            f"run.batch_size is {batch_size!r}, which is no whole number of sequences of {longest} "
            f"tokens; the nearest are {number - number % longest} and "
            f"{number - number % longest + longest}."
        )
    return number // longest * (replicas if scope == "replica" else 1)


def batch_size_on(mesh: Mesh, settings: RunSettings) -> int:
    """The number of sequences in a batch of a run on a mesh."""
    replicas = mesh.splits(Dimension("batch", mesh.size))
    return compute_batch_size(settings.batch_size, settings.sequence_length, replicas)


def training_rows(mesh: Mesh, settings: RunSettings) -> int:
    """The number of sequences that a step of a run on a mesh reads, for all members together."""
    return batch_size_on(mesh, settings) * (settings.ensemble_inputs or 1)


def total_steps(mesh: Mesh, settings: RunSettings) -> int:
    """The step at which a run on a mesh ends; called under the config."""
    if not callable(settings.train_steps):
        return settings.train_steps
    return settings.train_steps(batch_size_on(mesh, settings), settings.sequence_length)
