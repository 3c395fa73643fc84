"""Named dimensions and shapes, free of TensorFlow."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from mtf_models.errors import ShapeError
from mtf_models.mesh.size import Size

_SEPARATORS = re.compile(r"[\s,;.]+")
_NOT_IN_NAMES = re.compile(r"[\s,;.:]")


class _NameAndSize(NamedTuple):
    name: str
    size: int | Size


class Dimension(_NameAndSize):
    """A name and a size. Two dimensions are the same if both agree.

    Args:
        name: without space, comma, semicolon, colon and full stop, which separate in texts.
        size: a whole number from 1, or one that is known only when a graph runs.

    Raises:
        ShapeError: if the name or the size is none.
    """

    __slots__ = ()

    def __new__(cls, name: str, size: int | Size) -> Dimension:
        """Checks the name and the size; a tuple has no later place for it."""
        faults = _faults_of(name, size)
        if faults:
            raise ShapeError(_not_dimensions([faults]))
        return super().__new__(cls, name, size if isinstance(size, Size) else operator.index(size))

    def __str__(self) -> str:
        return f"{self.name}={self.size}"


DimensionLike: TypeAlias = Dimension | tuple[str, int]
ShapeLike: TypeAlias = "Shape | str | Mapping[str, int] | Iterable[DimensionLike]"


def convert_to_dimension(value: DimensionLike | None) -> Dimension | None:
    """Makes a `Dimension` of a (name, size) pair; None stays None.

    Raises:
        ShapeError: if `value` is anything else.
    """
    if value is None or isinstance(value, Dimension):
        return value
    if isinstance(value, tuple | list) and len(value) == 2:
        return Dimension(*value)
    raise ShapeError(f"Not a dimension: {value!r}. Give a Dimension or a (name, size) pair.")


def _faults_of(name: object, size: object) -> str | None:
    """What is wrong with a name and a size."""
    if not isinstance(name, str) or not name or _NOT_IN_NAMES.search(name):
        return f"{name!r} is no name"
    if isinstance(size, Size):
        return None
    try:
        whole = operator.index(size)
    except TypeError:
        return f"{name}={size!r}"
    return None if whole >= 1 and not isinstance(size, bool) else f"{name}={whole}"


def _not_dimensions(faults: Iterable[str]) -> str:
    return (
        f"Not a dimension: {', '.join(faults)}. A name is a text without spaces, commas, colons, "
        "semicolons and full stops, a size a whole number from 1."
    )


def parse_pairs(text: str, what: str) -> list[tuple[str, str]]:
    """Splits `"a:1,b:2"` into pairs; space, comma, semicolon and full stop separate.

    Raises:
        ShapeError: if a part is not `name:value`; every such part is listed.
    """
    parts = [part for part in _SEPARATORS.split(text.strip()) if part]
    pairs = [tuple(part.split(":")) for part in parts]
    bad = [part for part, pair in zip(parts, pairs, strict=True) if len(pair) != 2 or not all(pair)]
    if bad:
        raise ShapeError(
            f"Cannot read {what} {text!r}: {', '.join(map(repr, bad))} is not name:value. "
            'Write for example "batch:8,length:128".'
        )
    return pairs


class Shape:
    """An ordered list of distinct named dimensions.

    `Shape([Dimension("batch", 8), ("length", 128)])`, `Shape("batch:8 length:128")` and
    `Shape({"batch": 8, "length": 128})` are equal.

    Raises:
        ShapeError: if a dimension is repeated, or the text cannot be read.
    """

    __slots__ = ("_by_name", "dims")

    def __init__(self, dims: ShapeLike = ()) -> None:
        if isinstance(dims, Shape):
            dims = dims.dims
        elif isinstance(dims, str):
            dims = _parse_dimensions(dims)
        elif isinstance(dims, Mapping):
            dims = dims.items()
        self.dims: tuple[Dimension, ...] = _converted(dims)
        self._by_name = {d.name: d for d in self.dims}
        if len(self._by_name) != len(self.dims):
            names = self.dimension_names
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise ShapeError(
                f"{self} repeats {', '.join(repeated)}: each dimension of a tensor needs a name of "
                "its own; rename one of them (mtf.rename_dimension)."
            )

    @property
    def ndims(self) -> int:
        """How many dimensions there are."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        product = 1
        for dim in self.dims:
            product *= dim.size
        return product

    @property
    def dimension_names(self) -> list[str]:
        """The names, in order."""
        return [d.name for d in self.dims]

    @property
    def to_integer_list(self) -> list[int]:
        """The sizes, in order."""
        return [d.size for d in self.dims]

    @property
    def to_string(self) -> str:
        """The shape as `Shape[a=1, b=2]`."""
        return str(self)

    def axis(self, dim: Dimension) -> int:
        """The position of `dim`.

        Raises:
            ShapeError: if this shape has no such dimension.
        """
        try:
            return self.dims.index(dim)
        except ValueError:
            raise ShapeError(f"{self} has no dimension {dim}.") from None

    def get_dim_by_name(self, name: str) -> Dimension:
        """The dimension called `name`.

        Raises:
            ShapeError: if this shape has no such dimension.
        """
        if name not in self._by_name:
            raise ShapeError(f"{self} has no dimension called {name!r}.")
        return self._by_name[name]

    def has(self, name: str) -> bool:
        """Whether a dimension is called `name`."""
        return name in self._by_name

    def rename_dimension(self, old: str, new: str) -> Shape:
        """The same sizes with `old` called `new`."""
        self.get_dim_by_name(old)
        return Shape([Dimension(new, d.size) if d.name == old else d for d in self.dims])

    def resize_dimension(self, name: str, size: int) -> Shape:
        """The same names with `name` of another size."""
        self.get_dim_by_name(name)
        return Shape([Dimension(name, size) if d.name == name else d for d in self.dims])

    def __add__(self, other: ShapeLike | Dimension) -> Shape:
        return Shape(self.dims + _dims_of(other))

    def __sub__(self, other: ShapeLike | Dimension | None) -> Shape:
        if other is None:
            return self
        if isinstance(other, Dimension):
            self.axis(other)
        removed = _dims_of(other)
        return Shape([d for d in self.dims if d not in removed])

    def __contains__(self, dim: object) -> bool:
        return dim in self.dims

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dims)

    def __len__(self) -> int:
        return len(self.dims)

    def __getitem__(self, key: int | slice) -> Dimension | tuple[Dimension, ...]:
        return self.dims[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.dims == other.dims

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"Shape[{', '.join(map(str, self.dims))}]"


def convert_to_shape(value: ShapeLike | None) -> Shape | None:
    """Makes a `Shape` of text, dimensions or pairs; None stays None."""
    if value is None or isinstance(value, Shape):
        return value
    return Shape(value)


def is_subsequence(short: Sequence[Dimension], long: Sequence[Dimension]) -> bool:
    """Whether the dimensions of `short` occur in `long` in the same order."""
    rest = iter(long)
    return all(dim in rest for dim in short)


def two_sizes(shapes: Iterable[Shape]) -> list[str]:
    """What is wrong where one name has several sizes in shapes that go together."""
    sizes: dict[str, set[int]] = {}
    for dim in (d for shape in shapes for d in shape):
        sizes.setdefault(dim.name, set()).add(dim.size)
    return [
        f"{name} has the sizes {' and '.join(map(str, sorted(found)))}; rename one"
        for name, found in sizes.items()
        if len(found) > 1
    ]


def _dims_of(value: ShapeLike | Dimension) -> tuple[Dimension, ...]:
    return (value,) if isinstance(value, Dimension) else Shape(value).dims


def _converted(dims: Iterable[DimensionLike]) -> tuple[Dimension, ...]:
    """Dimensions of pairs; all that are none are listed in one error."""
    found = [tuple(d) if isinstance(d, list) else d for d in dims]
    faults = [
        _faults_of(*d) if isinstance(d, tuple) and len(d) == 2 else repr(d)
        for d in found
        if not isinstance(d, Dimension)
    ]
    faults = [fault for fault in faults if fault]
    if faults:
        raise ShapeError(_not_dimensions(faults))
    return tuple(convert_to_dimension(d) for d in found)


def _parse_dimensions(text: str) -> list[Dimension]:
    pairs = parse_pairs(text, "shape")
    bad = [f"{name}:{size}" for name, size in pairs if not size.isdigit() or int(size) < 1]
    if bad:
        raise ShapeError(
            f"Cannot read shape {text!r}: the size in {', '.join(bad)} is not a positive integer."
        )
    return [Dimension(name, int(size)) for name, size in pairs]
