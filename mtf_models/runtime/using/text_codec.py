"""Text to ids and back inside a graph, by TensorFlow's operations alone."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mtf_models.errors import ConfigError

_KINDS = "SentencePieceVocabulary and ByteVocabulary"
_BYTES = 256


def codec_of(vocabulary: Any) -> PieceCodec | ByteCodec:
    """What does in a graph what a vocabulary of SeqIO does.

    Raises:
        ConfigError: if TensorFlow cannot do it.
    """
    match type(vocabulary).__name__:
        case "SentencePieceVocabulary":
            return PieceCodec(vocabulary)
        case "ByteVocabulary":
            return ByteCodec(vocabulary)
        case kind:
            raise ConfigError(
                f"Texts of a {kind} cannot be encoded inside a SavedModel: there are operations of "
                f"TensorFlow for {_KINDS}. Decode with mtf infer, or give a task that has one of "
                "these for the same ids: --task=NAME."
            )


class PieceCodec(tf.Module):
    """Pieces of SentencePiece, by tensorflow-text.

    Args:
        vocabulary: a `seqio.SentencePieceVocabulary`.
    """

    needs_tensorflow_text = True

    def __init__(self, vocabulary: Any) -> None:
        super().__init__()
        import tensorflow_text

        self.tokenizer = tensorflow_text.SentencepieceTokenizer(model=vocabulary.sp_model)
        self.size, self.eos_id = vocabulary.vocab_size, vocabulary.eos_id
        self.unk_id = vocabulary.unk_id

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[n] strings to [n, ids] int32, without an end."""
        return self.tokenizer.tokenize(texts)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """[n, length] ids to [n] strings, each up to its first end of sequence."""
        ids = tf.where(ids < self.size, ids, self.unk_id)
        return self.tokenizer.detokenize(up_to_end(ids, self.eos_id))


class ByteCodec(tf.Module):
    """Bytes of UTF-8, with three special ids before them.

    Args:
        vocabulary: a `seqio.ByteVocabulary`.
    """

    needs_tensorflow_text = False

    def __init__(self, vocabulary: Any) -> None:
        super().__init__()
        self.size, self.eos_id = vocabulary.vocab_size, vocabulary.eos_id
        # The vocabulary has no public name for the number of its special ids.
        self.first = vocabulary.encode("\0")[0]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[n] strings to [n, ids] int32, without an end."""
        split = tf.strings.bytes_split(texts)
        values = tf.reshape(tf.io.decode_raw(split.flat_values, tf.uint8), [-1])
        return split.with_flat_values(tf.cast(values, tf.int32) + self.first)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """[n, length] ids to [n] strings, each up to its first end of sequence."""
        rows = up_to_end(ids, self.eos_id) - self.first
        rows = tf.ragged.boolean_mask(rows, (rows >= 0) & (rows < _BYTES))
        characters = tf.gather(tf.constant([bytes([n]) for n in range(_BYTES)]), rows)
        joined = tf.strings.reduce_join(characters, axis=-1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="ignore")


def up_to_end(ids: tf.Tensor, eos_id: int) -> tf.RaggedTensor:
    """Rows of ids up to their first end of sequence, else up to the padding at their end."""
    length = tf.shape(ids)[1]
    ends = tf.cumsum(tf.cast(tf.equal(ids, eos_id), tf.int32), axis=1, exclusive=True)
    counted = tf.where(tf.equal(ends, 0) & tf.not_equal(ids, 0), tf.range(1, length + 1), 0)
    return tf.RaggedTensor.from_tensor(ids, lengths=tf.reduce_max(counted, axis=1))
