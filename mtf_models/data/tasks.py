"""The tasks of this package, and how a task or mixture is found by its name."""

import difflib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
from t5.evaluation import metrics as t5_metrics

from mtf_models.data import metrics, objectives
from mtf_models.data.prepared import PreparedSource
from mtf_models.data.t5_tasks import register_t5
from mtf_models.data.tfds_datasets import require
from mtf_models.data.unregistered import add_unregistered
from mtf_models.datasets.cmudict import Cmudict
from mtf_models.datasets.kjv_web import KjvWeb
from mtf_models.datasets.vocabs import arpabet_model, t5_model
from mtf_models.errors import DataError

_MOST = 2**16  # A task of more examples is drawn as often as one of so many.


@functools.cache
def register() -> None:
    """Registers the tasks of this package with SeqIO. Calling it again does nothing.

    * `cmudict_g2p`: the letters of an English word, as bytes, to its phonemes.
    * `kjv_web`: a verse in old English to the verse in modern English.
    * `kjv_web_lm`: the modern verses alone, for a decoder-only model; `kjv_web_bytes_lm`: as bytes.
    * `kjv_web_unsupervised`: these verses under the objective that gin names, see `gin/objectives`.
    * `cmudict_g2p_text`: as `cmudict_g2p`, in T5's vocabulary, each word after "g2p: ".
    * `words_and_verses`: a mixture of those that share T5's vocabulary, by their sizes.
    """
    text = seqio.Feature(seqio.SentencePieceVocabulary(t5_model(), extra_ids=100))
    _add(
        "cmudict_g2p",
        Cmudict,
        keys={"inputs": "word", "targets": "phonemes", "pronunciations": "pronunciations"},
        features={
            "inputs": seqio.Feature(seqio.ByteVocabulary()),
            "targets": seqio.Feature(seqio.SentencePieceVocabulary(arpabet_model())),
        },
        postprocess_fn=_all_pronunciations,
        metric_fns=[metrics.exact_match, metrics.phoneme_error_rate],
    )
    _add(
        "kjv_web",
        KjvWeb,
        keys={"inputs": "inputs", "targets": "targets"},
        features={"inputs": text, "targets": text},
        metric_fns=[t5_metrics.bleu],
    )
    letters = seqio.Feature(seqio.ByteVocabulary())
    for name, feature in (("kjv_web_lm", text), ("kjv_web_bytes_lm", letters)):
        _add(name, KjvWeb, keys={"targets": "targets"}, features={"targets": feature})
    objectives.add_text_task(
        "kjv_web_unsupervised", PreparedSource(KjvWeb), "targets", text.vocabulary
    )
    _add(
        "cmudict_g2p_text",
        Cmudict,
        keys={"inputs": "word", "targets": "phonemes", "pronunciations": "pronunciations"},
        features={"inputs": text, "targets": text},
        first=[_announced],
        postprocess_fn=_all_pronunciations,
        metric_fns=[metrics.exact_match, metrics.phoneme_error_rate],
    )
    seqio.MixtureRegistry.add(
        "words_and_verses",
        ["cmudict_g2p_text", "kjv_web", "kjv_web_unsupervised"],
        default_rate=functools.partial(seqio.mixing_rate_num_examples, maximum=_MOST),
    )


def get_task_or_mixture(name: str) -> seqio.Task | seqio.Mixture:
    """Finds a task or mixture.

    Args:
        name: what it is registered under: by this package, by an imported module, or by t5, which
            is imported only if the name is none of theirs. Else the path of a file, or the name of
            a dataset of TensorFlow Datasets, of which a task with T5's vocabulary is made.

    Returns:
        The task or mixture.

    Raises:
        DataError: there is none of this name.
    """
    if is_known(name):
        return seqio.get_mixture_or_task(name)
    made = add_unregistered(name)
    if made is None:
        known = sorted(names())
        nearest = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or known[:20]
        raise DataError(
            f"There is no task or mixture {name!r}, and no file or dataset of TensorFlow Datasets."
            f" The nearest of the {len(known)} known are {', '.join(nearest)}; `mtf tasks` lists"
            " them. Import the module that registers it with --module_import."
        )
    return seqio.get_mixture_or_task(made)


def is_known(name: str) -> bool:
    """Whether there is a task or mixture of this name, those of t5 included."""
    if name not in names():
        register_t5()
    return name in names()


def names() -> set[str]:
    """What is registered: our own, those of imported modules, and t5's once they are."""
    register()
    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}


def tasks_with_split(name: str, split: str) -> list[seqio.Task]:
    """Finds the tasks of a task or mixture that have a split.

    Args:
        name: of the task or mixture.
        split: the split.

    Returns:
        The task, or those of the mixture's tasks that have the split.

    Raises:
        DataError: there is no such task, its data are not there, or none of them has the split.
    """
    tasks = seqio.get_subtasks(get_task_or_mixture(name))
    require(tasks)
    found = [task for task in tasks if split in task.splits]
    if not found:
        splits = "; ".join(f"{task.name}: {', '.join(task.splits)}" for task in tasks)
        raise DataError(f"There is no split {split!r} in {name}. The splits are {splits}.")
    return found


def _add(
    name: str,
    builder: type,
    keys: Mapping[str, str],
    features: Mapping[str, Any],
    first: Sequence[Any] = (),
    **options: Any,
) -> None:
    if name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names():
        raise DataError(f"An imported module has a task {name!r}, as this package has: rename it.")
    seqio.TaskRegistry.add(
        name,
        source=PreparedSource(builder),
        preprocessors=[
            functools.partial(seqio.preprocessors.rekey, key_map=keys),
            *first,
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
        output_features=features,
        **options,
    )


@seqio.map_over_dataset
def _announced(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {**example, "inputs": tf.strings.join(["g2p: ", example["inputs"]])}


def _all_pronunciations(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | list[str]:
    if not is_target:
        return text
    return [pronunciation.decode("ascii") for pronunciation in example["pronunciations"]]
