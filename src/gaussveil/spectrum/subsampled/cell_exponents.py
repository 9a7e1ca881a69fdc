"""What a step's moment integrates beside the normal density, cell by cell: its ends between neighbouring outputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

UP = 1e-9  # by which logs of bounds in doubles are raised


class Exponents(NamedTuple):
    """base + c L of a step, without the normal density: its ends between edges, at both ends and to the left; and L."""

    most: Floats
    least: Floats
    at_cut: float
    at_low: float
    left: float
    falling: bool
    losses: Floats

    @staticmethod
    def of(step: Step, c: float, here: Floats, there: Floats) -> Exponents:
        """From A at the edges, and at their negatives; all grow with z, but for X and Y exchanged, where they fall."""
        if step.backward:
            size = -c * here
            if c < 0.0:
                left = size[0]
                return Exponents(
                    size[1:], size[:-1], size[-1], left, left, False, -here
                )
            floor = -c * step.floor
            return Exponents(size[:-1], size[1:], size[-1], size[0], floor, True, -here)
        size = (1.0 + c) * here
        losses = here
        if step.replace:
            losses = here - there
            if c < 0.0:  # one of both factors grows with z, the other one falls
                most = size[1:] - c * there[:-1]
                smallest = size[:-1] - c * there[1:]
                both = size - c * there
                return Exponents(
                    most, smallest, both[-1], both[0], math.inf, True, losses
                )
            size = size - c * there
        return Exponents(size[1:], size[:-1], size[-1], size[0], size[0], False, losses)

    def beyond(self, low: float, slope: float) -> float:
        """log of the integral over z < low, times root of 2 pi, as phi(z) <= phi(low) e^{low (low - z)} there.

        X and Y exchanged what falls is concave: below its tangent at low, of the given slope. Of a replaced record
        between the poles it falls by the given slope at most.
        """
        size = self.left
        fall = -low
        slope *= 1.0 + UP
        if self.falling and fall > slope:
            tangent = float(self.most[0])
            if tangent - math.log(fall - slope) < size - math.log(fall):
                size = tangent
                fall -= slope
        return size - 0.5 * low * low - math.log(fall)

    def with_density(self, step: Step, c: float, edges: Floats) -> Floats:
        """log of the exponential times e^{-z^2/2} in each cell, at most."""
        near = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
        near = np.where(edges[:-1] * edges[1:] <= 0.0, 0.0, near)
        apart = self.most - 0.5 * near * near
        if step.replace and c < 0.0:
            return np.asarray(apart)
        return np.asarray(np.minimum(apart, self._jointly(step, c, edges)))

    def _jointly(self, step: Step, c: float, edges: Floats) -> Any:
        """Both at one end of a cell, and how they may change from there.

        A is convex. So the exponent falls from a cell's right end r at least as fast as it does at the left end, k, and
        r^2/2 - z^2/2 <= r (r - z): it is at most its value at r and (r - k) of the width more. Exchanged it is the same
        from the left end on.
        """
        share = expit((edges[:-1] - step.knee) / step.noise_multiplier)
        width = np.diff(edges) * (1.0 + UP)
        least_slope = share / step.noise_multiplier
        if step.backward and c >= 0.0:
            left = edges[:-1]
            least_slope = least_slope * (1.0 - UP)
            return (
                self.most
                - 0.5 * left**2
                + width * np.maximum(-left - c * least_slope, 0.0)
            )
        if step.replace:
            mirrored = expit((-edges[1:] - step.knee) / step.noise_multiplier)
            slope = (1.0 + c) * least_slope + c * mirrored / step.noise_multiplier
        elif step.backward:
            slope = -c * least_slope
        else:
            slope = (1.0 + c) * least_slope
        right = edges[1:]
        slope = slope * (1.0 - UP)
        return self.most - 0.5 * right**2 + width * np.maximum(right - slope, 0.0)
