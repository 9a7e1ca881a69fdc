"""Runs in which a record hardly ever takes part: trade-offs, moments and grids, beside references of their own."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.rigorous_ends import RigorousEnds
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.touching import NEGLIGIBLE
from gaussveil.spectrum.subsampled.two_sided import enclose_on_grid


@pytest.mark.parametrize("order", [170.0, 176.0])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_moment_of_outputs_as_rare_as_their_moments_are_large(
    order: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From order 160 on some outputs have e^(order loss) beyond the range of doubles, and next to no probability."""
    step = Step(4.0288, 0.0043529)
    if not compiled:
        monkeypatch.setattr(Step, "compiled", lambda *arguments, **numbers: None)
    with mpmath.workdps(20):
        noise, rate, spacing = mpmath.mpf(step.noise_multiplier), mpmath.mpf(step.sampling_rate), mpmath.mpf(1) / 4
        terms = []
        for place in range(-60, 280):
            z = place * spacing
            density = 1 + rate * mpmath.expm1(z / noise - 0.5 / noise**2)
            terms.append(mpmath.npdf(z) * density ** (1 + mpmath.mpf(order)))
        truth = float(mpmath.log(spacing * mpmath.fsum(terms)))
    assert step.real_moments(order)[0] == pytest.approx(truth, rel=1e-11)


def test_a_bound_without_rare_outputs_holds_and_says_far_more() -> None:
    """Of 121 steps at a rate of 1e-4 delta(.0028) is e^-39: all outputs' moments bound it by e^-7."""
    run = SubsampledLoss([(Step(3.8556, 1.2011e-4), 121)])
    log_delta = float(run.log_delta(0.0028))
    assert log_delta <= run.chernoff(0.0028, NEGLIGIBLE - 2.0) < NEGLIGIBLE
    assert run.chernoff(0.0028) > -10.0
    for epsilon in (0.0, 1e-4, 1e-3):
        assert float(run.log_delta(epsilon)) <= run.chernoff(epsilon, NEGLIGIBLE - 2.0)


def best_tests(noise: float, rate: float, steps: int, errors: np.ndarray) -> np.ndarray:
    """Errors of the best tests of all steps: losses of one step on a fine grid, all steps by a Fourier transform."""
    size = 2**16
    z, between = np.linspace(-9.0, 9.0 + 1.0 / noise, 100_001, retstep=True)
    loss = np.log1p(rate * np.expm1(z / noise - 0.5 / noise**2))
    plain = np.exp(-0.5 * z * z) * between / math.sqrt(2.0 * math.pi)
    width = 2.0 * (12.0 * math.sqrt(steps * float(plain @ loss**2)) + float(loss[-1])) / size
    cell = np.floor(loss / width).astype(int)
    upper = loss / width - cell
    composed = []
    for mass in (plain, plain * np.exp(loss)):
        spread = np.bincount(cell % size, mass * (1.0 - upper), size) + np.bincount(
            (cell + 1) % size, mass * upper, size
        )
        whole = np.fft.irfft(np.fft.rfft(spread) ** steps, size)
        composed.append(np.cumsum(np.roll(whole, size // 2)[::-1]))
    accused, caught = composed
    return 1.0 - np.interp(errors, accused, caught)


RARE = [(4.0288, 0.0043529, 108), (3.8556, 1.2011e-4, 121), (1.667, 4.157e-5, 72)]
MOST_LOOKS = 200  # at an epsilon, in both directions together


@pytest.mark.parametrize(("noise", "rate", "steps"), RARE)
@pytest.mark.parametrize("errors", [np.array([0.01, 0.1]), np.geomspace(1e-6, 0.9, 30)], ids=["two", "thirty"])
def test_a_trade_off_of_rare_records_takes_few_looks(
    noise: float, rate: float, steps: int, errors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two points of the first two took 86 and 18 seconds: hundreds of looks, most of them the longest there are."""
    looks: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        found = getattr(RigorousEnds, name)

        def look(*arguments: Any) -> Any:
            looks[name] += 1
            return found(*arguments)

        return look

    for name in ("settled", "of_many", "at"):
        monkeypatch.setattr(RigorousEnds, name, counted(name))
    found = SubsampledLoss([(Step(noise, rate), steps)]).tradeoff(errors)
    assert looks.total() <= MOST_LOOKS
    assert looks["at"] <= 2
    truth = best_tests(noise, rate, steps, errors)
    assert np.all(found <= truth + 1e-9)
    assert np.all(found >= truth - 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 9.3e-5])
def test_a_grid_of_bounded_losses_is_narrow(epsilon: float) -> None:
    """Both ends beside a quadrature over the first of two outputs: the lower one lost a node's width of most losses."""
    step = Step(0.7620306979038822, 6.062108983795026e-05, backward=True)
    with mpmath.workdps(18):
        noise, rate = mpmath.mpf(step.noise_multiplier), mpmath.mpf(step.sampling_rate)

        def left(z: mpmath.mpf) -> mpmath.mpf:
            needed = mpmath.mpf(epsilon) + mpmath.log1p(rate * mpmath.expm1(z / noise - 0.5 / noise**2))
            kept = mpmath.expm1(-needed) + rate
            if kept <= 0:
                return mpmath.mpf(0)
            place = noise * mpmath.log(kept / rate) + 0.5 / noise
            moved = (1 - rate) * mpmath.ncdf(place) + rate * mpmath.ncdf(place - 1 / noise)
            return mpmath.npdf(z) * (mpmath.ncdf(place) - mpmath.exp(needed) * moved)

        largest = noise * mpmath.log(2 - (mpmath.exp(epsilon) - 1) / rate) + 0.5 / noise  # about where none is left
        cuts = [-12, -8, -5, -3, -2, -1, -0.5, 0, 0.25, 0.5, 0.75, 1]
        truth = mpmath.quad(left, [*(cut for cut in cuts if cut < largest), largest, largest + 0.5])
    ends = enclose_on_grid([(step, 2)], epsilon, float(mpmath.log(truth)), 2**15)
    assert ends.lower <= float(truth) * (1.0 + 1e-10)
    assert ends.upper >= float(truth) * (1.0 - 1e-10)
    assert ends.relative_width < 1e-8
