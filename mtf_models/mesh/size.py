"""Sizes of dimensions that are known only when a graph runs, free of TensorFlow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mtf_models.errors import MtfError

_Term = tuple[str, ...]
"""The names of the unknowns that are multiplied, in order; () for a plain number."""


@dataclass(frozen=True)
class Unknown:
    """A whole number from 1 that a graph is given when it runs.

    Attributes:
        name: what it counts.
        value: the number in the graph, an int32 scalar.
        most: it is never larger.
    """

    name: str
    value: Any
    most: float = math.inf


class UnknownSizeError(MtfError, RuntimeError):
    """A computation that needs a number where a size is known only when the graph runs."""


class Size:
    """A sum of products of unknowns, with whole coefficients.

    It adds, multiplies and divides as whole numbers do, as far as the result is certain whatever
    the unknowns are, so that one graph serves all batches. What would depend on their values, a
    branch in Python for example, is refused.

    Args:
        unknowns: by their names.
        terms: their products, with coefficients that are not 0.
    """

    __slots__ = ("terms", "unknowns")

    def __init__(self, unknowns: Mapping[str, Unknown], terms: Mapping[_Term, int]) -> None:
        self.unknowns = dict(unknowns)
        self.terms = dict(terms)

    @classmethod
    def of(cls, name: str, value: Any, most: float = math.inf) -> Size:
        """The size that is one unknown, see `Unknown`."""
        return cls({name: Unknown(name, value, most)}, {(name,): 1})

    @property
    def value(self) -> Any:
        """The number in the graph, int32 scalar."""
        total: Any = None
        for term, count in self.terms.items():
            product: Any = count
            for name in term:
                product = product * self.unknowns[name].value
            total = product if total is None else total + product
        return total

    def __add__(self, other: Size | int) -> Size | int:
        other = _size(other)
        if other is None:
            return NotImplemented
        terms = dict(self.terms)
        for term, count in other.terms.items():
            terms[term] = terms.get(term, 0) + count
        return self._simplified(other, terms)

    def __mul__(self, other: Size | int) -> Size | int:
        other = _size(other)
        if other is None:
            return NotImplemented
        terms: dict[_Term, int] = {}
        for (a, m), (b, n) in itertools.product(self.terms.items(), other.terms.items()):
            term = tuple(sorted(a + b))
            terms[term] = terms.get(term, 0) + m * n
        return self._simplified(other, terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size | int:
        return self * -1

    def __sub__(self, other: Size | int) -> Size | int:
        return self + -other

    def __rsub__(self, other: Size | int) -> Size | int:
        return -self + other

    def __floordiv__(self, other: int) -> Size | int:
        if not isinstance(other, int) or any(n % other for n in self.terms.values()):
            raise self._uncertain(f"divided by {other}")
        return self._simplified(self, {term: n // other for term, n in self.terms.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __lt__(self, other: Size | int) -> bool:
        return self._is_certain(lambda least, most: (most < 0, least >= 0), other, "<")

    def __le__(self, other: Size | int) -> bool:
        return self._is_certain(lambda least, most: (most <= 0, least > 0), other, "<=")

    def __gt__(self, other: Size | int) -> bool:
        return not self <= other

    def __ge__(self, other: Size | int) -> bool:
        return not self < other

    def __index__(self) -> NoReturn:
        raise self._uncertain("taken for a number")

    def __float__(self) -> NoReturn:
        raise self._uncertain("taken for a number")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise self._uncertain("taken for a number")

    def __bool__(self) -> bool:
        return self != 0

    def __repr__(self) -> str:
        products = {"*".join(term): n for term, n in self.terms.items()}
        return "+".join(
            (name if n == 1 else f"{n}*{name}") if name else str(n) for name, n in products.items()
        )

    def _is_certain(self, decide: Any, other: Size | int, sign: str) -> bool:
        """Whether a comparison holds for every value that the unknowns can have."""
        difference = self - other
        if isinstance(difference, int):
            return decide(difference, difference)[0]
        holds, fails = decide(*difference._range())
        if not (holds or fails):
            raise self._uncertain(f"compared, {sign} {other}")
        return holds

    def _range(self) -> tuple[float, float]:
        least = most = 0.0
        for term, count in self.terms.items():
            largest = math.prod(self.unknowns[name].most for name in term)
            ends = count, count * largest
            least, most = least + min(ends), most + max(ends)
        return least, most

    def _simplified(self, other: Size, terms: Mapping[_Term, int]) -> Size | int:
        kept = {term: n for term, n in terms.items() if n}
        if all(term == () for term in kept):
            return kept.get((), 0)
        return Size({**self.unknowns, **other.unknowns}, kept)

    def _uncertain(self, what: str) -> UnknownSizeError:
        return UnknownSizeError(
            f"The size {self} is known only when the graph runs, and is {what} here: this "
            "computation needs a fixed size."
        )


def _size(value: object) -> Size | None:
    if isinstance(value, Size):
        return value
    return Size({}, {(): value}) if isinstance(value, int) else None
