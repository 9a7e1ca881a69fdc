"""The digest of all source that computes: what names kept results, so that none of other code is taken for them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import gaussveil

ABOVE = ("cli", "command.py", "studio", "town")  # what shows results and computes none


@cache
def source_digest() -> str:
    """Digest of the library's source, without the rooms that no study uses, and of the studies' own."""
    total = hashlib.sha256()
    for root in (Path(gaussveil.__file__).parent, Path(__file__).parent):
        for path in sorted(
            path for kind in ("*.py", "*.toml") for path in root.rglob(kind)
        ):
            name = path.relative_to(root.parent)
            if name.parts[1] not in ABOVE:
                total.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return total.hexdigest()
