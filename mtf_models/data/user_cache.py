"""Where this package keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """A folder in the user's cache, which need not be there.

    Args:
        name: of the folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "mtf_models" / name
