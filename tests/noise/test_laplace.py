from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from gaussveil.errors import ParameterError
from gaussveil.noise import SeededGenerator, discrete_laplace
from gaussveil.noise.laplace import bernoulli_exp, rational_scale


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, Fraction(22, 7), 40.0])
def test_draws_pass_chi_square(scale: float | Fraction, full: bool) -> None:
    draws = discrete_laplace(scale, 10**6 if full else 10**5, SeededGenerator(41))
    numerator, denominator = rational_scale(scale)
    decay = np.exp(-denominator / numerator)
    reach = int(6 * scale) + 1
    support = np.arange(-reach, reach + 1)
    pmf = (1 - decay) / (1 + decay) * decay ** np.abs(support)
    tail = decay ** (reach + 1) / (1 + decay)
    expected = np.concatenate([[tail], pmf, [tail]]) * draws.size
    observed = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_wide_draws_pass_ks() -> None:
    draws = discrete_laplace(2.0**30, 50_000, SeededGenerator(42)) / 2.0**30
    assert stats.kstest(draws, "laplace").pvalue > 1e-3


@pytest.mark.parametrize("scale", [2.0**-10, 0.3, 1.0, np.pi, 1e6 + 0.1, 2.0**44])
def test_rational_scale_is_on_the_private_side(scale: float) -> None:
    drawn = Fraction(*rational_scale(scale))
    assert Fraction(scale) <= drawn <= Fraction(scale) * (1 + Fraction(1, 2**31))


@pytest.mark.parametrize("numerator", [0, 1, 5, 7])
def test_exponential_coins_have_their_probability(numerator: int) -> None:
    coins = bernoulli_exp(np.full(40_000, numerator), 7, SeededGenerator(43))
    assert stats.binomtest(int(coins.sum()), coins.size, np.exp(-numerator / 7)).pvalue > 1e-3


def test_bad_arguments_are_refused() -> None:
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="scale"):
            discrete_laplace(scale, 1)
