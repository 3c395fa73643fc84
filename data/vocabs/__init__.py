"""Vocabularies that ship with the package: paths of SentencePiece models."""

from pathlib import Path

_FOLDER = Path(__file__).parent


def t5_model() -> str:
    """Returns the path of T5's vocabulary: 32,000 pieces, pad 0, end of sequence 1, unknown 2."""
    return str(_FOLDER / "t5_cc_all.32000.model")


def arpabet_model() -> str:
    """Returns the path of the ARPAbet vocabulary.

    It has a piece for each of the 39 symbols in alphabetical order, ids 3 to 41, after pad 0, end
    of sequence 1 and unknown 2. Symbols in a text are separated by spaces.
    """
    return str(_FOLDER / "arpabet.model")
