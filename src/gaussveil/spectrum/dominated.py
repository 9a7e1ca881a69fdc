"""Plain terms that dominate the pairs of matrices of a loss, by proven reductions of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaussveil.spectrum import enclosures
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.enclosures.exact import ExactMatrices, ExactSource
from gaussveil.spectrum.selection import (
    array_namespace,
    put_rows,
    where,
)
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Array

PROOF_BITS = (
    256,
    1024,
)  # of the reduction of matrices; each is tried where the one before leaves too much open
QUICK_BITS = 128  # where MANY pairs are reduced together, to some 25 digits
MANY = 8


def proof_bits(
    sources: Sequence[ExactSource], batch_shape: tuple[int, ...]
) -> tuple[int, ...]:
    """The precisions to try, one after the other."""
    pairs = sum(
        isinstance(source.origin, ExactMatrices) for source in sources
    ) * math.prod(batch_shape)
    if pairs < MANY:
        return PROOF_BITS
    return (QUICK_BITS, *PROOF_BITS)


def dominated(
    sources: Sequence[ExactSource], batch_shape: tuple[int, ...], like: Array, bits: int
) -> tuple[Terms, float]:
    """Terms of all sources, repeated as they are, and the total variation they leave out; energies rounded up."""
    xp = array_namespace(like)
    pairs = [source for source in sources if isinstance(source.origin, ExactMatrices)]
    reduced = enclosures.dominate(pairs, batch_shape, bits, bits == QUICK_BITS)
    pieces = []
    total = 0.0
    for source in sources:
        origin = source.origin
        count = source.count
        variation = 0.0
        if isinstance(origin, ExactMatrices):
            pair, variation = next(reduced)
            gap, log_ratio, energy = (
                float_array("terms", column, like) for column in pair
            )
            terms = Terms(gap, log_ratio, xp.ones_like(gap), energy)
        else:
            shape = (*batch_shape, origin.variance_gap.shape[-1])
            stored = (origin.variance_gap, origin.multiplicity, origin.energy)
            terms = Terms.from_gaps(
                *(xp.broadcast_to(values, shape) for values in stored)
            )
            if source.swapped:
                terms = terms.reversed()
        if count > 1:
            energy = terms.energy * (count * (1 + 2.0**-51))
            terms = Terms(
                terms.variance_gap, terms.log_ratio, terms.multiplicity * count, energy
            )
        pieces.append(terms)
        total += variation * count
    columns = (
        xp.concat(list(column), axis=-1)
        for column in zip(*(piece.columns() for piece in pieces))
    )
    return Terms(*columns), total


def sharper_rows(source: ExactSource, terms: Terms, doubtful: Array) -> Terms:
    """The terms of a batch of pairs, where `doubtful` holds from reductions with more digits than doubles have."""
    batch = terms.batch_shape
    flat = terms.flat(batch)
    rows = where(array_namespace(doubtful).reshape(doubtful, (-1,)))
    sharper = enclosures.sharper(source, batch, [int(row) for row in rows])
    columns = [float_array("terms", column, flat.variance_gap) for column in sharper]
    merged = (
        put_rows(old, rows, new)
        for old, new in zip((flat.variance_gap, flat.log_ratio, flat.energy), columns)
    )
    xp = array_namespace(flat.variance_gap)
    gap, log_ratio, energy = (
        xp.reshape(column, terms.variance_gap.shape) for column in merged
    )
    return Terms(gap, log_ratio, terms.multiplicity, energy)
