"""WordPiece vocabularies: a text file with a piece a line, as of BERT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import seqio
import tensorflow as tf
import tensorflow_text as tf_text

from mtf_models.errors import DataError

_PAD = "[PAD]"
_UNKNOWN = "[UNK]"
_ENDS = re.compile(r"\[(unused\d+|SEP|EOS)\]|</s>")
"""What the second line may be, which becomes the end of sequence."""


class WordPieceVocabulary(seqio.Vocabulary):
    """A WordPiece vocabulary.

    Its ids are those of the file. Models here end a sequence with id 1, so the second line must be
    one that no text has: `[unused0]`, as in BERT's files, `[SEP]`, `[EOS]` or `</s>`. Texts are
    put into lower case if no piece of the file has a capital. SeqIO's own class for such files
    gives no flat int32 ids, which its preprocessors want.

    Args:
        path: of the file, UTF-8.
        extra_ids: sentinels after the last piece.

    Raises:
        DataError: if the file's first two lines or its unknown piece are others.
    """

    def __init__(self, path: str, extra_ids: int = 0):
        super().__init__(extra_ids)
        self.path = path
        self.pieces = Path(path).read_text("utf-8").splitlines()
        faults = []
        if self.pieces[:1] != [_PAD]:
            faults.append(f"line 1 is {_PAD}")
        if not _ENDS.fullmatch("".join(self.pieces[1:2])):
            faults.append("line 2 is [unused0], [SEP], [EOS] or </s>, for the end of sequence")
        if _UNKNOWN not in self.pieces:
            faults.append(f"some line is {_UNKNOWN}")
        if faults:
            raise DataError(f"{path} is no WordPiece vocabulary in which {' and '.join(faults)}.")
        words = [piece for piece in self.pieces if not piece.startswith("[")]
        self._tokenizer = tf_text.FastBertTokenizer(
            self.pieces,
            token_out_type=tf.int32,
            lower_case_nfd_strip_accents=all(word == word.lower() for word in words),
            support_detokenization=True,
        )

    @property
    def eos_id(self) -> int:
        """1, the end of sequence."""
        return 1

    @property
    def bos_id(self) -> None:
        """None: no piece begins a sequence."""

    @property
    def unk_id(self) -> int:
        """The id of the unknown piece."""
        return self.pieces.index(_UNKNOWN)

    @property
    def _base_vocab_size(self) -> int:
        return len(self.pieces)

    def _encode(self, s: str) -> Sequence[int]:
        return self._encode_tf(tf.constant(s)).numpy().tolist()

    def _decode(self, ids: Sequence[int]) -> str:
        return self._decode_tf(tf.constant(list(ids), tf.int32)).numpy().decode("utf-8")

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        return self._tokenizer.tokenize(tf.reshape(s, [1])).flat_values

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        kept = tf.boolean_mask(ids, ids > self.eos_id)
        return self._tokenizer.detokenize(tf.expand_dims(kept, 0))[0]
