"""OpenDP's side of bench_table.py, in an environment of its own: `python opendp_answers.py TABLE ROWS_PER_CELL...`.

Of bench_table_laws.py: `python opendp_answers.py --cell ROWS GROUPS LARGEST`, a count and a sum by eight zones.

Each workload is asked as OpenDP's documentation shows: identifier, truncation per group, keys, aggregates. Printed is
the standard deviation that OpenDP itself states for each noise (`summarize`), the better of its (epsilon, delta) and of
zero-concentrated privacy converted to the same (epsilon, delta); of quantiles the law and scale of the noise on scores.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from typing import Any

import opendp.prelude as dp
import polars as pl

EPSILON, DELTA = 1.0, 1e-6
EDGES = [0.0, 0.5, 1.0, 2.0, 4.0, 10.0]

dp.enable_features("contrib")
warnings.simplefilter("ignore")


def rho() -> float:
    """Largest rho whose conversion (Canonne, Kamath and Steinke 2020) gives (epsilon, delta)."""

    def delta(value: float) -> float:
        orders = [1 + 10 ** (k / 200) for k in range(-400, 800)]
        return min(
            math.exp((a - 1) * (a * value - EPSILON) + a * math.log1p(-1 / a)) / (a - 1)
            for a in orders
            if (a - 1) * (a * value - EPSILON) < 700
        )

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) <= DELTA else (low, middle)
    return low


LOSSES = (dp.loss_of(epsilon=EPSILON, delta=DELTA), dp.loss_of(rho=rho()))


MOST_ROWS = [10**8]


def query(table: pl.LazyFrame, loss: Any) -> Any:
    margins = [dp.polars.Margin(max_length=MOST_ROWS[0])]  # enters the noise of sums of floats
    unit = dp.unit_of(contributions=1, identifier=pl.col("home"))
    return dp.Context.compositor(
        data=table, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1, margins=margins
    ).query()


def deviations(
    table: pl.LazyFrame, keys: dict[str, list[int]], rows: int, aggregates: list[Any], most_groups: int | None = None
) -> list[float]:
    """Standard deviation of each aggregate's noise."""
    names = list(keys)
    listed = pl.LazyFrame({"__": [0]})
    for name, values in keys.items():
        listed = listed.join(pl.LazyFrame({name: pl.Series(values, dtype=pl.Int32)}), how="cross")
    groups = most_groups or math.prod(map(len, keys.values()))
    found = []
    table = table.head(10)  # what is stated does not depend on the rows
    for loss in LOSSES:
        asked = query(table, loss).truncate_per_group(rows, by=names).truncate_num_groups(groups, by=names)
        asked = asked.group_by(names).agg(*aggregates).with_keys(listed.select(names))
        stated = asked.summarize()
        laplace = [1.4142135623730951 if "Laplace" in one else 1.0 for one in stated["distribution"]]
        found.append([scale * factor for scale, factor in zip(stated["scale"], laplace)])
    return min(found, key=sum)


def median_laws(table: pl.LazyFrame, rows: int, count: int, by: list[str]) -> list[tuple[str, float]]:
    """Law and scale, under each loss, of the noise on the scores of a median's candidates, one of `count` quantiles.

    A candidate's score is the difference between the rows below it and above; the least noisy score wins.
    """
    asked = [pl.col("kw").fill_null(0.0).dp.quantile(0.5, [1.0, 2.0]).alias(f"q{k}") for k in range(count)]
    found = []
    for loss in LOSSES:
        made = query(table.head(10), loss).truncate_per_group(rows, by=by)
        if by:
            keys = pl.LazyFrame({"hour": pl.Series(range(24), dtype=pl.Int32)})
            stated = made.truncate_num_groups(24, by=by).group_by(by).agg(*asked).with_keys(keys).summarize()
        else:
            stated = made.select(*asked).summarize()
        found.append((stated["distribution"][0], stated["scale"][0]))
    return found


def main(path: str, per_hour: int, per_day_hour: int, per_day: int) -> None:
    table = pl.read_parquet(path).lazy()
    MOST_ROWS[0] = 2 * pl.read_parquet(path).height
    binned = table.with_columns(
        pl.col("kw").cut(EDGES[1:-1], labels=list("abcde")).to_physical().cast(pl.Int32).alias("bin")
    )
    hours, days = list(range(24)), list(range(7))
    total = pl.col("kw").fill_null(0.0).dp.sum(bounds=(0.0, 10.0))
    answer = {
        "count by hour": deviations(table, {"hour": hours}, per_hour, [dp.len()]),
        "sum by hour": deviations(table, {"hour": hours}, per_hour, [total]),
        "mean by hour": deviations(table, {"hour": hours}, per_hour, [dp.len(), total]),
        "mean by hour of the week": deviations(table, {"day": days, "hour": hours}, per_day_hour, [dp.len(), total]),
        "count and sum by weekday": deviations(table, {"day": days}, per_day, [dp.len(), total]),
        "histogram by hour": deviations(binned, {"hour": hours, "bin": list(range(5))}, per_hour, [dp.len()]),
        "median by hour": median_laws(table, per_hour, 1, ["hour"]),
        "nine deciles": median_laws(table, 7 * per_day, 9, []),
        "one median": median_laws(table, 7 * per_day, 1, []),
    }
    print(json.dumps(answer))


def cell(rows: int, groups: int, largest: float) -> None:
    """A count and a sum by eight zones, both together, for so many rows and groups of a unit."""
    table = pl.LazyFrame({"home": range(8), "zone": pl.Series(range(8), dtype=pl.Int32), "kw": [1.0] * 8})
    MOST_ROWS[0] = 10**6
    asked = [dp.len(), pl.col("kw").fill_null(0.0).dp.sum(bounds=(0.0, largest))]
    print(json.dumps(deviations(table, {"zone": list(range(8))}, rows, asked, groups)))


if __name__ == "__main__" and sys.argv[1] == "--cell":
    cell(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
elif __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
