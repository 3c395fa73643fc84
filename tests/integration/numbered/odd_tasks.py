"""Tasks and a mixture that nothing can be trained on. Imported by `--module_import=odd_tasks`."""

import numpy as np
import seqio
import tensorflow as tf

LETTERS = seqio.Feature(seqio.ByteVocabulary())


def add(name, examples, features):
    def read(split, shuffle_files=False, seed=None):
        del split, shuffle_files, seed
        spec = {n: tf.TensorSpec([None], tf.int32) for n in features}
        return tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=spec)

    seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(read, ["train"]),
        preprocessors=[seqio.CacheDatasetPlaceholder()],
        output_features=features,
    )


def ids(*numbers):
    return {n: np.array(numbers, np.int32) for n in ("inputs", "targets")}


BOTH = dict.fromkeys(("inputs", "targets"), LETTERS)
add("odd_empty", [], BOTH)
add("odd_beyond", [ids(5, 1), ids(5, 9000, 1)], BOTH)
add("odd_long", [ids(5, 1), ids(*[5] * 9, 1), ids(6, 1)], BOTH)
add("odd_aimless", [{"inputs": np.array([5, 1], np.int32)}], {"inputs": LETTERS})
more = seqio.Feature(seqio.ByteVocabulary(extra_ids=7))
add("odd_letters", [ids(5, 1)], {"inputs": more, "targets": LETTERS})
seqio.MixtureRegistry.add("odd_babel", ["odd_long", "odd_letters"], default_rate=1.0)
