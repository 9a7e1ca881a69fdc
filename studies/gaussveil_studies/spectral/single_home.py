"""The SpDP paper on a single home at five minutes: its figures and tables, with its parameters and with ours.

The paper's home is not public; this is another one, so shapes compare, not digits. "Published" rows use calibrations
and streams as printed. What the printed stream tells of its spectrum stands in `typical_stream` (docs/corrections,
S4b), what one event costs in it in the tables (S4). Table III's decibels are computed correctly (S6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gaussveil.accounting import Adjacency
from gaussveil.mechanisms import GaussianRelease, PrivateSpectrum, calibrate_ball
from gaussveil.noise import SeededGenerator
from gaussveil.timeseries import welch_psd
from gaussveil.typing import Floats
from gaussveil_studies.real_data import data_file
from gaussveil_studies.spectral import stream_figures, stream_tables
from gaussveil_studies.spectral.stream_receiver import PERIOD, WEEK, Home
from gaussveil_studies.summaries import SINGLE_HOME

STRETCH = 9 * WEEK  # of the public half, twice
BANDS = (8, 4)
NORMS = (60.0, 150.0)  # kW^2 h, public: of a home's spectrum in the average of many


def read_home(folder: Path | None = None) -> Floats:
    """The single home, kW every five minutes."""
    return np.loadtxt(
        data_file(folder, SINGLE_HOME), delimiter=",", skiprows=1, usecols=1
    )


def distances(home: Home) -> list[dict[str, float]]:
    """Figures 1b and 3: consecutive stretches drift apart in time, their spectra do not."""
    rows = []
    for weeks in (1, 2, 3, 4, 6, 8, 9):
        size = weeks * WEEK
        one = home.public[:size]
        other = home.public[size : 2 * size]
        spectra = [
            welch_psd(part, stream_tables.POINTS, period=PERIOD)
            for part in (one, other)
        ]
        rows.append(
            {
                "weeks": weeks,
                "time_kw": float(np.linalg.norm(one - other)),
                "spectrum_kw2h": float(np.linalg.norm(spectra[0] - spectra[1])),
            }
        )
    return rows


def spectrum_errors(home: Home, draws: int) -> list[dict[str, float | str]]:
    """Relative error of the protected half's spectrum at epsilon 1: as printed, by bands, drawn to a public prior.

    Ball and prior come from the public half. Zeros have an error of 1.
    """
    parts = [
        home.public[k * STRETCH : (k + 1) * STRETCH]
        for k in range(home.public.size // STRETCH)
    ]
    prior = np.mean(
        [welch_psd(part, stream_tables.POINTS, period=PERIOD) for part in parts], axis=0
    )
    truth = welch_psd(home.protected, stream_tables.POINTS, period=PERIOD)
    rows: list[dict[str, float | str]] = []
    for bands in (None, *BANDS):
        given: dict[str, Any] = {
            "points": stream_tables.POINTS,
            "sample_period": PERIOD,
            "bands": bands,
        }
        ball = calibrate_ball(parts, **given)
        row: dict[str, float | str] = {
            "numbers": f"{bands or stream_tables.POINTS + 1:g}",
            "ball": float(ball),
        }
        for name, public in (("noisy", None), ("drawn", prior)):
            mechanism = PrivateSpectrum(
                epsilon=1.0, delta=1e-5, l2_ball=ball, prior=public, **given
            )
            errors = []
            for seed in range(draws):
                mechanism.generator = SeededGenerator(seed)
                errors.append(
                    np.linalg.norm(mechanism.release(home.protected).value - truth)
                )
            row[name] = float(np.mean(errors) / np.linalg.norm(truth))
            row["kept"] = mechanism.kept()
        rows.append(
            row
            | {"prior": float(np.linalg.norm(prior - truth) / np.linalg.norm(truth))}
        )
    return rows


def average_errors(
    homes: Floats, period: float, draws: int
) -> list[dict[str, float | str]]:
    """Relative error of many homes' average spectrum at epsilon 1, each home hidden whole.

    A home's spectrum is shortened to a public norm, so that it moves their sum by that norm at most.
    """
    rows: list[dict[str, float | str]] = []
    points = round(24 / period)
    truth = np.mean([welch_psd(home, points, period=period) for home in homes], axis=0)
    for bands in (None, BANDS[0]):
        estimate = PrivateSpectrum(
            epsilon=1.0,
            delta=1e-5,
            l2_ball=1.0,
            points=points,
            sample_period=period,
            bands=bands,
        )
        spectra = np.stack([estimate.density(home) for home in homes])
        for norm in NORMS:
            short = spectra * np.minimum(
                1, norm / np.linalg.norm(spectra, axis=1, keepdims=True)
            )
            mechanism = GaussianRelease(
                epsilon=1.0,
                delta=1e-5,
                l2_sensitivity=norm,
                adjacency=Adjacency.add_remove("home"),
            )
            errors = []
            for seed in range(draws):
                mechanism.generator = SeededGenerator(seed)
                released = np.asarray(mechanism.release(short.sum(axis=0)).value) / len(
                    homes
                )
                errors.append(np.linalg.norm(estimate.post_process(released) - truth))
            error = float(np.mean(errors) / np.linalg.norm(truth))
            rows.append(
                {"numbers": f"{spectra.shape[1]:g}", "norm": norm, "error": error}
            )
    return rows


def figures(home: Home) -> dict[str, Figure]:
    """Figures 1 to 6 of the paper, and what a receiver makes of our streams."""
    printed = stream_tables.AsPrinted.of(home, stream_tables.PAPER_BALL)
    return {
        "figure-1-demand": stream_figures.demand_figure(home, distances(home)),
        "figure-2-lengths": stream_figures.lengths_figure(home),
        "figure-3-distances": stream_figures.distance_figure(distances(home)),
        "figure-4-private": stream_figures.private_figure(
            home, stream_tables.PAPER_BALL, stream_tables.spectrum_ball(home)
        ),
        "figure-5-filters": stream_figures.filters_figure(printed),
        "figure-6-streams": stream_figures.streams_figure(
            home, printed, stream_tables.trajectory_balls(home)
        ),
        "smoothed": stream_figures.smoothed_figure(home),
    }
