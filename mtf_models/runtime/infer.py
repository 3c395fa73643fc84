"""Decoding a file of inputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mtf_models.errors import DataError, failing_run
from mtf_models.runtime import prepare
from mtf_models.runtime.evaluate import batch_rows
from mtf_models.runtime.load import load_for_use
from mtf_models.runtime.model import Model
from mtf_models.runtime.options import InferOptions


def predict(model: Model, texts: list[str], max_decode_length: int | None = None) -> list[str]:
    """Decodes texts, in order.

    Args:
        model: what to decode with; its config names the task whose vocabularies are used.
        texts: the inputs, or for a decoder-only model the prompts.
        max_decode_length: at most so many tokens for each; by default the config's targets.
    """
    from mtf_models.data.evaluation import decode_texts, prediction_batches
    from mtf_models.data.tasks import get_task_or_mixture

    task = get_task_or_mixture(prepare.task_name(model.config))
    lengths = dict(model.settings.sequence_length)
    lengths.setdefault("inputs", lengths["targets"])
    predictions: list[str] = []
    for batch in prediction_batches(task, texts, lengths, batch_rows(model)):
        length = max_decode_length or lengths["targets"]
        found = model.decode(batch.features, max_decode_length=length)
        predictions += decode_texts(task, found.ids.numpy()[: batch.rows])
    return predictions


def run(options: InferOptions) -> None:
    """Decodes each line of a file into a line of JSON with `input` and `prediction`.

    The output is written whole or not at all.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
    """
    from mtf_models.data.text_files import lines

    texts = lines(options.input)
    output = Path(options.output)
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise DataError(
            f"Cannot write {output}: {'it is a folder' if output.is_dir() else 'no such folder'}."
        )
    model, step = load_for_use(options)
    with failing_run():
        predictions = predict(model, texts, options.max_decode_length)
        aside = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            with aside.open("w", encoding="utf-8") as file:
                for text, prediction in zip(texts, predictions, strict=True):
                    row = {"input": text, "prediction": prediction}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            aside.replace(output)
        finally:
            aside.unlink(missing_ok=True)
    print(f"Wrote {len(texts)} predictions of step {step} to {output}.")
