"""`gaussveil accountant`: the privacy of a training run, or the noise it needs, from a few numbers."""

from __future__ import annotations

from contextlib import suppress
from math import inf, nextafter
from typing import TYPE_CHECKING, Annotated

import typer

from gaussveil.cli.output import print_json, print_table
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.accounting.accountant import DPSGD, Accountant, Gaussian


def whole_steps(text: str | int) -> int:
    """A number of steps, also as 1e4."""
    with suppress(ValueError, OverflowError):
        if (steps := int(float(text))) == float(text) and steps > 0:
            return steps
    raise typer.BadParameter(
        f"it must be a whole number from 1 on, such as 10000 or 1e4. Got {text}."
    )


def accountant(
    noise_multiplier: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise over the clipping norm; without --sampling-rate, over how far a "
            "neighbour can move the value. Omit it to find it."
        ),
    ] = None,
    sampling_rate: Annotated[
        float | None,
        typer.Option(
            help="DP-SGD: probability that a record takes part in a step; otherwise Gaussian noise."
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option(parser=whole_steps, metavar="<int>", help="Number of steps.")
    ] = 1,
    delta: Annotated[
        float | None, typer.Option(help="Target delta; prints epsilon.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Target epsilon; prints delta, or with --delta noise."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="Instead of --noise-multiplier: the standard deviation."),
    ] = None,
    l2_sensitivity: Annotated[
        float,
        typer.Option(
            help="How far one record moves the value: sigma over it is the multiplier."
        ),
    ] = 1.0,
    replace: Annotated[
        bool, typer.Option("--replace", help="One record is replaced instead of added.")
    ] = False,
    certified: Annotated[
        bool,
        typer.Option(
            "--certified",
            help="With --epsilon: add both ends, and whether they are proven.",
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Privacy of DP-SGD and of repeated Gaussian noise: epsilon at a delta, delta at an epsilon, or the noise for both.

    With --sampling-rate, be it 1, it is DP-SGD: one record replaced by another moves a sum by two clipping norms.

    Example: gaussveil accountant --noise-multiplier 1 --sampling-rate 0.01 --steps 1000 --delta 1e-5
    """
    from gaussveil.accounting.accountant import Accountant
    from gaussveil.accounting.least_noise import calibrate
    from gaussveil.accounting.relation import ADD_REMOVE, REPLACE

    relation = REPLACE if replace else ADD_REMOVE
    noise_multiplier = _multiplier(noise_multiplier, sigma, l2_sensitivity)
    step = _step(noise_multiplier, sampling_rate)
    if [noise_multiplier, epsilon, delta].count(None) != 1:
        raise ParameterError(
            "two of noise, --epsilon and --delta must be given: the third is computed."
        )
    answer: dict[str, object]
    if epsilon is not None and delta is not None:
        noise = calibrate(
            step, steps=steps, epsilon=epsilon, delta=delta, relation=relation
        )
        answer = {"epsilon": epsilon, "delta": delta, "noise_multiplier": noise}
        if l2_sensitivity != 1.0:
            answer["sigma"] = nextafter(noise * l2_sensitivity, inf)
    else:
        run = Accountant(relation).add(step, steps)
        answer = {"noise_multiplier": noise_multiplier}
        answer |= _spent(run, epsilon, delta, certified)
    if json:
        asked = {
            "mechanism": type(step).__name__,
            "sampling_rate": 1.0 if sampling_rate is None else sampling_rate,
            "steps": steps,
            "relation": relation,
        }
        print_json(asked | answer)
        return
    print_table(
        ("", "value"),
        [(name, str(value)) for name, value in answer.items()],
        title=_title(sampling_rate, steps, replace),
    )


def _multiplier(
    noise_multiplier: float | None, sigma: float | None, l2_sensitivity: float
) -> float | None:
    """The noise multiplier, given as such or as a standard deviation; None where it is what is asked for."""
    if sigma is None:
        return noise_multiplier
    if noise_multiplier is not None:
        raise ParameterError(
            "--sigma excludes --noise-multiplier, which is sigma over --l2-sensitivity."
        )
    if l2_sensitivity == 0.0:
        return inf
    return sigma / l2_sensitivity


def _step(
    noise_multiplier: float | None, sampling_rate: float | None
) -> DPSGD | Gaussian:
    """What is repeated: a step of DP-SGD where there is a rate, or Gaussian noise."""
    from gaussveil.accounting.accountant import DPSGD, Gaussian

    if sampling_rate is None:
        return Gaussian(noise_multiplier=noise_multiplier)
    return DPSGD(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)


def _title(sampling_rate: float | None, steps: int, replace: bool) -> str:
    """What the table is of: so many steps of what, and how neighbours differ."""
    if sampling_rate is None:
        kind = "of Gaussian noise"
    else:
        kind = f"of DP-SGD at rate {sampling_rate:g}"
    record = "replaced" if replace else "added or removed"
    return f"{steps} step{'s' * (steps != 1)} {kind}, one record {record}"


def _spent(
    run: Accountant, epsilon: float | None, delta: float | None, certified: bool
) -> dict[str, object]:
    """Epsilon at a delta, or delta at an epsilon, with its ends where they are asked for."""
    if delta is not None:
        return {"delta": delta, "epsilon": run.epsilon(delta)}
    assert epsilon is not None
    answer: dict[str, object] = {"epsilon": epsilon, "delta": run.delta(epsilon)}
    if certified:
        ends = run.enclose(epsilon)
        answer |= {
            "delta_lower": float(ends.lower),
            "delta_upper": float(ends.upper),
            "proven": ends.proven,
        }
    return answer
