"""Datasets prepared in a folder of the test session, and small tasks with known examples."""

import functools

import numpy as np
import pytest
import seqio
import tensorflow as tf

from mtf_models.data import prepared


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    """The folder in which datasets are looked for in every test here."""
    folder = tmp_path_factory.mktemp("datasets")
    prepared.use_data_dir(str(folder))  # For what prepares datasets before the first test.
    return folder


@pytest.fixture(autouse=True)
def in_data_dir(data_dir):
    # For each test anew: tests of other folders choose their own in between.
    prepared.use_data_dir(str(data_dir))
    yield
    prepared.use_data_dir(None)


def _examples(sizes):
    """Example i: `inputs` has sizes[i] times the id i + 10, `targets` is i + 10 once."""
    for index, size in enumerate(sizes):
        token = index + 10
        yield {"inputs": np.full(size, token, np.int32), "targets": np.array([token], np.int32)}


@pytest.fixture
def make_task():
    """Registers tasks whose example i consists of the id i + 10, and forgets them afterwards."""
    names = []

    def make(name, sizes, stored=True):
        spec = tf.TensorSpec([None], tf.int32)

        def dataset(split, shuffle_files=False, seed=None):
            del split, shuffle_files, seed
            return tf.data.Dataset.from_generator(
                functools.partial(_examples, sizes),
                output_signature={"inputs": spec, "targets": spec},
            )

        feature = seqio.Feature(seqio.PassThroughVocabulary(1000), add_eos=False)
        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(
                dataset, splits=["train"], num_input_examples={"train": len(sizes)}
            ),
            preprocessors=[seqio.CacheDatasetPlaceholder()] if stored else [],
            output_features={"inputs": feature, "targets": feature},
            metric_fns=[],
        )
        names.append(name)
        return name

    yield make
    for name in names:
        seqio.TaskRegistry.remove(name)
