"""Decoding a file of inputs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_models.errors import DataError, failing_run
from mtf_models.runtime import prepare
from mtf_models.runtime.evaluate import batch_rows, report_trimmed
from mtf_models.runtime.load import load_for_use
from mtf_models.runtime.model import Model
from mtf_models.runtime.options import InferOptions


def predict(model: Model, texts: Sequence[str], max_decode_length: int | None = None) -> list[str]:
    """Decodes texts, in order.

    Args:
        model: what to decode with; its config names the task whose vocabularies are used.
        texts: the inputs, or for a decoder-only model the prompts.
        max_decode_length: at most so many tokens for each; by default the config's targets.
    """
    from mtf_models.data.evaluation import decode_texts, prediction_batches

    task = _task(model)
    lengths = dict(model.settings.sequence_length)
    lengths.setdefault("inputs", lengths["targets"])
    predictions: list[str] = []
    trimmed: Counter[str] = Counter()
    for batch in prediction_batches(task, texts, lengths, batch_rows(model, len(texts))):
        length = max_decode_length or lengths["targets"]
        found = model.decode(batch.features, max_decode_length=length)
        predictions += decode_texts(task, found.ids.numpy()[: batch.rows])
        trimmed.update(batch.trimmed)
    report_trimmed(trimmed, len(texts), lengths)
    return predictions


def run(options: InferOptions) -> None:
    """Decodes each line of a file into a line of JSON with `input` and `prediction`.

    The output is written whole or not at all.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
    """
    from mtf_models.data.text_files import lines

    texts = lines(options.input)
    if not texts:
        raise DataError(f"{options.input} is empty: it has no line to decode.")
    output = Path(options.output)
    _check_writable(output)
    model, step = load_for_use(options)
    _task(model)
    with failing_run(), model.config.active():
        predictions = predict(model, texts, options.max_decode_length)
        rows = (
            {"input": text, "prediction": prediction}
            for text, prediction in zip(texts, predictions, strict=True)
        )
        _write(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"Wrote {len(texts)} predictions of step {step} to {output}.")


def _task(model: Model) -> Any:
    from mtf_models.data.tasks import get_task_or_mixture

    return get_task_or_mixture(prepare.task_name(model.config))


def _check_writable(output: Path) -> None:
    if output.is_dir():
        raise DataError(f"--output={output} is a folder: give the path of a file in it.")
    if not output.absolute().parent.is_dir():
        raise DataError(f"There is no folder for --output={output}: make it, or give another path.")


def _write(output: Path, text: str) -> None:
    aside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(output)
    except OSError as error:
        raise DataError(
            f"{output} cannot be written: {error.strerror}. Give another --output."
        ) from error
    finally:
        aside.unlink(missing_ok=True)
