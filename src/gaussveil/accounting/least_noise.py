"""The least noise that keeps a promise: a bracketed search, whose last look is on the private side."""

from __future__ import annotations

import math
from collections.abc import Callable

from gaussveil.accounting.accountant import Accountant
from gaussveil.accounting.noise_design import Gaussian, NoiseDesign
from gaussveil.accounting.relation import ADD_REMOVE
from gaussveil.checks import real, refuse, whole
from gaussveil.errors import ParameterError
from gaussveil.spectrum.enclosures.interval import log_down
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.turns import surrounded

NOISE_RANGE = (1e-2, 1e6)
FINEST = 1e-10  # relative width to which a noise multiplier is searched
ONCE = Gaussian()


def calibrate(
    mechanism: NoiseDesign = ONCE,
    *,
    steps: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    true_positive_rate: float | None = None,
    at: float | None = None,
    advantage: float | None = None,
    relation: str = ADD_REMOVE,
) -> float:
    """The smallest noise multiplier with which `steps` uses keep a promise, on the private side; also `noise_for`.

    The promise is `epsilon` with `delta`, a `true_positive_rate` that no attack exceeds `at` a false-positive rate, or
    a largest `advantage`.

    Args:
        mechanism: what is used, its noise multiplier left open; a `Gaussian` by default.
        steps: how often. Of a `DPSGD`, which is one step, it must be given; other mechanisms are used once by default.
        epsilon, delta: a promise.
        true_positive_rate, at: another, of attacks with a false-positive rate of `at`.
        advantage: another, of the true-positive rate less the false-positive rate.
        relation: "add-remove" or "replace".

    Returns:
        The noise multiplier: delta with it, evaluated once more, is at most the one asked for.

    Raises:
        ParameterError: not exactly one promise is given, the mechanism's noise is not open, or no noise multiplier
            below a million keeps the promise.

    >>> import gaussveil
    >>> noise = gaussveil.calibrate(gaussveil.DPSGD(sampling_rate=0.01), steps=100, epsilon=1.0, delta=1e-5)
    >>> round(noise, 3)
    0.902
    """
    for together in ((epsilon, delta), (true_positive_rate, at)):
        if _left_open(*together) == 1:
            raise ParameterError(
                "promises must be complete: epsilon with delta, or true_positive_rate with at."
            )
    if _left_open(epsilon, true_positive_rate, advantage) != 2:
        raise ParameterError(
            "promises must be one of: epsilon and delta, true_positive_rate and at, advantage."
        )
    _check_open(mechanism)
    uses = _uses(mechanism, steps)

    def with_noise(noise: float) -> Accountant:
        return Accountant(relation)._add(mechanism.with_noise(noise), uses)

    if epsilon is not None and delta is not None:
        level = real("epsilon", epsilon, "[0, inf)")
        goal = log_down(real("delta", delta, "(0, 1)"))
        return _least_noise(
            lambda noise: math.log(with_noise(noise)._delta(level) or 5e-324) - goal
        )
    if true_positive_rate is not None and at is not None:
        rate = real("true_positive_rate", true_positive_rate, "(0, 1)")
        place = real("at", at, "(0, 1)")
        if rate <= place:
            refuse(
                "true_positive_rate",
                "above the false-positive rate, which blind guessing reaches",
                rate,
            )
        return _least_noise(
            lambda noise: (
                with_noise(noise).true_positive_rate(place) * (1.0 + 1e-9) - rate
            )
        )
    most = real("advantage", advantage, "(0, 1)")
    return _least_noise(lambda noise: with_noise(noise)._delta(0.0) - most)


def _left_open(*values: float | None) -> int:
    """How many of the values are not given."""
    return sum(value is None for value in values)


def _check_open(mechanism: NoiseDesign) -> None:
    """Refuse what has no noise to be found."""
    if not isinstance(mechanism, NoiseDesign):
        refuse(
            "mechanism",
            "a DPSGD, a Gaussian, an Allocation or a MatrixMechanism",
            mechanism,
        )
    if mechanism.noise_multiplier is not None:
        refuse(
            "noise_multiplier",
            "left out of a mechanism that is calibrated, which finds it",
            mechanism.noise_multiplier,
        )


def _uses(mechanism: NoiseDesign, steps: int | None) -> int:
    """How often a mechanism is used: once unless it is said, which must be said of a step."""
    if steps is not None:
        return whole("steps", steps, "[1, 9007199254740992]")
    if mechanism.is_one_of_many:
        refuse(
            "steps",
            f"given: a {type(mechanism).__name__} is one step, and noise depends on how many there are",
            steps,
        )
    return 1


noise_for = calibrate  # of a single Gaussian release, unless another mechanism is given


def _least_noise(excess: Callable[[float], float]) -> float:
    """Smallest noise multiplier found with excess <= 0; the excess falls with the noise."""
    low, high = surrounded(
        lambda noise: excess(noise) <= 0.0,
        1.0,
        factor=2.0,
        least=NOISE_RANGE[0],
        most=NOISE_RANGE[1],
    )
    if high == math.inf:
        raise ParameterError(
            "promises must be within reach of a noise multiplier below 10^6. This one is not."
        )
    return private_end(
        lambda noise: Trial(excess(noise)),
        high,
        max(low, NOISE_RANGE[0]),
        high,
        rtol=FINEST,
    )
