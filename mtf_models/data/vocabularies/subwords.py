"""Vocabularies of TensorFlow Datasets: its subword encoder, as old datasets carry it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from mtf_models.errors import DataError

SUFFIX = ".subwords"
_SHIFT = 1


class SubwordVocabulary(seqio.Vocabulary):
    """A subword encoder of TensorFlow Datasets.

    Its ids are moved up by one, as in Mesh TensorFlow's `TFDSVocabulary`: 0 is padding there too,
    and 1 is kept for the end of sequence. Nothing is unknown to it: what has no subword is spelt
    in bytes.

    Args:
        path: of the file, NAME.subwords.
        extra_ids: sentinels after the last subword.

    Raises:
        DataError: if the file is none.
    """

    def __init__(self, path: str, extra_ids: int = 0):
        super().__init__(extra_ids)
        self.path = path
        try:
            self._encoder = tfds.deprecated.text.SubwordTextEncoder.load_from_file(
                path.removesuffix(SUFFIX)
            )
        except (ValueError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is no subword vocabulary of TFDS: {error}.") from error

    @property
    def subwords(self) -> Sequence[str]:
        """The subwords, from id 2 on."""
        return self._encoder.subwords

    @property
    def eos_id(self) -> int:
        """1, the end of sequence."""
        return 1

    @property
    def bos_id(self) -> None:
        """None: nothing begins a sequence."""

    @property
    def unk_id(self) -> None:
        """None: nothing is unknown."""

    @property
    def _base_vocab_size(self) -> int:
        return self._encoder.vocab_size + _SHIFT

    def _encode(self, s: str) -> Sequence[int]:
        return [number + _SHIFT for number in self._encoder.encode(s)]

    def _decode(self, ids: Sequence[int]) -> str:
        known = range(1 + _SHIFT, self._base_vocab_size)
        return self._encoder.decode([number - _SHIFT for number in ids if number in known])

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        def encode(text: Any) -> np.ndarray:
            # Bytes in a graph, and an array of them when run eagerly.
            return np.array(self._encode(np.asarray(text).item().decode("utf-8")), np.int32)

        return tf.ensure_shape(tf.numpy_function(encode, [s], tf.int32), [None])

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        def decode(ids: np.ndarray) -> bytes:
            return self._decode(ids.tolist()).encode()

        return tf.ensure_shape(tf.numpy_function(decode, [ids], tf.string), [])
