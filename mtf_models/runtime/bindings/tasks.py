"""The functions by which gin names a task: its training batches, its evaluation, its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, DataError, did_you_mean

_MODULE = "t5.models.mesh_transformer"

DEFAULT_VOCAB_SIZE = 32100
"""T5's 32,000 pieces and 100 sentinels."""


@configurable(module=_MODULE)
def mesh_train_dataset_fn(
    sequence_length: dict[str, int],
    batch_size: int,
    seed: int,
    position: dict[str, Any] | None,
    mixture_or_task_name: str = REQUIRED,
    dataset_split: str = "train",
    pack: bool = True,
    long_examples: str = "cut",
    process: tuple[int, int] = (0, 1),
) -> Any:
    """The training batches of a task, see `data.sources.training_batches`.

    Args:
        sequence_length: feature name to length.
        batch_size: rows in a batch.
        seed: of the order of the examples.
        position: where to begin.
        mixture_or_task_name: the task or mixture.
        dataset_split: the split to read.
        pack: whether several examples may share a row.
        long_examples: what is done with those that are longer than a row: "cut", "skip", "refuse".
        process: which part of the rows is read here, and of how many parts.
    """
    from mtf_models.data.sources import training_batches

    return training_batches(
        mixture_or_task_name,
        sequence_length,
        batch_size,
        seed,
        position=position,
        pack=pack,
        split=dataset_split,
        long_examples=long_examples,
        process=process,
    )


@dataclass(frozen=True)
class TaskOptions:
    """What is different in the evaluation of one task.

    Attributes:
        sequence_length: feature name to length, in the place of the run's.
        decode: arguments of `Model.decode`, in the place of what the config says.
    """

    sequence_length: Mapping[str, int] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)


class Evaluated(NamedTuple):
    """What a run evaluates.

    Attributes:
        name: the task or mixture.
        num_examples: at most so many of each task; None for all.
        options: task name to what is different for it.
    """

    name: str
    num_examples: int | None = None
    options: Mapping[str, TaskOptions] = {}


@configurable(module=_MODULE)
def mesh_eval_dataset_fn(
    mixture_or_task_name: str = REQUIRED,
    num_eval_examples: int = -1,
    task_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Evaluated:
    """The tasks to evaluate.

    Args:
        mixture_or_task_name: the task or mixture.
        num_eval_examples: at most so many of each task; -1 for all.
        task_options: task name to attributes of `TaskOptions`.

    Raises:
        ConfigError: if there are other attributes.
    """
    return Evaluated(
        mixture_or_task_name,
        None if num_eval_examples < 0 else num_eval_examples,
        {name: _options_of(name, given) for name, given in (task_options or {}).items()},
    )


def _options_of(task: str, given: Mapping[str, Any]) -> TaskOptions:
    known = [one.name for one in fields(TaskOptions)]
    faults = [f"{name}{did_you_mean(name, known)}" for name in given if name not in known]
    faults += [
        f"{n}, which is no mapping" for n in known if not isinstance(given.get(n, {}), Mapping)
    ]
    if faults:
        raise ConfigError(f"mesh_eval_dataset_fn.task_options of {task} has {'; '.join(faults)}")
    return TaskOptions(**given)


@configurable(module=_MODULE)
def mesh_inference_dataset_fn(
    mixture_or_task_name: str = REQUIRED,
    num_inference_examples: int = -1,
    priming_sequence_length: int | None = None,
) -> tuple[str, int | None, int | None]:
    """The task to take prompts from, and at most how many of how many ids.

    Args:
        mixture_or_task_name: the task or mixture.
        num_inference_examples: at most so many prompts of each task; -1 for all.
        priming_sequence_length: how many ids of the targets a prompt has; None for all.
    """
    count = None if num_inference_examples < 0 else num_inference_examples
    return mixture_or_task_name, count, priming_sequence_length


@configurable(module=_MODULE)
def get_vocabulary(mixture_or_task_name: str | None = None) -> tuple[int, int]:
    """The sizes of the vocabularies of inputs and targets.

    Args:
        mixture_or_task_name: the task or mixture; None for T5's vocabulary.

    Raises:
        DataError: if it has no targets, or its tasks have several vocabularies for one feature.
    """
    if mixture_or_task_name is None:
        return DEFAULT_VOCAB_SIZE, DEFAULT_VOCAB_SIZE
    from mtf_models.data.mixtures import check_vocabularies
    from mtf_models.data.tasks import get_task_or_mixture

    task = get_task_or_mixture(mixture_or_task_name)
    check_vocabularies(task)
    features = task.output_features
    if "targets" not in features:
        raise DataError(
            f"The task {mixture_or_task_name} has no targets, which every model here predicts: it "
            f"has {', '.join(features)}."
        )
    targets = features["targets"].vocabulary.vocab_size
    return features["inputs"].vocabulary.vocab_size if "inputs" in features else targets, targets
