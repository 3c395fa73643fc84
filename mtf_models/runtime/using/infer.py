"""Decoding the examples of a file or of a task's split."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.result import NO_SEQUENCE, DecodeResult
from mtf_models.errors import failing_run
from mtf_models.runtime.model.decode_request import DecodeRequest, length_of, settings_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.batches import batch_rows, report_trimmed
from mtf_models.runtime.using.partial_output import PartialOutput
from mtf_models.runtime.using.records import check_source, read_records
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_output

if TYPE_CHECKING:
    from mtf_models.data.records import Record

_log = logging.getLogger("mtf_models")

_ASKED = ("beam_size", "alpha", "temperature", "top_k", "top_p", "num_return", "seed")

Row = dict[str, Any]


def run(options: InferOptions) -> None:
    """Decodes each example into a line of JSON.

    A line has the `input`, what else its file says of it, the `prediction` and its `score`, and
    for several sequences of each all `predictions` and `scores`, best first. The output is
    written whole; until then what is done stands beside it, and the same command goes on with it.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
    """
    check_source(options)
    check_output(options.output)
    model, step = load_for_use(options)
    with model.config.active():
        task, records = read_records(model, options, ("inputs",))
        asked = _asked(model, options)
        _say_idle(options, settings_of(model, DecodeRequest.of(**asked)).options)
        output = PartialOutput(options.output, _request(options, model, step, task, records))
        with failing_run():
            _decode_all(model, task, records, asked, output)
            output.finish()
    print(f"Wrote {len(records)} predictions of step {step} to {options.output}.")
    print(f"Compiled {model.compilations} graphs.")


def _say_idle(options: InferOptions, decoding: DecodeOptions) -> None:
    """Names the options that change nothing in the way of decoding that is taken."""
    if options.alpha is not None and decoding.beam_size == 1:
        _log.warning(
            "--alpha=%s is of a beam search: without --beam_size it does nothing.", options.alpha
        )
    if options.seed is not None and not decoding.draws:
        _log.warning(
            "--seed=%s is of drawing: without --temperature it does nothing.", options.seed
        )


# Batches, meshes and places change no result.
_NO_MATTER = ("run.batch_size", "run.mesh_shape", "run.mesh_devices", "run.layout_rules")


def _request(
    options: InferOptions, model: Model, step: int, task: Any, records: Sequence[Record]
) -> str:
    """What is asked for, the config counted, without what changes no result."""
    digest = hashlib.sha256()
    config = model.config
    for key in sorted(config.bindings, key=str):
        if not str(key).endswith(_NO_MATTER):
            digest.update(f"{key} = {config.effective(key)!r}\n".encode())
    for record in records:
        digest.update(json.dumps([*record.texts.items(), record.ids["inputs"].tolist()]).encode())
    names = (*_ASKED, "max_decode_length", "module_import", "allow_partial")
    asked = {name: getattr(options, name) for name in names}
    folder = str(Path(options.model_dir).absolute())
    return json.dumps([folder, step, task.name, asked, digest.hexdigest()], sort_keys=True)


def _decode_all(
    model: Model,
    task: Any,
    records: Sequence[Record],
    asked: Mapping[str, Any],
    output: PartialOutput,
) -> None:
    if output.rows:
        print(f"Going on after {len(output.rows)} of {len(records)}, from {output.path}.")
    try:
        for rows in _decoded(model, task, records, asked, done=set(output.rows)):
            output.add(rows)
    except KeyboardInterrupt:
        if output.rows:
            print(
                f"{len(output.rows)} of {len(records)} are in {output.path}; the same command "
                "goes on with them."
            )
        raise


def _decoded(
    model: Model,
    task: Any,
    records: Sequence[Record],
    asked: Mapping[str, Any],
    done: Collection[int],
) -> Iterator[dict[int, Row]]:
    """The rows of the output by their places, a batch at a time, without those that are done."""
    from mtf_models.data.buckets import bucketed, trimmed
    from mtf_models.data.records import occurrences

    lengths = model.settings.sequence_length
    longest = {"inputs": lengths.get("inputs", lengths["targets"])}
    left = [place for place in range(len(records)) if place not in done]
    examples = [records[place].ids for place in left]
    numbers = occurrences(records, "inputs")
    report_trimmed(trimmed([r.ids for r in records], longest), len(records), longest)
    for batch in bucketed(examples, longest, batch_rows(model, len(records))):
        places = [left[place] for place in batch.places]
        rows = len(batch.features["inputs"])
        apart = [numbers[place] for place in places]
        apart += apart[:1] * (rows - len(apart))
        found = model.decode(batch.features, row_numbers=apart, **asked)
        made = _rows(task, found, len(places))
        yield {p: _row(records[p], row) for p, row in zip(places, made, strict=True)}


def _asked(model: Model, options: InferOptions) -> dict[str, Any]:
    asked = {name: getattr(options, name) for name in _ASKED}
    decoding = {name: value for name, value in asked.items() if name != "seed"}
    asked |= length_of(model, options.max_decode_length, decoding)
    if (options.num_return or 1) > 1:
        # All of them are the best ones, whatever else is in the batch.
        asked["stop_early"] = False
    return asked


def _rows(task: Any, found: DecodeResult, count: int) -> Iterator[Row]:
    """What the first rows of a batch were decoded to."""
    from mtf_models.data.evaluation import decode_texts

    ids, scores = found.ids.numpy()[:count], found.scores.numpy()[:count]
    several = ids.ndim == 3
    for row, (sequences, values) in enumerate(zip(ids, scores, strict=True)):
        texts = decode_texts(task, sequences if several else ids[row : row + 1])
        values = [round(float(x), 6) for x in np.atleast_1d(values)]
        there = [i for i, value in enumerate(values) if value > NO_SEQUENCE] or [0]
        made: Row = {"prediction": texts[0], "score": values[0]}
        if several:
            made["predictions"] = [texts[i] for i in there]
            made["scores"] = [values[i] for i in there]
        yield made


def _row(record: Record, made: Mapping[str, Any]) -> Row:
    given: Row = {"input": record.texts["inputs"], **record.more}
    if "targets" in record.texts:
        given["target"] = record.texts["targets"]
    return {**given, **made}
