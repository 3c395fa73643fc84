"""A process of its own that runs transformers: it and TensorFlow cannot be loaded into one.

`python -m mtf_models.runtime.conversion.transformers_logits FOLDER FEATURES.npz LOGITS.npy`
"""

from __future__ import annotations

import sys

import numpy as np

CANNOT_RUN = 3
"""The exit status where torch or transformers cannot be imported."""

_ENCODER_DECODER = "AutoModelForSeq2SeqLM"
_CLASSES = {"gpt2": "AutoModelForCausalLM", "bert": "AutoModelForMaskedLM"}


def main(folder: str, features: str, output: str) -> None:
    """Writes the logits of the model in a folder.

    Args:
        folder: of Hugging Face's kind.
        features: a file of `targets` [batch, length], and of `inputs` for a model that has them.
        output: the file to write, [batch, length, vocab] float32.
    """
    try:
        import torch
        import transformers
        from transformers.utils import logging
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(CANNOT_RUN) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    kind = transformers.AutoConfig.from_pretrained(folder, local_files_only=True).model_type
    model = (
        getattr(transformers, _CLASSES.get(kind, _ENCODER_DECODER))
        .from_pretrained(folder, dtype=torch.float32, local_files_only=True, use_safetensors=True)
        .eval()
    )
    with np.load(features) as arrays:
        ids = {name: torch.tensor(arrays[name], dtype=torch.long) for name in arrays.files}
    before = torch.nn.functional.pad(ids["targets"][:, :-1], (1, 0))
    if kind == "gpt2":
        read = {"input_ids": before}
    else:
        read = {"input_ids": ids["inputs"], "attention_mask": (ids["inputs"] != 0).long()}
    if kind not in _CLASSES:
        read["decoder_input_ids"] = before
    with torch.no_grad():
        found = model(**read)
    np.save(output, found.logits.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
