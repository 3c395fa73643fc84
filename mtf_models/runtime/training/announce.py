"""What a training run says before it starts and when it ends."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from mtf_models.runtime.training.stop import Stopped
from mtf_models.runtime.training.trainer import Trainer


def headline(trainer: Trainer, stream: Any, batch_size: int, steps: int) -> str:
    """Where, how and how much.

    Args:
        trainer: ready to make the next step.
        stream: the training batches.
        batch_size: rows in a batch.
        steps: the step at which training ends.
    """
    model, made = trainer.model, trainer.step_number
    lengths = {name: model.settings.sequence_length[name] for name in model.network.feature_names}
    tokens = batch_size * sum(lengths.values())
    first = stream.peek()
    in_first = first.examples
    full = ", ".join(f"{part:.0%} of {name}" for name, part in first.fill(lengths).items())
    examples = in_first * (steps - made)
    epoch = stream.examples_per_epoch
    epochs = f", {examples / epoch:.1f} epochs of {epoch:,}" if epoch else ""
    dtype = model.variable_dtype
    rows = " + ".join(f"{length} {name}" for name, length in lengths.items())
    lines = [
        f"devices    {', '.join(model.mesh.devices)}",
        f"mesh       {model.mesh}   layout {model.mesh.rules}",
        f"parameters {model.parameters:,}, {dtype.slice.name}; computes in {dtype.activation.name}",
        f"batch      {batch_size} rows of {rows} = {tokens:,} tokens; the first holds "
        f"{in_first:,} examples and is filled to {full}",
        f"steps      {made} to {steps}: {tokens * (steps - made):,} tokens, about {examples:,} "
        f"examples{epochs}",
    ]
    return "\n".join(lines)


def read(stream: Any) -> str:
    """What was read of the data in this process, how full the rows were, and what was cut."""
    counts, lengths = stream.counts, stream.lengths
    if not counts.rows:
        return "data       nothing was read"
    full = ", ".join(f"{part:.1%} of {name}" for name, part in counts.fill(lengths).items())
    lines = [
        f"data       {counts.examples:,} examples in {counts.rows:,} rows, filled to {full}",
        *(
            f"           {count:,} {name} were cut to {lengths[name]} tokens"
            for name, count in counts.trimmed.items()
            if count
        ),
        *(
            f"           {count:,} examples of {task} were longer than a row and left out"
            for task, count in counts.skipped.items()
            if count
        ),
    ]
    if len(stream.shares) > 1:
        for task, share in stream.shares.items():
            drawn = counts.drawn.get(task, 0)
            lines.append(
                f"           {drawn:,} of {task}, {drawn / counts.examples:.1%}; its rate is "
                f"{share:.1%}"
            )
    return "\n".join(lines)


def finished(folder: Path, step: int, steps: int) -> str:
    """That there is nothing left to do."""
    return (
        f"{folder} is finished: it is at step {step} of {steps}. Give a larger --steps to train on."
    )


def stopped(folder: Path, signal: Stopped, step: int) -> str:
    """That a signal ended the run, and what is saved."""
    word = str(signal).capitalize()
    return (
        f"\n{word} after step {step}; everything is saved in {folder}. The same command goes on "
        "from there."
    )


def farewell(folder: Path, step: int) -> str:
    """What to type next."""
    typed = shlex.quote(str(folder))
    return (
        f"Trained to step {step}. Next:\n"
        f"  mtf eval --model_dir={typed}\n"
        f"  mtf infer --model_dir={typed} --input=words.txt --output=out.jsonl\n"
        f"  tensorboard --logdir={typed}"
    )
