"""A process of its own in which transformers makes folders of models with their tokenizers.

python in_place_peer.py FOLDER PIECES PAIRS    PAIRS is JSON, [[input, target], ...]

Beside each folder is what transformers makes of the pairs.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    ByT5Tokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

SIZES = dict(d_model=16, d_kv=4, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0)
GATED = dict(feed_forward_proj="gated-gelu")
LONGEST = 6


def make(folder, pieces, pairs):
    torch.manual_seed(0)
    byt5 = T5ForConditionalGeneration(T5Config(vocab_size=384, **SIZES, **GATED))
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=32128, **SIZES))
    for name, model in (("byt5", byt5), ("t5", t5)):
        with torch.no_grad():
            for parameter, value in model.named_parameters():
                if "layer_norm" not in parameter:
                    value.normal_(0, 0.3)
        model.save_pretrained(folder / name)
    ByT5Tokenizer().save_pretrained(folder / "byt5")
    shutil.copy(pieces, folder / "t5" / "spiece.model")
    fields = {"tokenizer_class": "T5Tokenizer", "extra_ids": 100}
    (folder / "t5" / "tokenizer_config.json").write_text(json.dumps(fields))
    # As transformers writes it today, without the file of the pieces.
    t5.save_pretrained(folder / "t5_json")
    AutoTokenizer.from_pretrained(folder / "t5").save_pretrained(folder / "t5_json")
    assert not (folder / "t5_json" / "spiece.model").exists()
    for name, model in (("byt5", byt5), ("t5", t5), ("t5_json", t5)):
        tokenizer = AutoTokenizer.from_pretrained(folder / name)
        made = {
            "parameters": model.num_parameters(),
            "pairs": [judged(model, tokenizer, *pair) for pair in pairs],
        }
        (folder / f"{name}.json").write_text(json.dumps(made))
    sizes = dict(vocab_size=90, n_positions=40, n_embd=12, n_layer=1, n_head=3)
    gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=7, eos_token_id=7))
    gpt2.save_pretrained(folder / "gpt2")
    (folder / "gpt2" / "tokenizer.json").write_text("{}")


def judged(model, tokenizer, source, target):
    model.eval()
    inputs, labels = (tokenizer(text, return_tensors="pt").input_ids for text in (source, target))
    with torch.no_grad():
        scores = model(input_ids=inputs, labels=labels).logits.log_softmax(-1)
        found = model.generate(inputs, max_new_tokens=LONGEST, do_sample=False, num_beams=1)
    return {
        "ids": labels[0].tolist(),
        "scores": scores[0].gather(-1, labels[0].reshape(-1, 1))[:, 0].tolist(),
        "prediction": tokenizer.decode(found[0], skip_special_tokens=True),
    }


make(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
