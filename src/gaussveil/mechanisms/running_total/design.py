"""Everything public about a running total: its strategy, what it hides, how much noise that takes and what is left.

With x the readings and A the lower triangle of ones, released is A (x + C^-1 z), C a buffered linear Toeplitz strategy
(`accounting/buffered_toeplitz.py`), z white. Derived, with the lattice: docs/mechanisms/running_total.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gaussveil import calibration, checks
from gaussveil.accounting import Adjacency, Certificate, Charge
from gaussveil.accounting.buffered_toeplitz import (
    BITS,
    ERRORS,
    MOST_BUFFERS,
    MOST_STEPS,
    Buffers,
    sensitivity,
)
from gaussveil.accounting.canonical import canonical_json, decoded
from gaussveil.accounting.matrix_mechanism import MatrixMechanism
from gaussveil.accounting.strategies import BLT
from gaussveil.errors import FormatError, NumericalError, ParameterError
from gaussveil.mechanisms.meter_stream.design import fine_enough, stream_sampler_error
from gaussveil.mechanisms.meter_stream.request import SIZES
from gaussveil.mechanisms.release_path import Plan, Promise
from gaussveil.noise.filter_bank import LARGEST_STEPS
from gaussveil.noise.stream_filter import StreamFilter
from gaussveil.spectrum import GaussianPair
from gaussveil.typing import Floats

ROUNDED_SUMS = (
    1 + 2.0**-20
)  # lattice steps by which the rounded sum of buffers moves beyond the exact one
LISTED = 64  # takes in one run that are tried one by one
NUMERICAL_MARGIN = 1 + 2.0**-28  # coefficients of a million steps are known to 1e-10


@dataclass(frozen=True, kw_only=True)
class TotalDesign:
    """A running total of `sample_limit` readings, begun anew after every `every` of them."""

    sample_period: float
    epsilon: float
    delta: float
    size: float
    """By how much one reading may be changed."""
    takes: int
    separation: int
    sample_limit: int
    every: int
    minimise: str
    scales: tuple[float, ...]
    decays: tuple[float, ...]
    filter: StreamFilter
    """White: the lattice and the deviation of z."""
    mean_shift: float
    sampler_error: float
    limits: tuple[float, float]
    substitute: float

    @property
    def buffers(self) -> Buffers:
        """Of the strategy."""
        return Buffers(self.scales, self.decays)

    def accounted(self) -> MatrixMechanism:
        """The strategy and its noise in the accountant's words, but for the lattice; of one run."""
        strategy = BLT(
            self.every,
            len(self.scales),
            takes=self.takes,
            separation=self.separation,
            error=self.minimise,
        )
        noise = self.filter.white / self.size
        return MatrixMechanism(
            strategy,
            noise_multiplier=noise,
            takes=self.takes,
            separation=self.separation,
        )

    @property
    def charge(self) -> Charge:
        """What the whole total costs, once."""
        return Charge(
            GaussianPair.mean_shift(self.mean_shift), sampler_error=self.sampler_error
        )

    def sd(self, first: int, last: int) -> float:
        """Deviation of the noise in the sum of readings [first, last) of a total that began at 0."""
        added = _added(self.buffers, self.every)
        samples = last - first
        moved = np.concatenate([added[:samples], added[samples:last] - added[:first]])
        return self.filter.white * float(np.linalg.norm(moved))

    def root_mean_square(self) -> float:
        """Deviation of the totals' noise over a whole run, in the mean of squares."""
        added = _added(self.buffers, self.every)
        return self.filter.white * math.sqrt(float(np.mean(np.cumsum(added**2))))


@lru_cache(maxsize=16)
def _added(buffers: Buffers, steps: int) -> Floats:
    """What a draw adds to the sums from its own on."""
    return buffers.error_coefficients(steps)


@dataclass(frozen=True, kw_only=True)
class TotalRequest:
    """What a running total is asked to be, checked."""

    promise: Promise
    steps: int
    every: int
    limits: tuple[float, float]
    substitute: float
    size: float | None
    takes: int | None
    separation: int
    buffers: int
    minimise: str
    sample_period: float

    def __post_init__(self) -> None:
        checks.whole("steps", self.steps, f"[1, {MOST_STEPS}]")
        checks.whole("every", self.every, f"[1, {self.steps}]")
        checks.whole("separation", self.separation, f"[1, {MOST_STEPS}]")
        checks.whole("buffers", self.buffers, f"[1, {MOST_BUFFERS}]")
        checks.one_of("minimise", self.minimise, ERRORS)
        low, high = checks.span("limits", self.limits)
        if not low <= self.substitute <= high:
            raise ParameterError(
                f"substitute must lie within limits {self.limits}. Got {self.substitute}."
            )

    @property
    def most(self) -> int:
        """In how many readings of the whole life one record may be."""
        allowed = -(-self.steps // self.separation)
        if self.takes is None:
            return allowed
        return min(checks.whole("takes", self.takes), allowed)

    @property
    def change(self) -> float:
        """By how much one reading may be changed: all that the limits allow, its absence included, or as said."""
        low, high = self.limits
        if self.size is None:
            return max(high - low, abs(low), abs(high))
        return checks.real("size", self.size, SIZES)


def design_total(request: TotalRequest) -> TotalDesign:
    """Choose the buffers, measure what they hide and scale the noise to the promise."""
    promise = request.promise
    steps = request.steps
    strategy = BLT(
        request.every,
        request.buffers,
        takes=request.most,
        separation=request.separation,
        error=request.minimise,
    ).found
    shape = fine_enough(StreamFilter(white=1.0), promise, steps)
    error = stream_sampler_error(shape, steps)
    mean_shift = calibration.mean_shift_for(promise.epsilon, promise.ideal_delta(error))
    moved = moved_by_one(
        strategy, steps, request.every, request.most, request.separation
    )
    rough = shape.scaled(request.change * moved / mean_shift)
    coarsest = 2.0 * rough.grid  # which the noise that the lattice costs may reach
    found = shape.scaled(_reach(request.change, moved, coarsest, steps) / mean_shift)
    if found.grid > coarsest:
        raise NumericalError(
            "the lattice moved while the noise was scaled: choose a slightly different promise"
        )
    if max(map(abs, request.limits)) / found.grid >= LARGEST_STEPS:
        raise ParameterError(
            f"limits must be closer to the noise of {found.white:.3g}. Got {request.limits}."
        )
    return TotalDesign(
        sample_period=request.sample_period,
        epsilon=promise.epsilon,
        delta=promise.delta,
        size=request.change,
        takes=request.most,
        separation=request.separation,
        sample_limit=steps,
        every=request.every,
        minimise=request.minimise,
        scales=strategy.scales,
        decays=strategy.decays,
        filter=found,
        mean_shift=mean_shift,
        sampler_error=error,
        limits=(float(request.limits[0]), float(request.limits[1])),
        substitute=float(request.substitute),
    )


def _reach(size: float, moved: float, grid: float, steps: int) -> float:
    """How far z's centre moves at most, on the lattice: readings are rounded to it, and so are sums of buffers."""
    return (
        (size + grid) * moved + ROUNDED_SUMS * grid * math.sqrt(steps)
    ) * NUMERICAL_MARGIN


@lru_cache(maxsize=64)
def moved_by_one(
    buffers: Buffers, steps: int, every: int, takes: int, separation: int
) -> float:
    """How far changes of 1 move C x over a whole life, C anew after every `every` readings.

    In one run this is the accountant's figure. Over several, which of them a record is in is not known: the squares add
    up to the takes times the largest square per take that one run allows.
    """
    column = buffers.coefficients(every)
    if every == steps:
        return sensitivity(column, takes, separation)
    inside = min(takes, -(-every // separation))
    if inside <= LISTED:
        share = max(
            sensitivity(column, count, separation) ** 2 / count
            for count in range(1, inside + 1)
        )
    else:
        share = _largest_share(column, separation)
    return math.sqrt(takes * share)


def _largest_share(column: Floats, separation: int) -> float:
    """A bound of the square per take: the first column's inner products with all columns that may go with it."""
    rows = -(-column.size // separation)
    padded = np.zeros(rows * separation)
    padded[: column.size] = column
    later = np.cumsum(padded.reshape(rows, separation)[::-1], axis=0)[::-1].ravel()[
        : column.size
    ]
    return float(2.0 * column @ later - column @ column) * NUMERICAL_MARGIN


def design_from_dict(record: object) -> TotalDesign:
    """Inverse of `design_to_dict`; the record may come from anybody, so its promise is measured again."""
    what = "the design of a running total"
    try:
        design: TotalDesign = decoded(TotalDesign, record, what)
        request = TotalRequest(
            promise=Promise(design.epsilon, design.delta),
            steps=design.sample_limit,
            every=design.every,
            limits=design.limits,
            substitute=design.substitute,
            size=design.size,
            takes=design.takes,
            separation=design.separation,
            buffers=len(design.scales),
            minimise=design.minimise,
            sample_period=design.sample_period,
        )
        _check_buffers(design)
    except ParameterError as error:
        raise FormatError(f"not {what} of this version: {error}") from error
    moved = moved_by_one(
        design.buffers,
        design.sample_limit,
        design.every,
        request.most,
        design.separation,
    )
    enough = _reach(design.size, moved, design.filter.grid, design.sample_limit)
    hides = enough <= design.mean_shift * design.filter.white * NUMERICAL_MARGIN
    plain = replace(StreamFilter(white=design.filter.white), width=design.filter.width)
    if not hides or design.filter != plain or design.takes != request.most:
        raise FormatError(
            "the noise of the running total does not hide what it promises"
        )
    if design.sampler_error < design.filter.total_variation(2 * design.sample_limit):
        raise FormatError("the running total does not pay for its sampler's error")
    return design


def _check_buffers(design: TotalDesign) -> None:
    scales = np.array(design.scales)
    decays = np.array(design.decays)
    if scales.shape != decays.shape or not np.all(
        (scales >= 0) & (decays >= 0) & (decays < 1) & (scales < 1)
    ):
        raise ParameterError("scales and decays must be as many, from 0 to 1")
    exact = all(
        math.ldexp(value, BITS).is_integer()
        for value in (*design.scales, *design.decays)
    )
    if not exact or scales.sum() > 1:
        raise ParameterError(
            "scales and decays must be multiples of 2^-53, and scales at most 1 together"
        )


def design_to_dict(design: TotalDesign) -> dict[str, Any]:
    """Give plain JSON values; floats survive exactly."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(design)))
    return plain


def total_plan(design: TotalDesign, released: str) -> Plan:
    """What the certificate says."""
    once = design.every == design.sample_limit
    return Plan(
        charge=design.charge,
        released=f"running totals of {released}, {design.sample_limit} of them",
        adjacency=Adjacency.steps(
            design.takes, design.separation, design.size, "meter's stream"
        ),
        assumptions=(
            f"at most {design.sample_limit} readings are pushed, none of them twice",
            "time stamps, which readings are missing and when a total begins anew are public; readings are clipped",
            "the strategy is a function of public numbers only",
        ),
        parameters={
            "strategy": "buffered linear Toeplitz",
            "trajectory": {
                "epsilon": design.epsilon,
                "delta": design.delta,
                "mean_shift": design.mean_shift,
            },
            "noise_sd": design.filter.white,
            "total_sd": {
                "mean square": design.root_mean_square(),
                "last": design.sd(0, design.every),
            },
            "begun_anew_after": None if once else design.every,
            **_public(design),
        },
    )


def check_paid(design: TotalDesign, certificate: Certificate) -> None:
    """Refuse a design that is not the one the certificate was written for."""
    stated = certificate.parameters
    written = {name: canonical_json(value) for name, value in _public(design).items()}
    same = all(
        name in stated and canonical_json(stated[name]) == text
        for name, text in written.items()
    )
    promised = (certificate.epsilon, certificate.delta) == (
        design.epsilon,
        design.delta,
    )
    if certificate.mechanism != "running total" or not same or not promised:
        raise FormatError("the design is not the one that its certificate covers")


def _public(design: TotalDesign) -> dict[str, Any]:
    return {
        name: value
        for name, value in design_to_dict(design).items()
        if name not in ("epsilon", "delta")
    }
