"""What one fit of a mixture will do, decided before anything is drawn: the charge, the certificate and the draw.

Record adjacency: see estimator.py. Label adjacency: see labels.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Adjacency, CertificateDraft, Charge, Guarantee
from gaussveil.accounting.composition import sampler_delta
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms.mixture.budget import CAPS, RADIUS_BINS, stage_budget
from gaussveil.mechanisms.mixture.clusters import STEPS, find_clusters
from gaussveil.mechanisms.mixture.feature_units import FeatureUnits
from gaussveil.mechanisms.mixture.label_maximisation import Parameters
from gaussveil.mechanisms.mixture.label_sums import features_are_used, with_features
from gaussveil.mechanisms.mixture.labels import (
    METHODS,
    choose_method,
    from_both,
    from_clusters,
    from_response,
    split_epsilon,
)
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import Records, read_records
from gaussveil.mechanisms.mixture.stages import Guess, run_stages
from gaussveil.mechanisms.noisy_sums import ROUNDING_SHIFT, SAMPLER_RESERVE
from gaussveil.noise import Generator
from gaussveil.noise.laplace import rational_scale
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.profiles import DiscreteLaplace, RandomisedResponse
from gaussveil.typing import Floats

LabelRelease = Callable[[Floats, NDArray[np.int64], int, float, Generator | None], Parameters]

ROUNDING_RESERVE = 1 - 2.0**-40  # for the rounding of certified deltas and of the stages' scales


@dataclass(frozen=True)
class Promise:
    """Epsilon and delta of one fit, and the generator it draws from."""

    epsilon: float
    delta: float
    generator: Generator | None

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ParameterError(f"epsilon must be finite and not negative. Got {self.epsilon!r} instead.")
        if not 0 < self.delta < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1. Got {self.delta!r} instead.")

    def mean_shift(self, sampler_error: float) -> float:
        """The mean shift that epsilon and delta allow, after the sampler's error."""
        sampler = sampler_delta(self.epsilon, sampler_error)
        if sampler >= self.delta / 2:
            raise ParameterError(
                f"delta must be at least {2 * sampler:.3g} at epsilon {self.epsilon:g} for this many classes and "
                f"columns, to pay for the sampler's error. Got {self.delta!r} instead."
            )
        shift = mean_shift_for(self.epsilon, (self.delta - sampler) * ROUNDING_RESERVE)
        if shift <= 4 * ROUNDING_SHIFT:
            raise ParameterError(f"epsilon and delta allow a mean shift of {shift:.3g} only: raise them.")
        return shift

    def draft(
        self, records: Records, adjacency: Adjacency, assumptions: tuple[str, ...], known: Mapping[str, object]
    ) -> CertificateDraft:
        """The certificate, but for what only the transaction knows."""
        secure = self.generator is None or self.generator.is_secure
        where = "stated by the caller" if records.classes_declared else "those present in the data, declared public"
        return CertificateDraft(
            released=f"Gaussian mixture of {len(records.classes)} classes in {len(records.columns)} columns",
            mechanism="mixture",
            adjacency=adjacency,
            epsilon=self.epsilon,
            delta=self.delta,
            guarantee=Guarantee.worst_case() if secure else Guarantee.none("seeded"),
            assumptions=(f"the list of classes is public knowledge ({where})", *assumptions),
            parameters={
                "classes": [str(name) for name in records.classes],
                "columns": list(records.columns),
                **known,
            },
        )


@dataclass(frozen=True)
class FitPlan:
    """A fit that is ready to be debited and drawn."""

    charge: Charge
    draft: CertificateDraft
    draw: Callable[[], Parameters]


def record_plan(
    promise: Promise, records: Records, *, radius: float, middle: Floats, nominal_size: int | None, unit: str
) -> FitPlan:
    """One privacy unit is added or removed: adaptive stages that add up to one mean shift."""
    error = _sampler_error(len(records.classes), len(records.columns))
    mean_shift = promise.mean_shift(error)
    rows = records.source.rows_per_unit
    if mean_shift / rows <= 4 * ROUNDING_SHIFT:
        raise ParameterError(f"rows_per_unit must be smaller: {rows} rows leave nothing to each.")
    labelled = "labels are part of a record and were not computed from other private records"
    draft = promise.draft(
        records,
        Adjacency.add_remove(unit),
        (
            "the ball that records are clipped to, the nominal size, columns and types are public knowledge",
            labelled if records.label is not None else "classes are clusters found inside the budget",
            *((f"at most {rows} rows of each {unit} are used",) if unit != "record" else ()),
        ),
        {
            "radius": radius,
            "centre": middle.tolist(),
            "nominal_size": "left to the first stage" if nominal_size is None else int(nominal_size),
            "rows_per_unit": rows,
            "mean_shift": mean_shift,
            **_known_noise(records, mean_shift / rows, radius, nominal_size),
        },
    )

    def draw() -> Parameters:
        passes = PrivatePasses(
            records.source,
            records.columns,
            records.group,
            len(records.classes) if records.group else 1,
            rows,
            rows,
            mean_shift,
            promise.generator,
        )
        guess = _staged(passes, len(records.classes), mean_shift / rows, radius, middle, nominal_size)
        return guess.weights, guess.means, guess.covariances

    return FitPlan(Charge(GaussianPair.mean_shift(mean_shift), sampler_error=error), draft, draw)


def label_plan(promise: Promise, records: Records, *, method: str) -> FitPlan:
    """One label is replaced by another; features are used as they are."""
    classes = len(records.classes)
    if records.label is None:
        raise ParameterError("adjacency 'label' requires y to be passed, but the target y is None: pass the labels.")
    if classes < 2:
        raise ParameterError("adjacency 'label' needs at least two classes: a label must have another to change to.")
    if not 0 < promise.epsilon <= 700:
        raise ParameterError(f"epsilon must lie in (0, 700] with adjacency 'label'. Got {promise.epsilon!r} instead.")
    rows, codes = records.in_memory()
    if len(rows) < max(2 * classes, 2):
        raise ShapeError(f"adjacency 'label' needs at least {2 * classes} complete records. Got {len(rows)} instead.")
    error = _sampler_error(classes, len(records.columns))
    mean_shift = promise.mean_shift(error)
    size, dimension = rows.shape
    units = FeatureUnits.of(rows)
    chosen = choose_method(size, classes, dimension, promise.epsilon, mean_shift) if method == "auto" else method
    if chosen not in METHODS:
        raise ParameterError(f"method must be 'auto' or one of {', '.join(METHODS)}. Got {method!r} instead.")
    draft = promise.draft(
        records,
        Adjacency.replace_one("label"),
        (
            "the features are not protected: the model is computed from them as they are",
            "every label is one of the classes; records and their number are public knowledge",
        ),
        {"method": chosen, "mean_shift": mean_shift if chosen == "sums" else None},
    )
    generator, epsilon = promise.generator, promise.epsilon

    def drawn(release: LabelRelease) -> Callable[[], Parameters]:
        return lambda: units.restored(release(units.scaled(rows), codes, classes, epsilon, generator))

    if chosen == "response":
        return FitPlan(Charge(RandomisedResponse(epsilon, classes)), draft, drawn(from_response))
    if chosen == "clusters":
        return FitPlan(_table_charge(epsilon), draft, drawn(from_clusters))
    if chosen == "both":
        for_table, for_answers = split_epsilon(epsilon)
        charge = _table_charge(for_table) + Charge(RandomisedResponse(for_answers, classes))
        return FitPlan(charge, draft, drawn(from_both))

    def draw() -> Parameters:
        # A label moves the sums of two classes, each as much as one record would: twice the squared loss.
        one = mean_shift / math.sqrt(2)
        table = read_records(
            units.common.scaled(rows),
            codes,
            classes=range(classes),
            columns=None,
            unit=None,
            rows_per_unit=None,
        )
        return units.common.restored(_from_sums(table, one, generator))

    return FitPlan(Charge(GaussianPair.mean_shift(mean_shift), sampler_error=error), draft, draw)


def _from_sums(table: Records, mean_shift: float, generator: Generator | None) -> Parameters:
    """Class sums in stages, in a ball about the features, and what the features add to them."""
    rows, _ = table.in_memory()
    classes, (size, dimension) = len(table.classes), rows.shape
    passes = PrivatePasses(table.source, table.columns, table.group, classes, 1, 2, mean_shift, generator)
    middle = rows.mean(axis=0)
    radius = float(np.quantile(np.linalg.norm(rows - middle, axis=1), 0.99)) or 1.0
    guess = _staged(passes, classes, mean_shift, radius, middle, size)
    released = guess.weights, guess.means, guess.covariances
    if guess.seen is None or not features_are_used(size, classes, dimension):
        return released
    return with_features(rows, released, guess.seen)


def _table_charge(epsilon: float) -> Charge:
    """A table of counts with discrete Laplace noise: a label moves two of them by one each."""
    numerator, denominator = rational_scale(2 / Fraction(epsilon))  # as NoisyTable draws it
    return Charge(DiscreteLaplace(1, numerator / denominator), count=2)


def _staged(
    passes: PrivatePasses, classes: int, mean_shift: float, radius: float, middle: Floats, nominal_size: int | None
) -> Guess:
    """Clusters first where there are no labels, then the stages."""
    left = _for_stages(mean_shift)
    start = None
    if passes.group is None:
        start, left = find_clusters(
            passes, classes, mean_shift=left, radius=radius, middle=middle, nominal_size=nominal_size
        )
    return run_stages(passes, mean_shift=left, radius=radius, middle=middle, nominal_size=nominal_size, start=start)


def _for_stages(mean_shift: float) -> float:
    """What the stages may use: rounding to the lattice takes the rest."""
    return (mean_shift - ROUNDING_SHIFT) * ROUNDING_RESERVE


def _known_noise(records: Records, mean_shift: float, radius: float, nominal_size: int | None) -> dict[str, object]:
    """The noise of every pass, where it is known before the first."""
    if nominal_size is None or records.group is None:
        return {}
    classes, d = len(records.classes), len(records.columns)
    return {"noise": stage_budget(nominal_size, _for_stages(mean_shift), classes, d, radius, None).describe()}


def _sampler_error(classes: int, dimension: int) -> float:
    """Total variation of all draws of a fit; each pass checks its own part against the same reserve."""
    moments = 1 + dimension + dimension * (dimension + 1) // 2
    labelled = 1 + dimension + RADIUS_BINS + max(CAPS) * moments
    return SAMPLER_RESERVE * (classes * (labelled + STEPS * (1 + dimension)) + labelled)
