"""Algorithm 1 of the class-based paper, as printed and repaired, for studies. No guarantee follows from either.

It descends on the surrogate g_XY = (c_Y - c_X)' A_Y (c_Y - c_X) - ln(|A_Y| / |A_X|) (eq. (46)), A_X the inverse of
label X's output covariance. The surrogate is no bound on delta (docs/corrections, K2), and read literally Lemma 2 gives
step 0, so that Algorithm 1 returns the white noise it starts from (K4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.errors import ShapeError
from gaussveil.typing import Floats

ITERATIONS = 400
FIRST_STEP = 0.1
SHORTEST_STEP = 1e-10
LEAST_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class Descent:
    """Where Algorithm 1 went: its noise covariances, the steps it took, and the worst surrogate on the way.

    The steps ignore the budget; `scaled` is what is left once (50) has brought the noise back to it. Fewer than
    `ITERATIONS` steps mean that no step on either label of the worst pair lowered the largest surrogate any more, as
    where several pairs are the worst.
    """

    noise: Floats
    steps: int
    white: float
    descended: float
    scaled: float


def algorithm_1(
    means: ArrayLike,
    covariances: ArrayLike,
    edges: ArrayLike,
    rho: float,
    *,
    repaired: bool = False,
) -> Floats:
    """Noise covariances of trace k rho (the reading of (44); (50) and sigma^2 = rho/k mean trace rho, K3).

    As printed every step is the largest that (51) allows. Repaired, steps are halved until the worst surrogate falls.
    """
    return descent(means, covariances, edges, rho, repaired=repaired).noise


def descent(
    means: ArrayLike,
    covariances: ArrayLike,
    edges: ArrayLike,
    rho: float,
    *,
    repaired: bool = False,
) -> Descent:
    """Algorithm 1 with what became of its surrogate."""
    centres = np.asarray(means, dtype=np.float64)
    spreads = np.asarray(covariances, dtype=np.float64)
    if centres.ndim != 2 or spreads.shape != (*centres.shape, centres.shape[1]):
        raise ShapeError(
            f"means and covariances must be (n, k) and (n, k, k). Got {centres.shape}, {spreads.shape}."
        )
    checks.positive("rho", rho)
    size = centres.shape[1]
    pairs = np.asarray(edges, dtype=np.intp)
    ordered = np.concatenate([pairs, pairs[:, ::-1]])
    inverses: Floats = np.asarray(
        np.linalg.inv(spreads + rho * np.eye(size)), dtype=np.float64
    )
    white = float(np.max(surrogates(centres, inverses, ordered)))
    steps = 0
    while steps < ITERATIONS:
        first, second = ordered[int(np.argmax(surrogates(centres, inverses, ordered)))]
        moved = (_backtracked if repaired else _printed)(
            centres, inverses, ordered, int(first), int(second)
        )
        if moved is None:
            break
        inverses = moved
        steps += 1
    noise = _to_budget(np.linalg.inv(inverses) - spreads, size * rho)
    descended = float(np.max(surrogates(centres, inverses, ordered)))
    scaled = float(
        np.max(
            surrogates(
                centres,
                np.asarray(np.linalg.inv(spreads + noise), dtype=np.float64),
                ordered,
            )
        )
    )
    return Descent(noise, steps, white, descended, scaled)


def surrogates(centres: Floats, inverses: Floats, ordered: NDArray[np.intp]) -> Floats:
    """g_XY of eq. (46) for ordered edges (X, Y)."""
    first = ordered[:, 0]
    second = ordered[:, 1]
    gaps = centres[second] - centres[first]
    logs = np.linalg.slogdet(inverses)[1]
    return np.asarray(
        np.einsum("ei,eij,ej->e", gaps, inverses[second], gaps)
        - logs[second]
        + logs[first]
    )


def _printed(
    centres: Floats,
    inverses: Floats,
    ordered: NDArray[np.intp],
    first: int,
    second: int,
) -> Floats | None:
    """The update (48) of A_X with the step of Lemma 2, or None where that step is 0."""
    step = lemma_2_step(centres, inverses, ordered, first, second)
    if step <= 0:
        return None
    return _updated(centres, inverses, first, second, first, step)


def lemma_2_step(
    centres: Floats,
    inverses: Floats,
    ordered: NDArray[np.intp],
    first: int,
    second: int,
) -> float:
    """The largest step that (51) and (52) allow for the worst pair (X, Y) = (first, second)."""
    logs = np.linalg.slogdet(inverses)[1]
    own = np.linalg.inv(inverses[first])
    steps = []
    for other in ordered[ordered[:, 0] == first, 1]:
        gap = centres[first] - centres[other]
        square = float(np.trace(own @ own))
        beside = float(gap @ own @ gap)
        at_first = float(gap @ inverses[first] @ gap)
        at_other = float(gap @ inverses[other] @ gap)
        swing = logs[other] + logs[second] - 2 * logs[first]
        steps.append((at_first - at_other + swing) / (square - beside))
        steps.append(
            (at_first + logs[first] - logs[other])
            / (beside - square - float(gap @ gap) ** 2)
        )
    return float(max(0.0, min(*steps, FIRST_STEP)))


def _backtracked(
    centres: Floats,
    inverses: Floats,
    ordered: NDArray[np.intp],
    first: int,
    second: int,
) -> Floats | None:
    """Steps on A_X and A_Y along the gradient, halved until the worst surrogate falls; None where none does."""
    before = float(np.max(surrogates(centres, inverses, ordered)))
    for label in (second, first):
        step = FIRST_STEP
        while step > SHORTEST_STEP:
            moved = _updated(centres, inverses, first, second, label, step)
            if float(np.max(surrogates(centres, moved, ordered))) < before - 1e-9 * abs(
                before
            ):
                return moved
            step /= 2
    return None


def _updated(
    centres: Floats, inverses: Floats, first: int, second: int, label: int, step: float
) -> Floats:
    gap = centres[second] - centres[first]
    inverse = np.linalg.inv(inverses[label])
    # the paper prints one gradient for both; g falls with A_Y along vv' - A_Y^-1 and with A_X along its inverse alone
    if label == second:
        slope = np.outer(gap, gap) - inverse
    else:
        slope = inverse
    values, axes = np.linalg.eigh(inverses[label] - step * slope)
    moved = inverses.copy()
    moved[label] = (axes * np.maximum(values, LEAST_EIGENVALUE)) @ axes.T
    return moved


def _to_budget(excess: Floats, trace: float) -> Floats:
    """Eq. (50): project on positive semidefinite matrices and scale to the trace."""
    values, axes = np.linalg.eigh(excess)
    values = np.maximum(values, 0.0)
    total = values.sum(axis=1, keepdims=True)
    flat = np.full_like(values, trace / values.shape[1])
    scaled = np.where(
        total > 0, values * (trace / np.where(total > 0, total, math.inf)), flat
    )
    return np.asarray((axes * scaled[:, None, :]) @ axes.transpose(0, 2, 1))
