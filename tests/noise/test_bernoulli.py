from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.noise import Generator, SeededGenerator, randomised_response, response_probabilities
from gaussveil.noise.bernoulli import bernoulli, uniform_below


def test_coins_compare_all_digits_of_the_probability(scripted: Callable[[list[int]], Generator]) -> None:
    third = (2**64 - 1) // 3  # 0.010101... in binary, for ever
    assert bernoulli(Fraction(1, 3), 1, scripted([third - 1]))[0]
    assert not bernoulli(Fraction(1, 3), 1, scripted([third + 1]))[0]
    assert bernoulli(Fraction(1, 3), 1, scripted([third, third, third - 1]))[0]
    assert not bernoulli(Fraction(1, 3), 1, scripted([third, third, third + 1]))[0]
    tiny = 2.0**-70
    assert bernoulli(tiny, 1, scripted([0, 2**58 - 1]))[0]
    assert not bernoulli(tiny, 1, scripted([0, 2**58]))[0]
    assert not bernoulli(tiny, 1, scripted([1]))[0]


@pytest.mark.parametrize("probability", [0.5, 0.1, 1 - 2.0**-10, Fraction(2, 7)])
def test_coins_have_their_probability(probability: float | Fraction) -> None:
    coins = bernoulli(probability, (100, 400), SeededGenerator(51))
    assert coins.shape == (100, 400)
    assert stats.binomtest(int(coins.sum()), coins.size, float(probability)).pvalue > 1e-3


def test_certain_coins_need_no_chance(scripted: Callable[[list[int]], Generator]) -> None:
    assert bernoulli(1, 5, scripted([])).all()
    assert not bernoulli(0.0, 5, scripted([])).any()


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000])
def test_uniform_integers_are_uniform(limit: int) -> None:
    draws = uniform_below(limit, 50_000, SeededGenerator(52))
    counts = np.bincount(draws, minlength=limit)
    assert len(counts) == limit
    assert limit == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_uniform_integers_reject_what_is_too_large(scripted: Callable[[list[int]], Generator]) -> None:
    top = 2**62
    assert uniform_below(3, 3, scripted([3 * top, 2 * top, 0, 3 * top, top])).tolist() == [1, 2, 0]


@given(st.integers(2, 50), st.floats(1e-12, 50))
@settings(derandomize=True, deadline=None)
def test_response_ratio_never_exceeds_e_to_the_epsilon(categories: int, epsilon: float) -> None:
    keep, other = response_probabilities(categories, epsilon)
    assert keep + (categories - 1) * other == 1
    ratio = keep / other
    with mpmath.workdps(80):
        slack = mpmath.exp(mpmath.mpf(epsilon)) * ratio.denominator / ratio.numerator - 1
        assert 0 <= slack < mpmath.mpf(2) ** -90


@pytest.mark.parametrize("categories", [2, 5])
def test_responses_have_their_probabilities(categories: int) -> None:
    keep, other = response_probabilities(categories, 1.2)
    for label in (0, categories - 1):
        answers = randomised_response(np.full(40_000, label), categories, 1.2, SeededGenerator(53 + label))
        expected = np.full(categories, float(other))
        expected[label] = float(keep)
        observed = np.bincount(answers, minlength=categories)
        assert stats.chisquare(observed, expected * answers.size).pvalue > 1e-3


def test_the_same_coins_are_thrown_whatever_the_labels(counting: Callable[[int], SeededGenerator]) -> None:
    requests = []
    for label in (0, 3):
        generator = counting(54)
        randomised_response(np.full(1000, label), 4, 1.0, generator)
        requests.append(generator.requests)  # type: ignore[attr-defined]
    assert requests[0] == requests[1]


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
def test_bad_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(ParameterError, match="probability"):
        bernoulli(probability, 1)


def test_bad_responses_are_refused() -> None:
    with pytest.raises(ParameterError, match="categories"):
        randomised_response([0], 1, 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        randomised_response([0], 2, 0.0)
    with pytest.raises(ParameterError, match="epsilon"):
        randomised_response([0], 2, float("nan"))
    with pytest.raises(SchemaError, match="public rule"):
        randomised_response([2], 2, 1.0)
    with pytest.raises(SchemaError, match="integers"):
        randomised_response([0.5], 2, 1.0)
    with pytest.raises(ParameterError, match="limit"):
        uniform_below(0, 1, SeededGenerator(1))
