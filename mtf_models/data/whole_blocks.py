"""Reading and tokenising whole blocks of examples, where a task's steps are those of most tasks.

A step of an input pipeline costs tens of microseconds each time it is called, which is much beside
a word and its phonemes, and hardly more for 256 of them than for one.
"""

import functools
from collections.abc import Mapping

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds
from t5.data import preprocessors

from mtf_models.data.prepared import PreparedSource

_TOKENISED = 3
"""How many steps of a task rename fields, tokenise them, and end what a cache would hold."""

_OBJECTIVE = [preprocessors.unsupervised, seqio.preprocessors.append_eos_after_trim]
"""The steps of a plain text after that."""


def whole_blocks(
    task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int, start: int, size: int
) -> tf.data.Dataset | None:
    """The examples of one pass over a task, in blocks.

    Args:
        task: the task.
        split: the split to read.
        lengths: feature name to how many ids at most are kept.
        seed: of the order.
        start: how many examples to skip.
        size: of a block, in examples.

    Returns:
        Feature name to int32 [block, any], zeros after the ids: what SeqIO would read, in its
        order. None if that is not sure: of a task that is not a dataset of this package whose
        fields are renamed, tokenised and ended, or is shuffled by more than a buffer.
    """
    features = task.output_features
    plain = _plain_records(task, split)
    if plain is None or list(task.preprocessors[_TOKENISED:]) != [seqio.preprocessors.append_eos]:
        return None
    records, fields = plain
    if fields.keys() != features.keys():
        return None

    def tokenised(block: tf.Tensor) -> dict[str, tf.Tensor]:
        texts = _parsed(block, fields)
        return {
            name: _ended(_ids(texts[name], features[name]), features[name])[:, :length].to_tensor()
            for name, length in lengths.items()
        }

    shuffled = records.shuffle(task.shuffle_buffer_size, seed=seed)
    return shuffled.skip(start).batch(size).map(tokenised)


def tokenised_examples(task: seqio.Task, split: str, size: int) -> tf.data.Dataset | None:
    """The examples of a plain text before its objective, which draws random numbers for each.

    Args:
        task: the task.
        split: the split to read.
        size: of a block, in examples.

    Returns:
        Feature name to int32 [any]: what SeqIO has at the task's placeholder for a cache, in its
        order. None if that is not sure, as for `whole_blocks`, or of a task with other steps.
    """
    plain = _plain_records(task, split)
    if plain is None or list(task.preprocessors[_TOKENISED:]) != _OBJECTIVE:
        return None
    records, fields = plain

    def tokenised(block: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        texts = _parsed(block, fields)
        return {name: _ids(texts[name], task.output_features[name]) for name in fields}

    return records.batch(size).map(tokenised).unbatch()


def _plain_records(task: seqio.Task, split: str) -> tuple[tf.data.Dataset, dict[str, str]] | None:
    """Serialised examples, and feature to the field that it is the ids of, if it is just that."""
    match list(task.preprocessors[:_TOKENISED]):
        case [
            functools.partial(func=seqio.preprocessors.rekey, keywords={"key_map": keys}),
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
        ] if isinstance(task.source, PreparedSource) and task.shuffle_buffer_size is not None:
            features = task.output_features
            records = task.source.records(split)
            texts = task.source.tfds_dataset.info.features
            fields = {name: keys[name] for name in features if name in keys}
            if records is not None and all(
                field in texts
                and type(texts[field]) is tfds.features.Text
                and _is_plain(features[name])
                for name, field in fields.items()
            ):
                return records, fields
    return None


def _is_plain(feature: seqio.Feature) -> bool:
    kinds = (seqio.SentencePieceVocabulary, seqio.ByteVocabulary)
    return (feature.dtype, feature.rank) == (tf.int32, 1) and type(feature.vocabulary) in kinds


def _parsed(block: tf.Tensor, fields: Mapping[str, str]) -> dict[str, tf.Tensor]:
    """Feature to the texts [block] of serialised examples [block]."""
    spec = {field: tf.io.FixedLenFeature([], tf.string) for field in fields.values()}
    found = tf.io.parse_example(block, spec)
    return {name: found[field] for name, field in fields.items()}


def _ids(texts: tf.Tensor, feature: seqio.Feature) -> tf.RaggedTensor:
    """Ids [block, any] of texts [block]."""
    if not isinstance(feature.vocabulary, seqio.ByteVocabulary):
        return feature.vocabulary.encode_tf(texts)
    # Its own encoding takes one text: the bytes of several must be as many.
    letters = tf.strings.bytes_split(texts)
    return letters.with_values(tf.reshape(feature.vocabulary.encode_tf(letters.values), [-1]))


def _ended(ids: tf.RaggedTensor, feature: seqio.Feature) -> tf.RaggedTensor:
    """Ids [block, any] with the end of each text, if the feature has one."""
    if not feature.add_eos:
        return ids
    return tf.concat([ids, tf.fill([ids.nrows(), 1], feature.vocabulary.eos_id)], axis=1)
