"""The names of tensors: ours on the left, Hugging Face's on the right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mtf_models.checkpoint.architecture import Architecture, Stack
from mtf_models.checkpoint.hugging_face_pairs import Pair
from mtf_models.checkpoint.single_stack import BERT, GPT2, SingleStack
from mtf_models.checkpoint.single_stack_names import stack_pairs

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


@dataclass(frozen=True)
class Naming:
    """What the files of a family call what is not a layer's.

    Attributes:
        embedding: the table of the vocabulary.
        classifier: the matrix of the logits, which may be the same table.
        aliases: tensors that files may hold again under other names, with the same values.
        unread: patterns of tensors that transformers does not read either, or that are of other
            heads than the one that is here.
        spellings: patterns of old names, and what stands for them now.
    """

    embedding: str
    classifier: str
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()

    def modern(self, names: Iterable[str]) -> dict[str, str]:
        """Today's name of each tensor -> its name in the files."""
        found = {}
        for name in names:
            modern = name
            for pattern, replacement in self.spellings:
                modern = re.sub(pattern, replacement, modern)
            found[modern] = name
        return found

    def is_unread(self, name: str) -> bool:
        """Whether a tensor may be in the files and is not looked at."""
        return any(re.fullmatch(pattern, name) for pattern in self.unread)


_T5 = Naming(
    embedding="shared.weight",
    classifier="lm_head.weight",
    aliases={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")},
    # Of old files; no model has a place for it.
    unread=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)
_NAMINGS = {
    GPT2: Naming(
        embedding="transformer.wte.weight",
        classifier="lm_head.weight",
        # Masks of attention.
        unread=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),
        spellings=((r"^(?!transformer\.|lm_head\.)", "transformer."),),
    ),
    BERT: Naming(
        embedding="bert.embeddings.word_embeddings.weight",
        classifier="cls.predictions.decoder.weight",
        aliases={"cls.predictions.bias": ("cls.predictions.decoder.bias",)},
        unread=(
            r"bert\.embeddings\.position_ids",
            r"bert\.pooler\..*",
            r"cls\.seq_relationship\..*",
        ),
        spellings=(
            (r"LayerNorm\.gamma$", "LayerNorm.weight"),
            (r"LayerNorm\.beta$", "LayerNorm.bias"),
        ),
    ),
}


def naming_of(model_type: str) -> Naming:
    """The naming of a family."""
    return _NAMINGS.get(model_type, _T5)


def pairs(architecture: Architecture | SingleStack) -> list[Pair]:
    """All variables of a model and their counterparts, in our order."""
    if isinstance(architecture, SingleStack):
        return list(stack_pairs(architecture))
    return list(_Table(architecture).rows())


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
        yield Pair("shared/embedding", (_T5.embedding,), table, table, transposed=False)
        for stack in self._architecture.stacks:
            for block in range(stack.blocks):
                yield from self._block(stack, block)
            yield self._pair(
                f"{stack.name}/{self._final_norm}/scale",
                f"{stack.name}.final_layer_norm.weight",
                "d_model",
            )
        if not self._architecture.tied:
            yield self._pair("decoder/logits/kernel", _T5.classifier, "d_model vocab")

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
