"""Privacy losses of Gaussian pairs, composed: their cumulants add up, so that one loss holds them all."""

from __future__ import annotations

from collections.abc import Sequence

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
from gaussveil.typing import Array


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
    batch = _broadcast_batch(losses)
    columns = [
        _joined_column(losses, name, batch)
        for name in ("variance_gap", "log_ratio", "multiplicity", "energy")
    ]
    if batch:
        terms = Terms(*columns)
    else:
        terms = folded(*columns)
    return PrivacyLoss(terms, [source for loss in losses for source in loss._sources])


def _broadcast_batch(losses: Sequence[PrivacyLoss]) -> tuple[int, ...]:
    shapes = [loss.batch_shape for loss in losses]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"Batches must broadcast. Got {shapes}.") from None


def _joined_column(
    losses: Sequence[PrivacyLoss], name: str, batch: tuple[int, ...]
) -> Array:
    """One column of the terms of all losses, side by side."""
    xp = array_namespace(*(loss.variance_gap for loss in losses))
    columns = [
        xp.broadcast_to(
            getattr(loss._terms, name), (*batch, loss.variance_gap.shape[-1])
        )
        for loss in losses
    ]
    return xp.concat(columns, axis=-1)
