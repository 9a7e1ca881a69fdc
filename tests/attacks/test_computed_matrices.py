"""Matrices as they are computed: kernels that round to indefinite ones, covariances that overflow after the debit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Kernel, Matern, Product, RationalQuadratic

from gaussveil.accounting import Ledger
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import LiftedGaussian
from gaussveil.mechanisms.gp import PrivateGaussianProcessRegressor
from gaussveil.mechanisms.gp_kernels import as_computed, error_units

UNIT = 2.0**-53


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(nu=0.01),  # records 1e-160 apart counted as closer than equal ones: 4.7 times the promised delta
        Matern(nu=0.3),
        RationalQuadratic(alpha=1e70),
        RBF(1e-90),
        Product(RBF(), Matern(nu=0.02)),
    ],
    ids=str,
)
def test_kernels_without_a_proof_are_refused_by_name(kernel: Kernel) -> None:
    part = kernel.k2 if isinstance(kernel, Product) else kernel
    with pytest.raises(ParameterError, match=rf"Got {type(part).__name__}\(.*kernel_assumption"):
        PrivateGaussianProcessRegressor(kernel=kernel, observation_variance=0.01, n_max=5).plan(1)


def test_a_rational_kernel_of_large_alpha_is_no_boxcar() -> None:
    """(1 + z)^-alpha rounds z away; delta was 4.7 times the promise at these records."""
    rows = np.array([[0.0], [-2.0], [12.0], [8.0], [8.0], [4.0]])
    assert np.min(np.linalg.eigvalsh(RationalQuadratic(alpha=1e17)(rows))) < -0.1
    for alpha in (1e14, 1e17, 1e40):
        matrix = as_computed(RationalQuadratic(alpha=alpha))(rows)
        assert np.min(np.linalg.eigvalsh(matrix)) > -1e-14
        assert np.allclose(matrix, RBF()(rows), rtol=0, atol=1e-12)


def exactly(kernel: Kernel, x: float, y: float) -> arb:
    """The kernel's value in balls of 300 bits."""
    distance = abs(arb(x) - arb(y))
    if isinstance(kernel, RationalQuadratic):
        base = 1 + distance**2 / (2 * arb(kernel.alpha) * arb(kernel.length_scale) ** 2)
        return (-arb(kernel.alpha) * base.log()).exp()
    if isinstance(kernel, ExpSineSquared):
        sine = (arb.pi() * distance / arb(kernel.periodicity)).sin() / arb(kernel.length_scale)
        return (-2 * sine**2).exp()
    scaled = abs(arb(float(x / kernel.length_scale)) - arb(float(y / kernel.length_scale)))
    if isinstance(kernel, Matern) and kernel.nu < math.inf:
        scaled = scaled * arb(2 * kernel.nu).sqrt()
        factor = {0.5: arb(1), 1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[kernel.nu]
        return factor * (-scaled).exp()
    return (-(scaled**2) / 2).exp()


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.3),
        *(Matern(2.0, nu=nu) for nu in (0.5, 1.5, 2.5, math.inf)),
        *(RationalQuadratic(0.7, alpha) for alpha in (2.0**-10, 0.5, 1e8, 1e15, 1e50)),
        ExpSineSquared(0.5, 0.7),
        ExpSineSquared(1e-3, 3.0),
    ],
    ids=str,
)
def test_entries_lie_as_close_as_is_said(kernel: Kernel) -> None:
    """Of near, far, equal and barely different places; the units are those that the noise pays for."""
    chance, before = np.random.default_rng(4), ctx.prec
    places = np.concatenate([chance.normal(size=8), [0.0, 1e-160, -1e-160, 1e-8, 2.1, 2.1 + 2e-16, 1e5, 1e30, -1e60]])
    computed = as_computed(kernel)(places[:, None], places[:, None])
    ctx.prec = 300
    try:
        apart = [
            abs(float(exactly(kernel, x, y) - arb(float(computed[i, j])))) / UNIT
            for i, x in enumerate(places.tolist())
            for j, y in enumerate(places.tolist())
        ]
    finally:
        ctx.prec = before
    assert max(apart) <= error_units(kernel, 1)


HUGE: list[Any] = [
    [[1e308, 1e308], [1e308, 1e308]],
    [[1e308, -1e308], [1.7e308, 1.7e308]],
    [[1e308, 1e-308], [1.7e308, 1.7e308]],
]


@pytest.mark.parametrize("covariance", HUGE, ids=str)
def test_a_finite_covariance_beyond_its_bound_is_drawn_like_any_other(tmp_path: Path, covariance: Any) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("a", epsilon=9.0, delta=0.1)
    lifted = LiftedGaussian(
        lambda _: ([0.5, 1e308], covariance),
        dimension=2,
        epsilon=1.0,
        delta=1e-5,
        mean_gap=lambda v: 0.25 / math.sqrt(v) if v else math.inf,
        log_ratio=lambda v: math.log((1 + v) / (0.5 + v)),
        mean_bound=1.0,
        largest_variance=1.0,
        account=account,
    )
    assert np.isfinite(lifted.release([1]).value).all()
    assert [entry.state for entry in Ledger(tmp_path / "spent.ledger").entries("a")] == ["released"]
