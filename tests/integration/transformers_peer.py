"""A process of its own in which transformers makes models, or runs those of others.

python transformers_peer.py make FOLDER     models with random weights, and what they compute
python transformers_peer.py run FOLDER ...  what the models in folders compute from features.npz
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    MT5Config,
    MT5ForConditionalGeneration,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)

# Three heads and 32 buckets, so that a transposition is no reshape; a width of heads of its own.
SIZES = dict(vocab_size=256, d_model=16, d_kv=5, d_ff=24, num_layers=2, num_heads=3)
MODELS = {
    "t5": (T5Config, T5ForConditionalGeneration, {}),
    "t5_v1_1": (
        T5Config,
        T5ForConditionalGeneration,
        dict(
            vocab_size=100,
            num_decoder_layers=1,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        ),
    ),
    "t5_silu": (T5Config, T5ForConditionalGeneration, dict(feed_forward_proj="gated-silu")),
    "mt5": (MT5Config, MT5ForConditionalGeneration, {}),
    "mt5_joined": (MT5Config, MT5ForConditionalGeneration, {}),
    "umt5": (UMT5Config, UMT5ForConditionalGeneration, dict(tie_word_embeddings=False)),
    # Few places, so that experts are full and tokens are dropped.
    "switch": (
        SwitchTransformersConfig,
        SwitchTransformersForConditionalGeneration,
        dict(
            num_layers=4,
            num_decoder_layers=2,
            num_sparse_encoder_layers=2,
            num_sparse_decoder_layers=1,
            num_experts=4,
            expert_capacity=30,
        ),
    ),
    "one_head": (T5Config, T5ForConditionalGeneration, dict(num_heads=1, layer_norm_epsilon=1e-2)),
}
UNTIED = ("t5_v1_1", "mt5", "umt5")
SHARDED = ("t5_v1_1",)


def make(folder):
    torch.manual_seed(0)
    for name, (config, model_class, sizes) in MODELS.items():
        model = model_class(config(**{**SIZES, **sizes}))
        if name in UNTIED:
            model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
        with torch.no_grad():
            for parameter, value in model.named_parameters():
                if "layer_norm" in parameter:
                    value.add_(0.3 * torch.randn_like(value))
                else:
                    value.normal_(0, 0.5 if "relative" in parameter else 0.2)
        limit = "20KB" if name in SHARDED else "5GB"
        model.save_pretrained(folder / name, max_shard_size=limit)
        vocab_size = model.config.vocab_size
        features = _features(vocab_size)
        np.savez(folder / f"{name}.npz", **features, **_outputs(model, features))


def run(*folders):
    for folder in folders:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
        with np.load(folder / "features.npz") as features:
            np.savez(folder / "outputs.npz", **_outputs(model, features))


def _features(vocab_size):
    """Long enough for every bucket; one row has padding."""
    generator = np.random.default_rng(1)
    inputs = generator.integers(2, vocab_size, [2, 150])
    targets = generator.integers(2, vocab_size, [2, 140])
    inputs[1, 90:] = 0
    targets[1, 50:] = 0
    return {"inputs": inputs, "targets": targets}


def _outputs(model, features):
    model.eval()
    inputs, targets = (torch.tensor(np.array(features[n])).long() for n in ("inputs", "targets"))
    mask = (inputs != 0).long()
    before = torch.nn.functional.pad(targets[:, :-1], (1, 0))
    with torch.no_grad():
        logits = model(input_ids=inputs, attention_mask=mask, decoder_input_ids=before).logits
        ids = model.generate(
            input_ids=inputs,
            attention_mask=mask,
            max_new_tokens=12,
            min_new_tokens=0,
            do_sample=False,
            num_beams=1,
            decoder_start_token_id=0,
        )
    return {"logits": logits.numpy(), "greedy": ids[:, 1:].numpy()}


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](*map(Path, sys.argv[2:]))
