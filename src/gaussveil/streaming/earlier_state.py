"""State of format 1, which knew 256 answers per meter and compared values: read once, written as the present format."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gaussveil.errors import FormatError
from gaussveil.streaming.meter_arrays import KEPT, NO_ANSWER, NOT_STARTED, MeterArrays
from gaussveil.streaming.meters import Meter, digest_of


def upgraded(folder: Path, meters: Sequence[Meter], arrays: MeterArrays) -> tuple[str, int, MeterArrays]:
    """A new identity, the generation, and the arrays filled from a checkpoint of format 1."""
    head = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    generation, begin = int(head["generation"]), int(head["from"])
    if head["format"] != 1 or head["meters"] != digest_of(meters):
        raise FormatError(
            f"the state in {folder} belongs to other meters or another version. Start it once with the file of meters "
            "that it was made for."
        )
    if (folder / f"log-{generation}").stat().st_size:
        raise FormatError(
            f"the state in {folder} is of an earlier version and was not closed. Start and stop the gateway once with "
            "the version that wrote it."
        )
    with np.load(folder / f"arrays-{generation}.npz", allow_pickle=False) as stored:
        reached = stored["next"]
        fresh = reached == NOT_STARTED
        arrays.next[...] = np.where(fresh, begin, reached)
        arrays.confirmed[...] = np.maximum(arrays.next - KEPT, 0)
        arrays.started[...] = np.where(fresh, NOT_STARTED, stored["started"])
        valid = stored["kept_sequence"] >= np.maximum(arrays.next - KEPT, 0)[:, None]
        arrays.kept[...] = np.where(valid, stored["kept_output"], NO_ANSWER)
        for name in ("sums", "states", "past", "register_sequence", "register_output"):
            getattr(arrays, name)[...] = stored[name]
    return os.urandom(16).hex(), generation, arrays
