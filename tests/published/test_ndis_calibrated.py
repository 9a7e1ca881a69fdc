from __future__ import annotations

from functools import partial

import pytest

from gaussveil.errors import ParameterError
from gaussveil.mechanisms import PrivateGaussianProcessRegressor
from gaussveil.spectrum import GaussianPair
from gaussveil_studies.published.ndis_calibrated import (
    published_covariance_bound,
    published_logistic_sensitivity,
    published_process_sensitivity,
    published_variance,
)


@pytest.mark.parametrize(
    ("epsilon", "printed", "exact", "needed"), [(1.0, 0.157, 0.343, 9.22), (0.5, 0.582, 0.156, 17.3)]
)
def test_figure_5_is_refuted_by_the_exact_spectrum(epsilon: float, printed: float, exact: float, needed: float) -> None:
    """Corrections N2: one record at the queried point, observation variance 1e-4; claimed delta 1e-6."""
    sensitivity = partial(
        published_process_sensitivity, kernel_deviation=1.0, label_bound=1e-6, observation_deviation=0.01, count=1
    )
    variance = published_variance(sensitivity, epsilon, 1e-6, 1)
    assert variance == pytest.approx(printed, rel=0.01)
    pair = GaussianPair([0.0], [[1e-4 / 1.0001 + variance]], [0.0], [[1.0 + variance]])
    enclosed = pair.reversed().enclose(epsilon)
    assert enclosed.lower == pytest.approx(exact, rel=0.01)
    assert enclosed.lower > 1e5 * 1e-6
    # the direction that Lemma 2 does bound is where the claim comes from
    assert float(pair.delta(epsilon)) <= 1e-6
    ours = PrivateGaussianProcessRegressor(
        observation_variance=1e-4, label_bound=1e-6, n_max=1, epsilon=epsilon, delta=1e-6
    )
    assert ours.plan().added_variance == pytest.approx(needed, rel=0.01)


@pytest.mark.parametrize(("regularization", "printed"), [(1.0, 21.9), (10.0, 0.739)])
def test_variances_of_the_paper_are_met(regularization: float, printed: float) -> None:
    sensitivity = partial(
        published_logistic_sensitivity, row_norm=1.0, regularization=regularization, count=1000, dimension=10
    )
    assert published_variance(sensitivity, 1.0, 1e-5, 10) == pytest.approx(printed, rel=0.01)


def test_published_bound_is_zero_where_the_narrow_law_loses_nothing() -> None:
    assert published_covariance_bound(1.0, 0.5, 1.5, 3) == 0.0
    assert published_covariance_bound(0.2, 0.5, 1.2, 3) > 0.0


def test_a_sensitivity_that_does_not_fall_is_refused() -> None:
    with pytest.raises(ParameterError, match="sensitivity falls"):
        published_variance(lambda variance: (1.0, 1.0, 1.0), 1.0, 1e-6, 1)
