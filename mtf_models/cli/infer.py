"""`mtf infer`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, not_negative, options_from, positive
from mtf_models.cli.examples import add_example_arguments
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import InferOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    add_example_arguments(parser)
    inference = parser.add_argument_group("inference (default: as the config says)")
    inference.add_argument(
        "--output", required=True, metavar="FILE", help="JSON lines file to write"
    )
    inference.add_argument(
        "--max_decode_length",
        type=positive,
        metavar="N",
        help="at most so many tokens for each input",
    )
    inference.add_argument(
        "--beam_size", type=positive, metavar="N", help="hypotheses of a beam search; 1 for none"
    )
    inference.add_argument(
        "--alpha", type=float, metavar="X", help="exponent of a beam search's length penalty"
    )
    inference.add_argument(
        "--temperature", type=float, metavar="X", help="draw, the more evenly the higher; 0 is off"
    )
    inference.add_argument(
        "--top_k", type=not_negative, metavar="N", help="draw among so many tokens; 0 for all"
    )
    inference.add_argument(
        "--top_p", type=float, metavar="X", help="draw among the tokens of this probability"
    )
    inference.add_argument(
        "--num_return", type=positive, metavar="N", help="sequences for each input"
    )
    inference.add_argument(
        "--seed", type=not_negative, metavar="N", help="of what is drawn (default: the run's)"
    )


def run(args: argparse.Namespace) -> int:
    """Decodes, and returns the exit status."""
    options = options_from(args, InferOptions)
    start_tensorflow()
    from mtf_models.runtime.using import infer

    infer.run(options)
    return 0
