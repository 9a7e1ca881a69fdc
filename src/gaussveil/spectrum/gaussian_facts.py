"""What compositions and accounts ask of a Gaussian loss, answered from its terms and exact sources."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum.constants import ROUNDED_UP, SMALLEST_DELTA
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR, SKETCH_NODES, mean_shift_delta
from gaussveil.spectrum.enclosures.exact import ExactSource, ExactTerms
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.enclosures.upper_end import upper_end
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Array, Floats

TIE = 1e-6  # edges this close to the worst are all enclosed; floats agree to better than 1e-9
MEAN_SHIFT_TIE = (
    1e-11  # of squared lengths, that sums of up to thousands of terms tell wrongly
)
LEAST_ENERGY = 1e-6  # of a mean shift whose closed form keeps its digits
FAINTER = 1.0 - 2.0**-48  # more than roundings of noise multipliers and shifts are


class GaussianFacts(PrivacyCurve):
    """Base of `PrivacyLoss`: answers that follow from the terms alone."""

    stored_as: ClassVar[str] = "gaussian"
    cumulants_proven: ClassVar[bool] = True
    variance_gap: Array
    multiplicity: Array
    energy: Array

    @property
    @abstractmethod
    def sources(self) -> tuple[ExactSource, ...]:
        """The exact numbers that the loss was made from."""

    @classmethod
    @abstractmethod
    def from_terms(cls, variance_gap: Any, multiplicity: Any, energy: Any) -> Any:
        """Loss with the given reduced terms."""

    @abstractmethod
    def cumulant_upper(self, order: Any) -> Array:
        """At least K(s) of these terms for s > 0."""

    @property
    def relative_error(self) -> float:
        """What is promised of deltas even at the edge of their range."""
        return LOSS_RELATIVE_ERROR

    @property
    def is_mean_shift(self) -> bool:
        """Whether variances are equal, so that exchanging X and Y changes nothing."""
        return not np.any(np.asarray(self.variance_gap) != 0.0)

    @property
    def symmetric(self) -> bool:
        """Whether exchanging X and Y changes nothing."""
        return self.is_mean_shift

    @property
    def exact_mean_gap(self) -> tuple[float, ...] | None:
        """Mean gaps of which the terms hold rounded squares; () where the terms are exact, None for anything else."""
        origins = [
            source.origin
            for source in self.sources
            if (source.count, source.swapped) == (1, False)
        ]
        if (
            len(self.sources) != 1
            or not origins
            or not isinstance(origins[0], ExactTerms)
        ):
            return None
        gap = origins[0].mean_gap
        if gap is None:
            return ()
        return tuple(np.asarray(gap, dtype=np.float64).ravel().tolist())

    @property
    def _has_closed_form(self) -> bool:
        return self.is_mean_shift and bool(
            np.max(np.sum(self.energy, axis=-1)) >= LEAST_ENERGY
        )

    def factors(self) -> Factors:
        """The loss itself."""
        return Factors(gaussians=((self, 1),))

    def fold_key(self) -> object:
        """Its stored form."""
        return self.to_dict()

    def fainter(self) -> PrivacyCurve:
        """A mean shift no larger than it is: it was rounded outwards."""
        if self.batch_shape or not self.is_mean_shift:
            return self
        faint: PrivacyCurve = self.from_terms(
            [0.0], [1.0], [math.fsum(self.energy) * FAINTER * FAINTER]
        )
        return faint

    def worst_delta(self, epsilon: Floats) -> Floats:
        """Delta at each epsilon; of a batch of pairs the largest, which dominates them all."""
        if self._has_closed_form:
            return mean_shift_delta(
                float(np.sqrt(np.max(np.sum(self.energy, axis=-1)))), epsilon
            )
        batch = len(self.batch_shape)
        value = np.asarray(
            self.delta(epsilon.reshape(epsilon.shape + (1,) * batch)), dtype=np.float64
        )
        if batch:
            return np.asarray(value.max(axis=tuple(range(-batch, 0))))
        return value

    def largest_delta(self, epsilon: float) -> float:
        """Delta at one epsilon, above 0 also where that leaves the range of doubles; of a batch the largest."""
        log_delta = float(np.max(self.log_delta(epsilon)))
        if log_delta > -math.inf:
            return max(math.exp(log_delta), SMALLEST_DELTA)
        return 0.0

    def quick_upper_end(self, epsilon: float) -> float:
        """A proven upper end of delta by doubles alone; infinite where they do not decide.

        Args:
            epsilon: privacy level.
        """
        return upper_end(self.sources, epsilon)

    def enclose_largest(self, epsilon: float) -> Enclosure:
        """Ends of delta; edges of a batch that are clearly not the worst need no enclosure.

        Args:
            epsilon: privacy level.
        """
        if not self.batch_shape:
            return self.enclose(epsilon)
        if self.is_mean_shift:
            # rounded sums of energies may tell the longest wrongly by a few roundings
            rough = np.reshape(np.sum(np.asarray(self.energy), axis=-1), -1)
            alike = MEAN_SHIFT_TIE
        else:
            rough = np.reshape(self.delta(epsilon), -1)
            alike = TIE
        tied = np.flatnonzero(rough >= np.max(rough) * (1 - alike))
        ends = [edge.enclose(epsilon) for edge in self._distinct_edges(tied)]
        largest = ends[0]
        for other in ends[1:]:
            largest = largest.larger(other)
        return largest

    def _distinct_edges(self, rows: NDArray[np.intp]) -> Sequence[PrivacyCurve]:
        """Chosen edges of a batch as single losses, equal ones once."""
        columns = [
            np.asarray(column)
            for column in (self.variance_gap, self.multiplicity, self.energy)
        ]
        table = np.stack(
            [column.reshape(-1, column.shape[-1])[rows] for column in columns], axis=1
        )
        return [self.from_terms(*edge) for edge in np.unique(table, axis=0)]

    def dp_delta_upper(self, epsilon: float) -> float:
        """At least the worse direction's delta, proven.

        Args:
            epsilon: privacy level.
        """
        return float(self.dp_enclose(epsilon).upper)

    def cumulant_bounds(self, orders: Floats) -> tuple[Floats, Floats]:
        """Upper ends of K at orders > 0, one axis more for a batch; no tail mass is left out."""
        grid = orders.reshape(-1, *(1,) * len(self.batch_shape))
        return np.asarray(self.cumulant_upper(grid)), np.zeros(len(orders))

    @property
    def largest_shift(self) -> float:
        """The mean shift that it is; infinite where variances differ."""
        if not self.is_mean_shift:
            return math.inf
        return math.sqrt(float(np.max(np.sum(self.energy, axis=-1)))) * ROUNDED_UP

    @property
    def shift_energies(self) -> list[float] | None:
        """Squared mean gaps, if the loss is one plain mean shift."""
        if self.batch_shape or not self.is_mean_shift:
            return None
        return self.stored_energies

    @property
    def stored_energies(self) -> list[float]:
        """Squared mean gaps as they are stored."""
        energies: list[float] = np.ravel(
            np.asarray(self.energy, dtype=np.float64)
        ).tolist()
        return energies

    @property
    def mean_shift_energy(self) -> NDArray[np.float64] | None:
        """Squared length of the mean shift, for each entry of a batch; None where variances differ."""
        if not self.is_mean_shift:
            return None
        return np.asarray(np.sum(np.asarray(self.energy, dtype=np.float64), axis=-1))

    @property
    def largest_multiplicity(self) -> float:
        """The most coordinates that share a variance gap."""
        return max(1.0, float(np.max(self.multiplicity)))

    @property
    def smallest_variance(self) -> float:
        """The least variance of X over Y's."""
        return float(np.min(1 - np.asarray(self.variance_gap)))

    def affordable_nodes(self, work: float) -> float:
        """At how many epsilons a grid may ask for delta, if a contour integral is asked for that much work."""
        if self._has_closed_form:
            return math.inf
        return max(SKETCH_NODES, work / (2 + np.size(self.variance_gap)))

    @property
    def kind(self) -> str:
        """A mean shift with its length, or a Gaussian pair."""
        energy = self.mean_shift_energy
        if energy is None:
            return "Gaussian pair"
        return f"mean shift {math.sqrt(float(np.max(energy))):.6g}"

    def as_stored(self, *, upwards: bool = False) -> PrivacyCurve:
        """The loss of terms whose squares of mean gaps are rounded; `upwards` to the next larger number."""
        energy = np.asarray(self.energy, dtype=np.float64)
        if upwards:
            energy = np.where(energy > 0, np.nextafter(energy, np.inf), 0.0)
        stored: PrivacyCurve = self.from_terms(
            self.variance_gap, self.multiplicity, energy
        )
        return stored

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready reduced form; floats survive the round trip exactly."""
        return {
            name: np.asarray(getattr(self, name)).tolist()
            for name in ("variance_gap", "multiplicity", "energy")
        }
