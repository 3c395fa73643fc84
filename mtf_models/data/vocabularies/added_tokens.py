"""Tokens that a tokenizer has besides its pieces; T5's sentinels are the ones that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

SENTINEL = "<extra_id_"
END, PAD, UNKNOWN = "</s>", "<pad>", "<unk>"


def sentinels(count: int) -> list[str]:
    """The sentinels of a vocabulary in the order of their ids.

    Args:
        count: of them.
    """
    return [f"{SENTINEL}{number}>" for number in reversed(range(count))]


def added_faults(
    added: Mapping[str, int], extra_ids: int, last: int | None = None
) -> Iterator[str]:
    """Says which added tokens would be read as other ids than theirs.

    Args:
        added: token to id.
        extra_ids: how many sentinels are read after the pieces.
        last: the id of the last sentinel; None for the greatest of those that are added.
    """
    foreign = [
        token
        for token in added
        if token not in (END, PAD, UNKNOWN) and not token.startswith(SENTINEL)
    ]
    if foreign:
        yield f"the added tokens {', '.join(foreign)} are not read"
    found = {token: number for token, number in added.items() if token.startswith(SENTINEL)}
    last = max(found.values(), default=0) if last is None else last
    wanted = {token: last - place for place, token in enumerate(reversed(sentinels(extra_ids)))}
    moved = [token for token, number in found.items() if wanted.get(token) != number]
    if moved:
        yield f"the added {', '.join(moved)} are not among the last {extra_ids} ids, in T5's order"
