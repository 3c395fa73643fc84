"""A process of its own in which transformers makes GPT-2s and BERTs, or runs those of others.

python single_stack_peer.py make FOLDER     models with random weights, and what they compute
python single_stack_peer.py run FOLDER ...  what the models in folders compute
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
)

# Three heads and a width of d_ff of its own, so that a transposition is no reshape.
GPT2 = dict(vocab_size=100, n_positions=40, n_embd=24, n_layer=2, n_head=3, n_inner=20)
GPT2 |= dict(bos_token_id=7, eos_token_id=7)
BERT = dict(vocab_size=90, max_position_embeddings=40, hidden_size=24, num_hidden_layers=2)
BERT |= dict(num_attention_heads=3, intermediate_size=20)
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
    "gpt2_untied": (GPT2LMHeadModel, GPT2Config, {**GPT2, "tie_word_embeddings": False}),
    "gpt2_exact": (GPT2LMHeadModel, GPT2Config, {**GPT2, "activation_function": "gelu"}),
    "bert": (BertForMaskedLM, BertConfig, BERT),
    "bert_relu": (
        BertForMaskedLM,
        BertConfig,
        {**BERT, "hidden_act": "relu", "type_vocab_size": 3},
    ),
}


def make(folder):
    torch.manual_seed(0)
    for name, (model_class, config, sizes) in MODELS.items():
        model = model_class(config(**sizes))
        with torch.no_grad():
            for parameter, value in model.named_parameters():
                if "ln_" in parameter or "LayerNorm" in parameter:
                    value.add_(0.3 * torch.randn_like(value))
                else:
                    value.normal_(0, 0.2)
        model.save_pretrained(folder / name)
        np.savez(folder / f"{name}.npz", **_outputs(model))


def run(*folders):
    for folder in folders:
        kind = AutoConfig.from_pretrained(folder).model_type
        loader = AutoModelForCausalLM if kind == "gpt2" else AutoModelForMaskedLM
        np.savez(folder / "outputs.npz", **_outputs(loader.from_pretrained(folder)))


def _outputs(model):
    model.eval()
    generator = np.random.default_rng(1)
    ids = generator.integers(2, model.config.vocab_size, [2, 30])
    types = generator.integers(0, getattr(model.config, "type_vocab_size", 1), [2, 30])
    with torch.no_grad():
        if model.config.model_type == "gpt2":
            before = np.pad(ids[:, :-1], [[0, 0], [1, 0]])
            return {"ids": ids, "logits": model(input_ids=torch.tensor(before)).logits.numpy()}
        found = model(input_ids=torch.tensor(ids), token_type_ids=torch.tensor(types))
    return {"ids": ids, "types": types, "logits": found.logits.numpy()}


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](*map(Path, sys.argv[2:]))
