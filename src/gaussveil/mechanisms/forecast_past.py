"""The pasts that forecasts draw their randomness from: under the model "random past" each serves once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gaussveil.errors import AssumptionError, PrivacyError
from gaussveil.mechanisms.forecast_noise import PAST_KNOWN, RANDOM_PAST, Model
from gaussveil.timeseries import Readings


class PastsUsed:
    """The spans of time that releases were made from."""

    def __init__(self) -> None:
        self._spans: list[tuple[np.datetime64, np.datetime64]] = []

    @contextmanager
    def once(self, model: Model, past: Readings) -> Iterator[None]:
        """Under "random past" a past serves one release: two from the same past would not be independent."""
        if model != RANDOM_PAST:
            yield
            return
        first, last = past.times[0], past.times[-1]
        if any(first <= end and begin <= last for begin, end in self._spans):
            raise AssumptionError(
                "the model 'random past' needs a fresh past for every release: this one overlaps a past that was used "
                "already, and the releases would not compose. Use the model 'past known', or wait for newer readings."
            )
        self._spans.append((first, last))
        try:
            yield
        except PrivacyError:  # refused before anything was drawn
            self._spans.remove((first, last))
            raise


def days_drawn_on(
    model: Model, households: tuple[str, ...], past: Readings
) -> tuple[str, ...]:
    """The days of the past whose randomness a forecast draws on; none where the past may be known."""
    if model == PAST_KNOWN:
        return ()
    days = np.unique(past.times.astype("datetime64[D]"))
    return tuple(f"{'|'.join(households)} {day}" for day in days)
