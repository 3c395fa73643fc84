"""Datasets of this package, prepared on first use in a folder outside of it."""

import contextlib
import fcntl
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from mtf_models.data.user_cache import user_cache
from mtf_models.datasets import SPLITS
from mtf_models.errors import DataError

_chosen: Path | None = None


def use_data_dir(folder: str | None) -> None:
    """Chooses where prepared datasets lie, for every task of this process.

    Args:
        folder: a local folder, or None for the default of `data_dir`.
    """
    global _chosen
    _chosen = Path(folder).expanduser() if folder else None
    seqio.set_tfds_data_dir_override(str(_chosen) if _chosen else None)


def chosen_dir() -> Path | None:
    """The folder chosen with `use_data_dir`, or None."""
    return _chosen


def data_dir() -> Path:
    """Returns where datasets of this package are prepared.

    That is the folder chosen with `use_data_dir`, else `$TFDS_DATA_DIR`, else
    `mtf_models/datasets` in the user's cache.
    """
    if _chosen:
        return _chosen
    if folder := os.environ.get("TFDS_DATA_DIR"):
        return Path(folder).expanduser()
    return user_cache("datasets")


class PreparedSource(seqio.TfdsDataSource):
    """A SeqIO source over a dataset of this package, which is prepared on first use.

    SeqIO's own source would prepare it too, but prints, asks the network for a prepared copy, and
    fails when two processes start at once.
    """

    def __init__(self, builder: type[tfds.core.GeneratorBasedBuilder]):
        super().__init__(f"{builder.name}:{builder.VERSION}", splits=SPLITS, read_only=True)
        self._builder = builder

    @property
    def dataset(self) -> str:
        """Name and version of the dataset."""
        return f"{self._builder.name}:{self._builder.VERSION}"

    @property
    def tfds_dataset(self) -> seqio.LazyTfdsLoader:
        """The loader that every method of the source reads through; prepares the dataset."""
        folder = data_dir()
        prepare(self._builder, folder)
        loader = super().tfds_dataset
        loader.override_data_dir(str(folder))
        return loader

    def records(self, split: str) -> tf.data.Dataset | None:
        """The serialised examples of a split, in the order in which `get_dataset` has them.

        None if several files have them, of which `get_dataset` makes an order of its own, or they
        are no TFRecords.
        """
        info = self.tfds_dataset.info
        files = info.splits[split].filepaths
        if len(files) > 1 or info.file_format is not tfds.core.FileFormat.TFRECORD:
            return None
        dataset = tf.data.TFRecordDataset([str(file) for file in files])
        whole = tf.data.experimental.assert_cardinality(info.splits[split].num_examples)
        return dataset.apply(whole)


def prepare(builder_class: type[tfds.core.GeneratorBasedBuilder], folder: Path) -> None:
    """Writes a dataset unless it is there. One process writes, others wait for it.

    TFDS writes aside and renames, so an interrupted preparation is never taken for a finished
    one; what it left behind is removed by the next.

    Args:
        builder_class: the dataset's builder, which needs no network.
        folder: the folder of all prepared datasets.

    Raises:
        DataError: the folder cannot be written.
    """
    builder = builder_class(data_dir=folder)
    if builder.data_path.exists():
        return
    try:
        with _alone(folder / f".{builder.name}.lock"), _quiet():
            for leftover in (folder / builder.name).glob("incomplete.*"):
                shutil.rmtree(leftover)
            builder.download_and_prepare()
    except OSError as error:
        raise DataError(
            f"The dataset {builder.name} cannot be prepared in {folder}: {error}. Name a folder"
            " that can be written with --data_dir or $TFDS_DATA_DIR."
        ) from error


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # Released when the file is closed, however we end.
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    tfds.display_progress_bar(False)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        tfds.display_progress_bar(True)
