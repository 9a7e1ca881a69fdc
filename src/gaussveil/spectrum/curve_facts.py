"""What a privacy curve may know of itself, in numbers: each default claims nothing.

Compositions, accounts, exchange and calibration ask these; a curve that knows better overrides them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gaussveil.shown import Shown


class CurveFacts(Shown):
    """Base of `PrivacyCurve`: its facts."""

    stored_as: ClassVar[str] = ""
    """Under which name a charge stores the curve; empty where it cannot."""
    only_bounded: ClassVar[bool] = False
    """Whether nothing is known of it but bounds on its Renyi divergences."""
    encloses_jointly: ClassVar[bool] = False
    """Whether `dp_enclose` takes less work than enclosing one direction after the other."""
    cumulants_proven: ClassVar[bool] = False
    """Whether every rounding of `cumulant_bounds` is counted."""

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of `delta`; 0 where its values are upper ends."""
        return 0.0

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss: the limit of `delta`."""
        return 0.0

    @property
    def largest_loss(self) -> float:
        """Largest finite loss, beyond which `delta` equals `infinity`."""
        return math.inf

    @property
    def neighbours(self) -> str | None:
        """The one kind of adjacency whose neighbours the curve speaks of; None: any."""
        return None

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of a batch of curves that are asked together; () for a single one."""
        return ()

    def lower(self, epsilon: float, count: int = 1) -> float:
        """A lower end of delta of `count` uses, this direction, by what only the curve itself knows.

        Args:
            epsilon: privacy level.
            count: how often the curve is used.

        Returns:
            A number that delta surely is not below; 0 where nothing is known.
        """
        return 0.0

    @property
    def rounded_by(self) -> float:
        """Total variation by which roundings to the private side move its factors, at most."""
        return 0.0

    def quick_upper_end(self, epsilon: float) -> float:
        """A proven upper end of delta by doubles alone; infinite where they do not decide.

        Args:
            epsilon: privacy level.

        Returns:
            A number that delta surely is not above, or infinity.
        """
        return math.inf

    @property
    def known_orders(self) -> tuple[float, ...]:
        """Orders at which its Renyi divergences are best known, where it is a list of these."""
        return ()

    @property
    def largest_shift(self) -> float:
        """A mean shift whose divergences are nowhere smaller; infinite where none is known."""
        return math.inf

    @property
    def shift_energies(self) -> list[float] | None:
        """Squared mean gaps, if the curve is that of one plain mean shift."""
        return None

    @property
    def mean_shift_energy(self) -> NDArray[np.float64] | None:
        """Squared length of the mean shift, for each entry of a batch; None where there is more than a mean shift."""
        return None

    @property
    def exact_mean_gap(self) -> tuple[float, ...] | None:
        """Mean gaps of which the stored form holds rounded squares; () where it is exact, None if that is not known."""
        return ()

    @property
    def stored_energies(self) -> list[float]:
        """Those squares as they are stored."""
        return []

    @property
    def largest_multiplicity(self) -> float:
        """The most coordinates that share a variance gap."""
        return 1.0

    def affordable_nodes(self, work: float) -> float:
        """At how many epsilons a grid may ask for delta: unlimited for closed forms; wider chords are only looser.

        Args:
            work: evaluations of the losses' terms that a grid may cost.

        Returns:
            A number of epsilons, or infinity.
        """
        return math.inf

    @property
    def smallest_variance(self) -> float:
        """The least variance of X over Y's that it has."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        """What is stored of it, as plain JSON values; a curve that is never stored has none.

        Returns:
            Names and numbers, from which a charge is read back.

        Raises:
            NotImplementedError: nothing is stored of such a curve.
        """
        raise NotImplementedError(f"a {type(self).__name__} is not stored")

    def fold_key(self) -> object:
        """What equal curves have in common, as JSON values, so that compositions fold them.

        Returns:
            A value that is equal for equal curves.
        """
        return f"#{id(self)}"

    @property
    def convolutions(self) -> int:
        """How many convolutions one evaluation of delta takes: none of a closed form or an integral."""
        return 0

    @property
    def kind(self) -> str:
        """What it is, in two words."""
        return type(self).__name__
