"""How fast a training step is on this machine, beside what the machine can do at all."""

from __future__ import annotations

import dataclasses
import resource
import statistics
from contextlib import ExitStack
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models.mesh import VariableDType
from mtf_models.runtime.benchmarks import peers
from mtf_models.runtime.benchmarks.figures import of_this_machine, seconds, spread, write
from mtf_models.runtime.bindings.settings import batch_size_on
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import BenchOptions
from mtf_models.runtime.training.trainer import Trainer

_DEFAULT_FILES = ("models/t5.1.1.small.gin",)
_DEFAULT_PARAMS = (
    "utils.run.sequence_length = {'inputs': 128, 'targets': 128}",
    "utils.run.batch_size = ('sequences_per_batch', 8)",
    "utils.get_variable_dtype.activation_dtype = 'bfloat16'",
)
_STEPS = 10


def run(options: BenchOptions) -> None:
    """Times training steps on random tokens, and prints the figures.

    Without gin files it takes T5 1.1 small on 8 x 128 + 8 x 128 tokens in bfloat16; transformers
    trains the same beside it, where it is installed, one step after the other.

    Raises:
        MtfError: if the model cannot be built.
    """
    prepare.register(options)
    if not options.gin_file:
        options = dataclasses.replace(
            options, gin_file=_DEFAULT_FILES, gin_param=(*_DEFAULT_PARAMS, *options.gin_param)
        )
    config = prepare.read_config(options)
    settings = prepare.settings_of(config)
    mesh = prepare.mesh_of(settings)
    model = model_from_config(config, mesh, settings.seed, options.strict)
    found = {
        **of_this_machine(),
        "model": ", ".join(options.gin_file),
        "mesh": str(mesh),
        "activations": model.variable_dtype.activation.name,
        **time_training(model, options.steps or _STEPS, options.peers),
    }
    print(_text(found))
    write(found, options.json)


def time_training(model: Model, steps: int, with_peers: bool = False) -> dict[str, Any]:
    """Times steps of a fresh trainer on random tokens.

    Args:
        model: changed by the steps.
        steps: how many are timed, after the one that compiles.
        with_peers: whether transformers makes as many beside them.

    Returns:
        Milliseconds, tokens per second, floating-point operations and the rates of both the step
        and a bare matrix product in the same dtype; "peers", the same of each peer, and "no_peers",
        why there are none.
    """
    settings = model.settings
    batch = batch_size_on(model.mesh, settings)
    rng = np.random.default_rng(0)
    lengths = {name: settings.sequence_length[name] for name in model.network.feature_names}
    shapes = {name: (batch, length) for name, length in lengths.items()}
    sizes = model.network.vocab_sizes
    features = {name: rng.integers(1, sizes[name], shape) for name, shape in shapes.items()}
    trainer = Trainer(model)
    first = seconds(lambda: trainer.step(features))
    times: list[float] = []
    reason = peers.why_none(trainer) if with_peers else "left out"
    found: list[peers.Peer] = []
    try:
        with ExitStack() as stack:
            if reason is None:
                found = stack.enter_context(peers.running(model, shapes))
            for _ in range(steps):
                times.append(seconds(lambda: trainer.step(features)))
                for peer in found:
                    peer.step()
    except peers.PeerFailed as error:
        found, reason = [], str(error)
        times += [seconds(lambda: trainer.step(features)) for _ in range(steps - len(times))]
    tokens = sum(int(np.prod(shape)) for shape in shapes.values())
    work = training_flops(model, {name: int(np.prod(shape)) for name, shape in shapes.items()})
    bare = matmul_rate(model.variable_dtype)
    return {
        "steps": steps,
        "first_step_s": round(first, 2),
        "tflop_per_step": round(work / 1e12, 4),
        "matmul_tflops": round(bare / 1e12, 4),
        **_rates(times, tokens, work),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peers": {
            p.name: {**_rates(p.times, tokens, work), "peak_memory_mb": p.peak_memory_mb}
            for p in found
        },
        "no_peers": reason,
    }


def _rates(times: list[float], tokens: int, work: float) -> dict[str, float]:
    """What the seconds of steps amount to."""
    median = statistics.median(times)
    return {
        **spread("step_ms", [1e3 * t for t in times], 1),
        "tokens_per_second": round(tokens / median),
        "tflops": round(work / median / 1e12, 4),
    }


def training_flops(model: Model, tokens: dict[str, int]) -> float:
    """Floating-point operations of the weights' matrix products, forward and backward.

    Every weight multiplies each token of its side once; backward costs twice as much again.
    Attention's products of activations are not counted, nor is anything elementwise.

    Args:
        model: its variables tell the weights.
        tokens: "inputs" and "targets" to the number of tokens in a batch.
    """
    total = 0.0
    logits_are_tied = not any(name.endswith("logits/kernel") for name in model.variables)
    for name, variable in model.variables.items():
        if variable.shape.ndims < 2 or "relative_attention_bias" in name:
            continue
        if "embedding" in name and not logits_are_tied:
            continue
        reads_encoder = name.startswith("encoder/") or name.endswith(
            ("EncDecAttention/k", "EncDecAttention/v")
        )
        total += 6.0 * variable.shape.size * tokens["inputs" if reads_encoder else "targets"]
    return total


def matmul_rate(dtype: VariableDType, size: int = 1024, repeats: int = 20) -> float:
    """Floating-point operations per second of a bare matrix product on the first device.

    Args:
        dtype: its activation dtype is used.
        size: rows and columns.
        repeats: of which the fastest counts.
    """
    a = tf.cast(tf.random.stateless_normal([size, size], [0, 0]), dtype.activation)
    product = tf.function(lambda x: tf.linalg.matmul(x, x))
    product(a)
    fastest = min(seconds(lambda: product(a).numpy()) for _ in range(repeats))
    return 2.0 * size**3 / fastest


def _text(figures: dict[str, Any]) -> str:
    part = figures["tflops"] / figures["matmul_tflops"]
    return "\n".join(
        [
            f"model       {figures['model']}, {figures['activations']}, mesh {figures['mesh']}",
            f"machine     {figures['machine']}, {figures['date']}",
            f"first step  {figures['first_step_s']} s, with compilation",
            f"step        {figures['step_ms']} ms, median of {figures['steps']} "
            f"({figures['step_ms_min']} to {figures['step_ms_max']})",
            f"tokens/s    {figures['tokens_per_second']:,}",
            f"rate        {figures['tflops']} TFLOP/s of weights' products, {part:.0%} of a bare "
            f"matrix product's {figures['matmul_tflops']}",
            f"memory      {figures['peak_memory_mb']:,} MB at the peak",
            *_peer_lines(figures),
        ]
    )


def _peer_lines(figures: dict[str, Any]) -> list[str]:
    """A line for each peer, or why there is none."""
    if figures["no_peers"]:
        return [f"peers       none: {figures['no_peers']}"]
    lines = ["", f"{'beside it':24}{'ms':>8}{'spread':>18}{'tokens/s':>10}{'MB':>8}{'slower':>8}"]
    rows = {"mtf_models": figures, **figures["peers"]}
    for name, row in rows.items():
        between = f"{row['step_ms_min']} to {row['step_ms_max']}"
        slower = row["step_ms"] / figures["step_ms"]
        lines.append(
            f"{name:24}{row['step_ms']:8}{between:>18}{row['tokens_per_second']:10,}"
            f"{row['peak_memory_mb']:8,}{slower:7.2f}x"
        )
    return lines
