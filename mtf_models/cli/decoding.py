"""The arguments of commands that decode."""

from __future__ import annotations

from typing import Any

from mtf_models.cli.arguments import not_negative, positive


def add_decoding_arguments(group: Any) -> None:
    """Declares how to decode (`DecodingOptions`).

    Args:
        group: a group of arguments.
    """
    for name, kind, what in (
        ("max_decode_length", positive, "at most so many tokens for each input"),
        ("beam_size", positive, "hypotheses of a beam search; 1 for none"),
        ("alpha", float, "exponent of a beam search's length penalty"),
        ("temperature", float, "draw, the more evenly the higher; 0 is off"),
        ("top_k", not_negative, "draw among so many tokens; 0 for all"),
        ("top_p", float, "draw among the tokens of this probability"),
        ("num_return", positive, "sequences for each input"),
        ("repetition_penalty", float, "multiplies log-probabilities of tokens there already"),
        ("no_repeat_ngram", not_negative, "no run of N tokens comes twice; 0 is off"),
    ):
        metavar = "X" if kind is float else "N"
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=what)


def add_inference_arguments(group: Any) -> None:
    """Declares how to decode, and what else `mtf infer` can be told of it (`InferOptions`).

    Args:
        group: a group of arguments.
    """
    add_decoding_arguments(group)
    group.add_argument(
        "--seed", type=not_negative, metavar="N", help="of what is drawn (default: the run's)"
    )
    group.add_argument(
        "--prefix", metavar="TEXT", help="each prediction of an encoder-decoder begins with it"
    )
    group.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="ends a prediction, and is no part of it (repeatable; not of beams, nor on a mesh)",
    )
