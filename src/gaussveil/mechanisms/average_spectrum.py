"""How the load of many homes is made up, slow and fast: average spectra of groups, each home hidden as a whole.

Released: for each public group the sum of its homes' band energies and their number, with noise, and from these the
average density. A home's energies are shortened to a public norm and rounded to a public unit before they are added up,
so that sums are exact, and each home's numbers are computed from its readings alone.

Adjacency: one home more or less, with all its readings, in one group.

Theorem. A home's energies and its mark in the count lie in one group's block and have together at most the length
L = sqrt(norm^2 + mark^2), by which the sums of two neighbours differ. White noise of deviation L/t, N(t, 1) against
N(0, 1) having delta(epsilon) = delta, makes the sums (epsilon, delta)-differentially private; averages, clipping at
zero and frequencies are made of what is released. No ball is assumed, as it is for one meter's spectrum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Adjacency, Release
from gaussveil.containers import readings_array
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
from gaussveil.mechanisms.release_path import Mechanism, Plan
from gaussveil.mechanisms.source_rows import ordered_table
from gaussveil.mechanisms.spectral import band_widths, in_bands
from gaussveil.mechanisms.usefulness import Useful, about
from gaussveil.noise.lattice import LARGEST_INTEGER
from gaussveil.timeseries import welch_psd
from gaussveil.typing import Floats, Integers

UNITS = 30  # bits of the norm that energies are rounded to
SPARE = 2.0**-20  # of the norm, for that rounding: enough for a million bands
MOST_POINTS = 1 << 19
MOST_UNITS = 1 << 52  # of a sum, as many as doubles count: more homes than there are
COUNTED = 0.6  # the count's mark, of the norm over the fourth root of the bands: near the least error of averages
KNOWN = 0.5  # of a home's readings at least; the others are its own average
PART = 0.1  # of the norm: noise of an average that leaves something to see


@dataclass(frozen=True, eq=False, repr=False)
class AverageSpectrumPlan(GaussianPlan):
    """The noise on sums and counts, and what it leaves of an average; public before anything is drawn."""

    bands: int = 1
    norm: float = 1.0

    def noise_of(self, homes: float) -> float:
        """Root mean square length of the noise in the average of so many homes, as a share of the norm."""
        length = float(np.max(self.standard_deviation)) * math.sqrt(self.bands)
        return length / (checks.positive("homes", homes) * self.norm)

    def useful(self, homes: float) -> Useful:
        """Whether groups of about so many homes leave something to see; in words, from public numbers."""
        share = self.noise_of(homes)
        needed = math.ceil(homes * share / PART)
        if share <= PART:
            return Useful(
                True,
                f"useful: the noise in a group's average is {share:.2g} of the norm",
                needed,
            )
        return Useful(
            False,
            f"cannot be useful: the noise in the average of {about(homes)} homes is {share:.2g} of the norm; a group "
            f"needs about {about(needed)} homes. Ask instead for fewer groups or bands, or for running totals",
            needed,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class AverageSpectrum(Mechanism):
    """Release the average power spectral density of groups of homes, by bands.

    >>> import numpy as np
    >>> from gaussveil.mechanisms import AverageSpectrum
    >>> readings = np.random.default_rng(0).gamma(2.0, 0.2, size=(96, 500))  # one column a home
    >>> mechanism = AverageSpectrum(epsilon=1.0, delta=1e-6, norm=0.2, points=24, bands=6, sample_period=0.5)
    >>> print(mechanism.plan().useful(100))
    cannot be useful: the noise in the average of 100 homes is 0.11 of the norm; a group needs about 110 homes. Ask \
instead for fewer groups or bands, or for running totals
    >>> release = mechanism.release(readings)
    >>> release.value.shape, str(release.certificate.guarantee)
    ((25,), 'worst case')

    Args:
        epsilon, delta: the promise.
        norm: public length that a home's band energies are shortened to, in the unit of the density, kW^2 hours.
        groups: public names of the groups; homes of others are left out. None: all homes are one group.
        points: N; the density has N+1 frequencies from 0 to Nyquist and needs 2N readings of each home.
        bands: means over so many bands, single frequencies at the slow end and octaves above; None: frequencies.
        sample_period: hours between readings.
        account: where the release is debited before it is drawn.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.

    After `release` read `homes_`, how many homes each group has about, and `standard_error_`, the error that noise
    gives the averages, frequency by frequency; both are made of what was released.
    """

    mechanism = "average spectrum"
    norm: float
    groups: Sequence[str] | None = None
    points: int = 48
    bands: int | None = 8
    sample_period: float = 1.0
    homes_: Floats = field(init=False, repr=False)
    standard_error_: Floats = field(init=False, repr=False)

    def plan(self) -> AverageSpectrumPlan:
        """The noise on sums and counts, without data.

        Returns:
            An `AverageSpectrumPlan`; its `noise` says the deviation of each number.

        Raises:
            ParameterError: a parameter is out of range.
        """
        layout = self._layout
        noise = GaussianRelease(
            epsilon=self.epsilon,
            delta=self.delta,
            l2_sensitivity=layout.reach,
            generator=self.generator,
        ).plan((len(layout.names), layout.bands + 1))
        return AverageSpectrumPlan(
            **{one.name: getattr(noise, one.name) for one in dataclasses.fields(noise)},
            bands=layout.bands,
            norm=layout.norm,
        )

    def sums(self, readings: Any, groups: Sequence[Any] | None = None) -> Floats:
        """What noise is added to, a row for each group: exact sums of shortened energies, and marks; not private.

        Args:
            readings: as `release` takes them.
            groups: the group of each household, as `release` takes them.

        Returns:
            Groups times bands and one: the sums, and in the last column how many homes they are of.

        Raises:
            ShapeError: the readings are no table or too short, or the groups are not as many as homes.
            ParameterError: groups were given where there are none, or left out where there are.
        """
        layout = self._layout
        table = readings_array("readings", readings)
        if table.ndim != 2:
            raise ShapeError(
                f"readings must be a table: a row for each time, a column for each home. Got {table.ndim} axes."
            )
        contributions = self._contributions(np.asarray(table, dtype=np.float64), layout)
        total = np.zeros((len(layout.names), layout.bands + 1), dtype=np.int64)
        places = self._places(groups, layout.names, table.shape[1])
        np.add.at(total, places[places >= 0], contributions[places >= 0])
        return np.asarray(np.clip(total, -MOST_UNITS, MOST_UNITS) * layout.unit)

    def release(
        self,
        readings: Any,
        groups: Sequence[Any] | None = None,
        *,
        order: Sequence[str] = (),
    ) -> Release[Any]:
        """Add up, debit, draw and certify; every refusal comes before the debit.

        Args:
            readings: one row for each time, one column for each home; of a Source the columns beside the public
                columns `order`, sorted by these. Missing readings are their home's average; a home without half of
                its readings is left out.
            groups: whose group each column is in, for a mechanism with groups.

        Returns:
            The average density on N+1 frequencies, one row for each group where there are groups.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        plan = self.plan()
        read = readings
        total = self.sums(ordered_table(readings, order), groups)
        # far above any table: without it a gigantic table would be refused, which tells its size
        limit = (LARGEST_INTEGER // 2) * plan.noise.grid
        bounded = np.clip(total, -limit, limit)
        noisy: list[Floats] = []

        def drawn() -> Floats:
            noisy.append(plan.draw(bounded, self.generator))
            return self._averages(noisy[0])[0]

        release = self._publish(self._said(plan), drawn, read)
        _, self.homes_, self.standard_error_ = self._averages(noisy[0])
        return release

    @property
    def _layout(self) -> _Layout:
        if self.groups is None:
            names: tuple[str, ...] = ("all",)
        else:
            names = tuple(map(str, self.groups))
        if isinstance(self.groups, str) or not names or len(set(names)) != len(names):
            raise ParameterError(
                "groups must be different names, at least one, or None for all homes together."
            )
        points = checks.whole("points", self.points, f"[1, {MOST_POINTS}]")
        return _Layout(
            names,
            checks.size("norm", self.norm),
            band_widths(points, self.bands),
        )

    def _places(
        self, groups: Sequence[Any] | None, names: tuple[str, ...], homes: int
    ) -> Integers:
        """The row of sums that each home goes to; -1 for homes that are left out."""
        if (groups is None) != (self.groups is None):
            raise ParameterError(
                "groups must say whose group each home is in where the mechanism has groups, and only there."
            )
        if groups is None:
            return np.zeros(homes, dtype=np.int64)
        place_of = {name: place for place, name in enumerate(names)}
        places = [place_of.get(str(name), -1) for name in groups]
        if len(places) != homes:
            raise ShapeError(
                "groups must name one group for each column of readings: their numbers differ."
            )
        return np.array(places, dtype=np.int64)

    def _contributions(self, table: Floats, layout: _Layout) -> Integers:
        """A row of whole units for each home: its energies and its mark; of homes that are left out zeros.

        Each home is computed by itself: transforms of several rows at once round differently from those of one, and
        who is beside a home must not move it by a unit.
        """
        if len(table) < 2 * self.points:
            raise ShapeError(
                f"readings must have at least 2 * points = {2 * self.points} rows. Got {len(table)}."
            )
        rows = [self._home(series, layout) for series in table.T]
        return np.array(rows, dtype=np.int64).reshape(-1, layout.bands + 1)

    def _home(self, readings: Floats, layout: _Layout) -> Integers:
        """The whole units of one home, made of its own readings and public parameters alone."""
        series = np.array(readings)  # side by side in memory, however the table lies
        known = np.isfinite(series)
        nothing = np.zeros(layout.bands + 1, dtype=np.int64)
        if known.mean() < KNOWN:
            return nothing
        with np.errstate(all="ignore"):
            series[~known] = series[known].mean()
            if not np.isfinite(series).all():
                return nothing
            density = welch_psd(series, self.points, period=self.sample_period)
            return layout.units(in_bands(density, layout.widths))

    def _averages(self, noisy: Floats) -> tuple[Floats, Floats, Floats]:
        """Averages, numbers of homes and standard errors, all of what is released."""
        layout = self._layout
        deviation = float(np.max(self.plan().standard_deviation))
        unsure = deviation / layout.mark
        homes = np.maximum(noisy[:, -1] / layout.mark, max(unsure, 1.0))[:, None]
        energies = np.maximum(noisy[:, :-1] / homes, 0.0)
        error = np.hypot(deviation, energies * unsure) / homes
        density, width = (
            np.repeat(part / np.sqrt(layout.widths), layout.widths, axis=1)
            for part in (energies, error)
        )
        if self.groups is None:
            return density[0], homes[0], width[0]
        return density, homes[:, 0], width

    def _said(self, plan: AverageSpectrumPlan) -> Plan:
        layout = self._layout
        of_groups = (
            "" if self.groups is None else f" of each of {len(layout.names)} groups"
        )
        return Plan(
            charge=plan.charge,
            released=f"average power spectral density{of_groups} on {self.points + 1} frequencies, with the number of "
            "homes",
            adjacency=Adjacency.add_remove("home"),
            assumptions=(
                "each home is one column of the table and in one group",
                "the number of readings and the names of the groups are public; the number of homes is not",
                "a stream or a bill of the same readings costs extra",
            ),
            parameters={
                "norm": layout.norm,
                "count_mark": layout.mark,
                "l2_sensitivity": layout.reach,
                "groups": None if self.groups is None else list(layout.names),
                "points": self.points,
                "bands": self.bands,
                "sample_period": self.sample_period,
                "shape": list(plan.noise.shape),
                "grid": plan.noise.grid,
                "rounding_l2": plan.noise.rounding_l2,
                "mean_shift": plan.mean_shift,
                "noise_covariance": plan.noise.covariance,
            },
        )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where a home's numbers go, and in which units: all public."""

    names: tuple[str, ...]
    norm: float
    widths: Integers

    @property
    def bands(self) -> int:
        return len(self.widths)

    @cached_property
    def unit(self) -> float:
        """A power of two that energies and marks are whole multiples of."""
        return math.ldexp(1.0, math.frexp(self.norm)[1] - UNITS)

    @cached_property
    def whole_mark(self) -> int:
        """What a home adds to the count, in units."""
        fourth_root = math.sqrt(math.sqrt(self.bands))
        return math.floor(COUNTED * self.norm / fourth_root / self.unit)

    @property
    def mark(self) -> float:
        return self.whole_mark * self.unit

    @property
    def reach(self) -> float:
        """How far one home moves the sums at most."""
        return math.nextafter(
            math.hypot(self.norm, self.mark) * (1 + 2.0**-50), math.inf
        )

    def units(self, energies: Floats) -> Integers:
        """A home's numbers: energies no longer than the norm, also once rounded, and the mark.

        Energies without a finite length count for nothing.
        """
        length = float(np.linalg.norm(energies))
        if not math.isfinite(length):
            return np.zeros(self.bands + 1, dtype=np.int64)
        longest = self.norm * (1 - SPARE)
        short = energies * (longest / max(length, longest))
        return np.append(np.rint(short / self.unit).astype(np.int64), self.whole_mark)
