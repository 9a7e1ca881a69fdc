"""The least mean shift that dominates a pair of bounded loss: what a filter of mean shifts charges for it.

Derived: docs/ledger, "Laplace noise among mean shifts". Both trade-off curves are symmetric, and in the logarithms of
both errors that of a mean shift is concave. So it lies below that of the pair as soon as its errors, where they are
equal, are at most those that the corners of the pair's curve lie on.
"""

from __future__ import annotations

import math

import scipy

from gaussveil.accounting.pure_losses import largest_loss
from gaussveil.spectrum import PrivacyCurve
from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.profiles import DiscreteLaplace, Laplace

ROUNDED_UP = 1 + 1e-9


def dominating_energy(source: PrivacyCurve) -> float:
    """Square of the mean shift, rounded up; infinite where the loss has no bound.

    >>> from gaussveil.spectrum.profiles import DiscreteLaplace
    >>> round(dominating_energy(DiscreteLaplace(1, 1.0)) ** 0.5, 3)
    1.232
    """
    if isinstance(source, DiscreteLaplace):
        # Corners have the product r^(shift + 1) / (1 + r)^2 of both errors, r = exp(-1/scale).
        rate = 1.0 / source.scale
        exponent = rate * (source.shift + 1) / 2
        log_error = -exponent - math.log1p(math.exp(-rate))
    elif isinstance(source, Laplace):
        exponent = source.largest_loss / 2
        log_error = -exponent - math.log(2)
    else:
        loss = max(
            float(largest_loss([(side, 1)])) for side in (source, source.reversed())
        )
        if math.isinf(loss):
            return math.inf
        # Randomised response dominates; its one corner has both errors 1 / (1 + e^loss).
        exponent = loss
        log_error = -loss - math.log1p(math.exp(-loss))
    shift = -2 * float(scipy.special.ndtri_exp(log_error))
    shift += 16 * ULP * (1 + exponent)  # what the error may be rounded by
    return max(shift, 0.0) ** 2 * ROUNDED_UP
