"""The contour integral of one row after another: the loops of `contour` without arrays, around the same formulas."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from numba import types, void

from gaussveil.spectrum import formulas, rules
from gaussveil.spectrum.compiled import integrand as integrands
from gaussveil.spectrum.compiled import one_number
from gaussveil.spectrum.compiled import row as rows
from gaussveil.spectrum.compiled.entry import Numbers, Table, compiled, entry_point, revision_of
from gaussveil.spectrum.compiled.integrand import Factors, Nodes, factors_at, first_nodes, growth_above, integrand
from gaussveil.spectrum.compiled.row import TermRow, cumulant, load, saddle
from gaussveil.spectrum.rules import (
    BENDS,
    HOCKEY_STICK,
    HOCKEY_STICK_COMPLEMENT,
    PENALTY,
    PROBES,
    TRAPEZOID_RULES,
    Region,
)
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Array

FIELDS = len(Nodes._fields)
LONGEST = max(count for count, _ in TRAPEZOID_RULES) + 1

decayed = compiled(formulas.decayed)
exponent_rounding = compiled(formulas.exponent_rounding)
from_complement = compiled(formulas.from_complement)
grown = compiled(formulas.grown)
looks_large = compiled(formulas.looks_large)
node = compiled(formulas.node)
place = compiled(formulas.place)
shortened = compiled(formulas.shortened)
spread_at = compiled(formulas.spread_at)
verdict = compiled(formulas.verdict)


@compiled
def choose_bend(
    row: TermRow, factors: Factors, centre: float, width: float, reach: float, room: Array
) -> tuple[float, float]:
    """The bend with the shortest contour, and its length; `reach` where none falls off."""
    count = 0
    for spot in PROBES:
        count += spot <= reach
    nodes = first_nodes(room, len(BENDS) * count + 1)
    nodes.offset[0], nodes.imag[0], nodes.swing[0] = 0.0, 0.0, 1.0  # the crossing itself
    for b in range(len(BENDS)):
        for spot in range(count):
            k = 1 + b * count + spot
            _, nodes.swing[k], nodes.offset[k], nodes.imag[k] = place(one_number, PROBES[spot], BENDS[b], width)
    none = 0 * count  # a literal zero would be compiled as a function of its own
    integrand(row, factors, centre, nodes, none)
    chosen, shortest, least = BENDS[0], reach, math.inf
    for b in range(len(BENDS)):
        for spot in range(count):
            k = 1 + b * count + spot
            level = nodes.log_size[k] - nodes.log_size[0] + math.log(nodes.swing[k])
            if grown(level):
                break
            if decayed(level, 0.0) and decayed(level, growth_above(row, nodes.offset[k], nodes.imag[k])):
                extent = PROBES[spot]
                if reach == TRAPEZOID_RULES[0][1]:
                    extent = shortened(one_number, extent, level)
                if extent * PENALTY[b] < least:
                    chosen, shortest, least = BENDS[b], extent, extent * PENALTY[b]
                break
    return chosen, shortest


@compiled
def integrate_at(
    row: TermRow, factors: Factors, direction: float, centre: float, width: float, room: Array
) -> tuple[float, float, float]:
    """log |integral|, slope and error by the first rule that settles; else Chernoff's bound and an infinite error."""
    magnitude, mean_sum, peak = 0.0, 0.0, 0.0
    for term in range(row.gap.size):
        magnitude += row.multiplicity[term] * abs(row.log_ratio[term])
        mean_sum += row.energy[term] / max(abs(1 + centre * row.gap[term]), 1e-300)
    rounding = exponent_rounding(one_number, row.threshold, centre, magnitude, mean_sum)
    for count, reach in TRAPEZOID_RULES:
        bend, extent = choose_bend(row, factors, centre, width, reach, room)
        step = extent / count
        nodes = first_nodes(room, count + 1)
        for k in range(count + 1):
            nodes.rise[k], nodes.swing[k], nodes.offset[k], nodes.imag[k] = place(one_number, step * k, bend, width)
        integrand(row, factors, centre, nodes, count + 1)
        peak = nodes.log_size[0]
        fine, coarse, moment, last, tail = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(count + 1):
            real, relative = centre + nodes.offset[k], nodes.log_size[k] - peak
            value, tilted = node(
                one_number, bend, nodes.rise[k], nodes.swing[k], real, nodes.imag[k], relative, nodes.phase[k]
            )
            weight = 0.5 if k == 0 else 1.0
            fine += weight * value
            moment += weight * tilted
            if k % 2 == 0:
                coarse += 2 * weight * value
            tail, last = max(last, abs(value)), abs(value)
        log_value, slope, error = verdict(
            one_number, direction, fine, coarse, moment, tail, rounding, peak, step * width
        )
        if not math.isinf(error):
            return log_value, slope, error
    return peak + factors.log_poles + rounding, -centre, math.inf


@compiled
def integrate_row(row: TermRow, region: Region, centre: float, width: float, room: Array) -> tuple[float, float, float]:
    """The integral over a contour through `centre`."""
    return integrate_at(row, factors_at(row, region.poles, centre), region.direction, centre, width, room)


@compiled
def log_hockey_stick_row(row: TermRow, room: Array) -> tuple[float, float, float]:
    """log delta, its slope and error, through 1 - delta where delta is large."""
    centre, width = saddle(row, HOCKEY_STICK)
    if not looks_large(one_number, row.threshold, centre, width, cumulant(row, centre)):
        return integrate_row(row, HOCKEY_STICK, centre, width, room)
    centre, width = saddle(row, HOCKEY_STICK_COMPLEMENT)
    missing, slope, error = integrate_row(row, HOCKEY_STICK_COMPLEMENT, centre, width, room)
    return from_complement(one_number, missing, slope, error)


@compiled
def log_tail_row(row: TermRow, pole: float, direction: float, room: Array) -> tuple[float, float, float]:
    """log of a tail, its slope and error: a region next to its only pole."""
    region = Region((pole,), pole, direction, math.inf)
    centre, width = saddle(row, region)
    return integrate_row(row, region, centre, width, room)


def _entry(revision: int) -> Callable[..., None]:
    def integral_rows(
        gap: Array,
        log_ratio: Array,
        multiplicity: Array,
        energy: Array,
        threshold: Array,
        tail: bool,
        pole: float,
        direction: float,
        found: Array,
    ) -> None:
        assert revision  # part of the cache's key
        room, places = np.empty((8, gap.shape[1] + 2)), np.empty((FIELDS, LONGEST))
        for index in range(threshold.size):
            at = index if gap.shape[0] > 1 else 0
            row = load(gap, log_ratio, multiplicity, energy, at, threshold[index], room)
            if tail:
                found[0, index], found[1, index], found[2, index] = log_tail_row(row, pole, direction, places)
            else:
                found[0, index], found[1, index], found[2, index] = log_hockey_stick_row(row, places)

    return integral_rows


_integral_rows = entry_point(
    void(Table, Table, Table, Table, Numbers, types.boolean, types.float64, types.float64, types.float64[:, ::1]),
    _entry(revision_of(formulas, rules, one_number, rows, integrands, sys.modules[__name__])),
)


def log_hockey_stick(terms: Terms, threshold: Array) -> Array:
    """`contour.log_hockey_stick`, compiled: rows of values, slopes and errors."""
    found = np.empty((3, threshold.shape[0]))
    _integral_rows(*terms.columns(), threshold, False, 0.0, 0.0, found)
    return found


def integrate(terms: Terms, threshold: Array, region: Region) -> Array:
    """`contour.integrate`, compiled, for regions next to their only pole."""
    found = np.empty((3, threshold.shape[0]))
    (pole,) = region.poles
    _integral_rows(*terms.columns(), threshold, True, pole, region.direction, found)
    return found
