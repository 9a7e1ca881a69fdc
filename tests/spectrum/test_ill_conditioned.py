"""Pairs of matrices at condition numbers where a reduction in doubles loses the digits of delta."""

from __future__ import annotations

import numpy as np
import pytest

from gaussveil.spectrum import GaussianPair, compose
from gaussveil.spectrum.enclosures import matrix_reduction
from gaussveil.spectrum.enclosures.enclosure import enclose_delta
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles
from gaussveil.typing import Floats

PROMISE = 1e-9


def matrices(size: int, condition: float, seed: int, low_rank: bool) -> tuple[Floats, ...]:
    """Mean and covariance of X and of Y; the difference of covariances has every rank, or rank one."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(size, size)))
    root = axes * np.geomspace(1.0, condition**-0.5, size)
    if low_rank:
        part = root @ rng.normal(size=(size, 1)) / (2 * np.sqrt(size))
        change = part @ part.T
    else:
        middle = rng.normal(size=(size, size)) / (20 * np.sqrt(size))
        change = root @ (middle + middle.T) / 2 @ root.T
    cov_y = root @ root.T
    cov_x = cov_y + change
    mean = 0.1 * root @ rng.normal(size=size)
    return mean, (cov_x + cov_x.T) / 2, np.zeros(size), (cov_y + cov_y.T) / 2


@pytest.mark.parametrize("low_rank", [False, True])
def test_floats_hand_over_where_doubles_lose_the_digits(low_rank: bool) -> None:
    batch = [matrices(12, condition, 5, low_rank) for condition in (1e2, 2e14, 1e4, 1e9)]
    pairs = GaussianPair(*(np.stack(column) for column in zip(*batch, strict=True)))
    assert pairs.batch_shape == (4,)
    found = pairs.dp_delta(1.0)
    for place, one in enumerate(batch):
        pair = GaussianPair(*one)
        ends = pair.enclose(1.0).larger(pair.reversed().enclose(1.0))
        for delta in (found[place], pair.dp_delta(1.0)):
            assert ends.lower * (1 - PROMISE) <= delta <= ends.upper * (1 + PROMISE)
    first, second = (GaussianPair(*batch[place]) for place in (1, 3))
    both = compose(first, second).enclose(1.0)
    assert compose(first, second).delta(1.0) == pytest.approx(both.upper, rel=PROMISE)


@pytest.mark.parametrize("low_rank", [False, True])
def test_sums_of_two_doubles_say_what_balls_say(low_rank: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = MatrixDoubles.of(*matrices(48, 1e10, 6, low_rank))
    (spectrum,) = matrix_reduction.quick_spectra((pair,))
    assert spectrum is not None
    assert spectrum.stray < 1e-15  # 1e-9 where gaps that lie close together are not turned
    quick = enclose_delta([(pair, 1)], 1.0)
    matrix_reduction.matrix_spectrum.cache_clear()
    matrix_reduction.matrix_spectra.cache_clear()
    monkeypatch.setattr(matrix_reduction, "quick_parts", lambda *columns: None)
    balls = enclose_delta([(pair, 1)], 1.0)
    matrix_reduction.matrix_spectrum.cache_clear()
    matrix_reduction.matrix_spectra.cache_clear()
    assert quick.lower <= balls.lower <= balls.upper <= quick.upper <= quick.lower * (1 + 1e-11)
