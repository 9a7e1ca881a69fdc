from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from gaussveil.errors import ParameterError
from gaussveil.timeseries import welch_psd
from gaussveil_studies.published.spdp_stream import PublishedStream, low_pass, recovered_spectrum

POINTS = 16


def home(count: int, seed: int) -> np.ndarray:
    return np.asarray(lfilter([1.0], [1, -0.6], np.random.default_rng(seed).standard_normal(count)))


def test_the_raw_spectrum_is_recovered_ever_better_from_the_published_stream() -> None:
    """Correction S4b: the private spectrum is far off, yet who knows the readings gets the raw one out of the noise."""
    series = home(400_000, 1)
    raw = welch_psd(series, POINTS)
    private = raw + np.abs(np.random.default_rng(2).normal(scale=3.0, size=POINTS + 1)) + 0.5
    stream = PublishedStream.design(raw, private, low_pass(0.8, 0.2, 1.0), taps=256)
    released = stream.run(series, np.random.default_rng(3))
    strong = slice(0, 5)
    errors = [
        np.linalg.norm((recovered_spectrum(stream, series[:n], released[:n], private) - raw)[strong])
        for n in (2000, 400_000)
    ]
    off = np.linalg.norm((private - raw)[strong])
    assert errors[1] < errors[0] / 4
    assert errors[1] < off / 8


def test_infeasible_filters_are_refused_as_the_paper_says() -> None:
    raw = np.full(POINTS + 1, 2.0)
    with pytest.raises(ParameterError, match="positive"):
        PublishedStream.design(raw, 0.5 * raw, low_pass(0.9, 0.4, 1.0))
