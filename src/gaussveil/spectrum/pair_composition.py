"""Privacy losses of Gaussian pairs, composed: their cumulants add up, so that one loss holds them all."""

from __future__ import annotations

import numpy as np

from gaussveil.errors import (
    ParameterError,
    ShapeError,
)
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.selection import (
    array_namespace,
)
from gaussveil.spectrum.terms import Terms, folded


def compose(*losses: PrivacyLoss) -> PrivacyLoss:
    """The loss of releasing all outputs together; batches compose by broadcasting.

    Exact for a sequence of pairs fixed in advance (queries may be adaptive, the pairs not). The order does not matter,
    to the last bit.

    Args:
        losses: losses of pairs, at least one.

    Returns:
        One loss, whose terms are those of all: their cumulants add up.

    Raises:
        ParameterError: no loss is given.
        ShapeError: their batches do not broadcast.

    >>> import gaussveil
    >>> both = gaussveil.compose(gaussveil.GaussianPair.mean_shift(0.6), gaussveil.GaussianPair.mean_shift(0.8))
    >>> round(float(both.dp_delta(1.0)), 6)
    0.126937
    """
    if not losses:
        raise ParameterError("compose() needs at least one privacy loss.")
    xp = array_namespace(*(loss.variance_gap for loss in losses))
    try:
        batch = np.broadcast_shapes(*(loss.batch_shape for loss in losses))
    except ValueError:
        raise ShapeError(
            f"Batches must broadcast. Got {[loss.batch_shape for loss in losses]}."
        ) from None
    columns = [
        xp.concat(
            [
                xp.broadcast_to(
                    getattr(loss._terms, name), (*batch, loss.variance_gap.shape[-1])
                )
                for loss in losses
            ],
            axis=-1,
        )
        for name in ("variance_gap", "log_ratio", "multiplicity", "energy")
    ]
    if batch:
        terms = Terms(*columns)
    else:
        terms = folded(*columns)
    return PrivacyLoss(terms, [source for loss in losses for source in loss._sources])
