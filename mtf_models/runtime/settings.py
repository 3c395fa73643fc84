"""What gin says of a run: the original's `run`, and the functions that it refers to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Mesh
from mtf_models.mesh.devices import bfloat16_is_fast
from mtf_models.mesh.dtype import DTypeLike, VariableDType, as_dtype
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.optimize.schedules import Schedule

_UTILS = "mesh_tensorflow.transformer.utils"

BatchSize = int | tuple[str, int]


@dataclass(frozen=True)
class RunSettings:
    """The arguments of `run`, which see."""

    model_type: str
    vocabulary: Any
    train_dataset_fn: Callable[..., Any] | None
    eval_dataset_fn: Callable[..., Any] | None
    dataset_split: str
    batch_size: BatchSize
    train_steps: int | Callable[..., int]
    sequence_length: Mapping[str, int]
    mesh_shape: Any
    mesh_devices: Sequence[str] | None
    layout_rules: Any
    learning_rate_schedule: Schedule | None
    optimizer: Callable[..., Optimizer] | None
    save_checkpoints_steps: int
    keep_checkpoint_max: int | None
    eval_every_steps: int
    seed: int


@configurable(module=_UTILS)
def auto_train_steps(
    batch_size: int, sequence_length: Mapping[str, int], train_tokens: int = 2**36
) -> int:
    """How many steps read `train_tokens` tokens, the longest feature counted."""
    return train_tokens // (batch_size * max(sequence_length.values()))


@configurable(module=_UTILS, name="run")
def run_settings(
    model_type: str = "bitransformer",
    vocabulary: Any = None,
    train_dataset_fn: Callable[..., Any] | None = None,
    eval_dataset_fn: Callable[..., Any] | None = None,
    dataset_split: str = "train",
    batch_size: BatchSize = ("tokens_per_replica", 2048),
    train_steps: int | Callable[..., int] = auto_train_steps,
    sequence_length: int | Mapping[str, int] | None = None,
    mesh_shape: Any = "",
    mesh_devices: Sequence[str] | None = None,
    layout_rules: Any = "",
    learning_rate_schedule: Schedule | None = None,
    optimizer: Callable[..., Optimizer] | None = None,
    save_checkpoints_steps: int = 5000,
    keep_checkpoint_max: int | None = None,
    eval_every_steps: int = 0,
    seed: int = 0,
) -> RunSettings:
    """Gathers what gin binds for a run.

    Args:
        model_type: "bitransformer" or "lm".
        vocabulary: that of inputs and targets, a pair if they differ; None for T5's.
        train_dataset_fn: gives the training batches.
        eval_dataset_fn: gives the evaluation batches.
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
        seed: of initial values, data order and dropout.
    """
    if sequence_length is None or isinstance(sequence_length, int):
        sequence_length = dict.fromkeys(("inputs", "targets"), sequence_length or 512)
    if model_type not in ("bitransformer", "lm"):
        raise ConfigError(f'run.model_type is {model_type!r}; it can be "bitransformer" or "lm".')
    values = locals()
    return RunSettings(**{name: values[name] for name in RunSettings.__dataclass_fields__})


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


def compute_batch_size(
    batch_size: BatchSize, sequence_length: Mapping[str, int], replicas: int
) -> int:
    """The number of sequences in a batch.

    Args:
        batch_size: see `run_settings`.
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


def total_steps(mesh: Mesh, settings: RunSettings) -> int:
    """The step at which a run on a mesh ends; called under the config."""
    if not callable(settings.train_steps):
        return settings.train_steps
    return settings.train_steps(batch_size_on(mesh, settings), settings.sequence_length)


@functools.cache
def register() -> None:
    """Registers everything that gin files may name: importing the modules does it."""
    import mtf_models.optimize.adafactor
    import mtf_models.optimize.adam
    import mtf_models.optimize.microbatch
    import mtf_models.optimize.momentum
    import mtf_models.optimize.sgd
    import mtf_models.runtime.tasks
    import mtf_models.transformer.attention
    import mtf_models.transformer.bitransformer
    import mtf_models.transformer.feed_forward  # noqa: F401
