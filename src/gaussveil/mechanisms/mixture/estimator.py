"""A Gaussian mixture with one Gaussian per class, released under differential privacy.

Released: class weights, means and covariances, all post-processing of noisy sums on a public lattice.

Adjacency: one privacy unit (a row, or a household with at most m rows) is added or removed. The classes, the ball of
centre c and radius R that records are clipped to, and the nominal size are public.

Theorem (derived: docs/mechanisms/mixture.md). Every pass is a Gaussian release whose noise and public parameters depend
on earlier outputs only, and the passes' squared mean shifts add up to mu^2 at most whatever those outputs were. The
whole fit is therefore dominated by the single pair N(mu, 1) against N(0, 1) (adaptive composition of Gaussian releases:
Dong, Roth and Su 2022, composition theorem), and its delta(epsilon) is exact.

The published algorithm for this job (GMM paper, Algorithm 1) is not private as printed: see the studies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import checks
from gaussveil.accounting import Adjacency, Charge
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.base import Draw, MixtureEstimator
from gaussveil.mechanisms.mixture.budget import (
    CAPS,
    classes_for,
    rows_per_unit_for,
    stage_budget,
)
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import ClassedRecords, read_records
from gaussveil.mechanisms.mixture.stages import (
    Surroundings,
    allowed_shift,
    for_stages,
    sampler_error,
    staged,
)
from gaussveil.mechanisms.release_path import Plan
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics.unit import unit_of
from gaussveil.typing import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianMixture(MixtureEstimator):
    """A density and a classifier whose parameters may be published.

    >>> import numpy as np
    >>> from gaussveil.mechanisms import PrivateGaussianMixture
    >>> rows = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[0.0, 0.0], [4.0, 4.0]], 1000, axis=0)
    >>> model = PrivateGaussianMixture(epsilon=1.0, delta=1e-6, radius=8.0)
    >>> model.fit(rows, np.repeat(["day", "night"], 1000)).predict([[4.0, 4.0]]).tolist()
    ['night']
    >>> model.certificate_.account
    'not recorded'

    Args:
        epsilon, delta: the promise for one fit.
        radius: public bound; records farther from `centre` are moved to the ball's surface.
        centre: public middle of the ball (the origin by default).
        classes: public list of the labels (default: those present, declared public on the certificate); records with
            another label are left out. Without labels: how many clusters to find, inside the budget, or "auto": as many
            as `nominal_size` records can carry under this promise, one where they are few.
        nominal_size: public guess of the number of records, for the division of the budget only; without it the first
            stage's noisy counts decide. Of units, where `rows_per_unit` is "auto".
        shares: of the budget, for centres, radii and two or four refinements; by default what the number of records,
            classes and columns makes best.
        log: public smallest value; the mixture is one of logarithms then (`radius` and `centre` are of these), and
            samples are never negative: for power, amounts, durations.
        columns: feature columns of a frame or Source (default: all but label and unit).
        unit, rows_per_unit: column that says who is protected, or one identifier per row, and how many rows each may
            contribute; "auto" for as many as still help beside the noise.
        account: where the fit is debited before anything is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.

    Where labels alone are to be protected, `PrivateLabelMixture` needs far less noise.
    """

    mechanism = "mixture"
    radius: float
    centre: ArrayLike | None = None
    classes: Sequence[Any] | int | str | None = None
    nominal_size: int | None = None
    shares: Sequence[float] | None = None
    log: float | None = None
    unit: Any = None
    rows_per_unit: int | str | None = None

    def _records(self, X: Any, y: Any) -> ClassedRecords:
        chosen: dict[str, Any] = {
            "classes": self.classes,
            "rows_per_unit": self.rows_per_unit,
        }
        rules = [
            name
            for name, value in chosen.items()
            if isinstance(value, str) and value == "auto"
        ]
        if rules:
            size = checks.whole("nominal_size", self.nominal_size)
            shift = mean_shift_for(self.promise.epsilon, self.promise.delta)
            records = read_records(
                X,
                y,
                columns=self.columns,
                unit=self.unit,
                **chosen | dict.fromkeys(rules, 1),
            )
            if "classes" in rules:
                chosen["classes"] = classes_for(
                    size, shift / records.source.rows_per_unit, len(records.columns)
                )
            if "rows_per_unit" in rules:
                chosen["rows_per_unit"] = rows_per_unit_for(
                    size, shift, len(records.columns)
                )
        return read_records(X, y, columns=self.columns, unit=self.unit, **chosen)

    def _size(self, rows_per_unit: int) -> int | None:
        """Records that are thought to be used."""
        if self.nominal_size is None:
            return None
        size = checks.whole("nominal_size", self.nominal_size)
        if self.rows_per_unit == "auto":
            return size * rows_per_unit
        return size

    def _shares(self) -> tuple[float, ...] | None:
        if self.shares is None:
            return None
        stated = tuple(checks.positive("shares", share) for share in self.shares)
        if len(stated) not in (2 + few for few in CAPS) or not math.isclose(
            sum(stated), 1.0, abs_tol=1e-6
        ):
            raise ParameterError(
                "shares must be positive and add up to 1: centres, radii, and two or four refinements. "
                f"Got {len(stated)} that add up to {sum(stated):g}."
            )
        return tuple(share / sum(stated) for share in stated)

    def _design(self, records: ClassedRecords) -> tuple[Plan, Draw]:
        classes, dimension = len(records.classes), len(records.columns)
        rows, unit = records.source.rows_per_unit, unit_of(records.source)
        mean_shift = allowed_shift(self.promise, classes, dimension, rows)
        radius, middle = self._ball(dimension)
        size, shares = self._size(rows), self._shares()
        labelled = "labels are part of a record and were not computed from other private records"
        noise = {}
        if size is not None and (
            records.group is not None or classes == 1
        ):  # known before the first pass
            stages = stage_budget(
                size,
                for_stages(mean_shift / rows),
                classes,
                dimension,
                radius,
                None,
                shares,
            )
            noise = {"noise": stages.describe()}
        plan = self._said(
            records,
            Charge(
                GaussianPair.mean_shift(mean_shift),
                sampler_error=sampler_error(classes, dimension),
            ),
            Adjacency.add_remove(unit),
            (
                "the ball that records are clipped to, the nominal size, columns and types are public knowledge",
                labelled
                if records.label is not None
                else "classes are clusters found inside the budget",
                *(
                    (f"at most {rows} rows of each {unit} are used",)
                    if records.source.view.unit
                    else ()
                ),
            ),
            radius=radius,
            centre=middle.tolist(),
            **({} if self.log is None else {"log": checks.positive("log", self.log)}),
            nominal_size="left to the first stage" if size is None else size,
            rows_per_unit=rows,
            mean_shift=mean_shift,
            **noise,
        )

        def draw() -> Parameters:
            if records.group:
                groups = classes
            else:
                groups = 1
            passes = PrivatePasses(
                records.source,
                records.columns,
                records.group,
                groups,
                rows,
                rows,
                mean_shift,
                self.generator,
                self.log,
            )
            return staged(
                passes,
                classes,
                Surroundings(radius, middle, size, shares),
                mean_shift / rows,
            ).parameters

        return plan, draw

    def _ball(self, dimension: int) -> tuple[float, Floats]:
        radius = checks.real("radius", self.radius, "[1e-60, 1e60]")
        if self.centre is None:
            middle = np.zeros(dimension)
        else:
            middle = np.asarray(self.centre, dtype=np.float64)
        if middle.shape != (dimension,) or not np.isfinite(middle).all():
            raise ParameterError(
                f"centre must hold {dimension} finite numbers. Got shape {middle.shape}."
            )
        return radius, middle
