"""The SpDP paper on a single home at five minutes: its figures and tables, with its parameters and with ours; run with

    python -m gaussveil.studies.spectral.single_home [folder of the data sets] [folder for results]

The paper's home is not public; this is another one, so shapes compare, not digits. "Published" rows use calibrations
and streams as printed: SpDP's stream is refuted here by recovering the protected spectrum (docs/corrections, S4b), and
by the distance of a single event (S4). Table III's decibels are computed correctly (S6).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gaussveil.errors import MissingDataError
from gaussveil.report.figures import save
from gaussveil.studies.spectral import stream_figures
from gaussveil.studies.spectral.stream_receiver import PERIOD, WEEK, Home
from gaussveil.studies.spectral.stream_tables import (
    PAPER_BALL,
    POINTS,
    AsPrinted,
    sensitive_row,
    spectrum_ball,
    tables_2_and_3,
    trajectory_balls,
)
from gaussveil.studies.spectral.stream_utility import DRAWS, measure_all
from gaussveil.timeseries import welch_psd
from gaussveil.typing import Floats

FILE = "home_uci_5min_kw.csv.gz"


def read_home(folder: Path | None = None) -> Floats:
    """The single home, kW every five minutes."""
    path = (folder or Path(os.environ.get("GAUSSVEIL_DATA", "."))) / FILE
    if not path.is_file():
        raise MissingDataError(f"{FILE} was not found; name its folder, or set GAUSSVEIL_DATA to it")
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)


def distances(home: Home) -> list[dict[str, float]]:
    """Figures 1b and 3: consecutive stretches drift apart in time, their spectra do not."""
    rows = []
    for weeks in (1, 2, 3, 4, 6, 8, 9):
        size = weeks * WEEK
        one, other = home.public[:size], home.public[size : 2 * size]
        spectra = [welch_psd(part, POINTS, period=PERIOD) for part in (one, other)]
        rows.append(
            {
                "weeks": weeks,
                "time_kw": float(np.linalg.norm(one - other)),
                "spectrum_kw2h": float(np.linalg.norm(spectra[0] - spectra[1])),
            }
        )
    return rows


def figures(home: Home) -> dict[str, Figure]:
    """Figures 1 to 6 of the paper, and what a receiver makes of our streams."""
    printed = AsPrinted.of(home, PAPER_BALL)
    return {
        "figure-1-demand": stream_figures.demand_figure(home, distances(home)),
        "figure-2-lengths": stream_figures.lengths_figure(home),
        "figure-3-distances": stream_figures.distance_figure(distances(home)),
        "figure-4-private": stream_figures.private_figure(home, PAPER_BALL, spectrum_ball(home)),
        "figure-5-filters": stream_figures.filters_figure(printed),
        "figure-6-streams": stream_figures.streams_figure(home, printed, trajectory_balls(home)),
        "smoothed": stream_figures.smoothed_figure(home),
    }


def main(data: Path | None = None, out: Path | None = None, draws: int = DRAWS) -> dict[str, Any]:
    """Run everything; figures and `spectral.json` go to `out`."""
    home = Home.of(read_home(data))
    result: dict[str, Any] = {
        "sensitive": sensitive_row(home),
        "distances": distances(home),
        "spectrum_ball_kw2h": float(spectrum_ball(home)),
        "trajectory_balls_kw": trajectory_balls(home),
        "tables_2_and_3": [asdict(row) for row in tables_2_and_3(home)],
        "refutation": AsPrinted.of(home, PAPER_BALL).refutation(home),
        "streams": [asdict(row) for row in measure_all(home, draws)],
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, figure in figures(home).items():
            save(figure, out / f"{name}.svg")
        (out / "spectral.json").write_text(json.dumps(result, indent=1, default=dict), encoding="utf-8")
    return result


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:3]] + [None, None]
    print(json.dumps(main(folders[0], folders[1]), indent=1, default=dict))
