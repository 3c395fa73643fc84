"""`mtf serve`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import ServeOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    serving = parser.add_argument_group("serving")
    serving.add_argument("--task", metavar="NAME", help="whose vocabularies are used")
    serving.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    serving.add_argument(
        "--host", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, this machine alone)"
    )
    serving.add_argument(
        "--port", type=not_negative, metavar="N", help="the port there (default: 8000; 0: any)"
    )
    serving.add_argument(
        "--max_batch", type=positive, metavar="N", help="requests computed together (default: 8)"
    )
    serving.add_argument(
        "--max_queue", type=positive, metavar="N", help="requests that may wait (default: 256)"
    )
    serving.add_argument(
        "--max_tokens",
        type=positive,
        metavar="N",
        help="tokens of an answer (default: the length of the model's targets)",
    )


def run(args: argparse.Namespace) -> int:
    """Serves, and returns the exit status."""
    options = options_from(args, ServeOptions)
    start_tensorflow()
    from mtf_models.serve import server

    server.run(options)
    return 0
