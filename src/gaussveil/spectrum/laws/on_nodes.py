"""Laws by atoms and pieces on the nodes of a grid: above the law, or below it.

Above, each loss is split between the nodes beside it with its mean of e^loss under Y, which only tells more. Below,
what a cell has of a piece is reported as one answer, which tells less, and each loss is moved to a node: to the nearest
one where that is next to nothing away, which the whole sum's losses are lowered by, and else to the one below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gaussveil.spectrum.discrete.masses import LossMasses
from gaussveil.spectrum.laws.loss_law import LossLaw, scaled_sinhc
from gaussveil.typing import Floats

CANDIDATES = 512  # widths of which that is taken on whose multiples atoms lie best
NEAR = 0.02  # of a width, by which an atom may be above what it counts as
TRUSTED = 1e-12  # relative error of masses in doubles, with room
WIDEST = 0.05  # cell at which three places of Gauss stand for a piece, to 1e-15
PLACES = np.sqrt(0.6) * np.array([-1.0, 0.0, 1.0])
SHARES = np.array([5.0, 8.0, 5.0]) / 18.0


def ends_of(law: LossLaw) -> tuple[float, float]:
    """The least and the largest loss."""
    middle, half, _, _ = law.pieces
    everywhere = np.concatenate([law.losses, middle - half, middle + half])
    return float(everywhere.min()), float(everywhere.max())


def common_width(laws: Sequence[LossLaw], least: float) -> float:
    """A width from the given one to its double, on whose multiples the atoms and ends of pieces lie best."""
    places = np.concatenate(
        [np.append(law.losses, law.pieces[0] + law.pieces[1]) for law in laws]
    )
    places = np.abs(places[places != 0.0])
    if not places.size:
        return least
    smallest = float(places.min())
    if smallest < least:
        return least
    most = math.floor(smallest / least)
    counts = np.unique(
        np.linspace(max(most // 2, 1), most, CANDIDATES).astype(np.int64)
    )
    widths = smallest / counts
    away = np.multiply.outer(1.0 / widths, places)
    misfit = np.abs(away - np.round(away)).max(axis=1)
    return float(widths[int(np.argmin(misfit))])


def lowered_law(law: LossLaw, width: float) -> tuple[LossMasses, float]:
    """Masses on nodes below the law, and by how much their losses may be above the law's."""
    losses = [law.losses]
    masses = [law.masses]
    for middle, half, tilt, weight in law.pieces.T:
        first = math.floor((middle - half) / width - 0.5)
        last = math.ceil((middle + half) / width + 0.5)
        edges = (np.arange(first, last + 1) + 0.5) * width
        edges = np.unique(np.clip(edges, middle - half, middle + half))
        centre = 0.5 * (edges[1:] + edges[:-1]) - middle
        wide = 0.5 * np.diff(edges)
        kept = wide > 0.0
        centre = centre[kept]
        wide = wide[kept]
        ahead = scaled_sinhc(tilt * wide + 0.0j, 0.0j).real
        behind = scaled_sinhc((tilt - 1.0) * wide + 0.0j, 0.0j).real
        losses.append(middle + centre + np.log(ahead) - np.log(behind))
        masses.append(weight / half * wide * np.exp(tilt * centre) * ahead)
    loss = np.concatenate(losses)
    mass = np.concatenate(masses)
    node = np.round(loss / width)
    above = node * width - loss
    node = np.where(above > NEAR * width, node - 1.0, node)
    moved = max(float((node * width - loss).max()), 0.0) + 1e-15 * law.reach
    first = int(node.min())
    counts: Floats = np.zeros(int(node.max()) - first + 1)
    np.add.at(counts, (node - first).astype(np.int64), mass * (1.0 - TRUSTED))
    return LossMasses(width, first, counts, 0.0), moved


def raised_law(law: LossLaw, width: float) -> LossMasses:
    """Masses on nodes above the law."""
    losses = [law.losses]
    masses = [law.masses]
    for middle, half, tilt, weight in law.pieces.T:
        first = math.ceil((middle - half) / width)
        last = math.floor((middle + half) / width)
        edges = np.arange(first, last + 1) * width
        finer = math.ceil(2.0 * half * (1.0 + abs(tilt)) / WIDEST)
        ends = np.linspace(middle - half, middle + half, finer + 1)
        edges = np.unique(np.clip(np.append(edges, ends), ends[0], ends[-1]))
        centre = 0.5 * (edges[1:] + edges[:-1])
        wide = 0.5 * np.diff(edges)
        places = centre[:, None] + wide[:, None] * PLACES
        losses.append(np.ravel(places))
        density = weight / half * np.exp(tilt * (places - middle))
        masses.append(np.ravel(density * wide[:, None] * SHARES))
    loss = np.concatenate(losses)
    mass = np.concatenate(masses)
    node = np.floor(loss / width)
    above = np.clip(loss - node * width, 0.0, width)
    stays = mass * np.expm1(width - above) / math.expm1(width)
    moves = mass * np.expm1(-above) / math.expm1(-width)
    first = int(node.min())
    place = (node - first).astype(np.int64)
    counts = np.zeros(int(place.max()) + 2)
    counts += np.bincount(place, stays, counts.size)
    counts += np.bincount(place + 1, moves, counts.size)
    # a place a rounding away, or a mass, weighs less than this
    rounding = TRUSTED + 64.0 * 2.0**-52 * (law.reach + 1.0) / width
    up = np.roll(counts, 1)
    up[0] = 0.0
    return LossMasses(width, first, counts * (1.0 + TRUSTED) + rounding * up, 0.0)
