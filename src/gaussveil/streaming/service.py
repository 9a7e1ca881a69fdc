"""Starting a gateway on a file of meters: the first time, again after a crash, or after its state was lost."""

from __future__ import annotations

import os
from pathlib import Path

from gaussveil.errors import AssumptionError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.streaming.gateway import Gateway
from gaussveil.streaming.meters import read_meters
from gaussveil.streaming.state import StreamState


def open_gateway(
    meters_file: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, *, reset_from: int | None = None
) -> Gateway:
    """A gateway with recovered or new state, by default in the folder beside the file of meters.

    A mark beside the file remembers that it was started. If the state is gone then, the readings answered before are
    not known any more, so the caller must say from which sequence number on to answer.
    """
    path = Path(meters_file)
    meters = read_meters(path)
    place = Path(folder) if folder is not None else path.with_suffix(".state")
    mark = path.with_name(path.name + ".started")
    if mark.exists() and not StreamState.exists(place) and reset_from is None:
        raise AssumptionError(
            f"these meters were started before, but their state in {place} is gone. Reset from a sequence number that "
            "was never answered: filters and noise then start anew together."
        )
    if not mark.exists():
        write_whole(mark, "", PRIVATE)
    return Gateway(meters, StreamState.open(place, meters, reset_from=reset_from))
