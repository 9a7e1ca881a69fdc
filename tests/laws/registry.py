"""Every mechanism under the laws: add yours with one line in `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import GaussianRelease, PrivateCovariance, PrivateLinearRegression, PrivatePCA

from .class_label_cases import class_label
from .forecast_cases import forecast
from .label_mixture_cases import label_mixture
from .mixture_cases import mixture
from .posteriors import lifted, logistic, process
from .regression_cases import logistic_steps, moments
from .sketch_cases import sketch
from .spectral_cases import average, fleet, registers, spectral, stream, trajectory
from .synthetic_cases import synthetic
from .table_cases import table_curve, table_profile, table_quantile, table_rows
from .table_found_cases import table_discovery, table_ranges
from .total_cases import running_total

Matrix = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class MechanismCase:
    """A mechanism, two neighbouring inputs as far apart as its adjacency allows, and what it declares of its output.

    `build` takes epsilon, delta, account and generator. `draws(mechanism, data, n)` gives n outputs, one per row, by
    the code that `release` draws with. `centre` is the output without noise. `residuals(certificate, noise)` turns
    rows of output less centre into numbers that the certificate declares to be independent and standard normal; a
    discrete or a pure-epsilon law has none, and is held to its claim by the audits alone.
    `score(certificate, noise)` orders outputs by how much they speak for the neighbour. `grid` reads the public grid.
    `halved_draws` are outputs with secretly halved noise, where that is not half the output less centre. `malformed`
    inputs are refused; inputs with `bad_records` are released all the same, by a public rule. `slow` cases are drawn
    less often in each run, as often as the others with --full.
    """

    name: str
    build: Callable[..., Any]
    value: Any
    neighbour: Any
    centre: Callable[[Any], Matrix]
    draws: Callable[[Any, Any, int], Matrix]
    score: Callable[[Certificate, Matrix], Matrix]
    malformed: tuple[Any, ...]
    residuals: Callable[[Certificate, Matrix], Matrix] | None = None
    bad_records: tuple[Any, ...] = ()
    halved_draws: Callable[[Any, Any, int], Matrix] | None = None
    slow: bool = False
    grid: Callable[[Certificate], float] = lambda certificate: float(certificate.parameters["grid"])  # type: ignore[arg-type]
    release: Callable[[Any, Any], Release[Any]] = lambda mechanism, data: mechanism.release(data)


def gaussian(name: str, worst: Matrix, **design: Any) -> MechanismCase:
    """`GaussianRelease` of a vector; `worst` is a difference of neighbours that the design just hides."""
    value = np.array([0.1, -7.3, 1e3 / 3])[: len(worst)]

    def build(**changes: Any) -> GaussianRelease:
        return GaussianRelease(**{**design, **changes})

    def draws(mechanism: GaussianRelease, data: Matrix, count: int) -> Matrix:
        plan = mechanism.plan(data.shape)
        return np.stack([plan.draw(data, mechanism.generator) for _ in range(count)])

    def covariance(certificate: Certificate) -> Matrix:
        declared = np.asarray(certificate.parameters["noise_covariance"])
        return declared * np.eye(len(value)) if declared.ndim == 0 else declared

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(noise @ np.linalg.solve(covariance(certificate), worst))

    malformed = (value * np.nan, value * np.inf, value[:0], ["a"] * len(value), [[1.0], [2.0, 3.0]], None)
    return MechanismCase(
        name=name,
        build=build,
        value=value,
        neighbour=value + worst,
        centre=np.asarray,
        draws=draws,
        residuals=residuals,
        score=score,
        malformed=malformed,
    )


_SHAPE = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.3], [0.0, 0.3, 1.0]])
_SHIFTS = np.array([[1.0, 0.0, 0.0], [0.0, 0.2, 0.0], [0.5, 0.1, -0.3]])
_WEAKEST = np.linalg.eigh(_SHAPE)[1][:, 0]  # the direction in which the shape has least noise

CASES = (
    gaussian("gaussian, white", np.array([0.6, -0.8, 0.0]), l2_sensitivity=1.0),
    gaussian("gaussian, given shape", _WEAKEST, l2_sensitivity=1.0, covariance_shape=_SHAPE),
    gaussian("gaussian, shifts", _SHIFTS[0], shifts=_SHIFTS),
    gaussian("gaussian, replace one", np.array([0.0, 2.0]), l2_sensitivity=2.0, adjacency="replace"),
    MechanismCase(**spectral("spectrum"), slow=True),
    MechanismCase(**average("average spectrum")),
    MechanismCase(**trajectory("trajectory")),
    MechanismCase(**lifted("lifted Gaussian")),
    MechanismCase(**lifted("lifted Gaussian, shaped noise", along=4.0)),
    MechanismCase(**process("Gaussian process")),
    MechanismCase(**logistic("Bayesian logistic regression")),
    MechanismCase(**stream("stream, shape", purpose="shape")),
    MechanismCase(**stream("stream, energy", purpose="energy", balance=(0.3, 0.4))),
    MechanismCase(**registers("stream, registers"), slow=True),
    MechanismCase(**fleet("fleet")),
    MechanismCase(**running_total("running total")),
    MechanismCase(**sketch("sketch")),
    MechanismCase(
        **moments("linear regression", PrivateLinearRegression, ("1", "x", "y", "xx", "xy", "yy")), slow=True
    ),
    MechanismCase(
        **moments("linear regression, units", PrivateLinearRegression, ("1", "x", "y", "xx", "xy", "yy"), unit_rows=2),
        slow=True,
    ),
    MechanismCase(**moments("covariance", PrivateCovariance, ("1", "x", "xx")), slow=True),
    MechanismCase(**moments("components", PrivatePCA, ("1", "x", "xx")), slow=True),
    MechanismCase(**logistic_steps("logistic regression"), slow=True),
    MechanismCase(**mixture("mixture"), slow=True),
    MechanismCase(**label_mixture("label mixture"), slow=True),
    MechanismCase(**synthetic("synthetic table"), slow=True),
    MechanismCase(**class_label("class label")),
    MechanismCase(**forecast("forecast")),
    MechanismCase(**table_rows("table, rows"), slow=True),
    MechanismCase(**table_profile("table, profile"), slow=True),
    MechanismCase(**table_curve("table, curve"), slow=True),
    MechanismCase(**table_quantile("table, quantile"), slow=True),
    MechanismCase(**table_discovery("table, two keys found"), slow=True),
    MechanismCase(**table_ranges("table, ranges found"), slow=True),
)
