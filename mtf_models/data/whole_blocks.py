"""Reading and tokenising whole blocks of examples, where a task's steps are those of most tasks.

A step of an input pipeline costs tens of microseconds each time it is called, which is much beside
a word and its phonemes, and hardly more for 256 of them than for one.
"""

import functools
from collections.abc import Mapping

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from mtf_models.data.prepared import PreparedSource


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
    fields = _fields(task)
    if fields is None or task.shuffle_buffer_size is None:
        return None
    records = task.source.records(split)
    texts = task.source.tfds_dataset.info.features
    if records is None or not all(type(texts[f]) is tfds.features.Text for f in fields.values()):
        return None
    spec = {field: tf.io.FixedLenFeature([], tf.string) for field in fields.values()}

    def tokenised(block: tf.Tensor) -> dict[str, tf.Tensor]:
        found = tf.io.parse_example(block, spec)
        return {
            name: _ids(found[fields[name]], task.output_features[name], length)
            for name, length in lengths.items()
        }

    return (
        records.shuffle(task.shuffle_buffer_size, seed=seed).skip(start).batch(size).map(tokenised)
    )


def _fields(task: seqio.Task) -> dict[str, str] | None:
    """Feature to the field of the dataset that it is the ids of, if no step does more than that."""
    match list(task.preprocessors):
        case [
            functools.partial(func=seqio.preprocessors.rekey, keywords={"key_map": keys}),
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ] if isinstance(task.source, PreparedSource):
            features = task.output_features
            if all(_is_plain(feature) and keys.get(name) for name, feature in features.items()):
                return {name: keys[name] for name in features}
    return None


def _is_plain(feature: seqio.Feature) -> bool:
    kinds = (seqio.SentencePieceVocabulary, seqio.ByteVocabulary)
    return (feature.dtype, feature.rank) == (tf.int32, 1) and type(feature.vocabulary) in kinds


def _ids(texts: tf.Tensor, feature: seqio.Feature, length: int) -> tf.Tensor:
    """Ids [block, any] of texts [block]."""
    if isinstance(feature.vocabulary, seqio.ByteVocabulary):
        # Its own encoding takes one text: the bytes of several must be as many.
        letters = tf.strings.bytes_split(texts)
        ids = letters.with_values(tf.reshape(feature.vocabulary.encode_tf(letters.values), [-1]))
    else:
        ids = feature.vocabulary.encode_tf(texts)
    if feature.add_eos:
        ids = tf.concat([ids, tf.fill([ids.nrows(), 1], feature.vocabulary.eos_id)], axis=1)
    return ids[:, :length].to_tensor()
