"""Conversions and inverses at random places, against integrals and closed forms of 30 digits: all on the sound side."""

from __future__ import annotations

import random

import mpmath as mp
import pytest

from gaussveil import DPSGD, Accountant, calibrate
from gaussveil.spectrum.renyi_bounds import RenyiBound, ZeroConcentrated

PLACES = 10


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.mp.dps = 30


def places(seed: int) -> list[tuple[float, float, random.Random]]:
    rng = random.Random(seed)
    return [(rng.uniform(0.5, 4.0), 10 ** rng.uniform(-3.0, -0.1), rng) for _ in range(PLACES)]


def above(place: mp.mpf) -> mp.mpf:
    return mp.erfc(place / mp.sqrt(2)) / 2


def quantile(level: mp.mpf) -> mp.mpf:
    """The place above which a standard normal lies with that probability."""
    return mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(level))


def one_step(noise: float, rate: float, epsilon: float) -> mp.mpf:
    s, q, raised = mp.mpf(noise), mp.mpf(rate), mp.expm1(mp.mpf(epsilon)) + mp.mpf(rate)
    edge = s * mp.log(raised / q) + 1 / (2 * s)
    return q * above(edge - 1 / s) - raised * above(edge)


def test_renyi_divergences() -> None:
    for noise, rate, rng in places(1):
        order, steps = rng.uniform(1.1, 20.0), rng.randint(1, 1000)
        found = Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=rate), steps).renyi(order)
        s, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)

        def power(x: mp.mpf, s: mp.mpf = s, q: mp.mpf = q, a: mp.mpf = a) -> mp.mpf:
            return mp.npdf(x) * (1 + q * mp.expm1(x / s - 1 / (2 * s * s))) ** a

        cuts = [-14, 0, float(a / s), float(a / s) + 14]
        exact = steps * mp.log(mp.quad(power, cuts)) / (a - 1)
        assert exact <= found <= float(exact) * (1 + 1e-9)


def test_zero_concentrated_privacy_and_lists_of_orders() -> None:
    """Not below the best bound of a Gaussian's moments over all orders, and close to it."""
    rng = random.Random(2)
    for _ in range(PLACES):
        rho, xi, epsilon = 10 ** rng.uniform(-3.0, 0.0), 10 ** rng.uniform(-4.0, -1.0), rng.uniform(0.5, 6.0)

        def bound(u: mp.mpf, rho: float = rho, xi: float = xi, at: float = epsilon) -> mp.mpf:
            c = mp.exp(u)
            return c * (xi + rho * (1 + c) - at) + c * u - (1 + c) * mp.log1p(c)

        low, high = mp.mpf(-20), mp.mpf(20)
        for _ in range(200):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if bound(left) < bound(right) else (left, high)
        best = min(mp.exp(bound(low)), mp.sqrt(mp.mpf(xi + rho) / 2), mp.sqrt(1 - mp.exp(-mp.mpf(xi + rho))))
        found = float(ZeroConcentrated(rho, xi).delta(epsilon))
        if best < 1e-300:  # what leaves the doubles is not 0
            assert best <= found < 1e-299
            continue
        assert best <= found <= float(best) * (1 + 1e-9)
        orders = [1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0]
        listed = RenyiBound(tuple(orders), tuple(xi + rho * order for order in orders))
        some = min(mp.exp(bound(mp.log(order - 1))) for order in orders)
        assert min(some, best) * (1 - mp.mpf(10) ** -15) <= float(listed.delta(epsilon)) <= float(some) * (1 + 1e-9)


def test_true_positive_rates() -> None:
    """The likelihood ratio of one step grows with the output: the best tests cut it at a place, in both directions."""
    for noise, rate, rng in places(3):
        s, q, at = mp.mpf(noise), mp.mpf(rate), 10 ** rng.uniform(-4.0, -0.5)
        with_record = (1 - q) * at + q * above(quantile(at) - 1 / s)
        low, high = mp.mpf(-20), mp.mpf(20)  # below that place the record is denied
        for _ in range(110):
            middle = (low + high) / 2
            accused = 1 - (1 - q) * above(middle) - q * above(middle - 1 / s)
            low, high = (middle, high) if accused < at else (low, middle)
        exact = max(with_record, 1 - above(low))
        found = Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=rate)).true_positive_rate(at)
        assert exact <= found <= float(exact) * (1 + 1e-3)


def test_noise_that_keeps_a_promise() -> None:
    for _, rate, rng in places(4):
        epsilon, delta = rng.uniform(0.2, 4.0), 10 ** rng.uniform(-9.0, -3.0)
        noise = calibrate(DPSGD(sampling_rate=rate), steps=1, epsilon=epsilon, delta=delta)
        assert one_step(noise, rate, epsilon) <= delta
        assert one_step(noise * (1 - 1e-8), rate, epsilon) > delta or noise <= 0.02


def test_noise_for_a_true_positive_rate() -> None:
    rng = random.Random(5)
    for _ in range(PLACES):
        at = 10 ** rng.uniform(-4.0, -1.0)
        wanted = at + (0.9 - at) * rng.random()
        noise = calibrate(true_positive_rate=wanted, at=at)
        exact = 1 / (quantile(at) - quantile(wanted))
        assert exact <= noise <= float(exact) * (1 + 1e-6)
