"""How fast a model decodes, beside the limit of reading its weights, and transformers."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import tensorflow as tf

from mtf_models import machine
from mtf_models.checkpoint.hugging_face_config import fields_of
from mtf_models.errors import MtfError
from mtf_models.mesh import Variable
from mtf_models.runtime.benchmarks import peers, transformers_decoding
from mtf_models.runtime.benchmarks.figures import (
    Figures,
    of_this_machine,
    seconds,
    spread,
    spread_text,
    write,
)
from mtf_models.runtime.conversion.architecture_of_model import architecture_of
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import BenchOptions

_DEFAULT_FILES = ("models/t5.1.1.small.gin",)
_DEFAULT_PARAMS = ("utils.run.sequence_length = {'inputs': 128, 'targets': 128}",)
_DTYPES = ("float32", "bfloat16")
_BATCHES = (1, 8)
_BEAMS = (1, 4)
_NEW_TOKENS = 64
_ROUNDS = 5
_MEGABYTES_READ = 256


def run(options: BenchOptions) -> None:
    """Times greedy decoding and a beam search in both dtypes, and prints the figures.

    Sequences never end, so that each has as many ids as any other. Without gin files the model is
    T5 1.1 small, which reads 128 ids.

    Raises:
        MtfError: if the model cannot be built, or decodes nothing.
    """
    prepare.register(options)
    if not options.gin_file:
        options = dataclasses.replace(
            options, gin_file=_DEFAULT_FILES, gin_param=(*_DEFAULT_PARAMS, *options.gin_param)
        )
    batches = (options.batch_size,) if options.batch_size else _BATCHES
    bandwidth = memory_bandwidth()
    figures: Figures = {
        **of_this_machine(),
        "model": ", ".join(options.gin_file),
        "new_tokens": _NEW_TOKENS,
        "rounds": options.steps or _ROUNDS,
        "memory_gb_per_s": round(bandwidth / 1e9, 1),
        "runs": [],
    }
    for dtype in _DTYPES:
        model = _model(options, dtype)
        reason = _why_no_peer(model) if options.peers else "left out"
        figures |= {"mesh": str(model.mesh), "no_peer": reason}
        for batch in batches:
            for beams in _BEAMS:
                found = time_decoding(model, batch, beams, figures["rounds"], reason is None)
                found["limit"] = round(batch * bandwidth / weight_bytes(model), 1)
                figures["runs"].append({"dtype": dtype, **found})
    print(_text(figures))
    write(figures, options.json)


def time_decoding(model: Model, batch: int, beams: int, rounds: int, with_peer: bool) -> Figures:
    """Times decoding, and perhaps that of transformers in turn.

    Args:
        model: what decodes random ids.
        batch: rows.
        beams: hypotheses of each row; 1 decodes greedily.
        rounds: how often each is timed, after a first call that compiles.
        with_peer: whether transformers decodes the same number of ids as often.

    Returns:
        Decoded ids per second, all rows together: median, least and most.
    """
    width = model.settings.sequence_length["inputs"]
    size = model.network.vocab_sizes["inputs"]
    inputs = np.random.default_rng(0).integers(2, size, (batch, width))

    def decode() -> None:
        model.decode(
            {"inputs": inputs}, beam_size=beams, never_end=True, max_decode_length=_NEW_TOKENS
        ).ids.numpy()

    first, before = seconds(decode), model.compilations
    times: list[float] = []
    with _peer(model, inputs.shape, beams) if with_peer else nullcontext() as peer:
        for _ in range(rounds):
            times.append(seconds(decode))
            if peer:
                peer.step()
    found = {"batch": batch, "beams": beams, "first_call_s": round(first, 2)}
    found["compilations_after_first"] = model.compilations - before
    ids = batch * _NEW_TOKENS
    found |= spread("tokens_per_second", [ids / t for t in times], 1)
    if peer:
        found |= spread("transformers_tokens_per_second", [ids / t for t in peer.times], 1)
        ratios = [b / a for a, b in zip(times, peer.times, strict=True)]
        found["times_transformers"] = round(statistics.median(ratios), 2)
    return found


def weight_bytes(model: Model) -> int:
    """What a step of decoding reads of the weights, in bytes of the activations' dtype.

    These are all but those of the encoder, the keys and values of its output, which are computed
    once, and tables of which single rows are taken.
    """
    tied = not any(name.endswith("logits/kernel") for name in model.variables)

    def is_read(variable: Variable) -> bool:
        name = variable.name
        of_encoder = name.startswith("encoder/")
        of_encoder |= name.endswith(("EncDecAttention/k", "EncDecAttention/v"))
        is_table = name.endswith("/embedding") and not tied
        return not of_encoder and not is_table and "position" not in name

    width = model.variable_dtype.activation.size
    return width * sum(v.shape.size for v in model.variables.values() if is_read(v))


def memory_bandwidth(repeats: int = 10) -> float:
    """Bytes per second that all processors read of a large array, the fastest of several times."""
    count = _MEGABYTES_READ * 2**20 // 4
    values = tf.ones([count // 1024, 1024])
    total = tf.function(lambda x: tf.reduce_sum(x), autograph=False)
    total(values)
    return 4 * count / min(seconds(lambda: total(values).numpy()) for _ in range(repeats))


def _model(options: BenchOptions, dtype: str) -> Model:
    binding = f"utils.get_variable_dtype.activation_dtype = '{dtype}'"
    config = prepare.read_config(
        dataclasses.replace(options, gin_param=(*options.gin_param, binding))
    )
    settings = prepare.settings_of(config)
    return model_from_config(config, prepare.mesh_of(settings), settings.seed, options.strict)


def _why_no_peer(model: Model) -> str | None:
    """Why transformers does not decode beside; None if it does."""
    if missing := peers.not_installed():
        return missing
    if set(model.network.feature_names) != {"inputs", "targets"}:
        return "the model is no encoder-decoder"
    try:
        architecture_of(model)
    except MtfError as error:
        return str(error).splitlines()[0]
    return None


@contextmanager
def _peer(model: Model, shape: tuple[int, int], beams: int) -> Iterator[peers.Peer]:
    dtype = model.variable_dtype.activation.name
    spec = {
        "config": fields_of(architecture_of(model), dtype),
        "batch": shape[0],
        "inputs": shape[1],
        "beams": beams,
        "new_tokens": _NEW_TOKENS,
        "dtype": dtype,
        "threads": machine.cpu_count(),
    }
    with peers.started("transformers, generate", transformers_decoding.__name__, spec) as peer:
        yield peer


def _text(figures: Figures) -> str:
    lines = [
        f"model       {figures['model']}, mesh {figures['mesh']}",
        f"machine     {figures['machine']}, {figures['date']}; memory is read at "
        f"{figures['memory_gb_per_s']} GB/s",
        f"decoding    {figures['new_tokens']} ids a row; ids/s of all rows, median of "
        f"{figures['rounds']} (least to most)",
    ]
    if figures["no_peer"]:
        lines.append(f"peer        transformers does not decode beside: {figures['no_peer']}")
    head = f"{'dtype':<9} {'batch':>5} {'beams':>5}  {'ids/s':<26}{'transformers':<26}"
    lines.append(f"{head}{'ratio':>6} {'limit':>8}  first call")
    for found in figures["runs"]:
        name = "transformers_tokens_per_second"
        peer = spread_text(found, name) if name in found else "-"
        lines.append(
            f"{found['dtype']:<9} {found['batch']:>5} {found['beams']:>5}  "
            f"{spread_text(found, 'tokens_per_second'):<26}{peer:<26}"
            f"{found.get('times_transformers', '-'):>6} {found['limit']:>8}  "
            f"{found['first_call_s']} s"
        )
    lines.append("limit       what reading the decoder's weights once for each position allows")
    return "\n".join(lines)
