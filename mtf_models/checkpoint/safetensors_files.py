"""The safetensors files of a folder: read tensor by tensor, and written so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np
import safetensors

from mtf_models.errors import CheckpointError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# What transformers splits at, too.
SHARD_BYTES = 5 * 10**9

# safetensors asks NumPy for "bfloat16" by name, which ml_dtypes teaches it.
_DTYPES = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


class SafetensorsFiles:
    """The tensors of one folder; values are read when asked for.

    Args:
        folder: has `model.safetensors`, or several files and `model.safetensors.index.json`.

    Raises:
        CheckpointError: listing every file that is missing or damaged, and every tensor that the
            index and the files do not agree on or whose dtype is not float32, float16 or bfloat16.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        index = _read_index(folder)
        names = list(dict.fromkeys(index.values())) if index else [SINGLE_FILE]
        self._files: dict[str, Any] = {}
        faults = []
        for name in names:
            path = folder / name
            try:
                opened = safetensors.safe_open(path, framework="np")
            except (OSError, safetensors.SafetensorError) as error:
                reason = "is missing" if not path.exists() else f"is damaged ({error})"
                faults.append(f"{name} {reason}")
                continue
            self._files |= dict.fromkeys(opened.keys(), opened)
        faults += [f"{name} is in no file" for name in index if not faults and name not in self]
        if index:
            faults += [
                f"{name} is not in {INDEX_FILE}" for name in self._files if name not in index
            ]
        for name in self._files:
            if self._slice(name).get_dtype() not in _DTYPES:
                faults.append(f"{name} is {self._slice(name).get_dtype()}, not F32, F16 or BF16")
        if faults:
            raise CheckpointError(
                f"{folder} cannot be read, and nothing was: {'; '.join(faults)}. Copy it again "
                "from where it came from."
            )

    def __contains__(self, name: str) -> bool:
        return name in self._files

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a tensor."""
        return tuple(self._slice(name).get_shape())

    def dtype(self, name: str) -> np.dtype:
        """The dtype of a tensor."""
        return _DTYPES[self._slice(name).get_dtype()]

    def read(self, name: str) -> np.ndarray:
        """A whole tensor."""
        return self._files[name].get_tensor(name)

    def _slice(self, name: str) -> Any:
        return self._files[name].get_slice(name)


class Planned(NamedTuple):
    """A tensor to be written.

    Attributes:
        name: its name in the file.
        shape: its sizes.
        dtype: its dtype in the file.
        load: gives the value, when its turn comes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    load: Callable[[], np.ndarray]

    @property
    def byte_count(self) -> int:
        """What it takes in the file."""
        return int(np.prod(self.shape)) * self.dtype.itemsize


def write_safetensors(
    folder: Path, tensors: Iterable[Planned], shard_bytes: int = SHARD_BYTES
) -> None:
    """Writes tensors, one in memory at a time, into one file or several with an index.

    Args:
        folder: where to; the files must not be there.
        tensors: what to write.
        shard_bytes: how much a file may take, if it holds more than one tensor.
    """
    tensors = list(tensors)
    shards = _shards(tensors, shard_bytes)
    if len(shards) == 1:
        _write_file(folder / SINGLE_FILE, tensors)
        return
    index = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_file(folder / name, shard)
        index |= {tensor.name: name for tensor in shard}
    total = sum(tensor.byte_count for tensor in tensors)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=2)
    (folder / INDEX_FILE).write_text(text + "\n", encoding="utf-8")


def has_safetensors(folder: Path) -> bool:
    """Whether a folder has files of this kind."""
    return any((folder / name).is_file() for name in (SINGLE_FILE, INDEX_FILE))


def pickles_in(folder: Path) -> list[str]:
    """The files of a folder that hold pickles, which are never opened."""
    return sorted({file.name for pattern in _PICKLES for file in folder.glob(pattern)})


def _read_index(folder: Path) -> dict[str, str]:
    """Tensor to file; empty where one file holds all."""
    file = folder / INDEX_FILE
    if (folder / SINGLE_FILE).is_file() or not file.is_file():
        return {}
    try:
        index = json.loads(file.read_text(encoding="utf-8"))["weight_map"]
        outside = [name for name in index.values() if Path(name).name != name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{file} cannot be read: {error!r}. Copy it again from where it came from."
        ) from error
    if outside:
        raise CheckpointError(f"{file} names files elsewhere: {', '.join(outside)}.")
    return index


def _shards(tensors: Sequence[Planned], limit: int) -> list[list[Planned]]:
    shards: list[list[Planned]] = [[]]
    taken = 0
    for tensor in tensors:
        if shards[-1] and taken + tensor.byte_count > limit:
            shards.append([])
            taken = 0
        shards[-1].append(tensor)
        taken += tensor.byte_count
    return shards


def _write_file(path: Path, tensors: Sequence[Planned]) -> None:
    """The format: the header's length, the header as JSON, then the values one after another."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for tensor in tensors:
        end = begin + tensor.byte_count
        header[tensor.name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            _write_values(file, tensor)


def _write_values(file: BinaryIO, tensor: Planned) -> None:
    value = tensor.load()
    assert value.shape == tensor.shape and value.dtype == tensor.dtype, tensor.name
    file.write(np.ascontiguousarray(value).tobytes())
