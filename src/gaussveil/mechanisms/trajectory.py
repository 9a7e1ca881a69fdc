"""A whole trajectory released with white Gaussian noise (TrDP: Le Ny and Pappas 2014; SpDP Proposition 1).

Adjacency: two trajectories of the same length at most B apart in l2 norm over ALL their samples. The noise on every
sample grows with B, so a longer time with more to hide means more noise: what the meter stream is compared with.
Calibrated exactly (docs/corrections, S1); SpDP eq. (2) is offered as "published".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaussveil import checks
from gaussveil.accounting import Adjacency, Release
from gaussveil.containers import real_array
from gaussveil.errors import ShapeError
from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
from gaussveil.mechanisms.release_path import Mechanism
from gaussveil.mechanisms.source_rows import ordered_vector
from gaussveil.mechanisms.spectral import spent_delta
from gaussveil.noise.lattice import Shape


@dataclass(kw_only=True, eq=False, repr=False)
class TrajectoryRelease(Mechanism):
    """Release a trajectory of readings with white noise for an l2 ball of radius B.

    >>> from gaussveil.mechanisms import TrajectoryRelease
    >>> mechanism = TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=3.0)
    >>> round(mechanism.plan(48).standard_deviation, 2)
    11.19

    Args:
        epsilon, delta: the promise.
        l2_ball: public radius B over the whole trajectory, kW.
        calibration: "exact", or "published" for SpDP eq. (2).
        account: where the release is debited before it is drawn.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "gaussian"
    l2_ball: float
    calibration: str = "exact"

    def plan(self, samples: Shape) -> GaussianPlan:
        """The noise for a trajectory of so many samples; its standard deviation does not depend on their number.

        Returns:
            A `GaussianPlan` for so many readings.

        Raises:
            ParameterError: a parameter is out of range.
        """
        return self._noise().plan(samples)

    def release(self, trajectory: Any, *, order: Sequence[str] = ()) -> Release[Any]:
        """Debit, draw and certify; a pandas or polars series comes back as one.

        Of a Source the one column is taken that stands beside the public columns `order`, sorted by these.

        Args:
            trajectory: positions at equal steps, or a `Source` of them.

        Returns:
            The noisy trajectory and its certificate.

        Raises:
            ParameterError: a parameter is out of range.
            ShapeError: the trajectory is no vector.
            BudgetExceededError: the account cannot pay.
        """
        trajectory = ordered_vector("trajectory", trajectory, order)
        shape = real_array("trajectory", trajectory).shape
        if len(shape) != 1:
            raise ShapeError(
                f"trajectory must be one vector of readings. Got shape {shape}."
            )
        noise = self._noise()
        release = noise.release(
            trajectory, released=f"trajectory of {shape[0]} readings"
        )
        self.certificate_ = release.certificate
        return release

    def _noise(self) -> GaussianRelease:
        return GaussianRelease(
            epsilon=self.epsilon,
            delta=spent_delta(self.promise, self.calibration),
            adjacency=Adjacency.l2_ball(
                checks.positive("l2_ball", self.l2_ball), space="trajectory"
            ),
            account=self.account,
            people=self.people,
            generator=self.generator,
        )
