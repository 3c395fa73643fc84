"""The gin files that ship with the package, as resources of this package and its subpackages.

In a checkout they lie in the folder `gin/` beside the package; in an installed wheel they lie here.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[1] / "gin"


def folder() -> Path:
    """The folder below which the gin files lie."""
    # Beside an installed package lies gin-config's own `gin`: what is here goes first.
    return _HERE if any(_HERE.glob("*/*.gin")) else _CHECKOUT


__path__ = [str(folder())]
