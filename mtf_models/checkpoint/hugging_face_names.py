"""The names of tensors: ours on the left, Hugging Face's on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mtf_models.checkpoint.architecture import Architecture, Stack


class Pair(NamedTuple):
    """A variable of ours and what it is there.

    Attributes:
        ours: the name of the variable.
        theirs: the name of the tensor, or of one for each expert.
        shape: the variable's sizes.
        their_shape: the sizes of each tensor.
        transposed: whether a tensor has the axes in the opposite order.
    """

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    their_shape: tuple[int, ...]
    transposed: bool = True

    def to_ours(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """The variable's value from the tensors'."""
        parts = [tensor.T if self.transposed else tensor for tensor in tensors]
        return np.stack(parts).reshape(self.shape)

    def to_theirs(self, value: np.ndarray, index: int = 0) -> np.ndarray:
        """The value of the tensor of number `index` from the variable's."""
        sizes = self.their_shape[::-1] if self.transposed else self.their_shape
        part = value.reshape(len(self.theirs), *sizes)[index]
        return np.ascontiguousarray(part.T if self.transposed else part)


# name in a layer -> (name there, dimensions here)
_ATTENTION = {
    "q": ("q.weight", "d_model inner"),
    "k": ("k.weight", "d_model inner"),
    "v": ("v.weight", "d_model inner"),
    "o": ("o.weight", "inner d_model"),
}
_BIAS = {"relative_attention_bias": ("relative_attention_bias.weight", "heads buckets")}
_FEED_FORWARD = {
    "wi/kernel": ("wi.weight", "d_model d_ff"),
    "wo/kernel": ("wo.weight", "d_ff d_model"),
}
_GATED = {
    "wi_0/kernel": ("wi_0.weight", "d_model d_ff"),
    "wi_1/kernel": ("wi_1.weight", "d_model d_ff"),
    "wo/kernel": ("wo.weight", "d_ff d_model"),
}
_ROUTER = {"switch_gating/kernel": ("router.classifier.weight", "d_model experts")}
_EXPERTS = {
    name: (f"experts.expert_{{expert}}.{there}", f"experts {dims}")
    for name, (there, dims) in _FEED_FORWARD.items()
}

EMBEDDING = "shared.weight"
CLASSIFIER = "lm_head.weight"

ALIASES = {
    EMBEDDING: ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
}
"""Tensors that files may hold again under other names; the values must be the same."""

UNREAD = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
"""Tensors of old files that transformers does not read either: no model has a place for them."""


def pairs(architecture: Architecture) -> list[Pair]:
    """All variables of a model and their counterparts, in our order."""
    table = _Table(architecture)
    return list(table.rows())


class _Table:
    def __init__(self, architecture: Architecture) -> None:
        a = self._architecture = architecture
        self._sizes = {
            "vocab": a.vocab_size,
            "d_model": a.d_model,
            "inner": a.num_heads * a.d_kv,
            "heads": a.num_heads,
            "buckets": a.num_buckets,
            "d_ff": a.d_ff,
            "experts": a.num_experts,
        }
        self._norm = "layer_norm" if a.legacy_norms else "rms_norm"
        self._final_norm = "final_layer_norm" if a.legacy_norms else "rms_norm"

    def rows(self) -> Iterator[Pair]:
        table = self._sizes["vocab"], self._sizes["d_model"]
        yield Pair("shared/embedding", (EMBEDDING,), table, table, transposed=False)
        for stack in self._architecture.stacks:
            for block in range(stack.blocks):
                yield from self._block(stack, block)
            yield self._pair(
                f"{stack.name}/{self._final_norm}/scale",
                f"{stack.name}.final_layer_norm.weight",
                "d_model",
            )
        if not self._architecture.tied:
            yield self._pair("decoder/logits/kernel", CLASSIFIER, "d_model vocab")

    def _block(self, stack: Stack, block: int) -> Iterator[Pair]:
        for index, layer in enumerate((*stack.layers, "")):
            number = block % stack.period * (len(stack.layers) + 1) + index
            ours = f"{stack.name}/block_{block // stack.period:03d}/layer_{number:03d}"
            theirs = f"{stack.name}.block.{block}.layer.{index}"
            if layer:
                yield from self._layer(f"{ours}/{layer}", f"{theirs}.{layer}", _ATTENTION)
                has_bias = self._architecture.bias_in_every_layer or block == 0
                if layer == "SelfAttention" and has_bias:
                    yield from self._layer(f"{ours}/{layer}", f"{theirs}.{layer}", _BIAS)
            else:
                yield from self._feed_forward(ours, theirs, stack.is_sparse(block))
            norm = f"{ours}/{self._norm}/scale"
            yield self._pair(norm, f"{theirs}.layer_norm.weight", "d_model")

    def _feed_forward(self, ours: str, theirs: str, sparse: bool) -> Iterator[Pair]:
        if sparse:
            yield from self._layer(f"{ours}/MoE1D", f"{theirs}.mlp", {**_ROUTER, **_EXPERTS})
        else:
            name = "mlp" if self._architecture.num_experts else "DenseReluDense"
            table = _GATED if self._architecture.gated else _FEED_FORWARD
            yield from self._layer(f"{ours}/DenseReluDense", f"{theirs}.{name}", table)

    def _layer(self, ours: str, theirs: str, table: dict[str, tuple[str, str]]) -> Iterator[Pair]:
        for name, (there, dims) in table.items():
            yield self._pair(f"{ours}/{name}", f"{theirs}.{there}", dims)

    def _pair(self, ours: str, theirs: str, dims: str) -> Pair:
        names = dims.split()
        inner = [name for name in names if name != "experts" or "{expert}" not in theirs]
        # A single head has no dimension of its own here.
        sizes = [self._sizes[n] for n in names if n != "heads" or self._sizes[n] > 1]
        numbers = range(self._sizes["experts"]) if "{expert}" in theirs else range(1)
        return Pair(
            ours,
            tuple(theirs.replace("{expert}", str(number)) for number in numbers),
            tuple(sizes),
            tuple(self._sizes[name] for name in reversed(inner)),
        )
