"""The terms of a long composition, condensed: few terms whose K is the same in doubles (see docs/math/spectrum).

Cells that halve towards the ends of the range of gaps and towards zero have a Gauss rule with NODES nodes each.
Multiplicities and energies are two measures, each with nodes of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum.terms import Terms, folded
from gaussveil.typing import Floats

Places = NDArray[np.intp]
CELL_NODES = 12
WORTH_CONDENSING = 4 * CELL_NODES  # terms of a cell that is worth condensing
LONG = 500  # terms of a loss that is


def condensed(terms: Terms) -> Terms:
    """Terms with the same K, fewer of them where a single loss in NumPy's arrays has many."""
    gap = terms.variance_gap
    if not isinstance(gap, np.ndarray) or gap.size != gap.shape[-1] or gap.size < LONG:
        return terms
    columns = np.array(
        folded(*(column.reshape(-1) for column in terms.columns())).columns()
    )
    cell = _cells(columns[0])
    order = np.argsort(cell, kind="stable")
    columns = columns[:, order]
    cell = cell[order]
    _, sizes = np.unique(cell, return_counts=True)
    many = (sizes >= WORTH_CONDENSING) & (cell[np.cumsum(sizes) - 1] != 0)
    inside = np.repeat(many, sizes)
    sizes = sizes[many]
    if not sizes.size:
        return Terms(*(column.reshape(*terms.batch_shape, -1) for column in columns))
    gap, log_ratio, *weights = columns[:, inside]
    starts = np.cumsum(sizes) - sizes
    nodes, masses = _gauss(gap, np.array(weights), starts, sizes)
    # Logs of ratios enter K by their weighted sum alone, so that all nodes of a cell have the mean.
    total, drift = (
        np.add.reduceat(weights[0] * factor, starts)
        for factor in (np.ones_like(gap), log_ratio)
    )
    logs = np.array(
        [
            np.repeat(drift / np.where(total > 0, total, 1.0), CELL_NODES),
            np.log1p(-nodes[1]),
        ]
    )
    left = columns[:, ~inside]
    shape = (*terms.batch_shape, -1)
    none = np.zeros_like(nodes[0])
    rows = np.concatenate(
        (
            left,
            [nodes[0], logs[0], masses[0], none],
            [nodes[1], logs[1], none, masses[1]],
        ),
        axis=1,
    )
    return Terms(
        *(column.reshape(shape) for column in rows[:, (rows[2] > 0) | (rows[3] > 0)])
    )


def _cells(gap: Floats) -> Floats:
    """A whole number for each gap; 0 for the ends of the range and zero itself, which stay as they are."""
    end = np.where(gap < 0, gap.min(), gap.max())
    near_zero = np.abs(gap)
    near_end = np.abs(gap - end)
    _, level = np.frexp(np.minimum(near_zero, near_end))
    number = np.sign(gap) * (2.0 * (level + 2000) + (near_end < near_zero))
    return np.where((near_zero > 0) & (near_end > 0), number, 0.0)


def _gauss(
    gap: Floats, weight: Floats, starts: Places, sizes: Places
) -> tuple[Floats, Floats]:
    """Nodes and weights of the Gauss rules of all cells, for each row of weights: Stieltjes' recurrence."""
    low = np.minimum.reduceat(gap, starts)
    high = np.maximum.reduceat(gap, starts)
    middle = (low + high) / 2
    reach = np.where(high > low, high - low, 1.0) / 2
    spot = (gap - np.repeat(middle, sizes)) / np.repeat(reach, sizes)
    mass = np.add.reduceat(weight, starts, axis=1)
    jacobi = np.zeros((*mass.shape, CELL_NODES, CELL_NODES))
    before = np.zeros_like(weight)
    now = np.repeat(1 / np.sqrt(np.where(mass > 0, mass, 1.0)), sizes, axis=1)
    for step in range(CELL_NODES):
        tilted = spot * now
        jacobi[..., step, step] = centre = np.add.reduceat(
            weight * now * tilted, starts, axis=1
        )
        if step + 1 == CELL_NODES:
            break
        following = tilted - np.repeat(centre, sizes, axis=1) * now - before
        length = np.sqrt(
            np.add.reduceat(weight * following * following, starts, axis=1)
        )
        jacobi[..., step + 1, step] = length
        following /= np.repeat(np.where(length > 0, length, 1.0), sizes, axis=1)
        before = np.repeat(length, sizes, axis=1) * now
        now = following
    spots, vectors = np.linalg.eigh(jacobi)
    nodes = middle[:, None] + reach[:, None] * np.clip(spots, -1.0, 1.0)
    return nodes.reshape(2, -1), (mass[..., None] * vectors[..., 0, :] ** 2).reshape(
        2, -1
    )
