"""Decoding with caches gives what calling the whole model on growing prefixes gives."""

from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf

SIZES = (
    "d_model = 32",
    "d_ff = 64",
    "num_heads = 4",
    "d_kv = 8",
    "utils.run.vocabulary = (100, 100)",
    "utils.run.sequence_length = {'inputs': 8, 'targets': 8}",
    "get_variable_dtype.activation_dtype = 'float32'",
)
TWO = ("num_layers = 2",)
# Tokens that are read together share the slots of experts: there are enough for all.
EXPERTS = ("num_layers = 1", "MoE1D.num_experts = 4", "MoE1D.capacity_factor_eval = 8.0")
DELIMITED = ("run.model_type = 'delimited_lm'", "Unitransformer.input_full_attention = True")
GEMMA = ("num_blocks = 1", "num_memory_heads = 2", "LocalSelfAttention.radius = 3")
CASES = {
    "encoder-decoder, shared relative bias": ("models/t5.1.1.small.gin", TWO),
    "encoder-decoder, tied embedding": ("models/t5.1.0.small.gin", TWO),
    "encoder-decoder, relative bias of each layer": ("models/umt5.small.gin", TWO),
    "encoder-decoder, learned positions": ("models/bi_base.gin", TWO),
    "encoder-decoder, experts": ("models/switch.base.gin", EXPERTS),
    "encoder-decoder, two experts": ("models/bi_moe.gin", EXPERTS),
    "decoder, relative bias": ("models/lm.small.gin", TWO),
    "decoder, learned positions": ("models/gpt2.small.gin", TWO),
    "decoder, rotary positions": (
        "models/llama3.8b.gin",
        (*TWO, "SelfAttention.num_memory_heads = 2"),
    ),
    "decoder, local attention": ("models/gemma2.2b.gin", GEMMA),
    "decoder, experts": ("models/lm_moe.gin", EXPERTS),
    "decoder, a prefix that sees itself": ("models/lm.small.gin", (*TWO, *DELIMITED)),
}
"""What a decoder can be made of, from the gin files that ship."""

BY_DEFAULT = (
    "encoder-decoder, shared relative bias",
    "decoder, local attention",
    "decoder, a prefix that sees itself",
)
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
PROMPTS = np.array([[5, 7, 9, 0], [11, 0, 0, 0], [3, 4, 5, 6]], np.int32)
NEW = 6
EOS = 1


def grown(model, read, begin):
    """The likeliest ids after each row, each found by the whole model on all before it.

    Args:
        read: takes the ids [batch, NEW] so far, 0 where there are none, and returns features.
        begin: at which position of the logits the first of each row is predicted.
    """
    rows, ids = np.arange(len(begin)), np.zeros([len(begin), NEW], np.int32)
    going, real = np.ones(len(begin), bool), model.network.vocab_sizes["targets"]
    for new in range(NEW):
        # What stands where an id is predicted is not read, and must not be padding.
        asked = np.where(np.arange(NEW) == new, 2, ids)
        logits = model(read(asked)).logits.numpy()[rows, np.asarray(begin) + new, :real]
        ids[:, new] = np.where(going, logits.argmax(axis=-1), 0)
        going &= ids[:, new] > EOS
    return ids


def until_end(ids):
    """Up to the end; whole sequences take id 0 for padding, so that they go no further either."""
    ends = np.flatnonzero(ids <= EOS)
    return ids[: ends[0]].tolist() if len(ends) else ids.tolist()


def after_prompts(ids):
    """The sequences so far of a decoder alone."""
    found = np.pad(PROMPTS, [[0, 0], [0, NEW]])
    for row, given, new in zip(found, (PROMPTS > 0).sum(axis=1), ids, strict=True):
        row[given : given + NEW] = new
    return {"targets": found}


@pytest.mark.parametrize(
    "case", [c if c in BY_DEFAULT else pytest.param(c, marks=pytest.mark.nightly) for c in CASES]
)
def test_caches_change_nothing(case):
    file, params = CASES[case]
    model = mtf.build_model([file], [*SIZES, *params])
    rng = np.random.default_rng(3)
    for variable in model.variables.values():  # At first many logits are the same.
        variable.assign(rng.normal(0.0, 0.4, variable.shape.to_integer_list))
    if case.startswith("encoder"):
        ids = model.decode({"inputs": INPUTS}, max_decode_length=NEW).ids.numpy()
        expected = grown(model, lambda ids: {"inputs": INPUTS, "targets": ids}, [0, 0, 0])
    elif DELIMITED[0] in params:
        ids = model.decode({"inputs": INPUTS}, max_steps=NEW).ids.numpy()
        begin = (INPUTS > 0).sum(axis=1)
        expected = grown(model, lambda ids: {"inputs": INPUTS, "targets": ids}, begin)
    else:
        begin = (PROMPTS > 0).sum(axis=1)
        found = model.decode({"inputs": PROMPTS}, max_steps=NEW).ids.numpy()
        ids = [row[given : given + NEW] for row, given in zip(found, begin, strict=True)]
        expected = grown(model, after_prompts, begin)
    texts = [until_end(row) for row in ids]
    assert texts == [until_end(row) for row in expected]
    assert sum(map(len, texts)) > NEW, "too little was decoded to tell"


def test_every_decoder_that_ships_is_there(repository):
    """Files that are one of the cases in another size, or decode nothing, are named here."""
    sizes = ("large", "base", "xl", "xxl", "3B", "11B", "w1", "w2", "w3", "l12", "8", "n4w10")
    others = {"aiayn", "bert", "byt5", "modernbert", "mt5", "t5.1", "tiny"}

    def kind(file):
        words = Path(file).stem.replace("_", ".").split(".")
        return ".".join(w for w in words if w not in (*sizes, "small"))

    kinds = {kind(file) for file, _ in CASES.values()}
    assert {kind(f) for f in (repository / "gin" / "models").glob("*.gin")} == kinds | others
