"""A power spectral density released with noise: spectral differential privacy (SpDP, Algorithm 1).

Released: P[(phi + noise)^+], phi the Welch estimate on N+1 frequencies, noise on a public grid, P a positive filter
run both ways over the frequencies. With `bands`, phi is projected on what is constant over public bands; with `prior`,
the release is drawn to a public density (both: docs/mechanisms/spectral.md).

Adjacency: two series of one meter whose estimates phi lie at most B apart in l2 norm (SpDP Definition 1, p = 2). B is
public; measured on the released series itself, as in SpDP eq. (12), it would void the guarantee (docs/corrections, S3).

Theorem (docs/corrections, S1). Noise with smallest eigenvalue (B/t)^2, N(t, 1) against N(0, 1) having delta(epsilon) =
delta, makes the release (epsilon, delta)-differentially private. SpDP eq. (7) asks for more; it is offered as
"published". Correlated noise is a choice of usefulness: it never lowers the noise that is needed (S2).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from gaussveil import checks
from gaussveil.accounting import Adjacency, Release
from gaussveil.containers import library_of, real_array
from gaussveil.containers import series as as_series
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
from gaussveil.mechanisms.release_path import Mechanism, Plan, Promise
from gaussveil.mechanisms.source_rows import ordered_vector
from gaussveil.noise.lattice import to_lattice
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import ar1_covariance, smooth_both_ways, welch_psd
from gaussveil.timeseries.psd import check_psd
from gaussveil.typing import Floats, Integers

CALIBRATIONS = ("exact", "published")


class CalibratedBall(float):
    """A radius B measured on data that the caller declares public or past; certificates say where it came from."""


def calibrate_ball(
    history: Sequence[ArrayLike],
    *,
    points: int = 288,
    sample_period: float = 1.0,
    bands: int | None = None,
) -> CalibratedBall:
    """Largest l2 distance between the spectra of the given series (SpDP eq. (12)), or between their band means.

    The series must be public, or of a time before the one that is protected: B is not protected.

    Args:
        history: series of readings.
        points: N, of N + 1 frequencies.
        sample_period: hours between readings.
        bands: how many bands, where band means are released.

    Returns:
        A number, for `l2_ball`; the certificate then says that it was measured.

    Raises:
        ParameterError: there are fewer than two series, or their spectra do not differ.

    >>> import numpy as np, gaussveil
    >>> days = np.random.default_rng(0).normal(size=(5, 288))
    >>> bool(gaussveil.calibrate_ball(days, points=8) > 0.0)
    True
    """
    widths = band_widths(points, bands)
    spectra = [
        in_bands(welch_psd(series, points, period=sample_period), widths)
        for series in history
    ]
    if len(spectra) < 2:
        raise ParameterError(
            f"history must hold at least two series to compare. Got {len(spectra)}."
        )
    return CalibratedBall(
        max(
            np.linalg.norm(one - other)
            for i, one in enumerate(spectra)
            for other in spectra[:i]
        )
    )


def band_widths(points: int, bands: int | None) -> Integers:
    """How many of the N+1 frequencies lie in each band: from zero upwards, growing evenly on a log scale."""
    most = checks.whole("points", points) + 1
    if bands is None:
        return np.ones(most, dtype=np.int64)
    count = checks.whole("bands", bands, f"[2, {most}]")
    edges = np.geomspace(1, most, count).round().astype(np.int64)
    edges = np.maximum(edges, np.arange(1, count + 1))  # none of them empty
    return np.diff(edges, prepend=0)


def in_bands(density: Floats, widths: Integers) -> Floats:
    """Coordinates of a density's projection on what is constant over bands: band sums over the roots of the widths."""
    starts = np.cumsum(widths) - widths
    return np.asarray(np.add.reduceat(density, starts, axis=-1) / np.sqrt(widths))


def published_mean_shift(epsilon: float, delta: float) -> float:
    """B divided by the noise deviation of SpDP eqs. (2) and (7): sqrt(A^2 + 2 epsilon) - A, A = Q^-1(delta)."""
    tail = -float(
        ndtri(checks.real("delta", delta, "(0, 0.5)"))
    )  # SpDP eq. (7) knows no other promises
    level = checks.positive("epsilon", epsilon)
    return 2 * level / (math.sqrt(tail * tail + 2 * level) + tail)


def spent_delta(promise: Promise, calibration: str) -> float:
    """The delta that the noise is calibrated to: the promise itself, or what SpDP eq. (7) really attains."""
    if checks.one_of("calibration", calibration, CALIBRATIONS) == "exact":
        return promise.delta
    shift = published_mean_shift(promise.epsilon, promise.delta)
    return min(
        promise.delta,
        float(GaussianPair.mean_shift(shift).enclose(promise.epsilon).lower),
    )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSpectrum(Mechanism):
    """Release the power spectral density of a series of readings; the output is itself a valid density.

    >>> from gaussveil.mechanisms import PrivateSpectrum
    >>> mechanism = PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.1, points=8, sample_period=1 / 12)
    >>> release = mechanism.release([0.3, 1.2, 0.4, 2.1] * 16)
    >>> release.value.shape, bool((release.value >= 0).all())
    ((9,), True)

    Args:
        epsilon, delta: the promise.
        l2_ball: public radius B in the unit of the density, kW^2 hours; `calibrate_ball` helps to choose it.
        correlation: of the noise at neighbouring frequencies, AR(1) (the paper's beta); 0 is white, the least noise.
        smoothing: (gain, coefficient) of the positive filter, 0 < coefficient <= 1; None leaves the clipped density.
        points: N; the density has N+1 frequencies from 0 to Nyquist and needs 2N readings.
        bands: release means over so many bands instead of single frequencies, and give them at every frequency.
        prior: public density on the N+1 frequencies that the release is drawn to, as strongly as the noise asks.
        sample_period: hours between readings.
        calibration: "exact", or "published" for SpDP eq. (7), sound but up to six times as much variance.
        account: where the release is debited before it is drawn.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "spectral"
    l2_ball: float
    correlation: float = 0.0
    smoothing: tuple[float, float] | None = None
    points: int = 288
    bands: int | None = None
    prior: ArrayLike | None = None
    sample_period: float = 1.0
    calibration: str = "exact"

    @property
    def _widths(self) -> Integers:
        return band_widths(self.points, self.bands)

    def plan(self) -> GaussianPlan:
        """The noise on the N+1 frequencies, or on the bands, and what it leaves beside the ball, without data.

        Returns:
            A `GaussianPlan`, whose `comparison` tells whether the centre of the ball would do as well.

        Raises:
            ParameterError: a parameter is out of range.
        """
        size = len(self._widths)
        shape = None
        if self.correlation != 0:
            shape = ar1_covariance(checks.real("correlation", self.correlation), size)
        noise = GaussianRelease(
            epsilon=self.epsilon,
            delta=spent_delta(self.promise, self.calibration),
            l2_sensitivity=self.l2_ball,
            covariance_shape=shape,
            generator=self.generator,
        )
        plan = noise.plan(size)
        length = self._noise_length(plan)
        if length >= self.l2_ball:
            verdict = "the centre does as well"
        else:
            verdict = "the release tells more than the centre"
        comparison = (
            f"the noise has length {length:.4g} over {size} numbers before smoothing, and no spectrum "
            f"lies farther than {float(self.l2_ball):.4g} from another of its ball: {verdict}"
        )
        return dataclasses.replace(plan, delta=float(self.delta), comparison=comparison)

    def _noise_length(self, plan: GaussianPlan) -> float:
        """Root mean square length of the noise."""
        return float(
            np.linalg.norm(np.broadcast_to(plan.standard_deviation, len(self._widths)))
        )

    def kept(self) -> float:
        """k: how much of what is released is the series's own; the rest is the prior's.

        Returns:
            A share; 1 without a prior.
        """
        if self.prior is None:
            return 1.0
        return 1 / (1 + (self._noise_length(self.plan()) / float(self.l2_ball)) ** 2)

    def density(self, series: Any) -> Floats:
        """The estimate that is protected: not private.

        Args:
            series: readings at equal steps.

        Returns:
            A number for each frequency from 0 to Nyquist, or for each band.
        """
        return in_bands(
            welch_psd(
                real_array("series", series), self.points, period=self.sample_period
            ),
            self._widths,
        )

    def post_process(self, noisy: ArrayLike) -> Floats:
        """Draw to the prior, clip at zero, then smooth: a valid density (SpDP Algorithm 1, steps 2 and 3).

        Args:
            noisy: the density with its noise.

        Returns:
            A number, at least 0, for each frequency from 0 to Nyquist.

        Raises:
            ParameterError: the prior has another length.
        """
        widths = self._widths
        found = np.asarray(noisy, dtype=np.float64)
        if self.prior is not None:
            public = check_psd(self.prior)
            if public.shape != (self.points + 1,):
                raise ParameterError(
                    f"prior must hold {self.points + 1} numbers. Got shape {public.shape}."
                )
            public = in_bands(public, widths)
            found = public + self.kept() * (found - public)
        clipped = np.repeat(np.maximum(found, 0.0) / np.sqrt(widths), widths)
        if self.smoothing is None:
            return clipped
        return smooth_both_ways(clipped, *self.smoothing)

    def release(self, series: Any, *, order: Sequence[str] = ()) -> Release[Any]:
        """Estimate, debit, draw and certify; every refusal comes before the debit.

        The density is an array or, for a pandas or polars series, a series. Of a Source the one column is taken that
        stands beside the public columns `order`, sorted by these.

        Returns:
            The density and its certificate.

        Raises:
            ParameterError: the series is no vector of numbers, or a parameter is out of range.
            BudgetExceededError: the account cannot pay.
        """
        read = series
        series = ordered_vector("series", series, order)
        library = library_of(series)
        plan, density = self.plan(), self.density(series)
        if density.ndim != 1:
            raise ParameterError(
                f"series must be one vector of readings. Got {density.ndim} axes."
            )
        self.post_process(
            density
        )  # refuses here a smoothing that could not be applied later
        to_lattice(density, plan.noise.shape, plan.noise.grid)
        release = self._publish(
            self._said(plan),
            lambda: self.post_process(plan.draw(density, self.generator)),
            read,
        )
        return Release(
            as_series(library, "density", release.value), release.certificate
        )

    def _said(self, plan: GaussianPlan) -> Plan:
        if isinstance(self.l2_ball, CalibratedBall):
            source = "measured on data declared public or past"
        else:
            source = "given"
        deviation = np.atleast_1d(plan.standard_deviation)
        return Plan(
            charge=plan.charge,
            released=f"power spectral density on {self.points + 1} frequencies"
            + ("" if self.bands is None else f", means over {self.bands} bands"),
            adjacency=Adjacency.l2_ball(
                float(self.l2_ball), space="spectrum", unit="meter's series"
            ),
            assumptions=(
                "the radius B is public: it was not measured on the series that is released",
                "what is protected is the estimated spectrum; the mean of the series is not released and not covered, "
                "and a stream of the same readings costs extra",
                "the number of readings, and that they are finite and their density below 2^52 grids, are public",
            ),
            parameters={
                "l2_ball": float(self.l2_ball),
                "ball_source": source,
                "points": self.points,
                "bands": self.bands,
                "kept_beside_the_prior": None if self.prior is None else self.kept(),
                "sample_period": self.sample_period,
                "correlation": self.correlation,
                "smoothing": None if self.smoothing is None else list(self.smoothing),
                "calibration": self.calibration,
                "grid": plan.noise.grid,
                "mean_shift": plan.mean_shift,
                "noise_sd": float(deviation.max()),
            },
        )
