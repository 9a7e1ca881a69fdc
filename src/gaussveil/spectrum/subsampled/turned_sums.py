"""Sums over outputs that turn from node to node, in balls or, with a proven bound, in pairs of doubles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.work import check_work

PAIRED = 140  # bits up to which pairs of doubles will do
TINY = 1e-290  # beside it nothing leaves the range of doubles
FRESH_AFTER = (
    24  # after which turned weights are computed anew: rectangles grow by each turn
)


def turned_sums(
    weights: Sequence[acb], exponents: Sequence[acb], nodes: int
) -> list[acb]:
    """Sums of weights times e^(n x), n = 0, 1, ..., nodes, for exponents x with no positive real part."""
    turns = [exponent.exp() for exponent in exponents]
    if ctx.prec <= PAIRED:
        sums = _in_pairs(weights, turns, nodes)
    else:
        sums = None
    if sums is not None:
        return sums
    sums = []
    turned = list(weights)
    for n in range(nodes + 1):
        if n % FRESH_AFTER == 0:
            check_work()
            turned = [
                weight * (n * exponent).exp()
                for weight, exponent in zip(weights, exponents)
            ]
        sums.append(sum(turned, acb(0)))
        turned = [weight * turn for weight, turn in zip(turned, turns)]
    return sums


def _in_pairs(
    weights: Sequence[acb], turns: Sequence[acb], nodes: int
) -> list[acb] | None:
    """The same by native/steps.h: at node n points are off by n times what is known of turns, and 2^-99."""
    native = compiled_steps()
    rows = [
        part
        for row in (weights, turns)
        for part in ([x.real for x in row], [x.imag for x in row])
    ]
    off = 2 * max(x.rad() for row in rows[2:] for x in row) + arb(2) ** -99
    lost = nodes * off + arb(2) ** -98 + arb(len(turns) + 4) ** 2 * arb(2) ** -104
    if native is None or not lost < arb(2) ** -40:
        return None
    pairs = [
        np.array([(high, float(x - high)) for x in row for high in (float(x),)]).T
        for row in rows
    ]
    sums = native.step_sums(
        "twice_turned", np.concatenate(pairs), nodes + 1, 8
    ).tolist()
    total = sum(
        (arb(x.abs_upper()) for row in rows[:2] for x in row), arb(len(turns) * TINY)
    )
    unknown = sum((x.rad() for row in rows[:2] for x in row), arb(0))
    slack = arb(0, (2 * unknown + 2 * lost * total).abs_upper())
    a, b, c, d = (
        [arb(x) + arb(y) for x, y in zip(*sums[k : k + 2])] for k in (0, 2, 4, 6)
    )
    return [
        acb(real - turned + slack, imag + other + slack)
        for real, imag, other, turned in zip(a, b, c, d)
    ]
