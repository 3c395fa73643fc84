"""How many ids a model knows: what the config, the tokenizer and a checkpoint say."""

from __future__ import annotations

from collections.abc import Mapping

from mtf_models.checkpoint.source import Source
from mtf_models.config import Config
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.bindings.tasks import DEFAULT_VOCAB_SIZE

VOCAB_DIVISOR = 128
"""Tables of vocabularies have a multiple of so many rows."""
_TABLES = ("/embedding", "/embedding1", "/embedding_embedding_weights")
"""How the tables of vocabulary embeddings end, of `VocabEmbedding` and others."""
_SENTINELS = 100
"""How many ids T5's tokenizers have beyond their pieces."""


def vocab_sizes(
    config: Config, settings: RunSettings, reader: Source | None = None
) -> tuple[int, int]:
    """The sizes of the vocabularies of inputs and targets.

    Args:
        config: may say them outright, as for models that read bytes.
        settings: of the config; may have a tokenizer's.
        reader: a checkpoint, whose tables tell them where the config does not; without one they
            are T5's.
    """
    names = ("input_vocab_size", "output_vocab_size")
    functions = ["make_bitransformer"]
    if settings.model_type == "bi_student_teacher":
        functions.insert(0, "make_bi_student_teacher")
    found = [[config.query(f"{function}.{name}") for function in functions] for name in names]
    bound = [next((size for size in sizes if size is not None), None) for sizes in found]
    known = settings.vocabulary or _table_sizes(reader) or (DEFAULT_VOCAB_SIZE,) * 2
    inputs, targets = (b if b is not None else k for b, k in zip(bound, known, strict=True))
    return inputs, targets


def check_rows(reader: Source, variables: Mapping[str, Variable], sizes: tuple[int, int]) -> None:
    """Compares the tables of a checkpoint with the tokenizer's vocabularies.

    Args:
        reader: the checkpoint.
        variables: of the model; those with a dimension `vocab` are compared.
        sizes: how many ids inputs and targets have.

    Raises:
        CheckpointError: if tables have another number of rows, with what may be meant.
    """
    stored = set(reader.names)
    faults: dict[tuple[int, int, int], str] = {}
    for name, variable in variables.items():
        axes = [i for i, dimension in enumerate(variable.shape) if dimension.name == "vocab"]
        if name not in stored or not axes:
            continue
        size = sizes[0 if name.startswith("encoder/") else 1]
        rows = reader.shape(name)[axes[0]]
        padded = variable.shape.dims[axes[0]].size
        if rows != padded:
            faults.setdefault((rows, size, padded), name)
    if faults:
        lines = [
            f"{name} has {rows} rows; tokenizer gives {size}; {_remedy(rows, size, padded)}"
            for (rows, size, padded), name in faults.items()
        ]
        raise CheckpointError(
            f"The vocabulary does not fit checkpoint {reader.prefix}: {'. '.join(lines)}."
        )


def _remedy(rows: int, size: int, padded: int) -> str:
    with_sentinels = -(-(size + _SENTINELS) // VOCAB_DIVISOR) * VOCAB_DIVISOR
    if with_sentinels == rows:
        return (
            f"{_SENTINELS} sentinel ids then padding to {VOCAB_DIVISOR} gives {rows}: set "
            f"extra_ids={_SENTINELS}"
        )
    return f"padding gives {padded}: take the tokenizer that the model was trained with"


def _table_sizes(reader: Source | None) -> tuple[int, int] | None:
    """The rows of a checkpoint's tables, padding included."""
    if reader is None:
        return None
    outside_layers = [n for n in reader.names if not {"block_", "layer_"} & _prefixes(n)]
    shapes = {name: reader.shape(name) for name in outside_layers}
    embeddings = {n: s[-2] for n, s in shapes.items() if n.endswith(_TABLES)}
    logits = {n: s[-1] for n, s in shapes.items() if n.endswith("/logits/kernel")}
    if not embeddings:
        return None
    inputs = embeddings.get("encoder/embedding", next(iter(embeddings.values())))
    outputs = embeddings.get("decoder/embedding", inputs)
    return inputs, next(iter(logits.values()), outputs)


def _prefixes(name: str) -> set[str]:
    """What the parts of a variable's name begin with, as far as numbered parts do."""
    return {part[:6] for part in name.split("/")}
