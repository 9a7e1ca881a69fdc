"""Starting a gateway on a file of meters: the first time, again after a crash, or after its state was lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gaussveil.errors import AssumptionError
from gaussveil.streaming.gateway import LONGEST_JUMP, Gateway, Missing
from gaussveil.streaming.mark import Mark
from gaussveil.streaming.meters import read_meters
from gaussveil.streaming.state import Reset, StreamState


def open_gateway(
    meters_file: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    reset_from: Reset | None = None,
    longest_jump: int | None = None,
    missing: Missing = "refuse",
) -> Gateway:
    """A gateway with recovered or new state, by default in the folder beside the file of meters.

    A mark beside the file remembers which state the meters were started with. If that is gone, the readings answered
    before are not known any more, so the caller must say from which sequence number on to answer.
    """
    path = Path(meters_file)
    meters = read_meters(path)
    if folder is not None:
        place = Path(folder)
    else:
        place = path.with_suffix(".state")
    mark = mark_beside(path)
    fresh = not StreamState.exists(place)
    if mark.exists() and fresh and reset_from is None:
        raise AssumptionError(
            f"these meters were started before, but their state in {place} is gone. Reset from a sequence number that "
            "was never answered: filters and noise then start anew together."
        )
    state = StreamState.open(place, meters, reset_from=reset_from)
    try:
        state.mark = Mark.claim(
            mark,
            state.identity,
            state.progress,
            anew=reset_from is not None,
            fresh=fresh,
        )
    except BaseException:
        state.abandon()
        if fresh:
            shutil.rmtree(place)
        raise
    if longest_jump is None:
        jump = LONGEST_JUMP
    else:
        jump = longest_jump
    return Gateway(meters, state, longest_jump=jump, missing=missing)


def mark_beside(meters_file: Path) -> Path:
    """The file that names the state of these meters."""
    return meters_file.with_name(meters_file.name + ".started")
