"""The datasets against their raw files, read here in another way."""

import collections
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import seqio
import tensorflow_datasets as tfds

from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.datasets import SPLITS, vocabs
from mtf_models.datasets.kjv_web import group_by_text
from mtf_models.datasets.vocabs.make_arpabet import make_arpabet


def _pairs(task, keys):
    """Split to the two texts of each of its examples."""
    source = get_task_or_mixture(task).source
    pairs = {}
    for split in SPLITS:
        dataset = source.get_dataset(split, shuffle=False)
        texts = dataset.map(lambda example: tuple(example[key] for key in keys)).batch(4096)
        pairs[split] = [
            (first.decode(), second.decode())
            for batch in texts.as_numpy_iterator()
            for first, second in zip(*batch, strict=True)
        ]
    return pairs


@pytest.fixture(scope="module")
def cmudict(data_dir):
    return _pairs("cmudict_g2p", ("word", "phonemes"))


@pytest.fixture(scope="module")
def kjv_web(data_dir):
    return _pairs("kjv_web", ("inputs", "targets"))


@pytest.fixture(scope="module")
def pronunciations(repository):
    """Word to its pronunciations, read from the raw file."""
    found = collections.defaultdict(set)
    with gzip.open(repository / "data/cmudict/cmudict.dict.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            pattern = r"([^\s(]+)(?:\(\d\))? ([A-Z0-2 ]+?)(?: #.*)?\n"
            word, phonemes = re.fullmatch(pattern, line).groups()
            found[word].add(re.sub("[0-2]", "", phonemes))
    return found


@pytest.mark.slow
def test_cmudict_trains_on_every_pronunciation_once(cmudict, pronunciations):
    held_out = {word for split in ("validation", "test") for word, _ in cmudict[split]}
    expected = [
        (word, phonemes)
        for word in pronunciations.keys() - held_out
        for phonemes in pronunciations[word]
    ]
    assert sorted(cmudict["train"]) == sorted(expected)
    assert {word for split in SPLITS for word, _ in cmudict[split]} == set(pronunciations)


def test_held_out_words_have_all_their_pronunciations(data_dir, pronunciations):
    source = get_task_or_mixture("cmudict_g2p").source
    for split in ("validation", "test"):
        for example in source.get_dataset(split, shuffle=False).as_numpy_iterator():
            texts = [text.decode() for text in example["pronunciations"]]
            assert len(set(texts)) == len(texts)
            assert set(texts) == pronunciations[example["word"].decode()]


def test_cmudict_shares_no_word_between_splits(cmudict):
    words = {split: [word for word, _ in cmudict[split]] for split in SPLITS}
    for split in ("validation", "test"):
        assert len(set(words[split])) == len(words[split])
        assert not set(words[split]) & set(words["train"])
    assert not set(words["validation"]) & set(words["test"])
    assert {split: len(words[split]) for split in SPLITS} == {
        "train": 126906,
        "validation": 3697,
        "test": 3710,
    }


def test_kjv_web_has_every_pair_of_the_raw_file_once(kjv_web, repository):
    with gzip.open(repository / "data/kjv_web/kjv_web.tsv.gz", "rt", encoding="utf-8") as lines:
        raw = lines.read().splitlines()
    found = ["\t".join(pair) for split in SPLITS for pair in kjv_web[split]]
    assert len(raw) == 30886
    assert sorted(found) == sorted(raw)


def test_kjv_web_shares_no_text_between_splits(kjv_web):
    texts = {split: {text for pair in kjv_web[split] for text in pair} for split in SPLITS}
    assert not texts["train"] & texts["validation"]
    assert not texts["train"] & texts["test"]
    assert not texts["validation"] & texts["test"]


def test_groups_are_joined_by_either_text():
    groups = group_by_text([("c", "x"), ("b", "x"), ("b", "y"), ("d", "z")])
    assert groups == {"b": "b", "c": "b", "x": "b", "y": "b", "d": "d", "z": "d"}


def test_t5_vocabulary():
    vocabulary = seqio.SentencePieceVocabulary(vocabs.t5_model(), extra_ids=100)
    text = "translate English to German: The house is wonderful."
    assert vocabulary.encode(text) == [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5]
    assert vocabulary.vocab_size == 32100
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    assert vocabulary.encode("<extra_id_0> <extra_id_99>") == [32099, 32000]


@pytest.mark.parametrize("remade", [False, True])
def test_arpabet_vocabulary_has_the_symbols_in_order(repository, remade):
    table = (repository / "data/cmudict/cmudict.phones").read_text()
    symbols = re.findall(r"^[A-Z]+", table, re.MULTILINE)
    assert len(symbols) == 39 and symbols == sorted(symbols)
    content = make_arpabet() if remade else Path(vocabs.arpabet_model()).read_bytes()
    model = sentencepiece.SentencePieceProcessor(model_proto=content)
    assert (model.pad_id(), model.eos_id(), model.unk_id(), model.vocab_size()) == (0, 1, 2, 42)
    assert model.encode(" ".join(symbols)) == list(range(3, 42))
    assert model.decode(list(range(3, 42))) == " ".join(symbols)


def test_no_phoneme_is_unknown_to_the_vocabulary(cmudict):
    model = sentencepiece.SentencePieceProcessor(vocabs.arpabet_model())
    texts = [phonemes for split in SPLITS for _, phonemes in cmudict[split]]
    assert 2 not in np.concatenate(model.encode(texts))


def test_builders_are_imported_under_one_name(repository):
    assert not (repository / "data" / "__init__.py").exists()
    for name in ("cmudict", "kjv_web"):
        assert tfds.builder_cls(name).__module__ == f"mtf_models.datasets.{name}"
