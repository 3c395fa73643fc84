"""Tasks made on the spot: of files, or of a dataset of TensorFlow Datasets."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds
from t5.evaluation import metrics as t5_metrics

from mtf_models.data.files.columns import Columns
from mtf_models.data.files.source import FileSource
from mtf_models.data.tfds_datasets import builder_of
from mtf_models.errors import DataError, did_you_mean

ON_BAD = ("error", "skip")

METRICS = (
    "accuracy",
    "bleu",
    "edit_distance",
    "f1_score_with_invalid",
    "matthews_corrcoef",
    "mean_multiclass_f1",
    "pearson_corrcoef",
    "rouge",
    "sequence_accuracy",
    "spearman_corrcoef",
    "squad",
    "trivia_qa",
)
"""Metrics of t5 that compare a text with a text."""


DEFAULT_METRICS = ("sequence_accuracy",)


@dataclass(frozen=True)
class TextTask:
    """What a task made on the spot is.

    Attributes:
        name: under which it is registered.
        vocabularies: feature to vocabulary, in the order of the columns.
        files: split to paths or globs.
        dataset: instead of files, the name of a dataset of TensorFlow Datasets.
        columns: feature to column (of files, see `files.columns.mapped`) or field (of a dataset).
        metrics: names among `METRICS`.
        on_bad: what becomes of rows that do not fit, one of `ON_BAD`.
    """

    name: str
    vocabularies: Mapping[str, seqio.Vocabulary]
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dataset: str | None = None
    columns: Columns | None = None
    metrics: Sequence[str] = ()
    on_bad: str = "error"


_added: dict[str, TextTask] = {}


def add_text_task(spec: TextTask) -> str:
    """Registers a task with SeqIO. The same one again is left, another one made here replaced.

    Args:
        spec: what it is.

    Returns:
        Its name.

    Raises:
        DataError: if another task has the name, or the metrics or columns are unknown.
    """
    if _added.get(spec.name) == spec:
        return spec.name
    taken = spec.name in {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    if taken and spec.name not in _added:
        raise DataError(
            f"There is a task {spec.name!r} already: give this one another name "
            f"(--gin_param=\"text_task.name = 'my_{spec.name}'\")."
        )
    if spec.on_bad not in ON_BAD:
        raise DataError(f"on_bad is {spec.on_bad!r}{did_you_mean(spec.on_bad, ON_BAD)}")
    unknown = [
        f"{name}{did_you_mean(name, METRICS)}" for name in spec.metrics if name not in METRICS
    ]
    if unknown:
        raise DataError(f"There is no metric {' or '.join(unknown)}")
    source, first = _of_dataset(spec) if spec.dataset else _of_files(spec)
    seqio.TaskRegistry.remove(spec.name)
    seqio.TaskRegistry.add(
        spec.name,
        source=source,
        preprocessors=[
            *first,
            tokenize_texts,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
        output_features={n: seqio.Feature(v) for n, v in spec.vocabularies.items()},
        metric_fns=[getattr(t5_metrics, name) for name in spec.metrics],
        # Rows of files are shuffled as a whole, and shards of datasets by their buffer.
        **({} if spec.dataset else {"shuffle_buffer_size": None}),
    )
    _added[spec.name] = spec
    return spec.name


def tokenize_texts(dataset: tf.data.Dataset, output_features: Mapping[str, Any]) -> tf.data.Dataset:
    """Encodes the features that are texts; those that are token ids already are left."""
    spec = dataset.element_spec
    texts = {n: f for n, f in output_features.items() if spec[n].dtype == tf.string}
    return seqio.preprocessors.tokenize(dataset, texts)


def _of_files(spec: TextTask) -> tuple[seqio.DataSource, list[Any]]:
    sizes = {name: vocabulary.vocab_size for name, vocabulary in spec.vocabularies.items()}
    features = tuple(spec.vocabularies)
    return FileSource(spec.files, features, spec.columns, sizes, spec.on_bad), []


def _of_dataset(spec: TextTask) -> tuple[seqio.DataSource, list[Any]]:
    builder = builder_of(spec.dataset)
    fields = _fields(spec, builder.info)
    name, version = builder.info.full_name.rsplit("/", 1)
    take = functools.partial(_take, fields=fields, features=builder.info.features)
    return seqio.TfdsDataSource(f"{name}:{version}"), [take]


def _fields(spec: TextTask, info: tfds.core.DatasetInfo) -> dict[str, str]:
    """Feature to field: as asked, else under its own name, else as the dataset is supervised."""
    supervised = info.supervised_keys or ()
    names = [key for key in supervised if isinstance(key, str)]
    if len(spec.vocabularies) == 1 and len(names) != 1:
        names = [key for key in ("text", "targets") if key in info.features][:1] or names[:1]
    found = dict(zip(spec.vocabularies, names, strict=False))
    found |= {name: name for name in spec.vocabularies if name in info.features}
    found |= {name: str(column) for name, column in (spec.columns or {}).items()}
    faults = [name for name in spec.vocabularies if found.get(name) not in info.features]
    if faults:
        raise DataError(
            f"It is not known which fields of {spec.dataset} are {' and '.join(faults)}: say so "
            f"with --columns={','.join(f'{name}=FIELD' for name in faults)}. It has "
            f"{', '.join(info.features)}."
        )
    return {name: found[name] for name in spec.vocabularies}


def _take(
    dataset: tf.data.Dataset, fields: Mapping[str, str], features: Mapping[str, Any]
) -> tf.data.Dataset:
    """The fields of a dataset as texts; the number of a label becomes its name."""

    def text(field: str, value: tf.Tensor) -> tf.Tensor:
        label = features[field]
        if isinstance(label, tfds.features.ClassLabel):
            # Examples of hidden test splits have the label -1.
            return tf.gather(["", *label.names], tf.cast(value, tf.int32) + 1)
        return value if value.dtype == tf.string else tf.strings.as_string(value)

    return dataset.map(
        lambda example: {name: text(field, example[field]) for name, field in fields.items()},
        num_parallel_calls=tf.data.AUTOTUNE,
    )
