"""Forms of tables that their owner has read and kept: with one, every cell is read by itself and nothing is guessed.

A form belongs to the address of a table and lies in a folder that the server names to its processes.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from gaussveil.errors import SourceError
from gaussveil.project_file import write_form

FOLDER = "GAUSSVEIL_STUDIO_FORMS"


def kept_form(address: str) -> Path | None:
    """The file of the form that was kept for a table; none where nobody kept one."""
    place = _place(address)
    if place is not None and place.is_file():
        return place
    return None


def keep_form(address: str) -> dict[str, Any]:
    """Keep the form that a table was found to have, for every release from now on."""
    from gaussveil_studio.offers.tables import open_source, proposed

    place = _place(address)
    table = open_source(address)
    dialect = getattr(table, "dialect", None)
    if place is None or dialect is None:
        raise SourceError(
            "the table says itself what its columns hold: there is no form to keep"
        )
    unit = proposed(table.schema)["unit"]
    form = replace(dialect.identified([unit] if unit else []), found=(), unclear=())
    place.unlink(missing_ok=True)
    write_form(place, "", form.toml())
    return {}


def _place(address: str) -> Path | None:
    folder = os.environ.get(FOLDER)
    if folder:
        return Path(folder) / f"{hashlib.sha256(address.encode()).hexdigest()}.toml"
    return None
