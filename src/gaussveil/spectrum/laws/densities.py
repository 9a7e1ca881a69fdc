"""Two densities as probabilities of finitely many answers, never below the truth (derived: docs/math/profiles).

The support is cut into cells. Moving a cell's answers to two losses that hold all of its own, both probabilities kept,
only tells more; reporting the cell tells less. What quadrature leaves open is charged as answers that reveal all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussveil.checks import real, refuse
from gaussveil.errors import ParameterError
from gaussveil.typing import Floats

FIRST_CELLS = 2048
MOST_CELLS = 2**16
DEEPEST = 60  # halvings of a cell
NODES = 1990  # losses that are told apart
FINE = (
    1e-17  # of a cell's probability that quadrature may leave open before it is halved
)
TAIL = 1e-24  # of a distribution of SciPy
LITTLE = 1e-17  # probability of losses that are charged instead of kept
GIVEN_UP = 2.0**-43
GAUSS = [np.polynomial.legendre.leggauss(order) for order in (10, 16)]
Masses = tuple[Floats, Floats]


class DensityCells(NamedTuple):
    """Lower ends of both probabilities of each cell, what may be added to them, and the ends of its losses."""

    under_x: Floats
    under_y: Floats
    open_x: Floats
    open_y: Floats
    low: Floats
    high: Floats


def of_densities(
    p: Any,
    q: Any,
    support: tuple[float, float] | None,
    breaks: Sequence[float],
    error: float,
) -> tuple[Masses, Masses, float]:
    """Probabilities that dominate, those of the cells, and the total variation by which the latter may be wrong."""
    error = real("error", error, "[0, 0.1]")
    low, high, inside = _interval((p, q), support, breaks)
    cells = _cells(_density(p), _density(q), np.unique([low, *inside, high]))
    missing = []
    for name, column, rest in (
        ("p", cells.under_x, cells.open_x),
        ("q", cells.under_y, cells.open_y),
    ):
        total = math.fsum(column)
        if total > 1.0 + 1e-9 or 1.0 - total > max(error, 1e-9) + math.fsum(rest):
            refuse(
                name,
                f"a density that integrates to 1 over the support but for error = {error:g}",
                total,
            )
        missing.append(max(1.0 - total, 0.0))
    return _raised(cells), _merged(cells), math.fsum(missing) + 1e-12


def _density(law: Any) -> Any:
    return law.pdf if hasattr(law, "pdf") else law


def _interval(
    laws: tuple[Any, Any], support: tuple[float, float] | None, breaks: Sequence[float]
) -> tuple[float, float, list[float]]:
    """Ends of the support and places inside where a density may have a kink."""
    named = [law for law in laws if hasattr(law, "pdf") and hasattr(law, "ppf")]
    inside = [float(place) for place in breaks]
    for law in named:
        inside += [float(end) for end in (*law.support(), law.ppf(0.5))]
    if support is None:
        low, high = _quantiles(named)
    else:
        low = real("support", support[0], "(-inf, inf)")
        high = real("support", support[1], "(-inf, inf)")
    if not -math.inf < low < high < math.inf:
        refuse("support", "an interval of positive, finite length", support)
    return low, high, sorted(place for place in inside if low < place < high)


def _quantiles(named: Sequence[Any]) -> tuple[float, float]:
    """Where next to nothing of two distributions lies outside; densities that are functions do not tell."""
    if len(named) < 2:
        raise ParameterError(
            "'support' must be given for densities that are functions: the interval in which answers are told apart."
        )
    low = min(float(law.ppf(TAIL)) for law in named)
    high = max(float(law.isf(TAIL)) for law in named)
    return low, high


def _cells(p: Any, q: Any, edges: Floats) -> DensityCells:
    """Cells between the edges, halved until quadrature agrees with itself."""
    total = edges[-1] - edges[0]
    counts = np.maximum(np.ceil(FIRST_CELLS * np.diff(edges) / total), 4).astype(int)
    pieces = [
        np.linspace(a, b, n + 1) for a, b, n in zip(edges[:-1], edges[1:], counts)
    ]
    left = np.concatenate([piece[:-1] for piece in pieces])
    right = np.concatenate([piece[1:] for piece in pieces])
    done: list[DensityCells] = []
    kept = 0
    widest = math.inf
    for depth in range(DEEPEST + 1):
        looked_at = _looked_at(p, q, left, right)
        mass = looked_at.under_x + looked_at.under_y
        counts_for = mass > LITTLE
        spread = np.where(counts_for, looked_at.high - looked_at.low, 0.0)
        if depth == 0 and counts_for.any():
            reach = looked_at.high[counts_for].max() - looked_at.low[counts_for].min()
            widest = float(reach) / (2 * NODES)
        open_ = looked_at.open_x + looked_at.open_y > FINE + 2.0**-40 * mass
        last = depth == DEEPEST or kept + 2 * left.size > MOST_CELLS
        halve = (open_ | (spread > widest)) & (not last)
        done.append(DensityCells(*(column[~halve] for column in looked_at)))
        kept += int((~halve).sum())
        if not halve.any():
            break
        middle = 0.5 * (left + right)
        left, right = (
            np.concatenate([left[halve], middle[halve]]),
            np.concatenate([middle[halve], right[halve]]),
        )
    return DensityCells(*(np.concatenate(column) for column in zip(*done)))


def _looked_at(p: Any, q: Any, left: Floats, right: Floats) -> DensityCells:
    """Both probabilities of each cell by two rules, and the ends of its losses, widened by how they bend."""
    half = 0.5 * (right - left)
    middle = 0.5 * (left + right)
    masses = []
    for law, name in ((p, "p"), (q, "q")):
        rules = []
        for nodes, weights in GAUSS:
            places = middle[:, None] + half[:, None] * nodes
            values = _values(law, name, places)
            rules.append(half * (values @ weights))
        masses.append((rules[1], 2.0 * np.abs(rules[1] - rules[0])))
    nodes = np.concatenate([[-1.0], GAUSS[1][0], [1.0]])
    places = np.clip(
        middle[:, None] + half[:, None] * nodes, left[:, None], right[:, None]
    )
    places[:, 0] += 1e-9 * half  # inside, where a density jumps at an edge
    places[:, -1] -= 1e-9 * half
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(_values(p, "p", places)) - np.log(_values(q, "q", places))
    straight = losses[:, :1] + (losses[:, -1:] - losses[:, :1]) * 0.5 * (1.0 + nodes)
    with np.errstate(invalid="ignore"):
        bend = np.abs(losses - straight).max(axis=1)
    finite = np.isfinite(losses).all(axis=1)
    bend = np.where(finite, bend, 0.0) + 2.0**-46 * (
        1.0 + np.where(finite, np.abs(losses).max(axis=1), 0.0)
    )
    low = np.where(finite, losses.min(axis=1), -math.inf) - bend
    high = np.where(finite, losses.max(axis=1), math.inf) + bend
    (under_x, open_x), (under_y, open_y) = masses
    rounded = 2.0**-48
    return DensityCells(
        np.maximum(under_x - open_x - rounded * under_x, 0.0),
        np.maximum(under_y - open_y - rounded * under_y, 0.0),
        2.0 * open_x + 2.0 * rounded * under_x,
        2.0 * open_y + 2.0 * rounded * under_y,
        low,
        high,
    )


def _values(law: Any, name: str, places: Floats) -> Floats:
    values = np.broadcast_to(
        np.asarray(law(places), dtype=np.float64), places.shape
    ).copy()
    if not (np.isfinite(values).all() and values.min() >= 0.0):
        refuse(
            name,
            "a density: finite and nowhere negative",
            float(values.flat[np.argmin(values)]),
        )
    return values


def _raised(cells: DensityCells) -> Masses:
    """Probabilities at equally spaced losses; all that they lack to 1 reveals which law it is."""
    under_x = cells.under_x * (1.0 - GIVEN_UP)
    under_y = cells.under_y * (1.0 - GIVEN_UP)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.log(under_x) - np.log(under_y)
    finite = np.isfinite(own) & np.isfinite(cells.low) & np.isfinite(cells.high)
    low = np.where(finite, np.minimum(cells.low, own), math.inf)
    high = np.where(finite, np.maximum(cells.high, own), -math.inf)
    top = _least_reach(high, under_x)
    bottom = -_least_reach(-low, under_y)
    kept = finite & (high <= top) & (low >= bottom)
    if not kept.any():
        return np.array([1.0, 0.0]), np.array([0.0, 1.0])
    under_x, under_y, low, high = (
        column[kept] for column in (under_x, under_y, low, high)
    )
    first = float(low.min())
    width = max(float(high.max()) - first, 1e-12)
    losses = first + width * np.linspace(0.0, 1.0, NODES + 1)
    before = np.clip(np.searchsorted(losses, low, side="right") - 1, 0, NODES - 1)
    after = np.clip(np.searchsorted(losses, high), before + 1, NODES)
    gap = losses[after] - losses[before]
    share = np.expm1(np.log(under_x) - np.log(under_y) - losses[before]) / np.expm1(gap)
    share = np.clip(share, 0.0, 1.0)  # of the second law, at the higher loss
    q = np.zeros(NODES + 1)
    np.add.at(q, after, under_y * share)
    np.add.at(q, before, under_y * (1.0 - share))
    p = q * np.exp(losses)
    used = q > 0.0
    p = p[used]
    q = q[used]
    return (
        np.append(p, [max(1.0 - math.fsum(p), 0.0), 0.0]),
        np.append(q, [0.0, max(1.0 - math.fsum(q), 0.0)]),
    )


def _least_reach(losses: Floats, mass: Floats) -> float:
    """The loss above which lies next to no probability."""
    order = np.argsort(-losses)
    beyond = np.cumsum(mass[order])
    place = int(np.searchsorted(beyond, LITTLE))
    return float(losses[order[min(place, losses.size - 1)]])


def _merged(cells: DensityCells) -> Masses:
    """Cells of about the same loss reported as one: that tells less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.clip(np.log(cells.under_x) - np.log(cells.under_y), -1e3, 1e3)
    own = np.where(np.isnan(own), 0.0, own)
    count = min(NODES, own.size)
    place = np.minimum(
        ((own - own.min()) / max(float(own.max() - own.min()), 1e-12) * count).astype(
            int
        ),
        count - 1,
    )
    p, q = (
        np.bincount(place, column, count) for column in (cells.under_x, cells.under_y)
    )
    used = (p > 0.0) | (q > 0.0)
    return p[used] / p.sum(), q[used] / q.sum()
