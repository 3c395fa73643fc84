"""A process of its own that trains with transformers, a step for each line that it is sent.

`python -m mtf_models.runtime.benchmarks.transformers_steps SPEC`, where SPEC is JSON: `config`, the
fields of a Hugging Face config; `batch`, `inputs` and `targets`, the size of a batch; `dtype`, of
the activations; `compiled`, whether by torch.compile; `threads`. It answers each line with one of
JSON, beginning when it has warmed up.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

_WARM_UP = 2


def answer_lines(step: Callable[[], Any]) -> None:
    """Makes steps until standard input ends.

    Args:
        step: makes one.
    """
    for _ in range(_WARM_UP):
        step()
    print("{}", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "peak_memory_mb": peak}), flush=True)


def _step(spec: dict[str, Any]) -> Callable[[], float]:
    """A whole training step: float32 weights, and their Adafactor with its own schedule."""
    import torch
    import transformers
    from transformers.optimization import Adafactor

    torch.set_num_threads(spec["threads"])
    torch.set_flush_denormal(True)  # As TensorFlow does; torch is several times slower without.
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**spec["config"])
    model = transformers.AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32).train()
    optimizer = Adafactor(model.parameters())
    run = torch.compile(model) if spec["compiled"] else model
    inputs, targets = (
        torch.randint(1, config.vocab_size, (spec["batch"], spec[n])) for n in ("inputs", "targets")
    )
    narrow = torch.autocast("cpu", torch.bfloat16, enabled=spec["dtype"] == "bfloat16")

    def step() -> float:
        with narrow:
            loss = run(input_ids=inputs, labels=targets).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


if __name__ == "__main__":
    answer_lines(_step(json.loads(sys.argv[1])))
