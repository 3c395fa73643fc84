"""Checkpoints in TensorFlow's own format, by name: the original's reader and ours read the same."""

from mtf_models.checkpoint.bundle import Entry, write
from mtf_models.checkpoint.hugging_face import HuggingFaceReader, is_hugging_face_folder
from mtf_models.checkpoint.locate import locate
from mtf_models.checkpoint.manager import CheckpointManager
from mtf_models.checkpoint.names import SLOTS
from mtf_models.checkpoint.reader import Reader
from mtf_models.checkpoint.restore import restore

__all__ = [
    "SLOTS",
    "CheckpointManager",
    "Entry",
    "HuggingFaceReader",
    "Reader",
    "is_hugging_face_folder",
    "locate",
    "restore",
    "write",
]
