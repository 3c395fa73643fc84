"""The datasets and vocabularies that ship with the package.

In a checkout they lie in the folder `data/` beside the package; in an installed wheel they lie
here. Either way they are imported as `mtf_models.datasets.<name>` and under no other name:
TensorFlow Datasets registers a builder once, and a second import would be refused.
"""

import hashlib
from pathlib import Path

SPLITS = ("train", "validation", "test")

_CHECKOUT = Path(__file__).resolve().parents[2] / "data"

if (_CHECKOUT / "cmudict" / "__init__.py").is_file():
    __path__ = [str(_CHECKOUT)]


def split_of(key: str) -> str:
    """Assigns a key to a split, the same one on every machine and in every release.

    Args:
        key: what two splits must not share: a word, a sentence.

    Returns:
        "validation" for about 3 % of all keys, "test" for about 3 %, else "train".
    """
    digest = hashlib.sha256(key.encode("utf-8")).digest()
    percent = int.from_bytes(digest[:8], "big") % 100
    if percent < 3:
        return "validation"
    return "test" if percent < 6 else "train"
