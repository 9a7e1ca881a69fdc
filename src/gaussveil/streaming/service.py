"""Starting a gateway on a file of meters: the first time, again after a crash, or after its state was lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gaussveil.errors import AssumptionError, SourceError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.streaming.gateway import LONGEST_JUMP, Gateway, Missing
from gaussveil.streaming.meters import read_meters
from gaussveil.streaming.state import Reset, StreamState

RESTORED = "restored"  # begins the mark of a state that comes from a backup


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
    place = Path(folder) if folder is not None else path.with_suffix(".state")
    mark = mark_beside(path)
    fresh = not StreamState.exists(place)
    if mark.exists() and fresh and reset_from is None:
        raise AssumptionError(
            f"these meters were started before, but their state in {place} is gone. Reset from a sequence number that "
            "was never answered: filters and noise then start anew together."
        )
    state = StreamState.open(place, meters, reset_from=reset_from)
    try:
        _claim(mark, state.identity, anew=reset_from is not None)
    except BaseException:
        state.abandon()
        if fresh:
            shutil.rmtree(place)
        raise
    jump = LONGEST_JUMP if longest_jump is None else longest_jump
    return Gateway(meters, state, longest_jump=jump, missing=missing)


def mark_beside(meters_file: Path) -> Path:
    """The file that names the state of these meters."""
    return meters_file.with_name(meters_file.name + ".started")


def _claim(mark: Path, identity: str, *, anew: bool) -> None:
    """Tie the meters to their one state: of two that begin at once, one is refused."""
    part = write_whole(mark.with_name(f"{mark.name}.{identity}"), identity, PRIVATE)
    try:
        if anew:
            os.replace(part, mark)
        else:
            os.link(part, mark)  # fails where it is there already
    except FileExistsError:
        found = mark.read_text(errors="replace")  # damaged, it is another one
        if found == "":  # of an earlier version
            os.replace(part, mark)
        elif found.startswith(RESTORED):
            raise AssumptionError(
                f"this state was {found}, and what was answered since is not known. Reset from a sequence number that "
                "was never answered: filters and noise then start anew together."
            ) from None
        elif found != identity:
            raise SourceError(
                "these meters are served from another state folder: two would answer one reading with two noises. "
                "Name that folder, or reset from a sequence number that was never answered."
            ) from None
    finally:
        part.unlink(missing_ok=True)
