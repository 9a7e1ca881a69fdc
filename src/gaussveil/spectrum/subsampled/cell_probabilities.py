"""Probabilities of a step's losses between edges, under X and under Y, and how much one exceeds the other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

MOST_MERGED = 12  # cells below the largest loss that are joined to one whose mean is above its node
CELL_ERROR = 2e-13  # relative error of a cell's probability, and of how much a density exceeds the other one there


class CellProbabilities(NamedTuple):
    """Probabilities of outputs between places, and how much X's exceeds Y's; each to a relative error."""

    under_x: Floats
    under_y: Floats
    excess: Floats  # X's probability less Y's
    scale: Floats  # what the error of the excess is relative to

    def lift(self, losses: Floats) -> tuple[Floats, Floats]:
        """How much X's probabilities exceed Y's times e^loss, and a bound on the error."""
        level = np.expm1(losses)
        grown = self.under_y * np.exp(losses)
        near = (
            losses > -0.7
        )  # else next to nothing of Y's is X's, and the excess would lose its digits
        excess = np.where(
            near, self.excess - self.under_y * level, self.under_x - grown
        )
        size = np.where(
            near, self.scale + self.under_y * np.abs(level), self.under_x + grown
        )
        return excess, 8.0 * CELL_ERROR * size


def normal_between(edges: Floats) -> Floats:
    """P(edges[k] < z < edges[k + 1]) of a normal z, each to a relative error of 1e-13."""
    low = edges[:-1]
    high = edges[1:]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        width = high - low
        middle = 0.5 * (low + high)
        flip = middle > 0.0
        far = scipy.special.ndtr(np.where(flip, -low, high)) - scipy.special.ndtr(
            np.where(flip, -high, low)
        )
        square = middle * middle
        bend = width * width
        series = 1.0 + bend * (
            (square - 1.0) / 24.0
            + bend * (square * square - 6.0 * square + 3.0) / 1920.0
        )
        near = width * np.exp(-0.5 * square) / math.sqrt(2.0 * math.pi) * series
        small = width * (1.0 + np.abs(middle)) < 0.04
    return np.asarray(np.where(small, near, far))


def place(step: Step, losses: Floats) -> Floats:
    """The output at which the loss of X from Y (not exchanged) has a value; infinite where none has."""
    noise = step.noise_multiplier
    rate = step.sampling_rate
    with np.errstate(all="ignore"):
        if rate == 1.0 and not step.replace:
            return np.asarray(noise * losses + 0.5 / noise)
        if step.replace:
            size = np.abs(losses)
            pull = (1.0 - rate) * -np.expm1(
                -size
            )  # of the quadratic equation for the record's likelihood ratio
            root = np.sqrt(pull * pull + 4.0 * rate * rate * np.exp(-size - noise**-2))
            output = noise * (size + np.log((pull + root) / (2.0 * rate))) + 0.5 / noise
            return np.asarray(np.copysign(np.maximum(output, 0.0), losses))
        raised = np.expm1(losses) + rate
        output = (
            noise * np.log(np.where(raised > 0.0, raised, 0.0) / rate) + 0.5 / noise
        )
        output = np.where(
            losses > 600.0, noise * (losses - math.log(rate)) + 0.5 / noise, output
        )
        return np.asarray(np.where(raised > 0.0, output, -np.inf))


def cell_probabilities(step: Step, edges: Floats) -> CellProbabilities:
    """Probabilities of losses between edges, in ascending order."""
    check_work()
    if not step.backward:
        places = place(step, edges)
    else:
        places = -place(step, -edges)
    shift = 1.0 / step.noise_multiplier * (-1.0 if step.backward else 1.0)
    plain = normal_between(places)
    moved = step.sampling_rate * normal_between(places - shift)
    kept = (1.0 - step.sampling_rate) * plain
    if step.replace:
        other = step.sampling_rate * normal_between(places + shift)
        return CellProbabilities(
            kept + moved, kept + other, moved - other, moved + other
        )
    both = moved + step.sampling_rate * plain
    if step.backward:
        return CellProbabilities(
            plain, kept + moved, step.sampling_rate * plain - moved, both
        )
    return CellProbabilities(
        kept + moved, plain, moved - step.sampling_rate * plain, both
    )


def common_loss(step: Step, interval: float) -> float:
    """The mean of the losses in a cell below 0, or in the one around 0 where losses have no lower end."""
    if step.sampling_rate == 1.0:
        return 0.0
    infimum = lowest_loss(step)
    mean = 0.0
    for _ in range(3):
        if infimum > -math.inf:
            low = -math.inf
        else:
            low = mean - 0.5 * interval
        cell = cell_probabilities(
            step, np.array([low, max(mean, infimum) + 0.5 * interval])
        )
        if not cell.under_y[0] > 0.0:
            return 0.0
        mean = math.log1p(float(cell.excess[0] / cell.under_y[0]))
    return mean


def lowest_loss(step: Step) -> float:
    """Infimum of the loss."""
    if step.replace or step.backward or step.sampling_rate == 1.0:
        return -math.inf
    return step.floor


def nodes_with_mass(step: Step, nodes: Floats, interval: float, end: float) -> int:
    """How many nodes have mass: the last one's cell, up to the end, has its mean above it, as no next one can pay."""
    for last in range(nodes.size - 1, max(nodes.size - MOST_MERGED, 0), -1):
        edges = np.array([nodes[last] - 0.5 * interval, end])
        lift, error = cell_probabilities(step, edges).lift(nodes[last : last + 1])
        if lift[0] > error[0]:
            return last + 1
    return nodes.size


def shares_kept(under_y: Floats, down: Floats) -> Floats:
    """The share of each node's mass that stays where its mean is below the node: the next one pays with what stays."""
    kept = np.ones_like(down)
    for _ in range(40):
        payable = 0.45 * np.append((kept * under_y)[1:], 0.0)
        share = np.where(down > payable, payable / np.maximum(down, 1e-300), 1.0)
        if np.array_equal(share, kept):
            return kept
        kept = np.minimum(kept, share)
    return np.where(down > 0.0, 0.0, 1.0)
