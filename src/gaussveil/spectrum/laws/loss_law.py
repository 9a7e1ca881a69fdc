"""The same laws of losses in doubles, with bounds of their roundings: what the contour multiplies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import ctx

from gaussveil.spectrum.constants import LAW_BITS, ULP
from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.laws.ball_law import BallLaw
from gaussveil.spectrum.subsampled.step import log_one_plus
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

Complexes = Any  # NDArray[np.complex128]
LARGEST_SUBTRACTED = 3.0  # real exponents beyond this are summed without subtracting the 1 that moments have at s = 0
SERIES_BELOW = 0.02  # arguments of hyperbolic functions below which three terms of a series have all digits
MOST_HELD = 2**20  # products of orders and atoms that are held at once
ALMOST_NONE = 0.05  # roundings, times the uses, from which on they stand for a moment that is no larger


class LawMoments(NamedTuple):
    """log M(s) / M(0) at each order, and the bound of its rounding."""

    log_moment: Complexes
    rounding: Floats


class LossLaw(NamedTuple):
    """Atoms and pieces of the finite losses, whose probabilities add up to 1, and log of what they are of all."""

    losses: Floats
    masses: Floats
    pieces: Floats  # rows: middle, half, tilt, weight
    log_finite: float
    uneven: int = 0  # atoms that are not known to be at equal distances

    @staticmethod
    def of(law: BallLaw) -> LossLaw:
        """The law of balls, each rounded to a double."""
        with ctx.workprec(LAW_BITS):
            finite = 1 - law.infinity
            columns = [
                [float(value) for value in piece[:3]] + [float(piece.weight / finite)]
                for piece in law.pieces
            ]
            return LossLaw(
                np.array([float(loss) for loss in law.losses]),
                np.array([float(mass / finite) for mass in law.masses]),
                np.array(columns).reshape(-1, 4).T,
                float(finite.log()),
                0 if law.spacing is not None else len(law.losses),
            )

    @property
    def largest_loss(self) -> float:
        """The largest finite loss, rounded up."""
        largest = float(np.append(self.losses, self.pieces[0] + self.pieces[1]).max())
        return largest + 4.0 * ULP * abs(largest)

    @property
    def reach(self) -> float:
        """The largest absolute value of a finite loss."""
        return float(
            max(
                np.abs(self.losses).max(initial=0.0),
                (np.abs(self.pieces[0]) + self.pieces[1]).max(initial=0),
            )
        )

    def moments(self, orders: Complexes) -> LawMoments:
        """log of the moment at each order."""
        check_work()
        rows = max(1, MOST_HELD // max(self.losses.size, 1))
        if orders.size <= rows:
            return self._moments(orders)
        blocks = [
            self._moments(orders[start : start + rows])
            for start in range(0, orders.size, rows)
        ]
        return LawMoments(*(np.concatenate(column) for column in zip(*blocks)))

    def _moments(self, orders: Complexes) -> LawMoments:
        middle, half, tilt, weight = self.pieces
        levels = orders.real
        if np.all(levels == levels[0]):
            levels = levels[:1]  # on a line what grows is the same for all
        exponent = np.multiply.outer(levels, self.losses)
        ends = np.multiply.outer(levels, middle)
        ends += np.abs(np.multiply.outer(levels, half) + tilt * half)
        tops = np.concatenate([exponent, ends], axis=1).max(axis=1)
        near = bool(np.all(tops < LARGEST_SUBTRACTED))
        if near:
            tops = np.zeros_like(tops)
        scale = tops[:, None]
        grown = self.masses * np.exp(exponent - scale)
        sizes = grown.sum(axis=1)
        total = _turned_sums(np.multiply.outer(orders.imag, self.losses), grown)
        if not near:
            total += sizes
        if near:
            total += (self.masses * np.expm1(exponent)).sum(axis=1)
        if weight.size:
            shift = np.multiply.outer(orders, middle) - scale
            argument = np.multiply.outer(orders, half) + tilt * half
            total += (weight * scaled_sinhc(argument, shift)).sum(axis=1)
            sizes += (weight * np.exp(ends - scale)).sum(axis=1)
            if near:
                total -= float(weight @ scaled_sinhc(tilt * half + 0.0j, 0.0j).real)
        far = 4.0 + 4.0 * np.abs(orders) * self.reach
        moment = np.abs(1.0 + total if near else total)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_moment = (log_one_plus(total) if near else np.log(total)) + tops
            return LawMoments(
                log_moment,
                4.0 * ULP * (far * sizes / moment + np.abs(log_moment.real)),
            )

    def cumulant(self, orders: Complexes, count: int) -> LawMoments:
        """The same of many uses; where roundings are as large as the moment, these stand for it."""
        log_moment, rounding = self.moments(orders)
        lost = ~(count * rounding < ALMOST_NONE)
        if lost.any():
            log_moment = log_moment.copy()
            rounding = rounding.copy()
            with np.errstate(divide="ignore", invalid="ignore"):
                grown = log_moment.real[lost] + np.log1p(rounding[lost])
            most = self.moments(orders[lost].real + 0.0j).log_moment.real
            log_moment[lost] = np.where(
                np.isfinite(grown), np.minimum(grown, most), most
            )
            rounding[lost] = 2.0 / count
        return LawMoments(count * log_moment, count * rounding)

    def real_moments(self, orders: Floats) -> Floats:
        """Rows of K, K', K'' at real orders."""
        rows = max(1, MOST_HELD // max(self.losses.size, 1))
        columns = [
            self._real_moments(orders[start : start + rows])
            for start in range(0, orders.size, rows)
        ]
        return np.concatenate(columns, axis=1)

    def _real_moments(self, orders: Floats) -> Floats:
        exponent = np.multiply.outer(orders, self.losses)
        if self.pieces.size:
            return self._with_pieces(orders, exponent)
        tops = exponent.max(axis=1)
        share = self.masses * np.exp(exponent - tops[:, None])
        total = share.sum(axis=1)
        share /= total[:, None]
        mean = share @ self.losses
        value = tops + np.log(total)
        near = bool(np.all(tops < LARGEST_SUBTRACTED))
        if near:
            value = np.log1p(np.expm1(exponent) @ self.masses)
        spread = (share * (self.losses - mean[:, None]) ** 2).sum(axis=1)
        return np.array([value, mean, spread])

    def _with_pieces(self, orders: Floats, exponent: Floats) -> Floats:
        """The same of atoms whose exponents are given, and of pieces."""
        middle, half, tilt, weight = self.pieces
        argument = (orders[:, None] + tilt) * half
        piece = np.multiply.outer(orders, middle) + np.abs(argument)
        logs = np.concatenate([exponent, piece], axis=1)
        tops = logs.max(axis=1)
        masses = np.broadcast_to(self.masses, exponent.shape)
        shapes = decayed_sinhc(argument)
        share = np.concatenate([masses, weight * shapes], axis=1)
        share *= np.exp(logs - tops[:, None])
        total = share.sum(axis=1)
        share /= total[:, None]
        value = tops + np.log(total)
        if np.all(tops < LARGEST_SUBTRACTED):
            start = tilt * half
            less_one = (shapes * np.exp(piece)) @ weight
            less_one -= float((decayed_sinhc(start) * np.exp(np.abs(start))) @ weight)
            value = np.log1p(less_one + np.expm1(exponent) @ self.masses)
        mean, spread = _inner(argument)
        losses = np.broadcast_to(self.losses, exponent.shape)
        means = np.concatenate([losses, middle + half * mean], axis=1)
        first = (share * means).sum(axis=1)
        second = (share * (means - first[:, None]) ** 2).sum(axis=1)
        second += (share[:, self.losses.size :] * (half * half * spread)).sum(axis=1)
        return np.array([value, first, second])


def _turned_sums(angles: Floats, weights: Floats) -> Complexes:
    """Sums of weights, one row for all or each its own, times e^{i angle} - 1."""
    half = 0.5 * angles
    sine = np.sin(half)
    if len(weights) == 1:
        sums = [(sine * sine) @ weights[0], (sine * np.cos(half)) @ weights[0]]
    else:
        sums = [
            np.einsum("ij,ij,ij->i", sine, sine, weights),
            np.einsum("ij,ij,ij->i", sine, np.cos(half), weights),
        ]
    return -2.0 * sums[0] + 2.0j * sums[1]


def scaled_sinhc(argument: Complexes, exponent: Complexes) -> Complexes:
    """sinh(y)/y e^x, where e^x may make a large sinh small again."""
    small = np.abs(argument) < SERIES_BELOW
    safe = np.where(small, 1.0, argument)
    square = argument * argument
    series = np.exp(exponent) * (
        1.0 + square / 6.0 * (1.0 + square / 20.0 * (1.0 + square / 42.0))
    )
    return np.where(
        small, series, 0.5 * (np.exp(exponent + safe) - np.exp(exponent - safe)) / safe
    )


def decayed_sinhc(argument: Floats) -> Floats:
    """sinh(y)/y e^{-|y|} at real arguments."""
    size = np.abs(argument)
    safe = np.where(size < SERIES_BELOW, 1.0, size)
    series = np.exp(-size) * (1.0 + size**2 / 6.0 * (1.0 + size**2 / 20.0))
    return np.asarray(
        np.where(size < SERIES_BELOW, series, -0.5 * np.expm1(-2.0 * safe) / safe)
    )


def _inner(argument: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a density e^{y x} on -1 < x < 1."""
    small = np.abs(argument) < 0.1
    safe = np.where(small, 1.0, argument)
    square = argument * argument
    with np.errstate(over="ignore"):
        mean = np.where(
            small,
            argument / 3.0 * (1.0 - square / 15.0),
            1.0 / np.tanh(safe) - 1.0 / safe,
        )
        spread = np.where(
            small, (1.0 - square / 5.0) / 3.0, 1.0 / safe**2 - 1.0 / np.sinh(safe) ** 2
        )
    return np.asarray(mean), np.asarray(spread)


@lru_cache(maxsize=256)
def law_of(profile: Any) -> LossLaw:
    """The law of a profile's losses, in doubles."""
    with precision_lock(), ctx.workprec(LAW_BITS):
        return LossLaw.of(profile.ball_law())
