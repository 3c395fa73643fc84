"""Checks and padding of batches: feature name to integer array [batch, length]."""

from collections.abc import Mapping

import numpy as np

from mtf_models.errors import DataError

_SUFFIXES = ("_position", "_segmentation", "_token_type")
_HIGHEST = 2**31 - 1


def check_features(
    features: Mapping[str, np.ndarray],
    vocab_sizes: Mapping[str, int],
    negative_targets: bool = False,
) -> None:
    """Refuses a batch that no model could take.

    Args:
        features: feature name to integer array [batch, length].
        vocab_sizes: `inputs` and `targets` to the number of ids of their vocabulary.
        negative_targets: whether `targets` may hold negative ids, as decoder-only models use them
            for tokens that are read and not predicted.

    Raises:
        DataError: an array of another rank or type, batches or lengths that differ, a packing
            feature without its tokens, or an id outside the vocabulary. All of them at once.
    """
    faults = _shape_faults(features)
    if not faults:
        for name in vocab_sizes.keys() & features.keys():
            lowest = None if negative_targets and name == "targets" else 0
            faults += _range_faults(name, features[name], lowest, vocab_sizes[name])
    if faults:
        raise DataError("These features do not fit the model: " + "; ".join(sorted(faults)) + ".")


def pad_batch(
    features: Mapping[str, np.ndarray], batch_size: int
) -> tuple[dict[str, np.ndarray], int]:
    """Fills a batch up with rows of zeros.

    Args:
        features: feature name to array [rows, length].
        batch_size: how many rows are wanted.

    Returns:
        Feature name to array [batch_size, length], and the number of real rows.

    Raises:
        DataError: there are more rows than wanted.
    """
    rows = max(len(array) for array in features.values())
    if rows > batch_size:
        raise DataError(f"A batch of {rows} rows does not fit into one of {batch_size}.")
    padding = ((0, batch_size - rows), (0, 0))
    return {name: np.pad(array, padding) for name, array in features.items()}, rows


def _shape_faults(features: Mapping[str, np.ndarray]) -> list[str]:
    faults = [
        f"{name} is {array.dtype} of shape {list(array.shape)}, not integer [batch, length]"
        for name, array in features.items()
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer)
    ]
    faults += [
        f"{name} of shape {list(array.shape)} is empty"
        for name, array in features.items()
        if array.ndim == 2 and not array.size
    ]
    sizes = {name: len(array) for name, array in features.items() if array.ndim}
    if len(set(sizes.values())) > 1:
        faults.append(f"the batch sizes differ: {sizes}")
    for name, array in features.items():
        base = _tokens_of(name)
        if base == name:
            continue
        if base not in features:
            faults.append(f"{name} comes without {base}")
        elif features[base].shape != array.shape:
            faults.append(f"{name} is {list(array.shape)}, {base} {list(features[base].shape)}")
        elif ((array < 0) | (array > _HIGHEST)).any():
            faults.append(f"{name} has values below 0 or above {_HIGHEST}")
    packed = {_tokens_of(name) for name in features if name.endswith(_SUFFIXES[1])}
    tokens = {_tokens_of(name) for name in features}
    if packed and packed != tokens:
        faults.append(f"{', '.join(sorted(packed))} is packed and the rest is not")
    return faults


def _tokens_of(name: str) -> str:
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _range_faults(name: str, ids: np.ndarray, lowest: int | None, size: int) -> list[str]:
    wrong = ids >= size
    if np.issubdtype(ids.dtype, np.signedinteger):
        wrong |= ids <= -size if lowest is None else ids < lowest
    if not wrong.any():
        return []
    row, column = np.argwhere(wrong)[0]
    others = int(wrong.sum()) - 1
    more = f" and {others} more" if others else ""
    return [
        f"{name} has the id {ids[row, column]} at [{row}, {column}]{more}, and ids are 0 to"
        f" {size - 1} in the model's vocabulary of {size}: encode with that one (`mtf tasks show`"
        " counts such ids of a task)"
    ]
