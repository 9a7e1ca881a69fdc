"""Sums over outputs that turn from node to node, in balls or, with a proven bound, in pairs of doubles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

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
        in_pairs = _in_pairs(weights, turns, nodes)
        if in_pairs is not None:
            return in_pairs
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
    if native is None:
        return None
    weighed = [[x.real for x in weights], [x.imag for x in weights]]
    turned = [[x.real for x in turns], [x.imag for x in turns]]
    widest = max(x.rad() for x in chain(*turned))
    off = 2 * widest + arb(2) ** -99
    lost = nodes * off + arb(2) ** -98 + arb(len(turns) + 4) ** 2 * arb(2) ** -104
    if not lost < arb(2) ** -40:
        return None
    pairs = np.concatenate([_as_pairs(row) for row in (*weighed, *turned)])
    sums = native.step_sums("twice_turned", pairs, nodes + 1, 8).tolist()
    total = arb(len(turns) * TINY)
    unknown = arb(0)
    for x in chain(*weighed):
        total += arb(x.abs_upper())
        unknown += x.rad()
    slack = arb(0, (2 * unknown + 2 * lost * total).abs_upper())
    # real weights times cosines, then times sines; imaginary weights likewise
    a, b, c, d = (
        [arb(high) + arb(low) for high, low in zip(*sums[k : k + 2])]
        for k in (0, 2, 4, 6)
    )
    return [
        acb(real - turned_imag + slack, imag + turned_real + slack)
        for real, imag, turned_real, turned_imag in zip(a, b, c, d)
    ]


def _as_pairs(row: Sequence[arb]) -> Floats:
    """Each ball's middle as the sum of two doubles, in two rows."""
    highs = [float(x) for x in row]
    return np.array([highs, [float(x - high) for x, high in zip(row, highs)]])
