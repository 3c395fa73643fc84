"""Scoring the examples of a file or of a task's split: how likely a model finds them."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_models.decode.options import EOS
from mtf_models.errors import failing_run
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import ScoreOptions
from mtf_models.runtime.using.batches import batch_rows, report_trimmed
from mtf_models.runtime.using.partial_output import PartialOutput, PrintedOutput, fill
from mtf_models.runtime.using.records import check_source, read_records
from mtf_models.runtime.using.request import request_of
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_output
from mtf_models.transformer.delimited import DelimitedUnitransformer

if TYPE_CHECKING:
    from mtf_models.data.records import Record


def run(options: ScoreOptions) -> None:
    """Scores each example into a line of JSON, and prints the perplexity at the end.

    A line has the texts, the `log_probability` of the target (natural logarithm, end of sequence
    counted), and the `token_log_probabilities` and `token_ids` that it is the sum of. A file is
    written whole; until then what is done stands beside it, and the same command goes on with it.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
        KeyboardInterrupt: after Ctrl-C, which is heeded after the batch at work.
    """
    check_source(options)
    if options.output is not None:
        check_output(options.output)
    model, step = load_for_use(options)
    with model.config.active():
        task, records = read_records(model, options, model.network.feature_names)
    output = PrintedOutput()
    if options.output is not None:
        request = request_of(options, model, step, {"score": task.name}, records)
        output = PartialOutput(options.output, request)
    with failing_run():
        fill(output, len(records), lambda done: _scored(model, records, done))
        output.finish()
    if options.output is not None:
        print(f"Wrote {len(records)} scores of step {step} to {options.output}.")
    tokens = sum(len(row["token_ids"]) for row in output.rows.values())
    total = math.fsum(x for row in output.rows.values() for x in row["token_log_probabilities"])
    perplexity = math.exp(-total / max(tokens, 1))
    # Standard output has the rows alone, where they go there.
    print(
        f"perplexity {perplexity:.6g} of {tokens} tokens, log-probability {total:.6g}",
        file=sys.stderr if options.output is None else sys.stdout,
    )


def _scored(
    model: Model, records: Sequence[Record], done: Collection[int]
) -> Iterator[dict[int, dict[str, Any]]]:
    """The rows of the output by their places, a batch at a time, without those that are done."""
    from mtf_models.data.buckets import bucketed, trimmed

    names = model.network.feature_names
    lengths = {name: model.settings.sequence_length[name] for name in names}
    report_trimmed(trimmed([r.ids for r in records], lengths), len(records), lengths)
    left = [place for place in range(len(records)) if place not in done]
    examples = [records[place].ids for place in left]
    for batch in bucketed(examples, lengths, batch_rows(model, len(records))):
        values = model.token_scores(batch.features).numpy()
        rows = {}
        for row, place in enumerate(left[place] for place in batch.places):
            # Where inputs and targets are one sequence, targets come after them.
            joined = isinstance(model.network, DelimitedUnitransformer)
            begin = np.count_nonzero(batch.features["inputs"][row]) if joined else 0
            count = len(_counted(batch.features["targets"][row]))
            rows[place] = _row(records[place], values[row, begin : begin + count])
        yield rows


def _counted(ids: np.ndarray) -> np.ndarray:
    """The ids that are scored: up to the first end of sequence, else up to the padding."""
    ids = np.trim_zeros(ids, "b")
    ends = np.flatnonzero(ids == EOS)
    return ids[: ends[0] + 1] if len(ends) else ids


def _row(record: Record, scores: np.ndarray) -> dict[str, Any]:
    names = {"inputs": "input", "targets": "target"}
    row: dict[str, Any] = {names[n]: text for n, text in record.texts.items()}
    return {
        **row,
        **record.more,
        "log_probability": round(float(scores.sum()), 6),
        "token_ids": _counted(record.ids["targets"])[: len(scores)].tolist(),
        "token_log_probabilities": [round(float(x), 6) for x in scores],
    }
