"""Long compositions by few terms: the same numbers, within the stated error of the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaussveil.spectrum import PrivacyLoss, compose, contour
from gaussveil.spectrum.condensed import LONG, condensed
from gaussveil.spectrum.terms import Terms, cumulant_slopes, loss_limits, order_limits

Draw = Callable[[np.random.Generator, int], np.ndarray]


def outliers(rng: np.random.Generator, size: int) -> np.ndarray:
    gaps = rng.normal(size=size) * 0.01
    gaps[:2] = -(10.0 ** rng.uniform(-1, 3)), 1 - 10.0 ** rng.uniform(-8, -1)
    return gaps


SPECTRA: dict[str, Draw] = {
    "faint": lambda rng, size: rng.normal(size=size) * 10.0 ** rng.uniform(-6, -1),
    "wide": lambda rng, size: 1 - np.exp(rng.normal(size=size) * rng.uniform(0.01, 3)),
    "ten orders": lambda rng, size: -np.exp(rng.uniform(-15, 8, size=size)),
    "towards one": lambda rng, size: np.minimum(1 - np.exp(-10 * rng.exponential(size=size)), 1 - 1e-12),
    "in heaps": lambda rng, size: rng.choice(rng.normal(size=20) * 0.1, size) + rng.normal(size=size) * 1e-12,
    "equal": lambda rng, size: rng.choice([-0.3, 0.1, 0.2], size),
    "both signs": lambda rng, size: rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(-4, -0.5, size=size),
    "outliers": outliers,
    "narrow": lambda rng, size: -rng.uniform(0.5, 0.5001, size=size),
    "towards the lowest": lambda rng, size: -1 + 10.0 ** rng.uniform(-12, 0, size=size),
}
MULTIPLICITIES: list[Draw] = [
    lambda _, size: np.ones(size),
    lambda rng, size: rng.integers(0, 5, size=size) * 1.0,
    lambda rng, size: 10.0 ** rng.uniform(-2, 3, size=size),
]
ENERGIES: list[Draw] = [
    lambda _, size: np.zeros(size),
    lambda rng, size: 10.0 ** rng.uniform(-20, -1, size=size),
    lambda _, size: np.where(np.arange(size) % 7 == 0, 0.1, 0.0),
]


def drawn(name: str, seed: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, size])
    return tuple(
        kind(rng, size) for kind in (SPECTRA[name], *(rng.choice(ways) for ways in (MULTIPLICITIES, ENERGIES)))
    )


@pytest.mark.parametrize("name", SPECTRA)
def test_condensed_terms_lie_within_the_stated_error_of_the_truth(name: str, full: bool) -> None:
    for seed in range(12 if full else 1):
        gap, multiplicity, energy = drawn(name, seed, 12_000 if full else 1800)
        loss = PrivacyLoss.from_terms(gap, multiplicity, energy)
        terms = condensed(Terms.from_gaps(gap, multiplicity, energy)).flat(())
        assert terms.variance_gap.shape[-1] < gap.size
        highest = float(order_limits(terms)[1][0])
        for order in (3.0,) if np.isinf(highest) else (0.3 * highest, 0.999 * highest)[: 1 + full]:
            mean, _ = cumulant_slopes(terms, np.array([order]))
            level = np.maximum(mean - 1 / order - 1 / (1 + order), 0.5)
            found, truth = contour.log_delta(terms, level), loss.enclose(float(level[0]))
            assert np.isfinite(found.log_error[0])
            error = max(found.log_value[0] - truth.log_upper, truth.log_lower - found.log_value[0])
            assert error <= found.log_error[0], (seed, order, error, found.log_error[0])


@pytest.mark.parametrize("name", SPECTRA)
def test_condensing_keeps_the_ends_and_the_sums(name: str) -> None:
    terms = Terms.from_gaps(*drawn(name, 5, 3000))
    few = condensed(terms)
    assert few.variance_gap.shape[-1] < 3000
    assert np.all(few.multiplicity >= 0)
    assert np.all(few.energy >= 0)
    for wanted, found in zip(order_limits(terms), order_limits(few)):
        assert found == wanted
    for wanted, found in zip(loss_limits(terms), loss_limits(few)):
        assert found == pytest.approx(wanted, rel=1e-12)
    orders = np.linspace(0.0, 0.9, 4) * min(float(order_limits(terms)[1]), 5.0)
    for order in orders:
        for wanted, found in zip(cumulant_slopes(terms, order), cumulant_slopes(few, order)):
            scale = float(np.sum(np.abs(terms.log_ratio) * terms.multiplicity)) * 1e-14
            assert found == pytest.approx(wanted, rel=1e-12, abs=scale)


def test_short_losses_and_batches_stay_as_they_are() -> None:
    gap = np.random.default_rng(3).normal(size=LONG) * 0.01
    short = Terms.from_gaps(gap[1:], np.ones(LONG - 1), np.zeros(LONG - 1))
    batch = Terms.from_gaps(np.stack([gap, gap]), np.ones((2, LONG)), np.zeros((2, LONG)))
    assert condensed(short) is short
    assert condensed(batch) is batch


def thousand_pairs() -> PrivacyLoss:
    """A thousand different pairs of twelve dimensions, a little off each other."""
    rng = np.random.default_rng(1000)
    gaps = rng.normal(size=(1000, 12)) / (10 * np.sqrt(1000))
    return compose(*(PrivacyLoss.from_terms(row, np.ones(12), np.full(12, 1e-5)) for row in gaps))


def test_a_thousand_pairs_give_the_numbers_of_all_their_terms() -> None:
    loss = thousand_pairs()
    terms = Terms.from_gaps(loss.variance_gap, loss.multiplicity, loss.energy).flat(())
    for level in (0.0, 0.1, 1.0, 5.0):
        plain = contour.log_delta(terms, np.array([level])).log_value[0]
        assert loss.log_delta(level) == pytest.approx(plain, abs=1e-11)
    epsilon = float(loss.epsilon(1e-5))
    assert loss.enclose(epsilon).upper <= 1e-5
    assert loss.enclose(epsilon - 1e-9).lower > 1e-5


def test_an_epsilon_of_a_thousand_pairs_costs_a_sixth_of_one_plain_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in terms, the same on every machine; milliseconds are measured by the benchmarks."""
    loss, costs = thousand_pairs(), []
    evaluate = contour.log_hockey_stick

    def counted(terms: Terms, threshold: np.ndarray) -> Any:
        costs.append(terms.variance_gap.shape[-1])
        return evaluate(terms, threshold)

    monkeypatch.setattr(contour, "log_hockey_stick", counted)
    loss.epsilon(1e-5)
    assert 0 < len(costs) <= 3
    assert 6 * sum(costs) <= loss.variance_gap.size
