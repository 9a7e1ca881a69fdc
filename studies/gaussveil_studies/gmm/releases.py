"""Private mixtures on the GMM paper's settings: both divergences and held-out likelihood, ours beside Algorithm 1.

Every figure is a mean over seeded noise draws, with its standard error.
Divergences are those of (row, class), in closed form, as in the paper, and by Monte Carlo those of the rows alone;
always both directions (corrections G-h). "fitted" is the fit without privacy. Algorithm 1 is shown although it is not
private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from gaussveil.mechanisms import PrivateGaussianMixture, PrivateLabelMixture
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.typing import Floats
from gaussveil_studies.gmm.label_draws import drawn_by_label
from gaussveil_studies.gmm.plain_labels import (
    answered,
    counted_by_cluster,
    counted_finely,
)
from gaussveil_studies.gmm.settings import Setting, iris, mnist, profiles, synthetic
from gaussveil_studies.published.gmm_kl import (
    Parameters,
    PrintedDesign,
    draw_coloured,
    draw_independent,
    draw_printed,
    noise_shapes,
    printed_design,
)
from gaussveil_studies.study import Options, Row, Table, shown

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
SYNTHETIC_SETS = 10
DRAWS = 4000
# KL(released || fitted), KL(fitted || released) of the design's measured prototype, per setting and epsilon.
TARGETS: dict[str, tuple[tuple[float, float], ...]] = {
    "synthetic": ((8.9, 0.56), (2.7, 0.21), (1.1, 0.078), (0.53, 0.033)),
    "iris": ((174, 5.2), (47, 3.2), (6.4, 1.4), (0.51, 0.34)),
    "profiles": ((3.7, 2.3), (1.64, 1.29), (0.72, 0.71), (0.38, 0.40)),
    "mnist": ((0.15, 0.155), (0.065, 0.076), (0.038, 0.045), (0.026, 0.034)),
}
Release = Callable[[Setting, float, int], MixtureModel]
Case = tuple[str, Sequence[Setting], int]


def by_record(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """Our release under record adjacency; the size of the data is taken as known to its order."""
    mixture = PrivateGaussianMixture(
        epsilon=epsilon,
        delta=DELTA,
        radius=setting.radius,
        centre=setting.centre,
        nominal_size=len(setting.rows),
        classes=list(range(setting.classes)),
        generator=SeededGenerator(seed),
    )
    return mixture.fit(setting.rows, setting.codes).model_


def by_label(
    setting: Setting, epsilon: float, seed: int, method: str = "auto"
) -> MixtureModel:
    """Our release under label adjacency."""
    mixture = PrivateLabelMixture(
        epsilon=epsilon,
        delta=DELTA,
        method=method,
        classes=list(range(setting.classes)),
        generator=SeededGenerator(seed),
    )
    return mixture.fit(setting.rows, setting.codes).model_


def by_label_drawn(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """The same models up to rounding, for studies of many draws."""
    return drawn_by_label(setting, epsilon, DELTA, seed)


def as_printed(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """Algorithm 1 of the paper. Not private."""
    design = _printed_design(setting, epsilon)
    drawn = draw_printed(
        setting.rows,
        setting.codes,
        setting.classes,
        design,
        np.random.default_rng(seed),
    )
    return _model(setting, drawn)


@lru_cache(maxsize=256)
def _printed_design(setting: Setting, epsilon: float) -> PrintedDesign:
    return printed_design(
        setting.rows,
        setting.codes,
        setting.classes,
        epsilon,
        DELTA,
        _shapes(setting, weighted=True),
    )


@lru_cache(maxsize=256)
def _shapes(setting: Setting, *, weighted: bool) -> Floats:
    """(23) scales with epsilon: one solution serves all."""
    return noise_shapes(setting.rows, setting.codes, weighted=weighted)


def as_coloured(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """The paper's baseline "coloured Gaussian"."""
    shapes = _shapes(setting, weighted=False)
    generator = np.random.default_rng(seed)
    known = (setting.rows, setting.codes, setting.classes)
    return _model(
        setting,
        draw_coloured(*known, epsilon, DELTA, setting.radius, generator, shapes),
    )


def as_independent(
    setting: Setting, epsilon: float, seed: int, law: str
) -> MixtureModel:
    """Its baselines "iid Gaussian" and "iid Laplace"."""
    known = (setting.rows, setting.codes, setting.classes)
    generator = np.random.default_rng(seed)
    return _model(
        setting,
        draw_independent(*known, epsilon, DELTA, setting.radius, law, generator),
    )


def _model(setting: Setting, drawn: Parameters) -> MixtureModel:
    return MixtureModel(*drawn, tuple(range(setting.classes)), setting.fitted.columns)


def public_cases(options: Options, synthetic_draws: int, iris_draws: int) -> list[Case]:
    """Settings that need no real data, each with how often it is drawn."""
    sets = [
        synthetic(seed)
        for seed in range(options.pick(2, SYNTHETIC_SETS, SYNTHETIC_SETS))
    ]
    return [("synthetic", sets, synthetic_draws), ("iris", [iris()], iris_draws)]


def real_cases(options: Options, profile_draws: int, mnist_draws: int) -> list[Case]:
    """Real profiles and digits."""
    folder = options.folder()
    return [
        ("profiles", [profiles(folder)], profile_draws),
        ("mnist", [mnist(folder)], mnist_draws),
    ]


RELEASES: dict[str, Release] = {
    "record": by_record,
    "label": by_label_drawn,
    "F3, plain": counted_by_cluster,
    "F3, plain, four clusters a class": counted_finely,
    "F4, plain": answered,
    "Algorithm 1 (not private)": as_printed,
}
RECORD_RELEASES = ("record", "Algorithm 1 (not private)")
PLAIN_RELEASES = ("F3, plain", "F3, plain, four clusters a class", "F4, plain")
LABEL_RELEASES = ("label", *PLAIN_RELEASES)
FIGURES = ("released_fitted", "fitted_released")
"""KL(released || fitted) and KL(fitted || released)."""


def compare(
    name: str,
    settings: Sequence[Setting],
    repeats: int,
    epsilons: Iterable[float] = EPSILONS,
    releases: Iterable[str] = tuple(RELEASES),
) -> list[Row]:
    """One row per epsilon and release; repeats go round the settings of the same name."""
    rows: list[Row] = []
    models = [setting.fitted for setting in settings]
    for epsilon in epsilons:
        for release in releases:
            figures = []
            for repeat in range(repeats):
                setting = settings[repeat % len(settings)]
                fitted = models[repeat % len(settings)]
                made = RELEASES[release](setting, epsilon, 1000 + repeat)
                figures.append(
                    (
                        made.joint_divergence(fitted),
                        fitted.joint_divergence(made),
                        made.divergence(fitted, DRAWS, repeat)[0],
                        fitted.divergence(made, DRAWS, repeat)[0],
                        float(made.log_density(setting.held_out).mean()),
                        float(fitted.log_density(setting.held_out).mean()),
                    )
                )
            table = np.array(figures)
            means = table.mean(axis=0)
            errors = table.std(axis=0, ddof=1) / math.sqrt(repeats)
            names = (
                "released_fitted",
                "fitted_released",
                "rows_released_fitted",
                "rows_fitted_released",
                "held_out",
            )
            row: Row = {"setting": name, "epsilon": epsilon, "release": release}
            for place, figure in enumerate(names):
                row |= {
                    figure: float(means[place]),
                    f"{figure}_error": float(errors[place]),
                }
            row |= {
                "median": float(np.median(table[:, 0])),
                "median_back": float(np.median(table[:, 1])),
            }
            row["draws"] = repeats
            rows.append(row | {"held_out_fitted": float(means[5])})
    return rows


def summary(rows: Sequence[Row], name: str = "summary") -> Table:
    """One line per setting and release, one column per epsilon: both divergences with their standard errors."""
    epsilons = list(dict.fromkeys(float(row["epsilon"]) for row in rows))
    lines: dict[tuple[str, str], dict[str, str | float]] = {}
    for row in rows:
        setting = str(row["setting"])
        release = str(row["release"])
        line = lines.setdefault(
            (setting, release),
            {"setting": setting, "release": release, "draws": row["draws"]},
        )
        both = (
            f"{shown(row[key])} ± {shown(row[f'{key}_error'], 1)}" for key in FIGURES
        )
        line[f"{row['epsilon']:g}"] = " / ".join(both)
    columns = "; ".join(
        ["setting; release", *(f"{e:g}: epsilon {e:g}" for e in epsilons), "draws"]
    )
    caption = "KL(released || fitted) / KL(fitted || released) of (row, class), means and standard errors over draws"
    return Table.of(name, list(lines.values()), columns, caption)
