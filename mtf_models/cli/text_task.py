"""The arguments that name a task, or describe one of files or of a dataset."""

from __future__ import annotations

import argparse
from typing import Any

from mtf_models.cli.arguments import not_negative


def add_text_task_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what says which task is meant (`TextTaskOptions`)."""
    task = parser.add_argument_group("task (default: the config's)")
    task.add_argument(
        "--task",
        metavar="NAME",
        help="a task or mixture (`mtf tasks` lists them), a file, or a dataset of TensorFlow "
        "Datasets",
    )
    task.add_argument(
        "--train_file",
        action="append",
        metavar="FILE",
        help="file or glob to train on: .tsv, .csv, .jsonl, .txt or .tfrecord, also .gz, .bz2 "
        "or .xz (repeatable)",
    )
    task.add_argument(
        "--eval_file", action="append", metavar="FILE", help="likewise, to evaluate on (repeatable)"
    )
    add_description_arguments(task)
    task.add_argument(
        "--metrics", metavar="NAME,...", help="such as bleu,rouge (default: sequence_accuracy)"
    )


def add_description_arguments(task: Any) -> None:
    """Adds what says how files or a dataset are read, to a parser or a group of one."""
    task.add_argument(
        "--columns",
        metavar="inputs=COLUMN,targets=COLUMN",
        help="names or numbers (from 1) of columns (default: inputs and targets, or their order)",
    )
    task.add_argument(
        "--vocab",
        metavar="NAME",
        help="t5 (default), bytes, FILE.model of SentencePiece, FILE.txt of WordPiece, or "
        "FILE.subwords of TensorFlow Datasets; INPUTS,TARGETS for two",
    )
    task.add_argument(
        "--extra_ids",
        type=not_negative,
        metavar="N",
        help="sentinels at the end of the vocabulary (default: 100 of t5, else none)",
    )
    task.add_argument(
        "--on_bad",
        choices=["error", "skip"],
        help="refuse files with lines that do not fit (default), or leave these out and count them",
    )
