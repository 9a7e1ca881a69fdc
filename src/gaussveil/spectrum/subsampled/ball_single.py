"""One step on a random batch in closed form, in ball arithmetic: its loss grows (or falls) with the output.

Delta is P(z beyond e) - e^eps Q(z beyond e), e the output at which the loss is eps (derived: docs/math/subsampled).
"""

from __future__ import annotations

from flint import arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import ZERO, Enclosure, from_scaled
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.step import Step

PRECISIONS = (128, 384, 1600)
TIGHT_STEP = 1e-13
MOST_LOOKS = 200


def enclose_single(step: Step, epsilon: float) -> Enclosure:
    """Rigorous ends of delta."""
    if epsilon >= step.largest_loss * (1.0 + 1e-15):
        return ZERO
    with precision_lock():
        for bits in PRECISIONS:
            with ctx.workprec(bits):
                ends = from_scaled(_delta(step, arb(epsilon)), arb(0))
            if ends.relative_width < TIGHT_STEP:
                break
    return ends


def _delta(step: Step, epsilon: arb) -> arb:
    noise = arb(step.noise_multiplier)
    rate = arb(step.sampling_rate)
    grown = epsilon.exp()
    shift = 1 / noise
    if step.replace:
        # q w^2 - (1-q) (e^eps - 1) w - q e^eps e^(-1/sigma^2) = 0, w the likelihood ratio of the record
        pull = (1 - rate) * epsilon.expm1()
        w = (
            pull
            + (pull * pull + 4 * rate * rate * grown * (-shift * shift).exp()).sqrt()
        ) / (2 * rate)
        edge = noise * w.log() + shift / 2
        stays = -(1 - rate) * epsilon.expm1() * above(edge)
        return stays + rate * (above(edge - shift) - grown * above(edge + shift))
    if step.backward:
        raised = (-epsilon).expm1() + rate
        if not raised > 0:
            return arb(0, raised.abs_upper())
        edge = noise * (raised / rate).log() + shift / 2
        return (1 - grown * (1 - rate)) * above(-edge) - grown * rate * above(
            shift - edge
        )
    raised = epsilon.expm1() + rate
    edge = noise * (raised / rate).log() + shift / 2
    return rate * above(edge - shift) - raised * above(edge)


def above(place: arb) -> arb:
    """P(z > place) of a standard normal z."""
    return (place / arb(2).sqrt()).erfc() / 2


def single_epsilon(step: Step, log_delta: float) -> float:
    """An epsilon, on the private side, at which delta is e^log_delta, to the last digits."""

    def look(epsilon: float) -> Trial:
        return Trial(float(enclose_single(step, epsilon).log_upper) - log_delta)

    guess = min(step.largest_loss, 1.0)
    return private_end(
        look, guess, 0.0, step.largest_loss, rtol=1e-15, evaluations=MOST_LOOKS
    )
