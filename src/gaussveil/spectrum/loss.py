"""`PrivacyLoss`: the exact privacy of a Gaussian pair or of any composition of pairs.

This is the narrow waist of the library: mechanisms name their worst pair, calibration inverts it, accounting adds it
up, the auditor reads it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.errors import (
    NotFiniteError,
    NumericalError,
    ParameterError,
    ShapeError,
)
from gaussveil.spectrum import contour, cumulants, enclosures, rules
from gaussveil.spectrum.arguments import (
    epsilon_array,
    float_array,
    probability_array,
    require_finite,
)
from gaussveil.spectrum.condensed import condensed
from gaussveil.spectrum.dominated import PROOF_BITS, dominated, proof_bits
from gaussveil.spectrum.enclosures.exact import ExactMatrices, ExactSource, ExactTerms
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.gaussian_facts import GaussianFacts
from gaussveil.spectrum.inversion import private_epsilon, tradeoff
from gaussveil.spectrum.reduced_terms import checked_columns, stored_columns
from gaussveil.spectrum.selection import (
    array_namespace,
    where,
)
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Array

SLIVER = 1e-13  # share of delta that pays for what a reduction leaves out


class PrivacyLoss(GaussianFacts):
    """Privacy loss L = log p_X/p_Y of a (composed) pair of Gaussians; a batch of losses when terms have leading axes.

    `delta`, `log_delta`, `epsilon`, `loss_tail`, `tradeoff` speak of the direction X||Y; `dp_delta` and `dp_epsilon`
    take the worse of both directions. X is the output with the record, Y without it. All arguments broadcast against
    the batch.

    Deltas, tails and curves are floats, for exploring; of ill-conditioned matrices they carry the error of a reduction
    in floats. Proven are `epsilon`, `dp_epsilon`, `enclose`, and `dominating`, which is what accounts keep.

    Its `terms` are gaps, ratios and shifts of its directions; its `sources`, what they came from, serve proven ends.

    >>> import gaussveil
    >>> loss = gaussveil.GaussianPair.mean_shift([0.5, 1.0])
    >>> loss.delta(1.0).round(6).tolist()
    [0.00683, 0.126937]
    """

    def __init__(self, terms: Terms, sources: Sequence[ExactSource]) -> None:
        self._terms = terms.read_only()
        self._sources = tuple(sources)
        self._dominating: dict[int, tuple[PrivacyLoss, float]] = {}

    @classmethod
    def from_terms(
        cls, variance_gap: Any, multiplicity: Any, energy: Any
    ) -> PrivacyLoss:
        """Loss with the given reduced terms (see `gaussveil.spectrum.terms`); the last axis runs over terms.

        Args:
            variance_gap: 1 less the variance of X over that of Y, below 1, one for each term.
            multiplicity: how many coordinates share it.
            energy: sum of their squared mean gaps, in standard deviations of Y.

        Returns:
            The loss of X ~ N(mean gaps, 1 - variance gaps) from Y ~ N(0, 1); refused where no pair has such columns.
        """
        gap, count, energies = checked_columns(variance_gap, multiplicity, energy)
        return PrivacyLoss(
            Terms.from_gaps(gap, count, energies),
            [ExactSource(ExactTerms(gap, count, energies))],
        )

    @property
    def variance_gap(self) -> Array:
        """Variance gaps, one per term."""
        return self._terms.variance_gap

    @property
    def multiplicity(self) -> Array:
        """How many coordinates share each variance gap."""
        return self._terms.multiplicity

    @property
    def energy(self) -> Array:
        """Sum of squared mean gaps of each term."""
        return self._terms.energy

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; () for a single loss."""
        return self._terms.batch_shape

    @property
    def sources(self) -> tuple[ExactSource, ...]:
        """The exact numbers that the loss was made from."""
        return self._sources

    def copy(self) -> PrivacyLoss:
        """The same loss, in arrays that nobody else holds."""
        terms = Terms(*(copy.deepcopy(column) for column in self._terms.columns()))
        return PrivacyLoss(terms, [source.copy() for source in self._sources])

    # --- one direction

    def log_delta(self, epsilon: Any) -> Array:
        """log of delta(epsilon), accurate also where delta underflows or is close to one."""
        return self._hockey_stick(epsilon)

    def delta(self, epsilon: Any) -> Array:
        """The hockey-stick divergence of X from Y: the smallest delta at epsilon in this direction.

        With a relative error below 1e-9 of reduced terms; of d-dimensional matrices below that plus 3e-15 d times their
        condition number, at most 1e-6 (docs/math/spectrum has the worst by regime).
        """
        log_delta = self._hockey_stick(epsilon)
        return _plain(array_namespace(log_delta).exp(log_delta))

    @np.errstate(divide="ignore")
    def epsilon(self, delta: Any) -> Array:
        """The smallest epsilon whose delta is at most `delta`, on the private side: delta(epsilon(delta)) <= delta.

        Of matrices it rests on a proven reduction, some milliseconds a pair in 12 dimensions; to explore large batches
        in plain floats, ask `PrivacyLoss.from_terms(pair.variance_gap, pair.multiplicity, pair.energy)`.
        """
        target = probability_array("delta", delta, self._terms.variance_gap)
        for bits in proof_bits(self._sources, self.batch_shape):
            loss, variation = self.dominating(bits)
            terms, flat, shape = loss._broadcast(target, loss._condensed)
            xp = array_namespace(flat)
            if variation == 0:
                return _plain(xp.reshape(private_epsilon(terms, flat), shape))
            # A sliver of the target pays for what the reduction leaves out; where it cannot, an enclosure may decide.
            answer = private_epsilon(terms, flat * (1 - SLIVER))
            paid = answer + math.log(2 * variation / SLIVER) <= xp.log(flat)
            doubtful = where(~paid & (answer < xp.inf))
            rows = [int(doubtful[place]) for place in range(doubtful.shape[0])]
            upper = {
                row: self._enclosed_log_delta(row, shape, float(answer[row]))
                for row in rows
            }
            short = [row for row in rows if not upper[row] <= float(xp.log(flat[row]))]
            for row in short:
                if float(flat[row]) == 0:
                    answer[row] = xp.inf
            if all(float(flat[row]) == 0 for row in short):
                return _plain(xp.reshape(answer, shape))
        raise NumericalError(
            "No epsilon was proven for so small a delta; use enclose() to inspect this pair."
        )

    def loss_tail(self, epsilon: Any) -> Array:
        """Pr_X[L > epsilon] for any real epsilon (one-sided probabilistic DP).

        Not a bound for mechanisms the pair only dominates.

        Returns:
            The probability, in the shape of epsilon.

        Raises:
            NotFiniteError: an epsilon is NaN or infinite.
            ShapeError: epsilons and the batch do not broadcast.
        """
        return self._tail(epsilon, rules.TAIL_X, rules.TAIL_X_COMPLEMENT)

    @np.errstate(all="ignore")
    def renyi(self, order: Any) -> Array:
        """Renyi divergence of X from Y; +inf where it does not exist; order 1 is the Kullback-Leibler divergence."""
        orders = float_array("order", order, self._terms.variance_gap)
        xp = array_namespace(orders)
        if not bool(xp.all(orders > 0)):
            raise ParameterError("'order' must be > 0. Got a value <= 0, or NaN.")
        terms, flat, shape = self._broadcast(orders)
        return _plain(xp.reshape(cumulants.renyi(terms, flat), shape))

    @np.errstate(all="ignore")
    def cumulant(self, order: Any) -> Array:
        """K(s) = log E_X[exp(s L)] at a real order s; +inf where it does not exist. K adds under composition."""
        orders = float_array("order", order, self._terms.variance_gap)
        require_finite("order", orders)
        terms, flat, shape = self._broadcast(orders)
        return _plain(
            array_namespace(flat).reshape(cumulants.cumulant(terms, flat), shape)
        )

    @np.errstate(all="ignore")
    def cumulant_upper(self, order: Any) -> Array:
        """At least K(s) of these terms, rounding counted, for an order s > 0: what filters and bounds may add up.

        Of matrices ask `dominating()` for terms first.

        Returns:
            The upper end, in the shape of order.

        Raises:
            ParameterError: an order is not above 0.
            ShapeError: orders and the batch do not broadcast.
        """
        orders = float_array("order", order, self._terms.variance_gap)
        require_finite("order", orders)
        if not bool(array_namespace(orders).all(orders > 0)):
            raise ParameterError(
                "'order' must be > 0 for an upper end of K. Got a value <= 0."
            )
        terms, flat, shape = self._broadcast(orders)
        return _plain(
            array_namespace(flat).reshape(cumulants.cumulant_upper(terms, flat), shape)
        )

    @np.errstate(all="ignore")
    def tradeoff(self, type_one_error: Any) -> Array:
        """Smallest type II error of a test of Y (null) against X at a `type_one_error`: f-DP, 1 less the ROC curve."""
        level = probability_array(
            "type_one_error", type_one_error, self._terms.variance_gap
        )
        terms, flat, shape = self._broadcast(level, self._condensed)
        return _plain(array_namespace(flat).reshape(tradeoff(terms, flat), shape))

    def enclose(self, epsilon: Any) -> Enclosure:
        """Rigorous lower and upper end of delta(epsilon) by ball arithmetic, from the exact inputs of the pair."""
        ends: Enclosure = enclosures.enclose_loss(
            self._sources, self.batch_shape, epsilon
        )
        return ends

    def dominating(self, bits: int = PROOF_BITS[0]) -> tuple[PrivacyLoss, float]:
        """A loss of plain terms that is no better than this one, and a total variation to be paid on top, both proven.

        Balls of so many `bits` decide.

        delta of this loss is at most delta of that one plus (1 + e^epsilon) times the total variation, at every epsilon
        and in both directions: what accounts keep of a pair of matrices. Reduced terms dominate themselves.
        """
        if not any(
            isinstance(source.origin, ExactMatrices) for source in self._sources
        ):
            return self, 0.0
        if bits not in self._dominating:
            terms, total = dominated(
                self._sources, self.batch_shape, self._terms.variance_gap, bits
            )
            exact = ExactSource(
                ExactTerms(terms.variance_gap, terms.multiplicity, terms.energy)
            )
            self._dominating[bits] = PrivacyLoss(terms, [exact]), total * (1 + 2.0**-40)
        return self._dominating[bits]

    # --- both directions

    @np.errstate(all="ignore")
    def reversed(self) -> PrivacyLoss:
        """The loss of Y against X."""
        exchanged = PrivacyLoss(
            self._terms.reversed(), [source.reversed() for source in self._sources]
        )
        exchanged._dominating |= {
            bits: (loss.reversed(), left)
            for bits, (loss, left) in self._dominating.items()
        }
        return exchanged

    def dp_delta(self, epsilon: Any) -> Array:
        """delta of (epsilon, delta)-differential privacy: the worse of both directions."""
        forward = self.delta(epsilon)
        backward = self.reversed().delta(epsilon)
        return _plain(
            array_namespace(float_array("delta", forward)).maximum(forward, backward)
        )

    def dp_epsilon(self, delta: Any) -> Array:
        """epsilon of (epsilon, delta)-differential privacy: the worse of both directions, on the private side."""
        forward = self.epsilon(delta)
        backward = self.reversed().epsilon(delta)
        return _plain(
            array_namespace(float_array("epsilon", forward)).maximum(forward, backward)
        )

    # --- composition

    @np.errstate(all="ignore")
    def __pow__(self, count: int) -> PrivacyLoss:
        """The loss of `count` independent repetitions."""
        checks.whole(
            "count", count, "[1, 9007199254740992]"
        )  # 2^53: beyond it a float no longer counts
        terms = self._terms
        folded = Terms(
            terms.variance_gap,
            terms.log_ratio,
            terms.multiplicity * int(count),
            terms.energy * int(count),
        )
        require_finite("energy", folded.energy)
        return PrivacyLoss(
            folded, [source.repeated(int(count)) for source in self._sources]
        )

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> PrivacyLoss:
        """The loss of a record that `to_dict` wrote.

        Returns:
            A loss whose terms are these, to the last bit.
        """
        return cls.from_terms(*stored_columns(record))

    @cached_property
    def _condensed(self) -> Terms:
        """What integrals use."""
        return condensed(self._terms)

    def _broadcast(
        self, argument: Array, terms: Terms | None = None
    ) -> tuple[Terms, Array, tuple[int, ...]]:
        xp = array_namespace(self._terms.variance_gap, argument)
        shape = self.batch_shape
        if tuple(argument.shape) == shape:
            return (
                (terms or self._terms).flat(shape),
                xp.reshape(argument, (-1,)),
                shape,
            )
        try:
            shape = np.broadcast_shapes(shape, tuple(argument.shape))
        except ValueError:
            raise ShapeError(
                f"The argument of shape {tuple(argument.shape)} must broadcast with the batch {self.batch_shape}."
            ) from None
        return (
            (terms or self._terms).flat(shape),
            xp.reshape(xp.broadcast_to(argument, shape), (-1,)),
            shape,
        )

    @np.errstate(all="ignore")
    def _hockey_stick(self, epsilon: Any) -> Array:
        terms, flat, shape = self._broadcast(
            epsilon_array(epsilon, self._terms.variance_gap), self._condensed
        )
        xp = array_namespace(flat)
        values, _, error = contour.log_delta(terms, flat)
        log_delta = xp.minimum(values, xp.zeros_like(values))
        again = where(contour.doubtful(values, error))
        for row in (int(again[place]) for place in range(again.shape[0])):
            log_delta[row] = self._enclosed_log_delta(row, shape, float(flat[row]))
        return _plain(xp.reshape(log_delta, shape))

    def _enclosed_log_delta(
        self, row: int, shape: tuple[int, ...], epsilon: float
    ) -> float:
        """log delta by ball arithmetic, for the rare place where doubles cancel: next to the largest loss, say."""
        try:
            ends = enclosures.enclose_at(
                self._sources,
                self.batch_shape,
                np.unravel_index(row, shape),
                shape,
                epsilon,
            )
        except NumericalError:  # not decided: at most one
            return 0.0
        return float(ends.log_upper)

    @np.errstate(all="ignore")
    def _tail(self, epsilon: Any, upper: rules.Region, lower: rules.Region) -> Array:
        threshold = float_array("epsilon", epsilon, self._terms.variance_gap)
        xp = array_namespace(threshold)
        if bool(xp.any(xp.isnan(threshold))):
            raise NotFiniteError("'epsilon' must not be NaN.")
        terms, flat, shape = self._broadcast(threshold, self._condensed)
        return _plain(
            xp.reshape(contour.tail_probability(terms, flat, upper, lower), shape)
        )


def _plain(array: Array) -> Array:
    """NumPy scalars for scalar answers; other libraries keep their zero-dimensional arrays."""
    if isinstance(array, np.ndarray):
        return array[()]
    return array
