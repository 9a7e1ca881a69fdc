from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.accounting import Ledger, verify
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import MixtureModel, PrivateGaussianMixture
from gaussveil.noise import SeededGenerator
from gaussveil_studies.gmm.releases import by_record
from gaussveil_studies.gmm.settings import synthetic

Float = NDArray[np.float64]
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def two_classes(count: int = 4000, seed: int = 0) -> tuple[Float, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    y = (np.arange(count) % 4 == 0).astype(np.int64)
    factor = np.array([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.2, 0.6]])
    return generator.normal(size=(count, 3)) @ factor.T + np.outer(y, [3.0, -2.0, 1.0]), y


def test_parameters_are_close_to_the_fit_without_noise() -> None:
    x, y = two_classes()
    truth = MixtureModel.fitted(x, y, (0, 1))
    made = PrivateGaussianMixture(**PROMISE, radius=8.0, generator=SeededGenerator(1)).fit(x, y)
    assert np.allclose(made.weights_, [0.75, 0.25], atol=0.02)
    assert made.model_.joint_divergence(truth) < 0.05
    assert truth.joint_divergence(made.model_) < 0.05


def test_no_draw_of_many_small_classes_is_far_worse_than_the_usual_one() -> None:
    setting = synthetic(7, 1000, 8)  # draw 84 took a radius of noise for a class, draw 108 has the widest class of 200
    found = []
    for seed in range(1080, 1110):
        made = by_record(setting, 1.0, seed)
        found.append((made.joint_divergence(setting.fitted), setting.fitted.joint_divergence(made)))
    assert np.all(np.max(found, axis=0) <= 5 * np.median(found, axis=0))


def test_the_certificate_is_one_mean_shift_and_verifies() -> None:
    x, y = two_classes(400)
    certificate = PrivateGaussianMixture(**PROMISE, radius=8.0).fit(x, y).certificate_
    assert verify(certificate).private
    assert certificate.charge.mean_shift_energy is not None
    shift = math.sqrt(float(certificate.charge.mean_shift_energy))
    assert shift == certificate.parameters["mean_shift"]
    # nothing of the budget is wasted
    assert certificate.delta_upper > (1 - 1e-9) * 1e-5


def test_an_empty_class_and_an_empty_table_come_out_wide(tmp_path: Path) -> None:
    x, y = two_classes(400)
    made = PrivateGaussianMixture(**PROMISE, radius=8.0, classes=[0, 1, 2], generator=SeededGenerator(2)).fit(x, y)
    assert np.linalg.eigvalsh(made.covariances_)[2].min() > 0
    assert made.weights_[2] < 0.3
    empty = PrivateGaussianMixture(**PROMISE, radius=8.0, classes=[0, 1]).fit(x[:0], y[:0])
    assert np.isfinite(empty.covariances_).all()


def test_records_far_away_or_missing_do_not_break_a_fit() -> None:
    x, y = two_classes(400)
    wild = x.copy()
    wild[:5], wild[5:9, 0] = 1e300, np.nan
    made = PrivateGaussianMixture(**PROMISE, radius=8.0, generator=SeededGenerator(3)).fit(wild, y)
    assert np.linalg.norm(made.means_, axis=1).max() < 12


@pytest.mark.parametrize(
    "change",
    [
        {"radius": None},
        {"radius": -1.0},
        {"centre": [0.0]},
        {"classes": [0, 0]},
        {"classes": []},
        {"nominal_size": 0},
        {"columns": ["x9"]},
        {"epsilon": 0.0},
        {"unit": "home"},
    ],
    ids=str,
)
def test_public_mistakes_are_refused_before_anything_is_spent(change: dict[str, Any], tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("homes", epsilon=3.0, delta=1e-3)
    x, y = two_classes(40)
    with pytest.raises(GaussveilError):
        PrivateGaussianMixture(**{**PROMISE, "radius": 8.0, "account": account, **change}).fit(x, y)
    assert Ledger(account.ledger).entries("homes") == []


def test_a_model_file_comes_back_exactly(tmp_path: Path) -> None:
    x, y = two_classes(400)
    made = PrivateGaussianMixture(**PROMISE, radius=8.0).fit(x, np.array(["day", "night"])[y])
    again = MixtureModel.read(made.model_.write(tmp_path / "model.json"))
    assert np.array_equal(again.covariances, made.covariances_)
    assert again.classes == ("day", "night")
    assert again.certificate == made.certificate_
