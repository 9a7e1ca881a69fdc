"""Radii that are learnt from noisy histograms of norms over octaves."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import scipy

from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.typing import Floats

DOUBT = 0.01
SEEN = 3.5  # deviations: 1 % that any of 41 octaves is seen where there is nothing
WIDTHS = np.geomspace(0.2, 2.5, 12)  # octaves


def quantile_of_norms(histogram: Floats, quantile: float, noise: float) -> float:
    """Quantile of the log-normal law that fits a noisy histogram over octaves best, by least squares.

    The whole histogram is matched, so empty octaves far away do not lead astray. Where the quantile is more than twice
    as large with a chance of `DOUBT`, half of that is taken: a false octave would promise far too little noise.
    """
    middle, width, shapes, lengths = _log_normal_laws()
    match = np.maximum(histogram @ shapes, 0.0) / lengths
    found = np.clip(middle + width * scipy.special.ndtri(quantile), OCTAVES[0], OCTAVES[-1])
    rising = np.argsort(found)
    chances = np.cumsum(np.exp((match[rising] ** 2 - np.max(match) ** 2) / (2 * noise**2)))
    most = found[rising][np.searchsorted(chances, (1 - DOUBT) * chances[-1])]
    return float(2.0 ** max(found[np.argmax(match)], most - 1))


def farthest_seen(histogram: Floats, noise: float) -> float:
    """The upper end of the last octave that holds more than its noise explains; infinite where none does."""
    seen = np.flatnonzero(histogram > SEEN * noise)
    return float(2.0 ** OCTAVES[seen[-1]]) if len(seen) else math.inf


@cache
def _log_normal_laws() -> tuple[Floats, Floats, Floats, Floats]:
    """Middles and widths of laws in octaves, their histograms as columns, and the l2 norms of those."""
    centres = np.linspace(OCTAVES[0], OCTAVES[-1], 8 * (len(OCTAVES) - 1) + 1)
    middle, width = (one.ravel() for one in np.meshgrid(centres, WIDTHS))
    upper = scipy.special.ndtr((OCTAVES[:, None] - middle) / width)
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return middle, width, shapes, np.linalg.norm(shapes, axis=0)
