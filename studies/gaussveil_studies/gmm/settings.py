"""The GMM paper's four settings: synthetic mixtures, Iris, half-day load profiles, MNIST in five columns.

Public knowledge of each setting (ball, classes, cells) comes from its definition or from rows that are declared public
and not fitted: the last 207 profiles, and 10,000 other training images.
"""

from __future__ import annotations

import gzip
import math
import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.typing import Floats, Integers
from gaussveil_studies.real_data import data_file
from gaussveil_studies.summaries import PROFILES

PROFILES_FITTED = 1409
IMAGES_FITTED = 5000
IMAGES_PUBLIC = 10_000
BALL_MASS = 0.98  # share of the public rows inside the public ball
SMALLEST_CLASS = (
    8  # a class of fewer rows in three columns has hardly a covariance to compare with
)


@dataclass(frozen=True, eq=False)
class Setting:
    """Rows and labels to be fitted, rows held out, and the public ball."""

    name: str
    rows: Floats
    codes: Integers
    classes: int
    radius: float
    centre: Floats
    held_out: Floats
    held_out_codes: Integers | None = None
    homes: NDArray[np.str_] | None = None

    @cached_property
    def fitted(self) -> MixtureModel:
        """The fit without privacy."""
        return MixtureModel.fitted(self.rows, self.codes, tuple(range(self.classes)))


def synthetic(seed: int, size: int = 1000, classes: int = 5, d: int = 3) -> Setting:
    """A Dirichlet mixture of Gaussians with uniform means in [-10, 10]^d and Wishart covariances (section V-A).

    Drawn again until every class has eight rows.
    """
    generator = np.random.default_rng(seed)
    while True:
        weights = generator.dirichlet(np.ones(classes))
        means = generator.uniform(-10, 10, (classes, d))
        roots = generator.normal(size=(classes, d, d + 1))
        codes = generator.choice(classes, size=2 * size, p=weights)
        rows = means[codes] + np.einsum(
            "nij,nj->ni", roots[codes], generator.normal(size=(2 * size, d + 1))
        )
        if np.bincount(codes[:size], minlength=classes).min() >= SMALLEST_CLASS:
            return Setting(
                f"synthetic {seed}",
                rows[:size],
                codes[:size],
                classes,
                20.0,
                np.zeros(d),
                rows[size:],
                codes[size:],
            )


def iris() -> Setting:
    """Fisher's Iris, columns of mean 0 and variance 1 (section V-B). Nothing is held out of 150 rows."""
    rows, codes = load_iris(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return Setting("iris", rows, codes.astype(np.int64), 3, 4.0, np.zeros(4), rows)


def profiles(folder: Path, *, uneven: bool = False) -> Setting:
    """Logarithms of half-day load profiles; six classes by the nearest K-means centre of the public rows (V-C).

    `uneven`: by K-means on kW of all rows, which gives classes as uneven as the paper's Table I, 14 to 687. Such
    classes depend on the features of all records; hiding labels or records says nothing of how they were made.
    """
    path = data_file(folder, PROFILES)
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = [line.rstrip("\n").split(",") for line in stream][1:]
    power = np.array([line[4:] for line in lines], dtype=np.float64)
    rows = np.log(power)
    homes = np.array([line[1] for line in lines])
    fitted = rows[:PROFILES_FITTED]
    public = rows[PROFILES_FITTED:]
    radius, centre = _ball(public)
    if uneven:
        codes = KMeans(6, n_init=10, random_state=0).fit_predict(power).astype(np.int64)
    else:
        codes = (
            KMeans(6, n_init=10, random_state=0)
            .fit(public)
            .predict(rows)
            .astype(np.int64)
        )
    return Setting(
        "uneven profiles" if uneven else "profiles",
        fitted,
        codes[:PROFILES_FITTED],
        6,
        radius,
        centre,
        public,
        codes[PROFILES_FITTED:],
        homes[:PROFILES_FITTED],
    )


def mnist(folder: Path, size: int = IMAGES_FITTED) -> Setting:
    """Training images in the five main directions of 10,000 other ones; the test images are held out (V-D)."""
    images = mnist_images(folder, "train")
    codes = mnist_labels(folder, "train")
    if size < len(images):
        public = images[size : size + IMAGES_PUBLIC]
    else:
        public = images[:IMAGES_PUBLIC]
    middle = public.mean(axis=0)
    directions = np.linalg.eigh(np.cov((public - middle).T))[1][:, ::-1][:, :5]
    radius, centre = _ball((public - middle) @ directions)
    rows = (images[:size] - middle) @ directions
    held_out = (mnist_images(folder, "t10k") - middle) @ directions
    return Setting(
        "mnist",
        rows,
        codes[:size],
        10,
        radius,
        centre,
        held_out,
        mnist_labels(folder, "t10k"),
    )


def mnist_images(folder: Path, part: str) -> Floats:
    """Images as rows of 784 numbers between 0 and 1."""
    body = gzip.decompress(
        data_file(folder, f"mnist/{part}-images-idx3-ubyte.gz").read_bytes()
    )
    count = struct.unpack(">i", body[4:8])[0]
    return np.frombuffer(body, dtype=np.uint8, offset=16).reshape(count, -1) / 255.0


def mnist_labels(folder: Path, part: str) -> Integers:
    """The digits."""
    body = gzip.decompress(
        data_file(folder, f"mnist/{part}-labels-idx1-ubyte.gz").read_bytes()
    )
    return np.frombuffer(body, dtype=np.uint8, offset=8).astype(np.int64)


def _ball(public: Floats) -> tuple[float, Floats]:
    centre = public.mean(axis=0)
    radius = float(np.quantile(np.linalg.norm(public - centre, axis=1), BALL_MASS))
    return math.ceil(radius * 100) / 100, centre


@lru_cache(maxsize=128)
def setting_of(key: tuple[Any, ...]) -> Setting:
    """A setting by its name and arguments, as a trial names it to a process of its own."""
    name, *arguments = key
    if name in ("profiles", "uneven profiles", "mnist"):
        folder = Path(arguments[0])
        if name == "mnist":
            return mnist(folder)
        return profiles(folder, uneven=name != "profiles")
    if name == "iris":
        return iris()
    return synthetic(*arguments)
