"""Decoding the examples of a file or of a task's split."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtf_models.errors import ConfigError, failing_run
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.asked import TEXT_OPTIONS
from mtf_models.runtime.using.batches import batch_rows, report_trimmed
from mtf_models.runtime.using.partial_output import PartialOutput, fill
from mtf_models.runtime.using.records import check_source, read_records
from mtf_models.runtime.using.request import request_of
from mtf_models.runtime.using.text_decoder import Row, TextDecoder, longest_input
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_output

if TYPE_CHECKING:
    from mtf_models.data.records import Record


def run(options: InferOptions) -> None:
    """Decodes each example into a line of JSON.

    A line has the `input`, what else its file says of it, the `prediction` and its `score`, and
    for several sequences of each all `predictions` and `scores`, best first. The output is
    written whole; until then what is done stands beside it, and the same command goes on with it.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
        KeyboardInterrupt: after Ctrl-C, which is heeded after the batch at work.
    """
    check_source(options)
    if options.output is None:
        raise ConfigError("Give --output=FILE to write to, or --interactive to type inputs.")
    check_output(options.output)
    model, step = load_for_use(options)
    with model.config.active():
        task, records = read_records(model, options, ("inputs",))
        decoder = TextDecoder(model, task, options)
        wanted = {name: getattr(options, name) for name in TEXT_OPTIONS} | {"task": task.name}
        request = request_of(options, model, step, wanted, records)
        output = PartialOutput(options.output, request)
    with failing_run():
        fill(output, len(records), lambda done: _decoded(decoder, records, done))
        output.finish()
    print(f"Wrote {len(records)} predictions of step {step} to {options.output}.")
    print(f"Compiled {model.compilations} graphs.")


def _decoded(
    decoder: TextDecoder, records: Sequence[Record], done: Collection[int]
) -> Iterator[dict[int, Row]]:
    """The rows of the output by their places, a batch at a time, without those that are done."""
    from mtf_models.data.buckets import bucketed, trimmed
    from mtf_models.data.records import occurrences

    longest = {"inputs": longest_input(decoder.model)}
    left = [place for place in range(len(records)) if place not in done]
    examples = [records[place].ids for place in left]
    numbers = occurrences(records, "inputs")
    report_trimmed(trimmed([r.ids for r in records], longest), len(records), longest)
    for batch in bucketed(examples, longest, batch_rows(decoder.model, len(records))):
        places = [left[place] for place in batch.places]
        rows = len(batch.features["inputs"])
        apart = [numbers[place] for place in places]
        apart += apart[:1] * (rows - len(apart))
        made = decoder.rows(batch.features["inputs"], apart, len(places))
        yield {p: _row(records[p], row) for p, row in zip(places, made, strict=True)}


def _row(record: Record, made: Mapping[str, Any]) -> Row:
    given: Row = {"input": record.texts["inputs"], **record.more}
    if "targets" in record.texts:
        given["target"] = record.texts["targets"]
    return {**given, **made}
