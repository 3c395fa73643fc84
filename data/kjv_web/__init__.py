"""Verse pairs of two Bible translations as a TensorFlow Datasets builder: old to modern English."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds
from etils import epath

from mtf_models.datasets import SPLITS, split_of

_FOLDER = Path(__file__).parent


def group_by_text(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Finds the pairs that belong together because they share a text.

    The Bible repeats itself: a verse may occur again word for word, and translations differ in
    where they do. Pairs that share a text, directly or through other pairs, form a group.

    Args:
        pairs: (inputs, targets).

    Returns:
        Each text to the name of its group, which is the alphabetically first text in it.
    """
    leader: dict[str, str] = {}

    def find(text: str) -> str:
        while leader.setdefault(text, text) != text:
            text = leader[text]
        return text

    for inputs, targets in pairs:
        first, second = sorted((find(inputs), find(targets)))
        leader[second] = first
    return {text: find(text) for text in list(leader)}


class KjvWeb(tfds.core.GeneratorBasedBuilder):
    """Verses of the King James Version (1769) and of the World English Bible.

    No text, old or modern, is in two splits.
    """

    VERSION = tfds.core.Version("1.0.0")
    code_path = epath.Path(__file__)  # TFDS would guess it from the module's name, and miss it.

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Verse pairs, King James Version to World English Bible.",
            features=tfds.features.FeaturesDict(
                {"inputs": tfds.features.Text(), "targets": tfds.features.Text()}
            ),
            supervised_keys=("inputs", "targets"),
            license="public domain",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # Everything lies beside this file.
        with gzip.open(_FOLDER / "kjv_web.tsv.gz", "rt", encoding="utf-8") as lines:
            pairs = [tuple(line.rstrip("\n").split("\t")) for line in lines]
        groups = group_by_text(pairs)
        return {split: self._generate_examples(pairs, groups, split) for split in SPLITS}

    def _generate_examples(
        self, pairs: list[tuple[str, str]], groups: dict[str, str], split: str
    ) -> Iterator[tuple[int, dict[str, str]]]:
        for number, (inputs, targets) in enumerate(pairs):
            if split_of(groups[inputs]) == split:
                yield number, {"inputs": inputs, "targets": targets}
