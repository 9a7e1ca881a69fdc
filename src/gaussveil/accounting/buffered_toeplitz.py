"""Buffered linear Toeplitz strategies: the best buffers for prefix sums, what they hide and how large the error is.

Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, Efficient and Near-Optimal Noise Generation for Streaming
Differential Privacy. A strategy C is lower triangular and Toeplitz with c_0 = 1 and c_t = sum of scale_d decay_d^(t-1);
the noise of prefix sums is A C^-1 z, A the lower triangle of ones. With S = diag(decays) - root(scales) root(scales)'
the inverse has buffers as well: its decays are the eigenvalues of S, which lie between those of C.

Optimised are the places of both kinds of decays, which alternate: scales follow from them as products, all positive.
Sums over steps are taken by quadrature, so that a step of the search costs the same for a thousand and for a million.
Derived: docs/mechanisms/running_total.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from gaussveil.checks import one_of, whole
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.typing import Floats

MOST_STEPS = 1 << 22
MOST_BUFFERS = 10
MEAN = "mean"
LAST = "last"
BOTH = "both"
ERRORS = (MEAN, LAST, BOTH)
ITERATIONS = 500
BITS = 53  # scales and decays are multiples of 2^-53: doubles and whole numbers at once
ADDED_UP = 64  # takes whose columns are added one by one
SINGLE_STEPS = 48  # at the beginning, where the coefficients bend most
PANEL = 8  # nodes of a stretch that doubles
COMPLEX_STEP = 1e-30  # derivatives by the imaginary part, exact to rounding
FAR_AWAY = 1e3  # of the goal, where doubles hold no value
LARGEST_GAP = (-3.0, -1e-3)  # logarithm of one less the smallest decay of the inverse
RATIOS = (
    -14.0,
    3.2,
)  # logarithm of the logarithm of the ratio of two neighbouring gaps


@dataclass(frozen=True)
class Buffers:
    """Scales and decays of a strategy, both between 0 and 1."""

    scales: tuple[float, ...]
    decays: tuple[float, ...]

    def coefficients(self, steps: int) -> Floats:
        """The first column of the strategy."""
        powers = np.power(np.array(self.decays), np.arange(steps - 1)[:, None])
        return np.concatenate([[1.0], powers @ np.array(self.scales)])[:steps]

    def error_coefficients(self, steps: int) -> Floats:
        """The first column of A C^-1: what a draw adds to all later sums."""
        roots = np.sqrt(self.scales)
        decays, axes = np.linalg.eigh(np.diag(self.decays) - np.outer(roots, roots))
        weights = (axes.T @ roots) ** 2 / (1.0 - decays)
        return np.asarray(
            1.0 - (1.0 - np.power(decays, np.arange(steps)[:, None])) @ weights
        )


def falls(column: Floats) -> bool:
    """Whether a first column is nowhere negative and falls, but for rounding."""
    return bool(
        np.all(column >= 0.0)
        and np.all(np.diff(column) <= 8.0 * UNIT_ROUNDOFF * column[0])
    )


def sensitivity(column: Floats, takes: int, separation: int) -> float:
    """How far changes of 1 in so many steps, so far apart, move C's product at most; rounded up.

    Of columns that fall. The first steps that are allowed are then the worst: inner products of two columns fall with
    the place of the later one and with their distance.
    """
    steps = column.size
    if takes <= ADDED_UP:
        moved = column.copy()
        rounding = 0.0
        for shifted in range(separation, min(takes * separation, steps), separation):
            moved[shifted:] += column[: steps - shifted]
    else:
        moved, rounding = _moved_by_many(column, takes, separation)
    return (float(np.linalg.norm(moved)) + rounding * math.sqrt(steps)) * (
        1.0 + 8.0 * (steps + takes) * UNIT_ROUNDOFF
    )


def _moved_by_many(column: Floats, takes: int, separation: int) -> tuple[Floats, float]:
    """What so many steps move, as differences of sums, and the most that rounding can be in one of them."""
    rows = -(-column.size // separation)
    padded = np.zeros(rows * separation)
    padded[: column.size] = column
    moved = np.cumsum(padded.reshape(rows, separation), axis=0)
    rounding = 2.0 * rows * UNIT_ROUNDOFF * float(moved[-1].max())
    if takes < rows:
        moved[takes:] -= moved[: rows - takes].copy()
    return moved.ravel()[: column.size], rounding


@lru_cache(maxsize=64)
def best_buffers(
    steps: int, buffers: int, takes: int = 1, separation: int = 1, error: str = MEAN
) -> Buffers:
    """The buffers with the least error of prefix sums at one promise.

    Args:
        steps: how many sums there are.
        buffers: at most.
        takes, separation: in how many steps one record may be, and how far apart these are.
        error: "mean" squared error over all sums, that of the "last" one, or the product of "both".
    """
    whole("steps", steps, f"[1, {MOST_STEPS}]")
    whole("buffers", buffers, f"[1, {MOST_BUFFERS}]")
    one_of("error", error, ERRORS)
    search = _Search(steps, takes, separation, error)
    minimum = scipy.optimize.minimize(
        search.goal_and_slopes,
        _start(steps, buffers),
        jac=True,
        method="L-BFGS-B",
        bounds=[LARGEST_GAP] + [RATIOS] * (2 * buffers - 1),
        options={
            "maxiter": ITERATIONS,
            "maxfun": 2 * ITERATIONS,
            "maxcor": 20,
            "ftol": 1e-13,
            "gtol": 1e-7,
        },
    )
    gaps, inverse_gaps = _gaps(minimum.x)
    scales = -_products(gaps, inverse_gaps)
    scales *= (1.0 - 2.0**-40) / max(
        1.0, float(scales.sum())
    )  # the column falls from the diagonal on
    order = np.argsort(gaps)
    return Buffers(_on_bits(scales[order]), _on_bits(1.0 - gaps[order]))


def _on_bits(values: Floats) -> tuple[float, ...]:
    """Multiples of 2^-53, between 0 and 1."""
    whole_numbers = np.clip(np.rint(np.ldexp(values, BITS)), 0.0, 2.0**BITS - 1.0)
    return tuple(np.ldexp(whole_numbers, -BITS).tolist())


def _start(steps: int, buffers: int) -> Floats:
    """Gaps of the decays of C and of its inverse in turn, even on a scale of logarithms, from 1 to 1/steps."""
    logs = np.linspace(math.log(0.9), math.log(0.6 / steps), 2 * buffers)
    return np.concatenate([logs[:1], np.log(-np.diff(logs))])


def _gaps(free: Floats) -> tuple[Floats, Floats]:
    """One less the decays of C, and one less those of its inverse: they alternate, the inverse's are larger."""
    logs = np.cumsum(
        np.concatenate([free[..., :1], -np.exp(free[..., 1:])], axis=-1), axis=-1
    )
    gaps = np.exp(logs)
    return gaps[..., 1::2], gaps[..., 0::2]


def _products(own: Floats, others: Floats) -> Floats:
    """For each d the product of own_d - others_j over all j, over that of own_d - own_j over all others."""
    above = np.prod(own[..., :, None] - others[..., None, :], axis=-1)
    differences = own[..., :, None] - own[..., None, :] + np.eye(own.shape[-1])
    return np.asarray(above / np.prod(differences, axis=-1))


def _nodes(count: int) -> tuple[Floats, Floats]:
    """Places and weights whose weighted sum of a smooth function is nearly its sum over 0 .. count - 1."""
    first = min(count, SINGLE_STEPS)
    places = [np.arange(first, dtype=np.float64)]
    weights = [np.ones(first)]
    roots, shares = np.polynomial.legendre.leggauss(PANEL)
    while first < count:
        last = min(count, 2 * first)
        if last - first <= PANEL:
            places.append(np.arange(first, last, dtype=np.float64))
            weights.append(np.ones(last - first))
        else:
            half = (last - first) / 2.0
            places.append(first - 0.5 + half * (1.0 + roots))
            weights.append(half * shares)
        first = last
    return np.concatenate(places), np.concatenate(weights)


class _Search:
    """Logarithm of squared error times squared sensitivity, with its slopes."""

    def __init__(self, steps: int, takes: int, separation: int, error: str) -> None:
        self.takes = min(takes, -(-steps // separation))
        self.separation = separation
        self.error = error
        self.places, self.weights = _nodes(steps)
        self.remaining = (steps - self.places) / steps
        self.rounds, self.round_weights = _nodes(-(-steps // separation))
        self.offsets, self.offset_weights = _nodes(separation)

    def goal_and_slopes(self, free: Floats) -> tuple[float, Floats]:
        """By complex steps, all at once."""
        moved = free + 1j * COMPLEX_STEP * np.eye(free.size)
        with np.errstate(all="ignore"):
            goals = self._goal(moved)
        if not np.all(np.isfinite(goals)):
            return FAR_AWAY, np.zeros_like(free)
        return float(goals[0].real), np.asarray(goals.imag / COMPLEX_STEP)

    def _goal(self, free: Floats) -> Floats:
        gaps, inverse_gaps = _gaps(free)
        scales = -_products(gaps, inverse_gaps)
        inverse_scales = _products(inverse_gaps, gaps)
        squared = np.log(self._squared_sensitivity(scales, np.log(1.0 - gaps)))
        return np.asarray(squared + self._log_error(inverse_scales, inverse_gaps))

    def _log_error(self, scales: Floats, gaps: Floats) -> Floats:
        powers = np.exp(self.places[:, None] * np.log(1.0 - gaps)[..., None, :])
        added = (
            1.0 - np.sum((scales / gaps)[..., None, :] * (1.0 - powers), axis=-1)
        ) ** 2
        of_mean = np.log(np.sum(self.weights * self.remaining * added, axis=-1))
        of_last = np.log(np.sum(self.weights * added, axis=-1))
        return np.asarray(
            {MEAN: of_mean, LAST: of_last, BOTH: (of_mean + of_last) / 2.0}[self.error]
        )

    def _squared_sensitivity(self, scales: Floats, logs: Floats) -> Floats:
        if self.takes == 1:
            powers = np.exp((self.places[1:, None] - 1.0) * logs[..., None, :])
            column = np.sum(scales[..., None, :] * powers, axis=-1)
            return np.asarray(1.0 + np.sum(self.weights[1:] * column**2, axis=-1))
        return self._beginnings(scales, logs) + self._between(scales, logs)

    def _beginnings(self, scales: Floats, logs: Floats) -> Floats:
        """Of the steps that may be changed, a separation apart."""
        oldest = np.maximum(self.rounds - self.takes + 1.0, 1.0)
        sums = np.where(
            self.rounds[:, None] >= 1.0, self._powers(oldest, logs, -1.0), 0.0
        )
        moved = np.where(self.rounds < self.takes, 1.0, 0.0) + np.sum(
            scales[..., None, :] * sums, axis=-1
        )
        return np.asarray(np.sum(self.round_weights * moved**2, axis=-1))

    def _between(self, scales: Floats, logs: Floats) -> Floats:
        """Of all other steps."""
        oldest = np.maximum(self.rounds - self.takes + 1.0, 0.0)
        sums = scales[..., None, :] * self._powers(oldest, logs, 0.0)
        offsets = np.exp((self.offsets[1:, None] - 1.0) * logs[..., None, :])
        moved = sums @ np.swapaxes(offsets, -1, -2)
        return np.asarray(
            np.sum(self.round_weights * ((moved**2) @ self.offset_weights[1:]), axis=-1)
        )

    def _powers(self, oldest: Floats, logs: Floats, shift: float) -> Floats:
        """Sum of decay^(separation i + shift) over i from `oldest` to the round, for every round and buffer."""
        apart = self.separation
        rows = logs[..., None, :]
        first = np.exp((apart * oldest[:, None] + shift) * rows)
        beyond = np.exp((apart * (self.rounds[:, None] + 1.0) + shift) * rows)
        return np.asarray((first - beyond) / (1.0 - np.exp(apart * rows)))
