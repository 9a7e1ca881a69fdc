"""Private Gaussian mixtures by KL minimisation, exactly as printed (GMM Algorithm 1), and its three baselines.

NOT private: see docs/corrections G-a to G-h. The Wishart noise of (6) leaves the neighbour's support (G-a, refuted by
`audit` through `additive_wishart`), flips of a label move two classes where (9) counts one (G-b), the noise of the
means and the support of the weights depend on the data (G-c), and (26) is no probability mass function (G-d; it is
normalised here, since something must be drawn). The means' noise covers every change of a label, as (23) asks, which
Algorithm 1 solves; (10) leaves out those into a class (G-h). Only the solver of (23) is ours: exact, without an SDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gaussveil.calibration import covering_ellipsoid
from gaussveil.typing import Floats, Integers
from gaussveil_studies.published.additive_wishart import additive_wishart, wishart_rate

Parameters = tuple[Floats, Floats, Floats]
"""Weights, means, covariances."""

SMALLEST_EIGENVALUE = 1e-3


def empirical_parameters(rows: Floats, codes: Integers, classes: int) -> Parameters:
    """The fit that is to be released (eq. 2)."""
    groups = [rows[codes == k] for k in range(classes)]
    weights = np.array([len(group) for group in groups]) / len(rows)
    covariances = np.stack([np.atleast_2d(np.cov(group.T)) for group in groups])
    return weights, np.stack([group.mean(axis=0) for group in groups]), covariances


@dataclass(frozen=True)
class PrintedDesign:
    """What Algorithm 1 settles on: epsilon_0, epsilon_k, gamma_k, the means' covariances and the weights' pmf."""

    weight_epsilon: float
    mean_epsilons: Floats
    wishart_rates: Floats
    mean_covariances: Floats
    weight_choices: Floats
    weight_probabilities: Floats
    printed_mass: float


def printed_design(
    rows: Floats,
    codes: Integers,
    classes: int,
    epsilon: float,
    delta: float,
    shapes: Floats | None = None,
) -> PrintedDesign:
    """Algorithm 1, lines 2 to 11. The alternation stands still after one pass (G-e), so one pass is all there is.

    `shapes` are the weighted `noise_shapes`, where they are known.
    """
    weights, _, covariances = empirical_parameters(rows, codes, classes)
    size, d = rows.shape
    counts = np.bincount(codes, minlength=classes)
    precisions = np.linalg.inv(covariances)
    precisions = (precisions + np.swapaxes(precisions, 1, 2)) / 2
    traces = np.trace(precisions, axis1=1, axis2=2)
    weight_epsilon = epsilon / 3
    caps = np.array(
        [
            wishart_rate(int(count), epsilon - weight_epsilon - epsilon / 3)
            for count in counts
        ]
    )
    rates = np.minimum((d + 1) / d * traces, caps)  # (22)
    mean_epsilons = epsilon - weight_epsilon - 3 * rates / (2 * counts)
    scales = 2 * math.log(2 / delta) / mean_epsilons**2
    noises = scales[:, None, None] * (
        noise_shapes(rows, codes, weighted=True) if shapes is None else shapes
    )  # (23)
    costs = (
        d * np.log(rates)
        + (d + 1) / rates * traces
        + np.einsum("kij,kji->k", precisions, noises)
    )
    choices = _neighbouring_weights(weights, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(choices > 0, np.log(choices / weights), 0.0)
    objective = np.sum(choices * (logs + costs / 2), axis=1)  # (12)
    others = len(choices) - 1
    printed = np.where(
        objective >= 0,
        1 / (1 + others * math.exp(weight_epsilon)),
        1 / (1 + others * math.exp(-weight_epsilon)),
    )  # (26)
    mass = float(printed.sum())
    return PrintedDesign(
        weight_epsilon, mean_epsilons, rates, noises, choices, printed / mass, mass
    )


def mean_steps(rows: Floats, codes: Integers, k: int, *, into: bool = True) -> Floats:
    """How one changed label moves the mean of class k: all changes, as (23) and Lemma 1 have it, or, as (10) has it,
    without those into the class.
    """
    own = rows[codes == k]
    others = rows[codes != k]
    mean = own.mean(axis=0)
    steps = (own - mean) / max(len(own) - 1, 1)
    if into:
        return np.concatenate([steps, (others - mean) / (len(own) + 1)])
    return np.asarray(steps)


def noise_shapes(rows: Floats, codes: Integers, *, weighted: bool) -> Floats:
    """Of each class, the noise covariance of least trace, or of least KL where `weighted`, at unit distance: it covers
    every step of the mean. It depends on neither epsilon nor the draw.
    """
    found = []
    for k in range(int(codes.max()) + 1):
        spread: Floats = np.cov(rows[codes == k].T)
        if weighted:
            precision = np.linalg.inv(np.atleast_2d(spread))
        else:
            precision = np.eye(rows.shape[1])
        weight = (precision + precision.T) / 2
        found.append(
            covering_ellipsoid(mean_steps(rows, codes, k), weight, 1e-6).covariance
        )
    return np.stack(found)


def draw_printed(
    rows: Floats,
    codes: Integers,
    classes: int,
    design: PrintedDesign,
    generator: np.random.Generator,
) -> Parameters:
    """Algorithm 1, line 12: Gaussian noise on means, Wishart noise on covariances (5)-(6), neighbouring weights."""
    _, means, covariances = empirical_parameters(rows, codes, classes)
    factors = np.linalg.cholesky(design.mean_covariances)
    noisy = means + (factors @ generator.normal(size=(*means.shape, 1)))[..., 0]
    widened = np.concatenate(
        [
            additive_wishart(one, rate, generator)
            for one, rate in zip(covariances, design.wishart_rates)
        ]
    )
    chosen = design.weight_choices[
        generator.choice(len(design.weight_choices), p=design.weight_probabilities)
    ]
    return chosen, noisy, widened


def draw_independent(
    rows: Floats,
    codes: Integers,
    classes: int,
    epsilon: float,
    delta: float,
    radius: float,
    law: str,
    generator: np.random.Generator,
) -> Parameters:
    """The baselines "iid Laplace" and "iid Gaussian": noise on each parameter by its sensitivity, then projection.

    A third of epsilon each for weights, means and covariances; sensitivities for one label in a ball of this radius,
    classes counted once as in the paper (G-b: that is not enough).
    """
    weights, means, covariances = empirical_parameters(rows, codes, classes)
    size, d = rows.shape
    counts = np.bincount(codes, minlength=classes)
    share = epsilon / 3
    l2 = np.array(
        [math.sqrt(2) / size, *(2 * radius / counts), *(4 * radius**2 / counts)]
    )
    l1 = l2 * np.array(
        [math.sqrt(2), *([math.sqrt(d)] * classes), *([float(d)] * classes)]
    )
    if law == "laplace":
        scales = l1 / share
    else:
        scales = l2 * math.sqrt(2 * math.log(1.25 / delta)) / share
    if law == "laplace":
        draw = generator.laplace
    else:
        draw = generator.normal
    noisy_weights = np.maximum(weights + draw(scale=scales[0], size=classes), 1e-3)
    noisy_means = means + draw(size=(classes, d)) * scales[1 : classes + 1, None]
    noise = np.triu(draw(size=(classes, d, d))) * scales[classes + 1 :, None, None]
    symmetric = covariances + noise + np.swapaxes(np.triu(noise, 1), 1, 2)
    return noisy_weights / noisy_weights.sum(), noisy_means, _projected(symmetric)


def draw_coloured(
    rows: Floats,
    codes: Integers,
    classes: int,
    epsilon: float,
    delta: float,
    radius: float,
    generator: np.random.Generator,
    shapes: Floats | None = None,
) -> Parameters:
    """The baseline "coloured Gaussian": means by (5) with noise of least trace, the rest as "iid Gaussian".

    `shapes` are the `noise_shapes` of least trace, where they are known.
    """
    if shapes is None:
        shapes = noise_shapes(rows, codes, weighted=False)
    weights, _, covariances = draw_independent(
        rows, codes, classes, epsilon, delta, radius, "gaussian", generator
    )
    _, means, _ = empirical_parameters(rows, codes, classes)
    factors = np.linalg.cholesky(
        (2 * math.log(2 / delta) / (epsilon / 3) ** 2) * shapes
    )
    noisy = means + (factors @ generator.normal(size=(*means.shape, 1)))[..., 0]
    return weights, noisy, covariances


def _neighbouring_weights(weights: Floats, size: int) -> Floats:
    """The frequencies themselves and all that one label can turn them into (14)."""
    classes = len(weights)
    moves = [np.zeros(classes)]
    for source in range(classes):
        for target in range(classes):
            if source != target and weights[source] * size >= 1:
                move = np.zeros(classes)
                move[source], move[target] = -1 / size, 1 / size
                moves.append(move)
    return np.maximum(weights + np.stack(moves), 0.0)


def _projected(matrices: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(
        (vectors * np.maximum(values, SMALLEST_EIGENVALUE)[:, None, :])
        @ np.swapaxes(vectors, 1, 2)
    )
