"""Published mechanisms that the auditor must refute, and their sound neighbours that it must not."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from gaussveil import GaussianPair, PrivacyLoss
from gaussveil.audit import audit, audit_mechanism, audit_scores
from gaussveil.timeseries import Filter
from gaussveil_studies.published.additive_wishart import additive_wishart, escape_probability, evidence, wishart_rate
from gaussveil_studies.published.ndis_calibrated import published_process_sensitivity, published_variance
from gaussveil_studies.published.ptr import PublishedTestedSketch
from gaussveil_studies.published.spdp_stream import PublishedStream

# --- additive Wishart (G-a): claimed (epsilon, 0)


@pytest.mark.parametrize(("epsilon", "escape"), [(0.5, 0.154), (1.0, 0.283), (2.0, 0.487), (4.0, 0.736)])
def test_additive_wishart_is_refuted(epsilon: float, escape: float) -> None:
    """Unit rows, N = 50, d = 3: one row more adds v v' with |v|^2 = 1/N to the covariance."""
    count, draws = 50, 4000
    rng = np.random.default_rng(7)
    smaller = np.diag([0.5, 0.3, 0.2])
    larger = smaller.copy()
    larger[0, 0] += 1.0 / count
    rate = wishart_rate(count, epsilon)
    assert escape_probability(rate, 1.0 / count) == pytest.approx(1 - math.exp(-epsilon / 3)) == round_to(escape)

    found = audit_mechanism(
        lambda covariance, n: additive_wishart(covariance, rate, rng, n).reshape(n, -1),
        smaller,
        larger,
        draws=draws,
        claim=(epsilon, 0.0),
        test=lambda outputs: evidence(outputs.reshape(-1, 3, 3), larger),
    )
    assert found.refuted
    event = found.events[0]
    assert event.false_hits == 0  # the larger covariance never leaves its own cone
    # Five standard deviations of the frequency: wrong by chance once in 10^6, and seeded.
    assert event.hits / event.trials == pytest.approx(escape, abs=5 * math.sqrt(0.25 / event.trials))


def round_to(value: float) -> Any:
    return pytest.approx(value, abs=5e-4)


# --- NDIS Figure 5 (N2): a posterior lifted in the wrong direction


@pytest.mark.parametrize(
    ("epsilon", "printed", "exact", "needed"),
    [(1.0, 0.157, 0.343, 9.22), (0.5, 0.582, 0.156, 17.3), (2.0, 0.0187, 0.666, 4.89)],
)
def test_calibration_of_figure_5_is_refuted(epsilon: float, printed: float, exact: float, needed: float) -> None:
    """GP regression, l = 1, noise variance 1e-4, neighbours {} and {(x*, 0)}: posterior variances 1 and 1/10001."""

    def posterior(labels: Any, added: float) -> tuple[float, float]:
        variance = 1.0 if len(labels) == 0 else 1e-4 / (1.0 + 1e-4)
        return 0.0, variance + added

    def outcome(added: float) -> Any:
        return audit(
            lambda labels: posterior(labels, added), np.zeros(1), claim=(epsilon, 1e-6), neighbours="leave-one-out"
        )

    sensitivity = partial(
        published_process_sensitivity, kernel_deviation=1.0, label_bound=1e-6, observation_deviation=1e-2, count=1
    )
    added = published_variance(sensitivity, epsilon, 1e-6, 1)
    assert added == pytest.approx(printed, rel=5e-3)
    found = outcome(added)
    assert found.refuted
    assert float(found.delta[0]) == pytest.approx(exact, abs=2e-3)
    assert found.findings[0].lower > 1e5 * 1e-6
    # The printed proof bounds the direction that is easy: with the record (X) against without.
    assert found.log_delta[0, 0] < found.log_delta[0, 1]
    # What corrections N2 says is needed suffices to its digits, and a little less does not.
    assert outcome(needed * 1.01).verdict == "holds-on-these-neighbours"
    assert outcome(needed * 0.99).refuted


# --- NDIS Figure 4 (N3): a test that overspends; what it releases, the sketch alone, is judged in tests/studies


def test_a_bound_that_overspends_would_be_refuted_if_it_were_released() -> None:
    spends = {"delta_release": 1e-3, "delta_test": 1e-3, "delta_failure": 1e-3, "row_norm": 1.0, "n_components": 4}
    over = PublishedTestedSketch(epsilon=0.5, test_noise=0.5, **spends)
    assert over.test_epsilon > over.epsilon  # the public condition under which Figure 4 must be refused
    found = audit(over.test_pair(), claim=over.claim)
    assert found.refuted
    assert found.findings[0].lower > 100 * over.claim[1]
    within = PublishedTestedSketch(epsilon=6.0, test_noise=1.0, **spends)
    assert within.test_epsilon < within.epsilon
    assert audit(within.worst_pair(), claim=within.claim).verdict == "holds-on-these-neighbours"


def test_the_bound_would_be_refuted_by_samples() -> None:
    over = PublishedTestedSketch(
        epsilon=0.5,
        delta_release=1e-3,
        delta_test=1e-3,
        delta_failure=1e-3,
        test_noise=0.5,
        row_norm=1.0,
        n_components=4,
    )
    rng = np.random.default_rng(4)
    rows = np.concatenate([np.eye(2)] * 20 + [[[0.0, 1.0]], [[1.0, 0.0]]])  # the last row carries the eigenvalue
    with_record, without = ([over.transcript(data, rng)[0] for _ in range(600)] for data in (rows, rows[:-1]))
    assert audit_scores(with_record, without, claim=over.claim).refuted


# --- SpDP Algorithm 2 (S4b): the noise spectrum of the stream is computed from the raw spectrum


def stream_pair(horizon: int, raw: Any, neighbour: Any, released: Any) -> PrivacyLoss:
    """What somebody who knows x sees: c = x~ - F x, Gaussian with PSD phi~ - |F|^2 phi, for phi and its neighbour."""
    gain = Filter(np.array([0.8]), np.array([1.0]))  # Table I's gain, at every frequency
    covariances = [
        toeplitz(np.fft.irfft(PublishedStream.design(spectrum, released, gain).gamma)[:horizon])
        for spectrum in (raw, neighbour)
    ]
    zero = np.zeros(horizon)
    return GaussianPair(zero, covariances[0], zero, covariances[1])


def test_stream_with_the_raw_spectrum_leaks_more_with_every_sample() -> None:
    """A private spectrum chosen by hand, for speed; with spectra as they are drawn: tests/studies/test_errata.py."""
    frequency = np.linspace(0.0, np.pi, 145)
    raw = 0.36 / np.abs(1.0 - 0.8 * np.exp(-1j * frequency)) ** 2
    slow = np.where(frequency < 1.0, 1.0, 0.0)
    neighbour = raw + 0.12 * slow / np.linalg.norm(slow)  # another home's spectrum, B = 0.12 away (Table I)
    released = 0.64 * raw + 0.02  # a private spectrum that both homes can give; the filter's gain is 0.8 (Table I)
    claim = (math.log(2.0), 0.01)
    found = [audit(stream_pair(horizon, raw, neighbour, released), claim=claim) for horizon in (4, 8, 16)]
    assert all(outcome.refuted for outcome in found)
    first, second, third = (float(outcome.delta[0]) for outcome in found)
    assert 0.05 < first < second < third
