"""Forms of tables that their owner has read and kept: with one, every cell is read by itself and nothing is guessed.

A form belongs to the address of a table and lies in a folder that the server names to its processes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

FOLDER = "GAUSSVEIL_STUDIO_FORMS"


def kept_form(address: str) -> Path | None:
    """The file of the form that was kept for a table; none where nobody kept one."""
    place = place_of_form(address)
    if place is not None and place.is_file():
        return place
    return None


def place_of_form(address: str) -> Path | None:
    """Where the form of a table is kept; none where the server named no folder."""
    folder = os.environ.get(FOLDER)
    if folder:
        return Path(folder) / f"{hashlib.sha256(address.encode()).hexdigest()}.toml"
    return None
