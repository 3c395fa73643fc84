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
    ):
        metavar = "X" if kind is float else "N"
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=what)
