"""Modes `score_from_strings` and `score_from_dataset`: the log-likelihood of given targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime.bindings.tasks import Evaluated
from mtf_models.runtime.original.infer import read_lines
from mtf_models.runtime.original.used_model import (
    UsedModel,
    Vocabularies,
    decode,
    encode,
    in_a_line,
    write_lines,
)
from mtf_models.runtime.whole_file import aside, check_takes_files, writing

_UTILS = "mesh_tensorflow.transformer.utils"


@dataclass(frozen=True)
class Scored:
    """One example with the log-likelihood of its targets.

    Attributes:
        score: natural logarithm.
        targets: the ids that were scored, without padding.
        inputs: the ids that were given, without padding.
        texts: `inputs_pretokenized` and `targets_pretokenized`, if the dataset has them.
    """

    score: float
    targets: np.ndarray
    inputs: np.ndarray
    texts: Mapping[str, Any]


Results = Sequence[Scored]
PostprocessFn = Callable[[Results, Vocabularies], Any]


@configurable(module=_UTILS, denylist=["results", "vocabulary"])
def save_scores(
    results: Results,
    vocabulary: Vocabularies,
    scores_filename: str | None = None,
    save_example_text: bool = True,
) -> list[float]:
    """Writes `.scores` and, with the texts, `.targets`, `.lengths` and, if known, `.inputs`.

    Args:
        results: what was scored.
        vocabulary: of the texts.
        scores_filename: of the files, without their endings; None writes nothing.
        save_example_text: whether the texts are written too.

    Returns:
        The scores.
    """
    scores = [result.score for result in results]
    if scores_filename is None:
        return scores
    columns = {"scores": [f"{score:g}" for score in scores]}
    if save_example_text:
        columns["lengths"] = [str(len(result.targets)) for result in results]
        columns["targets"] = [_target_text(result, vocabulary) for result in results]
        if all("inputs_pretokenized" in result.texts for result in results):
            columns["inputs"] = [in_a_line(r.texts["inputs_pretokenized"]) for r in results]
    for ending, lines in columns.items():
        write_lines(f"{scores_filename}.{ending}", lines)
    names = ", ".join(f".{ending}" for ending in columns)
    print(f"Wrote {len(scores)} lines each to {scores_filename}{{{names}}}.", flush=True)
    return scores


@configurable(module=_UTILS, denylist=["results", "vocabulary"])
def save_scores_to_tfrecords(
    results: Results,
    vocabulary: Vocabularies,
    scores_filename: str = REQUIRED,
    shard_idx: int = 0,
    save_ids_only: bool = False,
) -> list[float]:
    """Writes `<scores_filename>_<shard_idx>.tfrecord`: `input`, `target` and `score` of each.

    Args:
        results: what was scored.
        vocabulary: of the texts.
        scores_filename: of the file, without its ending.
        shard_idx: the number in its name.
        save_ids_only: whether inputs and targets are ids, else texts.

    Returns:
        The scores.
    """
    import tensorflow as tf

    path = Path(f"{scores_filename}_{shard_idx}.tfrecord")

    def feature(ids: np.ndarray, words: Any) -> Any:
        if save_ids_only:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
        text = decode(words, ids).encode("utf-8")
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))

    def record(result: Scored) -> bytes:
        score = tf.train.Feature(float_list=tf.train.FloatList(value=[result.score]))
        features = {
            "input": feature(result.inputs, vocabulary.inputs),
            "target": feature(result.targets, vocabulary.targets),
            "score": score,
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        return example.SerializeToString()

    _write_records(path, map(record, results))
    print(f"Wrote {len(results)} records to {path}.", flush=True)
    return [result.score for result in results]


@configurable(module=_UTILS, denylist=["used"])
def score_from_strings(
    used: UsedModel,
    inputs: str | Sequence[str] | None = REQUIRED,
    targets: str | Sequence[str] = REQUIRED,
    score_postprocess_fn: PostprocessFn = REQUIRED,
    eos_id: int = 1,
    score_eos: bool = True,
) -> Any:
    """Scores targets, given inputs.

    Args:
        used: what scores.
        inputs: a file with one text a line, or the texts; each stands for as many targets as there
            are for one. Of a decoder-only model they are prompts, which nothing ends; None for
            targets that begin a text.
        targets: likewise.
        score_postprocess_fn: is given the results and the vocabularies.
        eos_id: ends each text.
        score_eos: whether the end of the targets is scored.

    Returns:
        What `score_postprocess_fn` returns.
    """
    texts = [_texts(targets)] if inputs is None else [_texts(targets), _texts(inputs)]
    ids = {
        "targets": [
            encode(used.vocabularies.targets, text, *([eos_id] if score_eos else []))
            for text in texts[0]
        ]
    }
    if inputs is not None:
        times = _targets_of_each(*texts)
        repeated = [text for text in texts[1] for _ in range(times)]
        ending = () if used.reads_prompts else (eos_id,)
        ids["inputs"] = [encode(used.vocabularies.inputs, text, *ending) for text in repeated]
    if used.reads_prompts:
        ids = {"targets": _after_prompts(ids["targets"], ids.get("inputs"))}
    return score_postprocess_fn(list(_scored(used, used.batches(ids))), used.vocabularies)


@configurable(module=_UTILS, denylist=["used", "dataset_split"])
def score_from_dataset(
    used: UsedModel,
    dataset_split: str,
    score_dataset_fn: Callable[[], Evaluated] | None = None,
    score_postprocess_fn: PostprocessFn = REQUIRED,
) -> Any:
    """Scores the targets of a split of a task, or of the tasks of a mixture one after another.

    Args:
        used: what scores.
        dataset_split: the split.
        score_dataset_fn: names the task; `mesh_eval_dataset_fn`.
        score_postprocess_fn: is given the results and the vocabularies.

    Returns:
        What `score_postprocess_fn` returns.
    """
    from mtf_models.data.evaluation import evaluation_batches
    from mtf_models.data.tasks import tasks_with_split
    from mtf_models.runtime.using.batches import batch_rows, reporting_trimmed

    if score_dataset_fn is None:
        raise ConfigError("Bind score_from_dataset.score_dataset_fn = @mesh_eval_dataset_fn.")
    name, count, _ = score_dataset_fn()
    results: list[Scored] = []
    for task in tasks_with_split(name, dataset_split):
        lengths = {n: used.lengths[n] for n in task.output_features}
        rows = batch_rows(used.model, count)
        batches = evaluation_batches(task.name, lengths, rows, dataset_split, count)
        results += _scored(used, reporting_trimmed(batches, lengths))
    return score_postprocess_fn(results, used.vocabularies)


def check_texts(config_query: Callable[[str], Any]) -> None:
    """Refuses files of texts that cannot be read, before a model is built.

    Args:
        config_query: gives what is bound to a parameter.

    Raises:
        ConfigError: if none is bound.
        DataError: if one of them cannot be read.
    """
    targets = config_query("score_from_strings.targets")
    if targets is None:
        raise ConfigError(
            "Mode score_from_strings needs texts: bind score_from_strings.inputs and targets, or "
            "include 'score_from_file.gin' and set inputs_filename, targets_filename."
        )
    inputs = config_query("score_from_strings.inputs")
    texts = _texts(targets)
    if inputs is not None:
        _targets_of_each(texts, _texts(inputs))


def check_outputs(config_query: Callable[[str], Any]) -> None:
    """Refuses files of scores that cannot be written, before a model is built.

    Args:
        config_query: gives what is bound to a parameter.

    Raises:
        DataError: if one of them cannot be written.
    """
    for function in ("save_scores", "save_scores_to_tfrecords"):
        file = config_query(f"{function}.scores_filename")
        if file is not None:
            check_takes_files(Path(file).parent)


def _scored(used: UsedModel, batches: Iterator[Any]) -> Iterator[Scored]:
    for batch in batches:
        scores = used.model.score(batch.features).numpy()
        for row, example in enumerate(batch.examples):
            given = {n: np.trim_zeros(ids[row], "b") for n, ids in batch.features.items()}
            texts = {n: x for n, x in example.items() if n.endswith("_pretokenized")}
            targets = given["targets"]
            inputs = given.get("inputs", -targets[targets < 0])
            yield Scored(float(scores[row]), targets[targets >= 0], inputs, texts)


def _after_prompts(
    targets: Sequence[np.ndarray], prompts: Sequence[np.ndarray] | None
) -> list[np.ndarray]:
    """Targets after their prompts; those are negative, which is read and not scored."""
    if prompts is None:
        return list(targets)
    return [np.concatenate([-p, t]) for p, t in zip(prompts, targets, strict=True)]


def _write_records(path: Path, records: Iterable[bytes]) -> None:
    import tensorflow as tf

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside(path) as beside, tf.io.TFRecordWriter(str(beside)) as writer:
                for record in records:
                    writer.write(record)
        except tf.errors.OpError as failure:
            raise OSError(failure.message) from failure


def _targets_of_each(targets: Sequence[str], inputs: Sequence[str]) -> int:
    """How many targets there are for one input."""
    times, left = divmod(len(targets), len(inputs))
    if left or not times:
        raise DataError(
            f"There are {len(inputs)} inputs for {len(targets)} targets: give one for each target, "
            "or for each group of equally many targets."
        )
    return times


def _texts(given: str | Sequence[str]) -> list[str]:
    return read_lines(given) if isinstance(given, str) else list(given)


def _target_text(result: Scored, vocabulary: Vocabularies) -> str:
    text = result.texts.get("targets_pretokenized")
    return decode(vocabulary.targets, result.targets) if text is None else in_a_line(text)
