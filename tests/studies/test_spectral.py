from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import MissingDataError
from gaussveil.report.figures import svg
from gaussveil.studies.spectral import TABLE_I, distances, published_rows, read_home, repaired_row, trajectory_balls
from gaussveil.studies.stream_figures import distance_figure, spectra_figure, streams_figure
from gaussveil.studies.stream_utility import Home, measure, snr_db

# noise sd, smoothed correlation, daily %, 28-day %, as measured when the streams were designed (0.5 kW for 1 h)
DESIGN = {
    ("shape", 1.0): (6.5, 0.54, 22, 10), ("shape", 5.0): (1.5, 0.79, 9, 2), ("energy", 1.0): (8.5, 0.57, 15, 2),
    ("energy", 5.0): (2.0, 0.76, 6, 0.4), ("billing", 2.0): (5.5, 0.61, 8, 0.4), ("billing", 5.0): (2.4, 0.72, 4, 0.2),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(real_data: Path) -> Home:
    return Home.of(read_home(real_data))


@pytest.mark.parametrize(("purpose", "epsilon"), DESIGN)
def test_usefulness_is_that_of_the_design_or_better(home: Home, purpose: str, epsilon: float, full: bool) -> None:
    sd, correlation, daily, monthly = DESIGN[purpose, epsilon]
    found = measure(home, purpose, 0.5, epsilon, draws=8 if full else 3)
    assert found.noise_sd == pytest.approx(sd, rel=0.03)
    assert found.correlation > correlation - 0.03
    assert found.daily_percent < 1.1 * daily
    assert found.monthly_percent < 1.1 * monthly + 0.25  # four windows only: their own sampling error


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
