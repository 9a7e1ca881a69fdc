"""Tables of which something is found first: two keys that nobody listed; the ranges of a variance and of a quantile.

All raw draws of a request side by side: those that find, then those that use what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.accounting import Certificate
from gaussveil.mechanisms import Count, Quantile, TableRelease, Variance
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.mechanisms.table.nominal import as_planned
from gaussveil.mechanisms.table.quantiles import ROUND_SHARES, QuantileSearch
from gaussveil.statistics import discover

from .table_cases import RecordedDraws, _recorded

Matrix = NDArray[np.float64]
Blocks = Callable[[Certificate], list[tuple[Matrix, int]]]
KEYS = {"zone": "ab", "kind": "xy"}


def _case(
    name: str,
    build: Callable[..., TableRelease],
    drawn: Callable[[RecordedDraws], Matrix],
    blocks: Blocks,
    centre: Callable[[Any], Matrix],
    **data: Any,
) -> dict[str, Any]:
    """A case whose certificate declares blocks of noise: (covariance, how many independent draws of it)."""

    def draws(mechanism: TableRelease, table: pa.Table, count: int) -> Matrix:
        made = _recorded(mechanism, table)
        planned, outputs = made.noise, []
        for _ in range(count):
            made.noise, made.spent, made.draws = planned, 0.0, 0
            made.outputs.clear()
            made.read.pop("totals", None)
            outputs.append(drawn(made))
        return np.array(outputs)

    def whitened(certificate: Certificate, noise: Matrix) -> Matrix:
        made, place = [], 0
        for covariance, times in blocks(certificate):
            part = noise[:, place : (place := place + len(covariance) * times)].reshape(-1, len(covariance))
            made.append(np.linalg.solve(np.linalg.cholesky(covariance), part.T).T.reshape(len(noise), -1))
        assert place == noise.shape[1]
        return np.hstack(made)

    def grid(certificate: Certificate) -> float:
        shapes = [((times, len(covariance)), covariance) for covariance, times in blocks(certificate)]
        return min(noise_design(one, shape, int(np.prod(shape))).grid for shape, one in shapes)

    worst = centre(data["neighbour"]) - centre(data["value"])
    return {
        "name": name,
        "build": build,
        "centre": centre,
        "draws": draws,
        "residuals": whitened,
        "score": lambda certificate, noise: np.asarray(
            whitened(certificate, noise) @ whitened(certificate, worst[None])[0]
        ),
        "malformed": (None, data["value"].drop_columns(["home"]), data["value"].drop_columns(["zone"])),
        "grid": grid,
        **data,
    }


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    homes, zones, kinds, kw = zip(*rows) if rows else ((),) * 4
    texts = {name: pa.array(cells, pa.string()) for name, cells in (("home", homes), ("zone", zones), ("kind", kinds))}
    return pa.table(texts | {"kw": pa.array(kw, pa.float64())})


_ODD = [
    (None, "a", "x", 1.0),
    ("h9", None, "x", np.nan),
    ("h9", "nowhere", "\u202e\U0001f4a1", np.inf),
    ("", "", "", -0.0),
]


def table_discovery(name: str) -> dict[str, Any]:
    """Two keys that nobody listed, then counts; the neighbour has one home more, with as many values as may count."""

    def build(**changes: Any) -> TableRelease:
        by = {"zone": discover("zone"), "kind": discover("kind", per_unit=2)}
        return TableRelease(**{"unit": "home", "by": by, "answers": Count(), **changes})

    def drawn(made: RecordedDraws) -> Matrix:
        made.keys()
        orders = [np.argsort(made.read[f"keys {key}"][0].to_pylist()) for key in ("zone", "kind")]
        made.outputs[:] = [one[order] for one, order in zip(made.outputs, orders)]
        made.noise = as_planned(made.noise, made.noise.request.with_values({"zone": ["a", "b"], "kind": ["x", "y"]}))
        made.rows()
        return np.concatenate(made.outputs)

    def blocks(certificate: Certificate) -> list[tuple[Matrix, int]]:
        losses: Any = certificate.parameters["squared losses"]
        declared: Any = certificate.parameters["noise variances"]
        own, shared = declared["rows"]
        keys = [(np.array([[per_unit / losses[f"keys {key}"]]]), 2) for key, per_unit in (("zone", 1), ("kind", 2))]
        return [*keys, (own * np.eye(4) + shared, 1)]

    def centre(data: pa.Table) -> Matrix:
        rows = data.to_pylist()
        found = [[len({row["home"] for row in rows if row[key] == v}) for v in vs] for key, vs in KEYS.items()]
        cells = [(zone, kind) for zone in KEYS["zone"] for kind in KEYS["kind"]]
        pairs = {(row["home"], row["zone"], row["kind"]) for row in rows}
        return np.concatenate([*found, [sum(pair[1:] == cell for pair in pairs) for cell in cells]]).astype(float)

    homes = [("h1", "a", "x", 1.0), ("h1", "a", "y", 1.0), ("h2", "b", "x", 2.0), ("h3", "b", "y", 2.0)]
    greedy = [("greedy", "a", kind, 1.0) for kind in "xy" for _ in range(7)]
    return _case(
        name,
        build,
        drawn,
        blocks,
        centre,
        value=_table(homes),
        neighbour=_table(homes + greedy),
        bad_records=(_table(homes + _ODD), _table(_ODD), _table([])),
    )


def table_ranges(name: str) -> dict[str, Any]:
    """Sizes of values, then what is clipped to the range they suggest; nobody against one home beyond every range."""
    search = Quantile("kw", 0.3, bounds="auto")

    def build(**changes: Any) -> TableRelease:
        answers = [Variance("kw", bounds="auto"), search]
        return TableRelease(
            **{"unit": "home", "by": {"zone": ["a", "b"]}, "answers": answers, "rows_per_group": 2, **changes}
        )

    def drawn(made: RecordedDraws) -> Matrix:
        made.noise = as_planned(made.noise, made.noise.request.with_ranges(made.ranges()))
        made.rows()
        made.searched()
        return np.concatenate(made.outputs)

    def blocks(certificate: Certificate) -> list[tuple[Matrix, int]]:
        losses: Any = certificate.parameters["squared losses"]
        declared: Any = certificate.parameters["noise variances"]
        own, shared = declared["rows"]
        rounds = QuantileSearch(search, False, losses["quantile 0"], 2.0 * 2**2)
        found = [(np.eye(1) / losses["range kw"], len(OCTAVES) - 1), (own * np.eye(2) + shared, 1)]
        found += [(np.eye(1) * variance, 2) for variance in declared["features"]]
        return found + [(rounds.covariance(number), 2) for number in range(len(ROUND_SHARES))]

    sizes = [
        len(one)
        for one, _ in blocks(build(epsilon=1.0, delta=0.2).release(_table([])).certificate)[-len(ROUND_SHARES) :]
    ]

    def centre(data: pa.Table) -> Matrix:
        here = float(data.num_rows > 0)
        octaves = np.zeros(len(OCTAVES) - 1)
        octaves[-1] = here
        rows = 2 * here * np.repeat([1.0, -1.0, 1.0], 2)  # counts, places at the lower end, squares at the upper
        rounds = [np.tile([2 * here] + [0.0] * (size - 1), 2) for size in sizes]
        return np.concatenate([octaves, rows, *rounds])

    greedy = [("greedy", zone, "x", -1e300) for zone in "ab" for _ in range(9)]
    return _case(
        name,
        build,
        drawn,
        blocks,
        centre,
        value=_table([]),
        neighbour=_table(greedy),
        bad_records=(_table(_ODD), _table(greedy + _ODD)),
    )
