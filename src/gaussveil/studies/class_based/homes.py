"""Class-label noise on real homes (class-based paper, section VI), against white noise: worst deltas; run with

    python -m gaussveil.studies.class_based.homes [folder of the data sets]

100 of 404 Swiss homes, 15 days of 15-minute readings, 12 steps ahead, six clusters. A forecast is a constant (model (a)
of K5). Residual forecasts of similar homes are so close together that the centre of the cluster meets the accuracy by
itself: delta is then 0 and the release tells nothing of the home but its cluster. With the weekly mean left in, which
is what a release in kW needs, there is something to hide.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gaussveil.errors import MissingDataError
from gaussveil.mechanisms.forecast_models import HouseholdModels, closest_shift, white_shift
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Readings, read_readings

FILE = "ch_homes_15min_kw.csv.gz"
ACCURACIES = (0.45, 0.7, 1.0, 1.4)
EPSILONS = (0.1, 0.5, 1.0)
TRAINING_DAYS = 15
HORIZON = 12
CLUSTERS = 6


@dataclass(frozen=True)
class Row:
    """Worst delta over all clusters at one accuracy and epsilon.

    `centres` counts the clusters whose centre alone meets the accuracy; `retained` is the largest share of
    between-home variance that a cluster's release keeps, among the others.
    """

    season: bool
    accuracy: float
    epsilon: float
    ours: float
    white: float
    centres: int
    clusters: int
    retained: float


def read_homes(folder: Path | None = None, homes: int = 100, days: int = TRAINING_DAYS) -> Readings:
    """The first homes of the Swiss data set, over the training days or as many as asked for."""
    from pyarrow import csv

    place = folder or Path(os.environ.get("GAUSSVEIL_DATA", "."))
    path = place / FILE
    if not path.is_file():
        raise MissingDataError(f"{FILE} was not found; name its folder, or set GAUSSVEIL_DATA to it")
    readings = read_readings(csv.read_csv(path))
    return readings.window(0, days * readings.steps_per_day).select(readings.households[:homes])


def table(
    readings: Readings,
    *,
    clusters: int = CLUSTERS,
    horizon: int = HORIZON,
    accuracies: Sequence[float] = ACCURACIES,
    epsilons: Sequence[float] = EPSILONS,
) -> list[Row]:
    """Residual forecasts first, then with the weekly mean left in.

    The noise is the best one with a covariance common to a cluster. For constant queries it does not depend on epsilon:
    the smallest worst Mahalanobis distance is best at every epsilon.
    """
    models = HouseholdModels.fit(readings, clusters=clusters, smallest=3, floor=0.01, weekday_weight=1.0, order=(6, 5))
    rows = []
    for season in (False, True):
        found = models.queries(readings, range(len(readings)), horizon, season=season).forecast
        groups = [found[models.cluster == cluster] for cluster in range(len(models.sizes))]
        for accuracy in accuracies:
            noises = [closest_shift(group, accuracy) for group in groups]
            reach = max(shift for shift, _ in noises)
            white = max(white_shift(group, accuracy) for group in groups)
            kept = [retained for shift, retained in noises if shift > 0]
            for epsilon in epsilons:
                rows.append(
                    Row(
                        season,
                        accuracy,
                        epsilon,
                        _delta(reach, epsilon),
                        _delta(white, epsilon),
                        len(groups) - len(kept),
                        len(groups),
                        max(kept, default=0.0),
                    )
                )
    return rows


def _delta(shift: float, epsilon: float) -> float:
    return float(GaussianPair.mean_shift(shift).delta(epsilon)) if shift > 0 else 0.0


def described(rows: Sequence[Row]) -> str:
    """The table as text."""
    lines = ["forecast   rho   epsilon   ours       white      centre alone   variance kept"]
    for row in rows:
        name = "with week" if row.season else "residual "
        lines.append(
            f"{name}  {row.accuracy:4.2f}   {row.epsilon:5.2f}   {_shown(row.ours):>8}   {_shown(row.white):>8}   "
            f"{row.centres} of {row.clusters} clusters   {row.retained:.2f}"
        )
    return "\n".join(lines)


def remark(rows: Sequence[Row]) -> str:
    """What a delta of zero means."""
    alone = sorted({row.accuracy for row in rows if not row.season and row.centres == row.clusters})
    if not alone:
        return "Residual forecasts: at no accuracy does the centre of every cluster suffice."
    met = ", ".join(f"{accuracy:g}" for accuracy in alone)
    return (
        "Residual forecasts of similar homes are so close together that the centre of the cluster alone meets rho = "
        f"{met}: delta is 0, and the release tells nothing of the home but its cluster."
    )


def _shown(delta: float) -> str:
    """Three digits, of the complement where delta is close to 1."""
    return f"{delta:.3g}" if delta < 0.9995 else f"1-{1 - delta:.1g}"


def main(data: Path | None = None, out: Path | None = None) -> dict[str, Any]:
    """Print the table and, given `out`, write class_homes.json there."""
    begin = time.perf_counter()
    readings = read_homes(data)
    print(f"{len(readings)} homes, {TRAINING_DAYS} days, {HORIZON} steps ahead, {CLUSTERS} clusters")
    rows = table(readings)
    print(described(rows))
    print(remark(rows))
    print(f"{time.perf_counter() - begin:.0f} s")
    results = {"homes": len(readings), "rows": [asdict(row) for row in rows]}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "class_homes.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, Path("out"))
