"""A process of its own that runs transformers: it and TensorFlow cannot be loaded into one.

`python -m mtf_models.runtime.conversion.transformers_logits FOLDER FEATURES.npz LOGITS.npy`
"""

from __future__ import annotations

import sys

import numpy as np

CANNOT_RUN = 3
"""The exit status where torch or transformers cannot be imported."""


def main(folder: str, features: str, output: str) -> None:
    """Writes the logits of the model in a folder.

    Args:
        folder: of Hugging Face's kind.
        features: a file of `inputs` and `targets` [batch, length].
        output: the file to write, [batch, length, vocab] float32.
    """
    try:
        import torch
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils import logging
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(CANNOT_RUN) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForSeq2SeqLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
    ).eval()
    with np.load(features) as arrays:
        inputs, targets = arrays["inputs"], arrays["targets"]
    before = np.pad(targets[:, :-1], [[0, 0], [1, 0]])
    with torch.no_grad():
        found = model(
            input_ids=torch.tensor(inputs, dtype=torch.long),
            attention_mask=torch.tensor(inputs != 0, dtype=torch.long),
            decoder_input_ids=torch.tensor(before, dtype=torch.long),
        )
    np.save(output, found.logits.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
