"""Upper ends of delta for whole batches, proven in plain doubles: coarse, but as fast as the exploring kernel.

A pair of matrices is diagonalised in doubles, what that leaves over is measured with bounds on every rounding, and
enters as a total variation of some 1e-15 times the condition number (derived: docs/math/spectrum). Enough to say that
a neighbour lies safely below a claim; who needs the last digit encloses.
"""

from __future__ import annotations

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.spectrum.enclosures.enclosure import host
from gaussveil.spectrum.enclosures.exact import ExactMatrices
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.pair_composition import compose
from gaussveil.spectrum.reduction_rules import scale_of
from gaussveil.typing import Floats


@np.errstate(all="ignore")  # what overflows shows nothing, and says one
def dp_delta_upper(loss: PrivacyLoss, epsilon: float) -> Floats:
    """At least the worse of both directions of delta, for each loss of a batch; 1 where doubles show nothing."""
    losses = []
    variation = np.zeros(loss.batch_shape)
    for source in loss.sources:
        origin = source.origin
        if isinstance(origin, ExactMatrices):
            gap, energy, left_out = _diagonal(origin, loss.batch_shape)
            variation = variation + source.count * left_out
            part = PrivacyLoss.from_terms(gap, np.ones_like(gap), energy)
        else:
            part = PrivacyLoss.from_terms(
                *(
                    host(column)
                    for column in (
                        origin.variance_gap,
                        origin.multiplicity,
                        origin.energy,
                    )
                )
            )
        losses.append((part.reversed() if source.swapped else part) ** source.count)
    whole = compose(*losses)
    ideal = np.maximum(whole.delta(epsilon), whole.reversed().delta(epsilon)) * (
        1 + LOSS_RELATIVE_ERROR
    )
    upper = ideal + (1 + np.exp(epsilon)) * (1 + 1e-9) * variation
    return np.where(upper < 1, upper, 1.0)


def _diagonal(
    pair: ExactMatrices, batch: tuple[int, ...]
) -> tuple[Floats, Floats, Floats]:
    """Variance gaps, energies and the total variation between their pair and the exact one; infinite if unknown."""
    mean_x, cov_x, mean_y, cov_y = (
        host(entry) for entry in (pair.mean_x, pair.cov_x, pair.mean_y, pair.cov_y)
    )
    size = cov_y.shape[-1]
    unit = (
        4 * (size + 4) * UNIT_ROUNDOFF
    )  # at least twice what products of three matrices can lose
    scale = np.broadcast_to(
        scale_of(np, np.diagonal(cov_y, axis1=-2, axis2=-1)), (*batch, size)
    )
    square = scale[..., :, None] * scale[..., None, :]
    lopsided = sum(np.abs(cov) * (cov != cov.mT) for cov in (cov_x, cov_y)) * square
    cov_x, cov_y = ((cov + cov.mT) / 2 * square for cov in (cov_x, cov_y))
    difference = cov_y - cov_x
    shift = ((mean_x - mean_y) * scale)[..., None]
    try:
        whiten = np.linalg.inv(np.linalg.cholesky(cov_y))
        _, axes = np.linalg.eigh(whiten @ difference @ whiten.mT)
    except np.linalg.LinAlgError:
        return (
            np.zeros((*batch, size)),
            np.zeros((*batch, size)),
            np.full(batch, np.inf),
        )
    rows = axes.mT @ whiten
    gram = rows @ cov_y @ rows.mT - np.eye(size)
    gap = rows @ difference @ rows.mT
    sizes = np.abs(rows)
    left_gram = _length(gram) + unit * (
        _length(sizes @ (np.abs(cov_y) + lopsided) @ sizes.mT) + size
    )
    left_gap = _length(gap * (1 - np.eye(size))) + unit * _length(
        sizes @ (np.abs(difference) + lopsided) @ sizes.mT
    )
    gaps = np.diagonal(gap, axis1=-2, axis2=-1)
    means = (rows @ shift)[..., 0]
    narrowest = 1 - np.maximum(np.max(gaps, axis=-1), 0.0)
    share = (left_gram + left_gap) / narrowest
    left_mean = unit * np.sqrt(
        np.sum((sizes @ np.abs(shift)) ** 2, axis=(-2, -1)) / narrowest
    )
    bounded = (share < 0.25) & (narrowest > 0) & np.isfinite(left_mean)
    gaps, energy = (
        np.where(bounded[..., None], column, 0.0) for column in (gaps, means * means)
    )
    return (
        gaps,
        energy * (1 + 4 * UNIT_ROUNDOFF),
        np.where(bounded, (share + left_mean) / 2, np.inf),
    )


def _length(matrices: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(matrices * matrices, axis=(-2, -1))))
