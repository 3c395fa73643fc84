"""Tasks of 37 training and 7 validation examples that carry their number.

Imported by `--module_import=numbered_task`, in the process of the tests and in others.
"""

import seqio
import tensorflow as tf

SPLITS = {"train": 37, "validation": 7, "empty": 0}


def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed
    numbers = tf.data.Dataset.range(SPLITS[split])
    return numbers.map(
        lambda i: {
            "inputs": tf.strings.join(["n", tf.strings.as_string(i)]),
            "targets": tf.strings.as_string(i),
        }
    )


def exactly(targets, predictions):
    pairs = zip(targets, predictions, strict=True)
    return {"exactly": 100.0 * sum(a == b for a, b in pairs) / len(targets)}


def read_hollow(split, shuffle_files=False, seed=None):
    return read(split if split == "train" else "empty", shuffle_files, seed)


def add(name, splits, features, read=read, counts=SPLITS, **options):
    seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(
            read, splits=splits, num_input_examples=counts and {n: counts[n] for n in splits}
        ),
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
        output_features=dict.fromkeys(features, seqio.Feature(seqio.ByteVocabulary())),
        **options,
    )


add("numbered", ["train", "validation"], ["inputs", "targets"], metric_fns=[exactly])
add("numbered_train_only", ["train"], ["inputs", "targets"], metric_fns=[exactly])
add("numbered_empty", ["train", "empty"], ["inputs", "targets"], metric_fns=[exactly])
add("numbered_uncounted", ["train", "empty"], ["inputs", "targets"], counts=None)
add("numbered_hollow", ["train", "validation"], ["inputs", "targets"], read_hollow, None)
add("numbered_lm", ["train", "validation"], ["targets"])
