"""Datasets of TensorFlow Datasets, prepared in a folder with random examples of their features."""

import tensorflow_datasets as tfds
from tensorflow_datasets.testing import mocking

EXAMPLES = 64


def prepare(name, folder):
    """Writes a dataset as TensorFlow Datasets would have prepared it, unless it is there."""
    builder = tfds.builder(name, data_dir=folder)
    if builder.data_path.exists():
        return
    features = builder.info.features

    def examples(seed):
        fake = mocking.RandomFakeGenerator(
            features, EXAMPLES, 2, max_value=2, constant_dynamic_shape=True, seed=seed
        )
        return list(enumerate(fake))

    tfds.dataset_builders.store_as_tfds_dataset(
        builder.name,
        str(builder.version),
        features,
        {"train": examples(0), "validation": examples(1), "test": examples(2)},
        config=builder.builder_config.name if builder.builder_config else None,
        data_dir=folder,
    )
