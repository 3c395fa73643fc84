"""A process of its own in which transformers makes decoders and encoders with random weights.

python modern_peer.py FOLDER    writes what each has and computes, NAME.npz
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    LongT5Config,
    LongT5EncoderModel,
    ModernBertConfig,
    ModernBertModel,
)

SIZES = dict(vocab_size=64, hidden_size=24, intermediate_size=20, num_attention_heads=6)
TOKENS = dict(pad_token_id=0, bos_token_id=2, eos_token_id=1, attn_implementation="eager")
GROUPS = dict(num_key_value_heads=2)


def models():
    llama = LlamaConfig(
        **SIZES, **TOKENS, **GROUPS, num_hidden_layers=2, rms_norm_eps=1e-5, rope_theta=500000.0
    )
    yield "llama", LlamaForCausalLM(llama)
    # A head is wider than d_model / heads; logits are large enough for the caps to tell.
    gemma = Gemma2Config(
        **SIZES,
        **TOKENS,
        **GROUPS,
        num_hidden_layers=2,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=4,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
    )
    yield "gemma2", Gemma2ForCausalLM(gemma)
    bert = ModernBertConfig(
        **SIZES,
        **{**TOKENS, "cls_token_id": 2, "sep_token_id": 1},
        num_hidden_layers=6,
        hidden_activation="gelu_pytorch_tanh",
        local_attention=4,
        global_rope_theta=160000.0,
        local_rope_theta=10000.0,
    )
    yield "modernbert", ModernBertModel(bert)
    # Blocks of 3 positions, of which a row of 7 has two and a rest.
    long = LongT5Config(
        vocab_size=64,
        d_model=24,
        d_kv=4,
        d_ff=20,
        num_heads=6,
        num_layers=2,
        feed_forward_proj="gated-gelu",
        encoder_attention_type="transient-global",
        local_radius=2,
        global_block_size=3,
        relative_attention_num_buckets=8,
    )
    yield "longt5", LongT5EncoderModel(long)


def main(folder):
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    for name, model in models():
        model.eval()
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.3 * torch.randn_like(value))
        ids = generator.integers(2, SIZES["vocab_size"], [3, 12])
        reads_inputs = name in ("modernbert", "longt5")
        if reads_inputs:
            ids[1, 7:], ids[2, 2:] = 0, 0
        else:
            ids[:, 0] = 0  # what begins a sequence
        tokens = torch.tensor(ids)
        with torch.no_grad():
            if reads_inputs:
                output = model(tokens, attention_mask=(tokens != 0).long()).last_hidden_state
            else:
                output = model(tokens).logits
        weights = {f"weights/{n}": value.numpy() for n, value in model.state_dict().items()}
        np.savez(folder / f"{name}.npz", ids=ids, output=output.numpy(), **weights)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
