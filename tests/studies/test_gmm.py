from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaussveil_studies.gmm.label_parts import excess_over_plain
from gaussveil_studies.gmm.releases import (
    EPSILONS,
    FIGURES,
    LABEL_RELEASES,
    TARGETS,
    by_label,
    by_label_drawn,
    by_record,
    compare,
    summary,
)
from gaussveil_studies.gmm.settings import Setting, iris, mnist, profiles, synthetic
from gaussveil_studies.gmm.uses import accuracy, households


@pytest.fixture(scope="module")
def load(real_data: Path) -> Setting:
    return profiles(real_data)


@pytest.fixture(scope="module")
def images(real_data: Path) -> Setting:
    return mnist(real_data)


def test_iris_is_as_good_as_the_design_in_both_directions(full: bool) -> None:
    epsilons = EPSILONS if full else (1.0, 4.0)
    rows = compare("iris", [iris()], 30 if full else 8, epsilons, ("record",))
    for row in rows:
        there, back = TARGETS["iris"][EPSILONS.index(float(row["epsilon"]))]
        # three standard errors: seeded, so it passes or fails for good
        assert float(row["released_fitted"]) < 1.1 * there + 3 * float(row["released_fitted_error"])
        assert float(row["fitted_released"]) < 1.1 * back + 3 * float(row["fitted_released_error"])


def test_iris_labels_are_as_good_as_the_better_plain_release(full: bool) -> None:
    for epsilon in EPSILONS if full else (1.0,):
        rows = compare("iris", [iris()], 60 if full else 8, (epsilon,), LABEL_RELEASES)
        for figure in FIGURES:
            _, errors = excess_over_plain(rows, figure)
            assert errors < 2
    assert summary(rows).rows[0][:2] == ("iris", "label")


def test_synthetic_labels_are_as_good_as_the_better_plain_release(full: bool) -> None:
    sets = [synthetic(seed) for seed in range(10 if full else 2)]
    for epsilon in EPSILONS if full else (2.0,):
        rows = compare("synthetic", sets, 3 * len(sets) if full else 4, (epsilon,), LABEL_RELEASES)
        for figure in FIGURES:
            ratio, errors = excess_over_plain(rows, figure)
            assert errors < 2
            assert full or ratio < 1.1  # the same answers: what EM is borrowing must not show


def test_synthetic_beats_the_printed_algorithm_without_its_leak() -> None:
    settings = [synthetic(seed) for seed in range(3)]
    ours, printed = compare("synthetic", settings, 3, (4.0,), ("record", "Algorithm 1 (not private)"))
    assert float(ours["median"]) < float(printed["median"])
    assert float(ours["fitted_released"]) < float(printed["fitted_released"])


def test_no_draw_of_eight_classes_is_far_worse_than_the_median(full: bool) -> None:
    """Formerly noise alone passed for heavy tails, and a class of a good draw came out ten times too wide."""
    setting = synthetic(6, 1000, 8, 3)
    seeds = range(200) if full else range(68, 83)  # 75 was such a draw
    found = [by_record(setting, 1.0, seed).joint_divergence(setting.fitted) for seed in seeds]
    assert max(found) < 4.0 * np.median(found)


def test_real_profiles_and_digits(load: Setting, images: Setting, full: bool) -> None:
    repeats = 20 if full else 3
    for setting in (load, images):
        for row in compare(setting.name, [setting], repeats, EPSILONS if full else (1.0,), ("record",)):
            there, back = TARGETS[setting.name][EPSILONS.index(float(row["epsilon"]))]
            assert float(row["released_fitted"]) < 1.1 * there
            assert float(row["fitted_released"]) < 1.1 * back
    for repeat in range(3):
        assert accuracy(by_record(images, 1.0, 2000 + repeat), images) > accuracy(images.fitted, images) - 0.02
    (home,) = households(load, (2.0,))
    assert home["unit"] == "home"
    assert np.isfinite(home["fitted_released"])


def test_labels_drawn_for_studies_are_the_library_s_up_to_rounding(load: Setting, images: Setting) -> None:
    """One case per method: answers, answers beside a table, cells, sums the features agree with, sums they do not."""
    cases = [
        (iris(), 4.0),
        (synthetic(0, 500), 0.5),
        (load, 0.5),
        (synthetic(0, 2000), 4.0),
        (images, 4.0),
    ]
    for setting, epsilon in cases:
        ours, drawn = by_label(setting, epsilon, 3), by_label_drawn(setting, epsilon, 3)
        for name in ("weights", "means", "covariances"):
            assert np.allclose(getattr(ours, name), getattr(drawn, name), rtol=1e-6, atol=1e-6)
        assert np.isclose(ours.joint_divergence(setting.fitted), drawn.joint_divergence(setting.fitted), rtol=1e-3)
