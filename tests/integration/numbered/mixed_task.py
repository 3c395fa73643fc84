"""Three tasks in one vocabulary, and a mixture of them by their sizes: `mixed`.

`mixed_numbers` and `mixed_backwards` have metrics of their own, `mixed_text` leaves its objective
to gin. Imported by `--module_import=mixed_task`.
"""

import numpy as np
import seqio
import tensorflow as tf
from numbered_task import exactly

from mtf_models.data.objectives import add_text_task

SIZES = {"mixed_numbers": 37, "mixed_backwards": 50, "mixed_text": 20}
VOCABULARY = seqio.ByteVocabulary(extra_ids=100)


def source(name, texts):
    """Of `SIZES[name]` training examples, and 5 others."""
    splits = {"train": range(SIZES[name]), "validation": range(100, 105)}

    def read(split, shuffle_files=False, seed=None):
        del shuffle_files, seed
        columns = list(zip(*map(texts, splits[split]), strict=True))
        names = ("inputs", "targets")[-len(columns) :]
        return tf.data.Dataset.from_tensor_slices(dict(zip(names, map(list, columns), strict=True)))

    return seqio.FunctionDataSource(read, list(splits))


def letters_right(targets, predictions):
    pairs = zip(targets, predictions, strict=True)
    right = [t[i : i + 1] == p[i : i + 1] for t, p in pairs for i in range(len(t))]
    return {"letters_right": 100.0 * float(np.mean(right))}


def likelihood(targets, scores):
    """A metric that reads scores."""
    return {"likelihood": float(np.mean(scores))}


def likeliest(targets, predictions, aux_values):
    """A metric that compares texts and reads scores beside them."""
    best = int(np.argmax(aux_values["scores"]))
    return {"likeliest_is_right": float(targets[best] == predictions[best])}


def add(name, texts, metric_fns):
    feature = seqio.Feature(VOCABULARY)
    seqio.TaskRegistry.add(
        name,
        source=source(name, texts),
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
        output_features={"inputs": feature, "targets": feature},
        metric_fns=metric_fns,
    )


add("mixed_numbers", lambda i: (f"n{i}", f"{i}"), [exactly, likelihood])
add("mixed_backwards", lambda i: (f"b{i}", f"{i}"[::-1]), [letters_right, likeliest])
words = ["one", "two", "three", "four", "five", "six"]
add_text_task(
    "mixed_text",
    source("mixed_text", lambda i: (" ".join(words[: 3 + i % 4]),)),
    "targets",
    VOCABULARY,
)
seqio.MixtureRegistry.add("mixed", list(SIZES), default_rate=seqio.mixing_rate_num_examples)
