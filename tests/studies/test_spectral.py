from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import MissingDataError
from gaussveil.mechanisms import MeterStream
from gaussveil.report.figures import svg
from gaussveil.studies.spectral import TABLE_I, distances, published_rows, read_home, repaired_row, trajectory_balls
from gaussveil.studies.stream_figures import distance_figure, spectra_figure, streams_figure
from gaussveil.studies.stream_receiver import MONTH, PERIOD, Home
from gaussveil.studies.stream_utility import EPSILONS, energies, measure, snr_db

# Noise sd, smoothed correlation, daily %, 28-day %, peak hour %, for 0.5 kW for 1 h at epsilon 1, 2 and 5, as measured
# when the streams were designed.
DESIGN = {
    "shape": ((6.5, 0.54, 22, 10, 19), (3.5, 0.65, 16, 4, 29), (1.5, 0.79, 9, 2, 50)),
    "energy": ((8.5, 0.57, 15, 2, 18), (4.5, 0.64, 11, 1, 25), (2.0, 0.76, 6, 0.4, 43)),
    "billing": ((10, 0.54, 13, 0.6, 16), (5.5, 0.61, 8, 0.4, 21), (2.4, 0.72, 4, 0.2, 37)),
}
# Daily and 28-day % for 3 kW for 1 h.
LARGE = {
    "shape": ((37, 35), (30, 22), (24, 12)),
    "energy": ((22, 8.6), (20, 4.4), (17, 2.4)),
    "billing": ((21, 4.1), (20, 2.3), (16, 0.9)),
}
CELLS = [(purpose, number) for purpose in DESIGN for number in range(3)]
TENTH = 0.1


@pytest.fixture(scope="module")
def home(real_data: Path) -> Home:
    return Home.of(read_home(real_data))


@pytest.mark.parametrize(("purpose", "number"), CELLS)
def test_usefulness_is_within_a_tenth_of_the_design_or_better(
    home: Home, purpose: str, number: int, full: bool
) -> None:
    """Beyond a tenth only the error of the mean over draws counts: three of its deviations, stated with each figure."""
    draws = 40 if full else 2
    sd, correlation, daily, monthly, peak = DESIGN[purpose][number]
    found = measure(home, purpose, 0.5, EPSILONS[number], draws)
    assert found.noise_sd == pytest.approx(sd, rel=0.03)
    assert found.correlation > correlation - TENTH * correlation - 0.03 / math.sqrt(draws)
    assert found.daily_percent < (1 + TENTH) * daily * (1 + 0.2 / math.sqrt(draws))
    # four windows a draw, each an absolute normal error: deviation 0.76 of its mean
    assert found.monthly_percent < (1 + TENTH) * monthly * (1 + 3 * 0.76 / math.sqrt(4 * draws))
    # 133 days a draw
    missed = 3 * math.sqrt(peak * (100 - peak) / (133 * draws))
    assert found.peak_percent > (1 - TENTH) * peak - missed


@pytest.mark.parametrize(("purpose", "number"), CELLS)
def test_large_events_leave_the_energy_that_the_design_says(home: Home, purpose: str, number: int, full: bool) -> None:
    draws = 40 if full else 1
    daily, monthly = LARGE[purpose][number]
    found = measure(home, purpose, 3.0, EPSILONS[number], draws)
    assert found.daily_percent < (1 + TENTH) * daily * (1 + 0.3 / math.sqrt(draws))
    assert found.monthly_percent < (1 + TENTH) * monthly * (1 + 3 * 0.76 / math.sqrt(4 * draws))


@pytest.mark.parametrize("number", range(3))
def test_bills_have_the_error_that_the_plan_says(home: Home, number: int) -> None:
    """Without any draw: the 28-day deviation of stream and registers, as a mean absolute error."""
    plan = MeterStream.design(
        sample_period=PERIOD, epsilon=EPSILONS[number], delta=1e-5, event=(0.5, "1h"), purpose="billing"
    ).plan()
    error = 100 * math.sqrt(2 / math.pi) * plan.monthly_energy_sd / energies(home.protected, MONTH).mean()
    assert error < (1 + TENTH) * DESIGN["billing"][number][3]


def test_distances_grow_in_time_and_not_between_spectra(home: Home) -> None:
    rows = distances(home)
    assert rows[-1]["time_kw"] > 2 * rows[0]["time_kw"]
    assert rows[-1]["spectrum_kw2h"] < rows[0]["spectrum_kw2h"]
    balls = list(trajectory_balls(home).values())
    assert balls == sorted(balls)


def test_published_stream_gives_its_event_and_its_spectrum_away(home: Home) -> None:
    rows, refuted = published_rows(home)
    assert refuted["event_epsilon"] > 2 * TABLE_I["epsilon"]
    errors = list(refuted["attack_error_kw2h_by_days"].values())
    assert errors == sorted(errors, reverse=True)
    assert rows[0]["name"].startswith("SpDP as printed")
    sds = {row["name"]: row["noise_sd"] for row in rows}
    assert sds["TrDP 1 week, exact"] < 0.7 * sds["TrDP 1 week, published"]


def test_repaired_stream_states_both_guarantees(home: Home) -> None:
    row = repaired_row(home)
    assert row["spectrum"]["epsilon"] == row["trajectory"]["epsilon"] == 1.0
    assert row["together"]["epsilon"] > 1.3
    assert row["noise_sd"] > 6.46, "shaped like the spectrum it needs more noise than white"


def test_figures_draw(home: Home) -> None:
    figures = (
        distance_figure(distances(home)),
        spectra_figure(home, 0.12, TABLE_I),
        streams_figure(home, trajectory_balls(home), TABLE_I),
    )
    for figure in figures:
        assert "<svg" in svg(figure, "figure", "a figure")


def test_decibels_are_of_variances() -> None:
    """Correction S6: Table III's -5.5e-4 dB is about -37: 1.74 kW against a noise of 180 kW is -40 dB."""
    signal = np.random.default_rng(0).standard_normal(10_000) * 1.74
    assert snr_db(signal, 180.0) == pytest.approx(-40.3, abs=0.3)


def test_absent_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="home_uci"):
        read_home(tmp_path)
