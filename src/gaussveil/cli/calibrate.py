"""`gaussveil calibrate`: the least noise that keeps a promise, from a few public numbers."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log1p, nextafter
from typing import Annotated

import typer

from gaussveil.cli.accountant import whole_steps
from gaussveil.cli.options import Delta, Epsilon, Json
from gaussveil.cli.output import digits_up, tell
from gaussveil.errors import ParameterError

LAST_PLACES = Fraction(1, 2**50)  # of a logarithm


def calibrate(
    epsilon: Epsilon,
    delta: Delta,
    l2_sensitivity: Annotated[
        float,
        typer.Option(
            help="Most that a neighbour moves the value in l2 norm; of DP-SGD the clipping norm."
        ),
    ] = 1.0,
    l1_sensitivity: Annotated[
        float | None,
        typer.Option(help="The same in l1 norm: Laplace noise instead of Gaussian."),
    ] = None,
    steps: Annotated[
        int,
        typer.Option(
            parser=whole_steps, metavar="<int>", help="How often it is released."
        ),
    ] = 1,
    sampling_rate: Annotated[
        float | None,
        typer.Option(
            help="DP-SGD: probability that a record takes part in a step; needs --steps."
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="DP-SGD: one record is replaced instead of added."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """The least noise with which Gaussian noise, Laplace noise or a run of DP-SGD is (epsilon, delta)-private.

    Nothing is read and nothing spent. What the noise of a given size costs tells `gaussveil accountant`.

    Example: gaussveil calibrate --epsilon 1 --delta 1e-6 --l2-sensitivity 2.5
    """
    if l1_sensitivity is None and delta == 0:
        raise ParameterError(
            "--delta 0 needs --l1-sensitivity (Laplace noise): Gaussian noise keeps no epsilon at delta 0. Say by how "
            "much a neighbour moves the numbers together, or give a --delta above 0, such as 1e-6"
        )
    if l1_sensitivity is not None:
        if (l2_sensitivity, steps, sampling_rate) != (1.0, 1, None):
            raise ParameterError(
                "--l1-sensitivity takes no --l2-sensitivity, --steps and --sampling-rate: Laplace noise of one release"
            )
        law = "Laplace"
        moved = l1_sensitivity
        name = "scale"
        scale = _laplace_scale(epsilon, delta, moved)
    else:
        if replace and sampling_rate is None:
            raise ParameterError(
                "--replace needs --sampling-rate: of plain releases --l2-sensitivity says what a replaced record moves"
            )
        law = "Gaussian"
        moved = l2_sensitivity
        name = "standard deviation"
        scale = _deviation(epsilon, delta, moved, steps, sampling_rate, replace)
    often = ""
    if steps > 1:
        often = f" in each of {steps} steps"
    if sampling_rate is not None:
        often += f" on random batches of rate {sampling_rate:g}"
    told = f"{law} noise of {name} {digits_up(scale)} on every number{often}: ({epsilon:g}, {delta:g})"
    answer = {
        "epsilon": epsilon,
        "delta": delta,
        "noise": law,
        "sensitivity": moved,
        "steps": steps,
        "sampling_rate": sampling_rate,
        "noise_multiplier": nextafter(scale / moved, inf),
        name.replace(" ", "_"): scale,
    }
    tell(answer, [told], json=json)


def _deviation(
    epsilon: float,
    delta: float,
    sensitivity: float,
    steps: int,
    sampling_rate: float | None,
    replace: bool,
) -> float:
    """The standard deviation, on the private side: a proven one where it is one plain release."""
    from gaussveil import checks

    checks.positive("l2_sensitivity", sensitivity)
    if sampling_rate is None and steps == 1:
        from gaussveil.calibration import white_noise_scale

        return white_noise_scale(sensitivity, epsilon, delta)
    from gaussveil.accounting.accountant import DPSGD, Gaussian
    from gaussveil.accounting.least_noise import calibrate as least_noise
    from gaussveil.accounting.relation import ADD_REMOVE, REPLACE

    if sampling_rate is None:
        step: DPSGD | Gaussian = Gaussian()
    else:
        step = DPSGD(sampling_rate=sampling_rate)
    relation = REPLACE if replace else ADD_REMOVE
    noise = least_noise(
        step, steps=steps, epsilon=epsilon, delta=delta, relation=relation
    )
    return nextafter(noise * sensitivity, inf)


def _laplace_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """The scale b of sensitivity D for which delta(epsilon) = 1 - exp((epsilon - D/b)/2) is at most `delta`.

    Of a promise without delta it is D / epsilon. All roundings are towards the larger noise.
    """
    from gaussveil import checks

    level = Fraction(checks.real("epsilon", epsilon, "[0, inf)"))
    distance = Fraction(checks.positive("l1_sensitivity", sensitivity))
    allowed = checks.real("delta", delta, "[0, 1)")
    level -= 2 * Fraction(log1p(-allowed)) * (1 - LAST_PLACES)
    if level <= 0:
        raise ParameterError("--epsilon and --delta must not both be 0")
    scale = float(distance / level)
    if Fraction(scale) * level < distance:
        return nextafter(scale, inf)
    return scale
