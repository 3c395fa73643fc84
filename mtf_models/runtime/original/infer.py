"""Mode `infer`: files of inputs, and prompts from a task, to files of what the model makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.data.text_files import lines
from mtf_models.decode.options import EOS
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime.original.used_model import UsedModel, decode, encode, write_lines
from mtf_models.runtime.whole_file import check_takes_files

_UTILS = "mesh_tensorflow.transformer.utils"


def read_lines(path: str) -> list[str]:
    """The lines of a file without the space around them; an empty last one is left out.

    Raises:
        DataError: if it cannot be read, or has no line.
    """
    if not isinstance(path, str):
        raise DataError(f"{path!r} is no path of a text file.")
    found = [line.strip() for line in lines(path)]
    if found and not found[-1]:
        found.pop()
    if not found:
        raise DataError(f"{path} is empty: it has no line to read.")
    return found


@configurable(module=_UTILS, denylist=["used"])
def decode_from_file(
    used: UsedModel,
    input_filename: str = REQUIRED,
    output_filename: str = REQUIRED,
    eos_id: int = 1,
    repeats: int = 1,
) -> None:
    """Decodes each line of a file into a line of `<output_filename>-<step>`.

    Args:
        used: what decodes.
        input_filename: one input a line, or for a decoder-only model a prompt.
        output_filename: of the file to write, without the step.
        eos_id: ends each input; prompts have no end.
        repeats: how many times each input is decoded, which makes a difference where ids are drawn.
    """
    texts = [text for text in read_lines(input_filename) for _ in range(repeats)]
    found = list(decode_texts(used, texts, eos_id))
    output = f"{output_filename}-{used.step}"
    write_lines(output, found)
    print(f"Wrote {len(found)} lines to {output}.", flush=True)


@configurable(module=_UTILS, denylist=["used"])
def decode_from_files(
    used: UsedModel,
    input_filenames: Sequence[str] = REQUIRED,
    output_filenames: Sequence[str] = REQUIRED,
) -> None:
    """Decodes several files, see `decode_from_file`.

    Args:
        used: what decodes.
        input_filenames: of files of inputs.
        output_filenames: one for each, without the step.
    """
    if len(input_filenames) != len(output_filenames):
        raise ConfigError(
            f"decode_from_files has {len(input_filenames)} input_filenames and "
            f"{len(output_filenames)} output_filenames: give one of these for each of those."
        )
    for name in input_filenames:
        read_lines(name)
    for source, target in zip(input_filenames, output_filenames, strict=True):
        decode_from_file(used, input_filename=source, output_filename=target)


@configurable(module=_UTILS, denylist=["used"])
def infer_model(used: UsedModel, decode_fn: Callable[[UsedModel], None] = decode_from_file) -> None:
    """What mode `infer` does with each checkpoint.

    Args:
        used: what decodes.
        decode_fn: reads, decodes and writes.
    """
    decode_fn(used)


def decode_texts(used: UsedModel, texts: Sequence[str], eos_id: int = 1) -> Iterator[str]:
    """What the model makes of each text, as the config says how to decode.

    Args:
        used: what decodes.
        texts: inputs, or for a decoder-only model prompts.
        eos_id: ends each input; prompts have no end.
    """
    ending = () if used.reads_prompts else (eos_id,)
    yield from _decoded(used, [encode(used.vocabularies.inputs, t, *ending) for t in texts])


def _decoded(used: UsedModel, ids: Sequence[np.ndarray]) -> Iterator[str]:
    first = 0
    for batch in used.batches({"inputs": ids}):
        # Equal inputs draw different ids, wherever they are.
        numbers = range(first, first + len(batch.features["inputs"]))
        found = used.model.decode(batch.features, row_numbers=numbers).ids.numpy()
        first += batch.rows
        for row in found[: batch.rows]:
            yield decode(used.vocabularies.targets, row)


@configurable(module=_UTILS, denylist=["used"])
def decode_from_dataset(
    used: UsedModel,
    infer_dataset_fn: Callable[[], tuple[str, int | None, int | None]] = REQUIRED,
    dataset_split: str = "validation",
    decode_output_dir: str = REQUIRED,
) -> None:
    """Continues the beginnings of a task's targets with a decoder-only model.

    Args:
        used: what decodes.
        infer_dataset_fn: names the task; `mesh_inference_dataset_fn`.
        dataset_split: the split.
        decode_output_dir: where `<task>_inputs`, the prompts, and `<task>_<step>_outputs` go.

    Raises:
        ConfigError: if the model has an encoder.
    """
    from mtf_models.data.tasks import tasks_with_split

    if not used.reads_prompts:
        raise ConfigError(
            "decode_from_dataset continues prompts, and this model is no decoder-only one "
            "(run.model_type = 'lm'): write its inputs into a file, and take decode_from_file."
        )
    name, count, length = infer_dataset_fn()
    vocabulary = used.vocabularies.targets
    for task in tasks_with_split(name, dataset_split):
        dataset = task.get_dataset(None, dataset_split, shuffle=False, num_epochs=1)
        examples = itertools.islice(dataset.as_numpy_iterator(), count)
        prompts = [_prompt(example["targets"], length) for example in examples]
        outputs = list(_decoded(used, prompts))
        folder = Path(decode_output_dir)
        write_lines(folder / f"{task.name}_inputs", [decode(vocabulary, ids) for ids in prompts])
        write_lines(folder / f"{task.name}_{used.step}_outputs", outputs)
        print(f"Wrote {len(outputs)} lines of {task.name} into {folder}.", flush=True)


def _prompt(targets: np.ndarray, length: int | None) -> np.ndarray:
    """The first ids of targets, without the end of sequence that would end the result too."""
    ids = np.asarray(targets, np.int32)[:length]
    return ids[ids != EOS]


def check_files(config_query: Callable[[str], Any]) -> None:
    """Refuses files that cannot be read or written, before a model is built.

    Args:
        config_query: gives what is bound to a parameter.

    Raises:
        ConfigError: if there is none of inputs.
        DataError: if one of them cannot be read or written.
    """
    decode_fn = config_query("infer_model.decode_fn") or decode_from_file
    inputs, outputs = [], []
    if decode_fn is decode_from_file:
        inputs = [config_query("decode_from_file.input_filename")]
        outputs = [config_query("decode_from_file.output_filename")]
    elif decode_fn is decode_from_files:
        inputs = config_query("decode_from_files.input_filenames") or []
        outputs = config_query("decode_from_files.output_filenames") or []
    elif decode_fn is decode_from_dataset:
        folder = config_query("decode_from_dataset.decode_output_dir")
        outputs = [folder and Path(folder, "outputs")]
    for file in inputs:
        if file is None:
            raise ConfigError(
                "Mode infer needs a file of inputs: bind decode_from_file.input_filename and "
                "output_filename, or include 'infer.gin' and set input_filename, output_filename."
            )
        if not Path(str(file)).is_file():
            raise DataError(f"There is no file of inputs {file}.")
    for file in filter(None, outputs):
        check_takes_files(Path(file).parent)
