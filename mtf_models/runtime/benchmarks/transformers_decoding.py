"""A process of its own that decodes with transformers, once for each line that it is sent.

`python -m mtf_models.runtime.benchmarks.transformers_decoding SPEC`, where SPEC is JSON: `config`,
the fields of a Hugging Face config; `batch` and `inputs`, the size of a batch; `beams`, hypotheses
of each row; `new_tokens`, how many ids are decoded; `dtype`, of weights and activations;
`threads`. It answers each line with one of JSON, beginning when it has warmed up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from mtf_models.runtime.benchmarks.transformers_steps import answer_lines


def decoding(spec: dict[str, Any]) -> Callable[[], Any]:
    """A function that decodes random ids with random weights.

    Args:
        spec: see the module.
    """
    import torch
    import transformers

    torch.set_num_threads(spec["threads"])
    torch.set_flush_denormal(True)  # As TensorFlow does; torch is several times slower without.
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**spec["config"])
    model = transformers.AutoModelForSeq2SeqLM.from_config(
        config, dtype=getattr(torch, spec["dtype"])
    ).eval()
    inputs = torch.randint(2, config.vocab_size, (spec["batch"], spec["inputs"]))

    def decode() -> Any:
        with torch.inference_mode():
            return model.generate(
                input_ids=inputs,
                attention_mask=torch.ones_like(inputs),
                num_beams=spec["beams"],
                do_sample=False,
                min_new_tokens=spec["new_tokens"],
                max_new_tokens=spec["new_tokens"],
            )

    return decode


if __name__ == "__main__":
    answer_lines(decoding(json.loads(sys.argv[1])))
