"""The integrand of one row at all nodes of a contour: sums over terms, node by node side by side."""

from __future__ import annotations

import math
from typing import NamedTuple

from gaussveil.spectrum import formulas
from gaussveil.spectrum.compiled import one_number
from gaussveil.spectrum.compiled.entry import compiled
from gaussveil.spectrum.compiled.row import TermRow
from gaussveil.typing import Array

FEW = (0.0, 1.0, 2.0, 3.0, 4.0)  # multiplicities for which a product is the faster sum
SMALL, GREAT = 1e-280, 1e280  # squared moduli of products must stay between these
TOGETHER = 16  # factors multiplied before a logarithm is taken

branch = compiled(formulas.branch)
later_growth = compiled(formulas.later_growth)
log_phase = compiled(formulas.log_phase)
log_size = compiled(formulas.log_size)
log_square_near_one = compiled(formulas.log_square_near_one)
spread_at = compiled(formulas.spread_at)


class Factors(NamedTuple):
    """What the integrand divides by: the roots of 1 + s g = base + (s - centre) g, and the poles."""

    gap: Array
    base: Array
    multiplicity: Array
    terms: int  # how many of them are terms; the rest are poles
    log_poles: float  # log of the crossing's distance from the poles, summed
    few: bool  # multiplicities so small that multiplying is the fastest way


class Nodes(NamedTuple):
    """Places on a contour and what is summed up there over terms."""

    rise: Array
    swing: Array
    offset: Array
    imag: Array
    log_size: Array
    phase: Array
    mean_real: Array
    mean_imag: Array
    product_real: Array
    product_imag: Array
    modulus: Array
    turns: Array


@compiled
def first_nodes(room: Array, count: int) -> Nodes:
    """The first places of a room made for the longest rule."""
    return Nodes(
        room[0, :count],
        room[1, :count],
        room[2, :count],
        room[3, :count],
        room[4, :count],
        room[5, :count],
        room[6, :count],
        room[7, :count],
        room[8, :count],
        room[9, :count],
        room[10, :count],
        room[11, :count],
    )


@compiled
def sum_means(row: TermRow, nodes: Nodes) -> None:
    """Sum energy (1 + s g) / |1 + s g|^2 over terms."""
    nodes.mean_real[:] = 0.0
    nodes.mean_imag[:] = 0.0
    for term in range(row.gap.size):
        for k in range(nodes.imag.size):
            spread, along, modulus = branch(row.gap[term], row.base[term], nodes.offset[k], nodes.imag[k])
            weight = row.energy[term] / modulus
            nodes.mean_real[k] += weight * spread
            nodes.mean_imag[k] += weight * along


@compiled
def factors_at(row: TermRow, poles: tuple[float, ...], centre: float) -> Factors:
    """The factors around a crossing; a pole is one of multiplicity two."""
    room = row.factor_room
    count, few = 0, not row.many
    for term in range(row.gap.size):
        row.base[term] = spread_at(row.gap[term], centre)
        if row.gap[term] != 0.0:
            room[0, count], room[1, count], room[2, count] = row.gap[term], row.base[term], row.multiplicity[term]
            few = few and row.multiplicity[term] in FEW
            count += 1
    terms, log_poles = count, 0.0
    for pole in poles:
        log_poles += math.log(abs(centre - pole))
        room[0, count], room[1, count], room[2, count] = 1.0, centre - pole, 2.0
        count += 1
    return Factors(room[0, :count], room[1, :count], room[2, :count], terms, log_poles, few)


@compiled
def sum_logs_of_product(factors: Factors, start: int, stop: int, nodes: Nodes, phases: int) -> bool:
    """Add logarithms and angles of some factors by way of their product.

    A product, its turns around zero counted, takes a few operations for each factor instead of a logarithm and an
    angle. False, and nothing added, where a product comes near the end of the range of doubles.
    """
    nodes.product_real[:] = 1.0
    nodes.product_imag[:] = 0.0
    nodes.modulus[:] = 1.0
    nodes.turns[:] = 0.0
    for factor in range(start, stop):
        for _ in range(int(factors.multiplicity[factor])):
            for k in range(nodes.imag.size):
                spread, along, modulus = branch(
                    factors.gap[factor], factors.base[factor], nodes.offset[k], nodes.imag[k]
                )
                real, before = nodes.product_real[k], nodes.product_imag[k]
                after = real * along + before * spread
                nodes.product_real[k] = real * spread - before * along
                nodes.product_imag[k] = after
                nodes.modulus[k] *= modulus
                # Two angles of pi make a whole turn, and the product of two negative numbers then ends at -0.0.
                up = (along >= 0) & (before >= 0) & (math.copysign(1.0, after) < 0)
                down = (along < 0) & (before < 0) & (after >= 0)
                nodes.turns[k] += (1.0 if up else 0.0) - (1.0 if down else 0.0)
    for k in range(nodes.imag.size):
        if not SMALL < nodes.modulus[k] < GREAT:
            return False
    for k in range(nodes.imag.size):
        nodes.log_size[k] += math.log(nodes.modulus[k])
        if k < phases:
            angle = math.atan2(nodes.product_imag[k], nodes.product_real[k])
            nodes.phase[k] += angle + 2 * math.pi * nodes.turns[k]
    return True


@compiled
def sum_logs(factors: Factors, start: int, stop: int, many: bool, centre: float, nodes: Nodes) -> None:
    """Add multiplicity times logarithm and angle of some factors, one by one."""
    for factor in range(start, stop):
        gap, base, multiplicity = factors.gap[factor], factors.base[factor], factors.multiplicity[factor]
        for k in range(nodes.imag.size):
            spread, along, modulus = branch(gap, base, nodes.offset[k], nodes.imag[k])
            log_term = math.log(modulus)
            if many and factor < factors.terms:
                real = centre + nodes.offset[k]
                log_term = log_square_near_one(one_number, real, gap, along, modulus, log_term)
            nodes.log_size[k] += multiplicity * log_term
            nodes.phase[k] += multiplicity * math.atan2(along, spread)


@compiled
def integrand(row: TermRow, factors: Factors, centre: float, nodes: Nodes, phases: int) -> None:
    """log |integrand| at all nodes, and its phase at the first so many of them."""
    sum_means(row, nodes)
    nodes.log_size[:] = 0.0
    nodes.phase[:] = 0.0
    for start in range(0, factors.gap.size, TOGETHER):
        stop = min(start + TOGETHER, factors.gap.size)
        if not factors.few or not sum_logs_of_product(factors, start, stop, nodes, phases):
            sum_logs(factors, start, stop, row.many, centre, nodes)
    for k in range(nodes.imag.size):
        real, imag = centre + nodes.offset[k], nodes.imag[k]
        mean_real, mean_imag = nodes.mean_real[k], nodes.mean_imag[k]
        nodes.log_size[k] = log_size(real, imag, row.drift, nodes.log_size[k], mean_real, mean_imag)
        nodes.phase[k] = log_phase(real, imag, row.drift, nodes.phase[k], mean_real, mean_imag)


@compiled
def growth_above(row: TermRow, offset: float, imag: float) -> float:
    """How much log |integrand| may still grow straight up from a place."""
    growth = 0.0
    for term in range(row.gap.size):
        spread, _, modulus = branch(row.gap[term], row.base[term], offset, imag)
        if spread < 0:
            growth += row.energy[term] * later_growth(one_number, row.gap[term], row.log_ratio[term], spread, modulus)
    return growth
