"""`GaussianPair`: any two Gaussians, reduced to a privacy loss."""

from __future__ import annotations

from typing import Any

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.dominated import sharper_rows
from gaussveil.spectrum.enclosures.exact import ExactSource, ExactTerms
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.reduction import exact_matrices, reduce_pair
from gaussveil.spectrum.selection import array_namespace
from gaussveil.spectrum.terms import Terms, energy_of

LARGEST_ERROR = (
    1e-6  # of a delta, relative: a reduction that may err by more is replaced
)


class GaussianPair(PrivacyLoss):
    """Privacy of one of two Gaussians: X ~ N(mean_x, cov_x), the output with the record, or Y ~ N(mean_y, cov_y),
    without it.

    Arrays may carry leading batch axes. Lists, integers and float32 are promoted to float64; PyTorch and CuPy arrays
    stay on their device.

    Args:
        mean_x, mean_y: vectors of d numbers.
        cov_x, cov_y: symmetric positive definite matrices of d rows.

    Raises:
        ShapeError: the four do not share one d, or their batches do not broadcast.
        NotSymmetricError: a covariance differs from its transpose.
        NotPositiveDefiniteError: a covariance is not positive definite.
        NotFiniteError: a number is not finite.

    >>> import gaussveil
    >>> pair = gaussveil.GaussianPair([1.0], [[1.0]], [0.0], [[1.0]])
    >>> round(float(pair.dp_delta(1.0)), 6)
    0.126937
    """

    _reduced: Terms

    def __init__(self, mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> None:
        exact = exact_matrices(mean_x, cov_x, mean_y, cov_y)
        gap, log_ratio, mean_gap, error = reduce_pair(exact)
        xp = array_namespace(gap)
        ones = xp.ones(gap.shape[-1:], dtype=gap.dtype, device=gap.device)
        if gap.ndim != 1:
            ones = xp.broadcast_to(ones, gap.shape)
        doubtful = ~(error <= LARGEST_ERROR)  # NaN is doubtful too
        self._doubtful = doubtful if bool(xp.any(doubtful)) else None
        super().__init__(
            Terms(gap, log_ratio, ones, energy_of(mean_gap)), [ExactSource(exact)]
        )

    @property
    def _terms(self) -> Terms:
        """The reduced terms; those that doubles may have lost are made anew when first asked for."""
        if self._doubtful is not None:
            sharper = sharper_rows(self._sources[0], self._reduced, self._doubtful)
            self._reduced = sharper.read_only()
            self._doubtful = None
        return self._reduced

    @_terms.setter
    def _terms(self, terms: Terms) -> None:
        self._reduced = terms

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; () for a single pair."""
        return self._reduced.batch_shape

    @classmethod
    def from_reduced(cls, variance_gap: Any, mean_gap: Any) -> PrivacyLoss:
        """The pair X_i ~ N(mean_gap_i, 1 - variance_gap_i), Y ~ N(0, I).

        Args:
            variance_gap: 1 less the variance of each direction of X.
            mean_gap: mean of each direction of X.

        Returns:
            The loss of the pair, a batch of losses where there are leading axes.

        Raises:
            ParameterError: a variance gap is 1 or more.
            NotFiniteError: a number is NaN or infinite.
            ShapeError: both do not broadcast, or there is no direction.
        """
        gap = float_array("variance_gap", variance_gap)
        mean = float_array("mean_gap", mean_gap, like=gap)
        xp = array_namespace(gap, mean)
        require_finite("variance_gap", gap)
        require_finite("mean_gap", mean)
        try:
            gap, mean = xp.broadcast_arrays(gap, mean)
        except (ValueError, RuntimeError):
            raise ShapeError(
                f"'variance_gap' and 'mean_gap' must broadcast. Got shapes {gap.shape} and {mean.shape}."
            ) from None
        if gap.ndim < 1 or gap.shape[-1] < 1:
            raise ShapeError(
                f"'variance_gap' must have shape (..., d) with d >= 1. Got {tuple(gap.shape)}."
            )
        if not bool(xp.all(gap < 1)):
            raise ParameterError(
                "'variance_gap' must be < 1: X has variance 1 - variance_gap. Got a value >= 1."
            )
        ones = xp.broadcast_to(
            xp.ones((1,), dtype=gap.dtype, device=gap.device), gap.shape
        )
        # the caller may change theirs
        gap = xp.asarray(gap, copy=True)
        mean = xp.asarray(mean, copy=True)
        energy = energy_of(mean)
        require_finite("mean_gap squared", energy)
        return PrivacyLoss(
            Terms.from_gaps(gap, ones, energy),
            [ExactSource(ExactTerms(gap, ones, energy, mean))],
        )

    @classmethod
    def mean_shift(cls, shift: Any) -> PrivacyLoss:
        """N(shift, 1) against N(0, 1): a Gaussian mechanism of sensitivity `shift` noise standard deviations.

        Returns:
            The loss, a batch of losses for an array of shifts.
        """
        mean = float_array("shift", shift)
        return cls.from_reduced(
            array_namespace(mean).zeros_like(mean)[..., None], mean[..., None]
        )
