"""The names of the tensors of GPT-2 and BERT: ours on the left, Hugging Face's on the right."""

from __future__ import annotations

from collections.abc import Iterator

from mtf_models.checkpoint.hugging_face_pairs import Pair
from mtf_models.checkpoint.single_stack import GPT2, SingleStack

_TOP = "transformer"
_PROJECTIONS = ("q", "k", "v")
_THEIR_PROJECTIONS = ("query", "key", "value")


def stack_pairs(stack: SingleStack) -> Iterator[Pair]:
    """All variables of a model and their counterparts."""
    yield from _gpt2(stack) if stack.model_type == GPT2 else _bert(stack)


def _gpt2(s: SingleStack) -> Iterator[Pair]:
    yield _table("embedding", "transformer.wte.weight", s.vocab_size, s)
    yield _table("positional_embedding", "transformer.wpe.weight", s.max_length, s)
    for block in range(s.num_layers):
        ours, theirs = f"{_TOP}/block_{block:03d}", f"transformer.h.{block}"
        attention, feed_forward = f"{ours}/layer_000", f"{ours}/layer_001"
        yield from _norm(f"{attention}/true_layer_norm", f"{theirs}.ln_1", s)
        maps = f"{attention}/SelfAttention"
        for part, name in enumerate(_PROJECTIONS):
            # One matrix for all three, and no matrix here is transposed.
            joined = 3 * s.d_model
            for ending, there in (("", "weight"), ("_bias", "bias")):
                sizes = (s.d_model,) if ending else (s.d_model, s.d_model)
                yield Pair(
                    f"{maps}/{name}{ending}",
                    (f"{theirs}.attn.c_attn.{there}",),
                    sizes,
                    (*sizes[:-1], joined),
                    transposed=False,
                    part=part,
                    parts=3,
                )
        yield from _map(f"{maps}/o", f"{maps}/o_bias", f"{theirs}.attn.c_proj", s.d_model, s, False)
        yield from _norm(f"{feed_forward}/true_layer_norm", f"{theirs}.ln_2", s)
        dense = f"{feed_forward}/DenseReluDense"
        yield from _feed_forward(dense, f"{theirs}.mlp.c_fc", f"{theirs}.mlp.c_proj", s, False)
    yield from _norm(f"{_TOP}/true_layer_norm", "transformer.ln_f", s)
    if not s.tied:
        sizes = s.d_model, s.vocab_size
        yield Pair(f"{_TOP}/logits/kernel", ("lm_head.weight",), sizes, sizes[::-1])


def _bert(s: SingleStack) -> Iterator[Pair]:
    there = "bert.embeddings"
    yield _table("embedding", f"{there}.word_embeddings.weight", s.vocab_size, s)
    yield _table("positional_embedding", f"{there}.position_embeddings.weight", s.max_length, s)
    types = s.type_vocab_size
    yield _table("token_type_embedding", f"{there}.token_type_embeddings.weight", types, s)
    yield from _norm(f"{_TOP}/true_layer_norm", f"{there}.LayerNorm", s)
    for block in range(s.num_layers):
        ours, theirs = f"{_TOP}/block_{block:03d}", f"bert.encoder.layer.{block}"
        attention, feed_forward = f"{ours}/layer_000", f"{ours}/layer_001"
        maps = f"{attention}/SelfAttention"
        for name, their in zip(_PROJECTIONS, _THEIR_PROJECTIONS, strict=True):
            source = f"{theirs}.attention.self.{their}"
            yield from _map(f"{maps}/{name}", f"{maps}/{name}_bias", source, s.d_model, s)
        output = f"{theirs}.attention.output"
        yield from _map(f"{maps}/o", f"{maps}/o_bias", f"{output}.dense", s.d_model, s)
        yield from _norm(f"{attention}/true_layer_norm", f"{output}.LayerNorm", s)
        dense = f"{feed_forward}/DenseReluDense"
        sources = f"{theirs}.intermediate.dense", f"{theirs}.output.dense"
        yield from _feed_forward(dense, *sources, s)
        yield from _norm(f"{feed_forward}/true_layer_norm", f"{theirs}.output.LayerNorm", s)
    head, there = f"{_TOP}/embedding_transform", "cls.predictions"
    kernel, bias = f"{head}/dense/kernel", f"{head}/dense/bias"
    yield from _map(kernel, bias, f"{there}.transform.dense", s.d_model, s)
    yield from _norm(head, f"{there}.transform.LayerNorm", s)
    yield _vector(f"{_TOP}/embedding_bias", f"{there}.bias", s.vocab_size)


def _table(name: str, theirs: str, rows: int, s: SingleStack) -> Pair:
    sizes = rows, s.d_model
    return Pair(f"{_TOP}/{name}", (theirs,), sizes, sizes, transposed=False)


def _vector(ours: str, theirs: str, size: int) -> Pair:
    return Pair(ours, (theirs,), (size,), (size,), transposed=False)


def _norm(ours: str, theirs: str, s: SingleStack) -> Iterator[Pair]:
    scope = f"{ours}/layer_prepostprocess/layer_norm"
    yield _vector(f"{scope}/layer_norm_scale", f"{theirs}.weight", s.d_model)
    yield _vector(f"{scope}/layer_norm_bias", f"{theirs}.bias", s.d_model)


def _map(
    kernel: str,
    bias: str,
    theirs: str,
    output: int,
    s: SingleStack,
    transposed: bool = True,
    width: int | None = None,
) -> Iterator[Pair]:
    """A matrix from `width`, d_model unless it is said, to `output`, and its bias."""
    sizes = (width or s.d_model), output
    their_sizes = sizes[::-1] if transposed else sizes
    yield Pair(kernel, (f"{theirs}.weight",), sizes, their_sizes, transposed)
    yield _vector(bias, f"{theirs}.bias", output)


def _feed_forward(
    ours: str, first: str, second: str, s: SingleStack, transposed: bool = True
) -> Iterator[Pair]:
    yield from _map(f"{ours}/wi/kernel", f"{ours}/wi/bias", first, s.d_ff, s, transposed)
    yield from _map(
        f"{ours}/wo/kernel", f"{ours}/wo/bias", second, s.d_model, s, transposed, width=s.d_ff
    )
