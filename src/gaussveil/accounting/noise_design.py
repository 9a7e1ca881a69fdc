"""`NoiseDesign`: a mechanism described by its parameters, whose noise multiplier may still be open.

Each design is a privacy curve, that of one use for its default relation; an accountant asks it for its parts under the
relation of its own, and `calibrate` looks for its noise multiplier.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from gaussveil.accounting.relation import ADD_REMOVE, RELATIONS, REPLACE
from gaussveil.checks import one_of, real, refuse
from gaussveil.spectrum import GaussianPair, PrivacyCurve, composed
from gaussveil.spectrum.stands_for import StandsFor
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import SMALLEST_RATE, STORED_RATE, Step

NOISE = "[0.01, 1000000]"
SLIGHTLY_LESS = 1.0 - 1e-15  # makes up for two roundings of a quotient


@dataclass(frozen=True, kw_only=True)
class NoiseDesign(StandsFor):
    """What is released, but for how much noise is added: `noise_multiplier` may be left open until it is calibrated."""

    is_one_of_many: ClassVar[bool] = False
    """Whether a use is one step of a run, the number of which must be said."""
    noise_multiplier: float | None = None

    @abstractmethod
    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """The curves of one use, with counts, for neighbours of a relation."""

    @property
    def usual_relation(self) -> str:
        """The relation for which it is a curve by itself."""
        return ADD_REMOVE

    def curve(self) -> PrivacyCurve:
        """The curve of one use for the usual relation.

        Returns:
            The curve of one release with add-or-remove neighbours.

        Raises:
            ParameterError: the noise is still open.
        """
        return self._alone

    @cached_property
    def _alone(self) -> PrivacyCurve:
        whole = composed(self.parts_for(self.usual_relation))
        assert whole is not None  # of at least one curve
        return whole

    def with_noise(self, noise_multiplier: float) -> Self:
        """The same mechanism with this noise multiplier.

        Args:
            noise_multiplier: standard deviation over how far neighbours are apart.

        Returns:
            A copy; this one stays as it is.
        """
        return replace(self, noise_multiplier=noise_multiplier)

    def shift(self, distance: float = 1.0) -> float:
        """Distance / noise multiplier, rounded up.

        Args:
            distance: how far neighbours are apart, in units of the clipping norm or sensitivity.

        Returns:
            The mean shift, at least the true quotient.

        Raises:
            ParameterError: the noise is still open.
        """
        return math.nextafter(distance / self.noise(), math.inf)

    def noise(self) -> float:
        """The noise multiplier; refused where it is still open.

        Returns:
            Standard deviation over how far neighbours are apart.

        Raises:
            ParameterError: the noise is still open, or out of range.
        """
        return self._noise

    @cached_property
    def _noise(self) -> float:
        """The noise multiplier, checked when it is first asked for."""
        if self.noise_multiplier is None:
            refuse("noise_multiplier", "given, unless it is to be calibrated", None)
        return real("noise_multiplier", self.noise_multiplier, NOISE)


@dataclass(frozen=True, kw_only=True)
class Gaussian(NoiseDesign):
    """Gaussian noise on a value that one record can move by a known distance.

    Args:
        noise_multiplier: its standard deviation over that distance; None where it is to be calibrated.

    >>> import gaussveil
    >>> round(float(gaussveil.Gaussian(noise_multiplier=1.0).delta(1.0)), 6)
    0.126937
    """

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """A mean shift of 1 / noise_multiplier.

        Args:
            relation: "add-remove" or "replace"; a shift is the same for both.

        Returns:
            One curve, used once.
        """
        return [(GaussianPair.mean_shift(self.shift()), 1)]


@dataclass(frozen=True, kw_only=True)
class DPSGD(NoiseDesign):
    """One step of DP-SGD: the clipped gradients of a random batch are summed and noised.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm; None where it is to be calibrated.
        sampling_rate: probability with which each record takes part, independently of all others; with `fixed_size`
            the batch's share of all records.
        fixed_size: the batch is drawn without replacement, and one record is replaced.

    >>> import gaussveil
    >>> step = gaussveil.DPSGD(noise_multiplier=1.0, sampling_rate=0.01)
    >>> run = gaussveil.Accountant().add(step, steps=1000)
    >>> bool(run.delta(run.epsilon(1e-5)) <= 1e-5)
    True
    """

    is_one_of_many: ClassVar[bool] = True
    sampling_rate: float
    fixed_size: bool = False

    @property
    def usual_relation(self) -> str:
        """Batches of a fixed size are known for replaced records only."""
        if self.fixed_size:
            return REPLACE
        return ADD_REMOVE

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """A mixture against the noise alone; against another mixture where a record is replaced.

        Args:
            relation: "add-remove" or "replace".

        Returns:
            One step on a random batch, used once.

        Raises:
            ParameterError: the sampling rate is not above 0 and at most 1.
        """
        shift = self.shift()
        rate = real("sampling_rate", self.sampling_rate, "(0, 1]")
        return [(self._step(relation, shift, rate), 1)]

    def _step(self, relation: str, shift: float, rate: float) -> PrivacyCurve:
        if self.fixed_size:
            one_of("relation", relation, RELATIONS[1:])
            return FixedSizeBatch(self.noise(), max(rate, STORED_RATE))
        if rate == 1.0:
            return GaussianPair.mean_shift(
                shift if relation == ADD_REMOVE else 2.0 * shift
            )
        if relation == REPLACE:
            return ReplacedInBatch(self.noise(), max(rate, STORED_RATE))
        return Step(self.noise(), max(rate, SMALLEST_RATE))


@dataclass(frozen=True, kw_only=True)
class Allocation(NoiseDesign):
    """One pass of `steps` noisy sums of clipped gradients; each record is in exactly `takes`, drawn uniformly.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm; None where it is to be calibrated.
        steps: of one pass.
        takes: in how many of them each record is.

    >>> import gaussveil
    >>> once = gaussveil.Accountant().add(gaussveil.Allocation(noise_multiplier=1.0, steps=100))
    >>> every = gaussveil.Accountant().add(gaussveil.Gaussian(noise_multiplier=1.0))
    >>> bool(once.delta(1.0) < every.delta(1.0))
    True
    """

    steps: int
    takes: int = 1

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """The profile of all steps together, for an added or removed record.

        Args:
            relation: "add-remove" or "replace".

        Returns:
            One curve of all steps, used once.

        Raises:
            ParameterError: neighbours differ otherwise than by a record more.
        """
        one_of("relation", relation, RELATIONS[:1])
        return [
            (
                RandomAllocation(
                    1.0 / self.shift() * SLIGHTLY_LESS, self.steps, self.takes
                ),
                1,
            )
        ]
