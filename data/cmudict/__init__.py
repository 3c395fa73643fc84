"""CMUdict as a TensorFlow Datasets builder: English spelling and its pronunciations."""

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow_datasets as tfds
from etils import epath

from mtf_models.datasets import SPLITS, split_of

_FOLDER = Path(__file__).parent
_VARIANT = re.compile(r"\(\d+\)$")
_STRESS = re.compile(r"\d")


def read_pronunciations(lines: Iterable[str]) -> dict[str, list[str]]:
    """Reads dictionary lines.

    Args:
        lines: lines such as `tomato(2) T AH0 M AA1 T OW2 # comment`.

    Returns:
        The distinct pronunciations of each word in the order of the dictionary, as ARPAbet symbols
        without stress digits, joined by spaces. `tomato(2)` counts as `tomato`.
    """
    words: dict[str, list[str]] = {}
    for line in lines:
        entry, *symbols = line.partition("#")[0].split()
        phonemes = " ".join(_STRESS.sub("", symbol) for symbol in symbols)
        known = words.setdefault(_VARIANT.sub("", entry), [])
        if phonemes not in known:
            known.append(phonemes)
    return words


class Cmudict(tfds.core.GeneratorBasedBuilder):
    """Words with their pronunciations.

    In `train` a word occurs once for each of its pronunciations. In `validation` and `test` it
    occurs once, and any of `pronunciations` is right. No word is in two splits.
    """

    VERSION = tfds.core.Version("1.0.0")
    code_path = epath.Path(__file__)  # TFDS would guess it from the module's name, and miss it.

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="English words and their pronunciations in ARPAbet, without stress.",
            features=tfds.features.FeaturesDict(
                {
                    "word": tfds.features.Text(),
                    "phonemes": tfds.features.Text(),
                    "pronunciations": tfds.features.Sequence(tfds.features.Text()),
                }
            ),
            license="BSD-style, see the file LICENSE beside this builder",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # Everything lies beside this file.
        with gzip.open(_FOLDER / "cmudict.dict.gz", "rt", encoding="utf-8") as lines:
            words = read_pronunciations(lines)
        return {split: self._generate_examples(words, split) for split in SPLITS}

    def _generate_examples(
        self, words: dict[str, list[str]], split: str
    ) -> Iterator[tuple[str, dict[str, object]]]:
        for word, pronunciations in words.items():
            if split_of(word) != split:
                continue
            targets = pronunciations if split == "train" else pronunciations[:1]
            for number, phonemes in enumerate(targets):
                yield (
                    f"{word} {number}",
                    {"word": word, "phonemes": phonemes, "pronunciations": pronunciations},
                )
