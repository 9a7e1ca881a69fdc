"""Algorithm 1 as printed: the figures of the corrections, and that it is refuted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gaussveil_studies.gmm.settings import iris, synthetic
from gaussveil_studies.published.additive_wishart import escape_probability, wishart_rate
from gaussveil_studies.published.gmm_kl import (
    draw_coloured,
    draw_independent,
    draw_printed,
    empirical_parameters,
    printed_design,
)


def test_the_printed_weights_have_no_probability_mass_function() -> None:
    setting = synthetic(1)
    design = printed_design(setting.rows, setting.codes, setting.classes, 1.0, 1e-5)
    # G-d: K=5, epsilon=1 gives epsilon_0 = 1/3; all objectives share a sign
    assert design.weight_epsilon == pytest.approx(1 / 3)
    others = 20
    printed = {1 / (1 + others * math.exp(sign / 3)) * (others + 1) for sign in (1, -1)}
    assert min(abs(design.printed_mass - mass) for mass in printed) < 1e-9
    assert min(printed) == pytest.approx(0.726, abs=5e-4)


def test_the_noise_of_the_means_depends_on_the_labels() -> None:
    """G-c: one changed label changes the covariance of the noise; enclosed pairs: tests/studies/test_errata.py."""
    setting = iris()
    changed = setting.codes.copy()
    changed[118] = 0
    one, other = (printed_design(setting.rows, codes, 3, 1.0, 1e-5) for codes in (setting.codes, changed))
    ratio = np.trace(other.mean_covariances[0]) / np.trace(one.mean_covariances[0])
    assert abs(np.log(ratio)) > 0.02


def test_the_wishart_claim_is_refuted_by_its_support() -> None:
    """G-a: with unit rows and gamma = 2 N epsilon/3, delta is at least 1 - exp(-epsilon/3) at every epsilon."""
    for epsilon, delta in ((0.5, 0.154), (1.0, 0.283), (2.0, 0.487), (4.0, 0.736)):
        count = 50
        found = escape_probability(wishart_rate(count, epsilon), 1 / count)
        assert found == pytest.approx(delta, abs=1e-3)


def test_all_four_give_parameters_of_a_mixture() -> None:
    setting = iris()
    generator = np.random.default_rng(0)
    design = printed_design(setting.rows, setting.codes, 3, 2.0, 1e-5)
    drawn = [
        draw_printed(setting.rows, setting.codes, 3, design, generator),
        draw_independent(setting.rows, setting.codes, 3, 2.0, 1e-5, 4.0, "laplace", generator),
        draw_independent(setting.rows, setting.codes, 3, 2.0, 1e-5, 4.0, "gaussian", generator),
        draw_coloured(setting.rows, setting.codes, 3, 2.0, 1e-5, 4.0, generator),
    ]
    for weights, means, covariances in drawn:
        assert weights.sum() == pytest.approx(1.0)
        assert means.shape == (3, 4)
        assert (np.linalg.eigvalsh(covariances) > 0).all()
    _, _, fitted = empirical_parameters(setting.rows, setting.codes, 3)
    assert (np.linalg.eigvalsh(drawn[0][2] - fitted) > 0).all()  # Wishart noise only widens
