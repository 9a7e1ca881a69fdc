"""What released mixtures are used for: digits classified, households protected whole, synthetic profiles.

Each function returns rows, one dictionary each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import ks_2samp

from gaussveil.calibration import mean_shift_for
from gaussveil.mechanisms import GaussianRelease, PrivateGaussianMixture
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics import Gram, Moments, as_source
from gaussveil.typing import Floats
from gaussveil_studies.gmm.many_starts import Rows
from gaussveil_studies.gmm.releases import DELTA, EPSILONS, by_record
from gaussveil_studies.gmm.settings import Setting, mnist_images, mnist_labels
from gaussveil_studies.study import Row

IMAGE_NORM = 10.0  # public: pixels in [0, 1]; longer images are shortened
GRAM_SHARE = 0.30
MEAN_SHARE = 0.02
ROWS_PER_HOME = 4


def accuracy(model: MixtureModel, setting: Setting) -> float:
    """Share of the held-out records that the most probable class gets right."""
    assert setting.held_out_codes is not None
    joint = _held_out(setting).log_joint(
        (model.weights, model.means, model.covariances)
    )
    return float(np.mean(np.argmax(joint, axis=0) == setting.held_out_codes))


@lru_cache(maxsize=4)
def _held_out(setting: Setting) -> Rows:
    return Rows.of(setting.held_out)


def digits_with_private_directions(
    folder: Path, size: int, epsilon: float = 1.0, columns: int = 5, seed: int = 0
) -> Row:
    """Accuracy where the directions come from a private Gram matrix of the same images, inside the same budget.

    Three Gaussian releases whose squared mean shifts add up to the promise's: the Gram matrix, the sum, the mixture.
    """
    images = mnist_images(folder, "train")[:size]
    labels = mnist_labels(folder, "train")[:size]
    shift = mean_shift_for(epsilon, DELTA)
    source = as_source(images)
    pixels = images.shape[1]
    above = np.triu_indices(pixels)
    roots = np.where(above[0] == above[1], 1.0, math.sqrt(2.0))
    gram = source.aggregate(Gram(row_norm=IMAGE_NORM)).to_float()[above] * roots
    total = source.aggregate(Moments(clip=IMAGE_NORM, second=False)).total.to_float()[0]
    noisy_gram = _noisy(gram, IMAGE_NORM**2, math.sqrt(GRAM_SHARE) * shift, seed)
    middle = _noisy(total, IMAGE_NORM, math.sqrt(MEAN_SHARE) * shift, seed + 1) / size
    scatter = np.zeros((pixels, pixels))
    scatter[above] = noisy_gram / roots
    scatter = scatter + np.triu(scatter, 1).T - size * np.outer(middle, middle)
    directions = np.linalg.eigh(scatter)[1][:, ::-1][:, :columns]
    left = math.sqrt(1 - GRAM_SHARE - MEAN_SHARE) * shift
    mixture = PrivateGaussianMixture(
        epsilon=_epsilon(left),
        delta=DELTA,
        radius=IMAGE_NORM,
        nominal_size=size,
        classes=list(range(10)),
        generator=SeededGenerator(seed + 2),
    ).fit((images - middle) @ directions, labels)
    tested = (mnist_images(folder, "t10k") - middle) @ directions
    found = float(np.mean(mixture.predict(tested) == mnist_labels(folder, "t10k")))
    return {"size": float(size), "epsilon": epsilon, "accuracy": found}


def households(
    setting: Setting,
    epsilons: Iterable[float] = EPSILONS,
    seed: int = 0,
    repeats: int = 1,
) -> list[dict[str, float | str | None]]:
    """Profiles with the home as the privacy unit: six classes of up to four rows each, and what the rules choose."""
    hours = {f"h{hour}": column for hour, column in zip(range(12, 24), setting.rows.T)}
    frame = pa.table({**hours, "home": setting.homes, "class": setting.codes})
    fitted = setting.fitted
    if setting.homes is None:
        homes = 0
    else:
        homes = len(np.unique(setting.homes))
    public: dict[str, Any] = {
        "delta": DELTA,
        "radius": setting.radius,
        "centre": setting.centre,
        "unit": "home",
    }
    rows: list[dict[str, float | str | None]] = []
    for epsilon in epsilons:
        found = []
        for repeat in range(repeats):
            made = PrivateGaussianMixture(
                **public,
                epsilon=epsilon,
                rows_per_unit=ROWS_PER_HOME,
                classes=list(range(setting.classes)),
                nominal_size=len(setting.rows),
                generator=SeededGenerator(seed + repeat),
            ).fit(frame, "class")
            ruled = PrivateGaussianMixture(
                **public,
                epsilon=epsilon,
                rows_per_unit="auto",
                classes="auto",
                nominal_size=homes,
                columns=list(hours),
                generator=SeededGenerator(seed + repeat),
            ).fit(frame)
            found.append(
                (
                    made.model_.joint_divergence(fitted),
                    fitted.joint_divergence(made.model_),
                    float(made.model_.log_density(setting.held_out).mean()),
                    float(ruled.model_.log_density(setting.held_out).mean()),
                )
            )
        row: dict[str, float | str | None] = {
            "epsilon": epsilon,
            "unit": made.certificate_.adjacency.unit,
        }
        for name, values in zip(
            ("released_fitted", "fitted_released", "held_out", "by_rule"),
            np.array(found).T,
        ):
            if repeats > 1:
                error = float(values.std(ddof=1)) / math.sqrt(repeats)
            else:
                error = None
            row |= {name: float(values.mean()), f"{name}_error": error}
        rows.append(row | {"classes": len(ruled.classes_), "draws": repeats})
    return rows


def synthetic_profiles(setting: Setting, epsilon: float = 1.0, seed: int = 0) -> Row:
    """Synthetic rows against real ones: hourly quantiles, correlations, and a two-sample test per hour."""
    model = by_record(setting, epsilon, seed)
    drawn, _ = model.sample(len(setting.rows), seed)
    levels = np.linspace(0.05, 0.95, 19)
    gaps = np.quantile(drawn, levels, axis=0) - np.quantile(
        setting.rows, levels, axis=0
    )
    correlations = np.corrcoef(drawn.T) - np.corrcoef(setting.rows.T)
    distances = [
        float(ks_2samp(drawn[:, j], setting.rows[:, j]).statistic)
        for j in range(drawn.shape[1])
    ]
    return {
        "epsilon": epsilon,
        "largest_quantile_gap": float(np.abs(gaps).max()),
        "largest_correlation_gap": float(np.abs(correlations).max()),
        "mean_kolmogorov_distance": float(np.mean(distances)),
    }


def _noisy(value: Floats, sensitivity: float, shift: float, seed: int) -> Floats:
    """A Gaussian release of exactly this mean shift."""
    mechanism = GaussianRelease(
        epsilon=_epsilon(shift),
        delta=DELTA,
        l2_sensitivity=sensitivity,
        generator=SeededGenerator(seed),
    )
    return np.asarray(mechanism.release(value).value)


def _epsilon(shift: float) -> float:
    """The epsilon at which a mean shift has the study's delta: how a part of a budget is named to a mechanism."""
    return float(GaussianPair.mean_shift(shift).dp_epsilon(DELTA))
