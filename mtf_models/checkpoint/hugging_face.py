"""A folder of Hugging Face's, read under our names and written from ours."""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint.architecture import Architecture
from mtf_models.checkpoint.bundle import Entry
from mtf_models.checkpoint.hugging_face_config import (
    CONFIG_FILE,
    architecture_of,
    fields_of,
    read_config,
)
from mtf_models.checkpoint.hugging_face_names import naming_of, pairs
from mtf_models.checkpoint.hugging_face_pairs import Pair
from mtf_models.checkpoint.names import steps_in
from mtf_models.checkpoint.reader import Reader
from mtf_models.checkpoint.safetensors_files import (
    SHARD_BYTES,
    Planned,
    SafetensorsFiles,
    has_safetensors,
    pickles_in,
    write_safetensors,
)
from mtf_models.checkpoint.single_stack import SingleStack
from mtf_models.errors import CheckpointError, did_you_mean

_GENERATION_FILE = "generation_config.json"

_log = logging.getLogger("mtf_models")


class HuggingFaceReader:
    """The variables of a Hugging Face folder, as `Reader` has those of a checkpoint of ours.

    Everything is checked at once, from config.json and the headers of the files.

    Args:
        folder: has `config.json` and safetensors files.

    Attributes:
        prefix: the folder.
        architecture: what the config says.

    Raises:
        CheckpointError: if it is no such folder, or damaged, or of a model that cannot be here; or
            listing every tensor that is missing, left over or of another shape.
    """

    def __init__(self, folder: Path) -> None:
        self.prefix = folder
        _require_safetensors(folder)
        fields = read_config(folder)
        # Faults of the config are told before those of files that may be of another model.
        architecture_of(fields, has_classifier=False)
        self._files = SafetensorsFiles(folder)
        self._naming = naming_of(fields["model_type"])
        self._sources = self._naming.modern(self._files.names)
        self._given = list(self._sources)
        faults = list(self._join_aliases())
        classifier, embedding = self._naming.classifier, self._naming.embedding
        own_classifier = classifier in self._sources and not self._same(classifier, embedding)
        self.architecture = architecture_of(fields, own_classifier)
        self._pairs = {pair.ours: pair for pair in self._matched()}
        faults += self._faults()
        if isinstance(self.architecture, SingleStack) and (notice := self.architecture.notice):
            say_once(f"{folder}: {notice}")
        if faults:
            lines = "".join(f"\n  {fault}" for fault in faults)
            raise CheckpointError(
                f"The tensors of {folder} do not fit its {CONFIG_FILE}, and nothing was read:"
                f"{lines}\nTake both from the same model."
            )

    def __contains__(self, name: str) -> bool:
        return name in self._pairs

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._pairs)

    @property
    def step(self) -> int:
        """0: such a folder counts no steps."""
        return 0

    @property
    def weights_dtype(self) -> str:
        """The dtype that most variables have."""
        return Counter(self.dtype(name).name for name in self._pairs).most_common(1)[0][0]

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a variable."""
        return self._known(name).shape

    def dtype(self, name: str) -> tf.DType:
        """The dtype of a variable in the file."""
        return tf.as_dtype(self._files.dtype(self._sources[self._known(name).theirs[0]]))

    def read(self, name: str) -> np.ndarray:
        """A whole variable, in the dtype of the file."""
        pair = self._known(name)
        return pair.to_ours([self._files.read(self._sources[theirs]) for theirs in pair.theirs])

    def tensor(self, name: str) -> tf.Tensor:
        """The same as a tensor on the host."""
        with tf.device("CPU:0"):
            return tf.convert_to_tensor(self.read(name))

    def entries(self) -> Iterator[Entry]:
        """The variables to be written as a checkpoint of ours, each read when its turn comes."""
        for name, pair in self._pairs.items():
            yield Entry(name, pair.shape, self.dtype(name), self._whole(pair))

    def _whole(self, pair: Pair) -> Iterator[tuple[Sequence[int], np.ndarray]]:
        yield (0,) * len(pair.shape), self.read(pair.ours)

    def _known(self, name: str) -> Pair:
        if name not in self._pairs:
            raise CheckpointError(
                f"{self.prefix} has no variable {name}{did_you_mean(name, self._pairs)}"
            )
        return self._pairs[name]

    def _join_aliases(self) -> Iterator[str]:
        """Takes the same tensor under several names for one; yields those that are not the same."""
        for name, others in self._naming.aliases.items():
            present = [n for n in (name, *others) if n in self._given]
            for other in present[1:]:
                if not self._same(present[0], other):
                    yield f"{other} differs from {present[0]}, with which models here share it"
            if present:
                self._sources[name] = self._sources[present[0]]

    def _same(self, name: str, other: str) -> bool:
        if other not in self._sources:
            return False
        name, other = self._sources[name], self._sources[other]
        if self._files.shape(name) != self._files.shape(other):
            return False
        return np.array_equal(self._files.read(name), self._files.read(other))

    def _matched(self) -> Iterator[Pair]:
        for pair in pairs(self.architecture):
            classifier = self._naming.classifier
            if pair.theirs == (classifier,) and classifier not in self._sources:
                say_once(
                    f"{self.prefix} ties the logits to the embedding without scaling them; here "
                    "they are a matrix of their own with the same values."
                )
                pair = pair._replace(theirs=(self._naming.embedding,))
            yield pair

    def _faults(self) -> Iterator[str]:
        """All differences between what the config says and what the files have."""
        wanted = {name: pair for pair in self._pairs.values() for name in pair.theirs}
        aliases = (other for others in self._naming.aliases.values() for other in others)
        known = {*wanted, *aliases, self._naming.classifier}
        for name, pair in wanted.items():
            if name not in self._sources:
                yield f"missing: {name} {list(pair.their_shape)}"
            elif (found := self._files.shape(self._sources[name])) != pair.their_shape:
                yield f"different: {name} is {list(found)}, not {list(pair.their_shape)}"
        unread = [name for name in self._given if self._naming.is_unread(name)]
        if unread:
            say_once(f"Not read, as transformers does not either: {', '.join(unread)}.")
        for name in self._given:
            if name not in known and name not in unread:
                yield f"left over: {name} {list(self._files.shape(self._sources[name]))}"


@functools.cache
def say_once(text: str, level: int = logging.INFO) -> None:
    """Logs a line about a folder, once in a process: a command may open one more than once.

    Args:
        text: the line.
        level: of the log.
    """
    _log.log(level, text)


def is_hugging_face_folder(folder: Path) -> bool:
    """Whether a folder is of Hugging Face's kind, not one of ours with a config.json beside."""
    return (folder / CONFIG_FILE).is_file() and not steps_in(folder)


def convert_first(folder: Path) -> str:
    """The end of a message that refuses a folder: what to do if it is of Hugging Face's kind."""
    if not is_hugging_face_folder(folder):
        return ""
    return f" It is a Hugging Face folder: convert it first, mtf convert {folder} --output=FOLDER."


def write_hugging_face(
    folder: Path,
    architecture: Architecture | SingleStack,
    reader: Reader,
    stored: Mapping[str, str],
    real_ids: int | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Writes the variables of a checkpoint as Hugging Face's config.json and safetensors.

    One variable is in memory at a time. Each keeps its dtype.

    Args:
        folder: where to; new.
        architecture: of the model.
        reader: the checkpoint; rows of its vocabulary beyond the architecture's are left out.
        stored: the name of each variable in the checkpoint.
        real_ids: how many ids a tokenizer knows, which are those that `generate` may choose; None
            for all.
        shard_bytes: see `write_safetensors`.

    Raises:
        CheckpointError: listing what is missing or left over, or if it cannot be written.
    """
    table = [(pair, stored.get(pair.ours, pair.ours)) for pair in pairs(architecture)]
    naming = naming_of(architecture.model_type)
    _check_shapes(table, reader, of_vocabulary=(naming.embedding, naming.classifier))
    dtypes = Counter(reader.dtype(name).name for _, name in table)
    fields = fields_of(architecture, dtypes.most_common(1)[0][0])
    try:
        write_safetensors(folder, _planned(table, reader), shard_bytes)
        _write_json(folder / CONFIG_FILE, fields)
        generation: dict[str, Any] = {n: v for n, v in fields.items() if n.endswith("_token_id")}
        if real_ids is not None and real_ids < architecture.vocab_size:
            generation["suppress_tokens"] = list(range(real_ids, architecture.vocab_size))
        _write_json(folder / _GENERATION_FILE, generation)
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written: {error.strerror}. Make room, or give another --output."
        ) from error


def _check_shapes(
    table: Iterable[tuple[Pair, str]], reader: Reader, of_vocabulary: Sequence[str]
) -> None:
    faults = []
    for pair, name in table:
        if name not in reader:
            faults.append(f"missing: {name}")
            continue
        found = reader.shape(name)
        if pair.theirs[0] in of_vocabulary:
            # Rows of the vocabulary may be padding, which the architecture leaves out.
            found = tuple(map(min, found, pair.shape))
        if found != pair.shape:
            faults.append(f"different: {name} is {list(found)}, not {list(pair.shape)}")
    if faults:
        raise CheckpointError(
            f"Checkpoint {reader.prefix} does not fit its config, and nothing was written: "
            f"{'; '.join(faults)}."
        )


def _planned(table: Iterable[tuple[Pair, str]], reader: Reader) -> Iterator[Planned]:
    """The tensors to write, each with the variables that it is of: one, or several side by side."""
    owners: dict[str, list[tuple[Pair, int, str]]] = {}
    for pair, stored in table:
        for index, name in enumerate(pair.theirs):
            owners.setdefault(name, []).append((pair, index, stored))
    for name, parts in owners.items():
        (pair, _, stored), *_ = parts
        dtype = np.dtype(reader.dtype(stored).as_numpy_dtype)
        load = functools.partial(_load, parts, reader, dtype)
        yield Planned(name, pair.their_shape, dtype, load)


def _load(parts: Sequence[tuple[Pair, int, str]], reader: Reader, dtype: np.dtype) -> np.ndarray:
    values = [
        pair.to_theirs(reader.read(stored)[tuple(slice(size) for size in pair.shape)], index)
        for pair, index, stored in parts
    ]
    return values[0] if len(values) == 1 else np.concatenate(values, axis=-1, dtype=dtype)


def _write_json(file: Path, fields: dict[str, Any]) -> None:
    file.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def _require_safetensors(folder: Path) -> None:
    if has_safetensors(folder):
        return
    pickles = pickles_in(folder)
    if pickles:
        raise CheckpointError(
            f"{folder} holds pickles, which can run any code and are never opened: "
            f"{', '.join(pickles)}. Save the model as safetensors, as transformers does today "
            "(save_pretrained)."
        )
    raise CheckpointError(
        f"{folder} has {CONFIG_FILE} and no model.safetensors. Give a folder with the weights."
    )
