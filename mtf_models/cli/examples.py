"""The arguments of commands that take examples: `mtf infer` and `mtf score`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import not_negative, positive


def add_example_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds where examples come from (`ExampleOptions`)."""
    examples = parser.add_argument_group("examples")
    examples.add_argument(
        "--input",
        metavar="FILE",
        help="an example a line: text, .tsv (inputs, targets) or .jsonl (the same as names)",
    )
    examples.add_argument("--task", metavar="NAME", help="a task whose split is read instead")
    examples.add_argument("--split", metavar="NAME", help="of the task (default: validation)")
    examples.add_argument(
        "--num_examples", type=positive, metavar="N", help="at most so many of the split"
    )
    examples.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
