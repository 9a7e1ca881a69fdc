"""Noise that hides which label a Gaussian query belongs to: smallest worst delta in a budget, or smallest budget.

Label X has the public query model N(mean_X, covariance_X); what is released adds N(shift_X, spread_X). Accuracy is
rho = max_X (tr spread_X + |shift_X|^2) / k, the class-based paper's Definition 2 (docs/corrections, K3). Minimised is
the exact delta of the worst ordered edge (K2: the paper's surrogate is no bound), by smooth maxima with exact
gradients. The problem is not convex; the answer is the best of white noise, one common covariance, and one covariance
per label from several starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.calibration.class_gradient import Device, LabelModels, log_delta_of
from gaussveil.calibration.class_search import Noise
from gaussveil.calibration.class_solver import Search
from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)
from gaussveil.spectrum.arguments import float_array
from gaussveil.typing import Floats, Progress

Graph = str | tuple[str, float] | Iterable[tuple[Any, Any]]
GRAPH_FORMS = (
    "'complete', ('nearest', how many), ('distance', how far), or pairs of labels"
)


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """A noise design: means and covariances of the noise per label, and what they achieve.

    `candidates` holds the worst delta of every kind of noise that was tried, `kind` names the one chosen. Of constant
    queries with one covariance `duality_gap` is proven: how far the answer is at most above the least of its kind, as
    a share of what was minimised (the mean squared error, or where an accuracy was asked the squared distance of the
    farthest pair, with which delta grows). None where nothing is proven.
    """

    noise_means: Floats
    noise_covariances: Floats
    epsilon: float
    log_worst_delta: float
    accuracy: float
    retained_variance: float
    kind: str
    candidates: dict[str, float] = field(default_factory=dict)
    duality_gap: float | None = None

    @property
    def worst_delta(self) -> float:
        """Largest exact delta over the ordered edges (or swaps)."""
        return math.exp(self.log_worst_delta)


def design_class_noise(
    means: ArrayLike,
    covariances: ArrayLike | None,
    edges: ArrayLike,
    *,
    epsilon: float,
    accuracy: float | None = None,
    delta: float | None = None,
    noise_means: bool = True,
    common_covariance: bool = False,
    swap: bool = False,
    device: Device = None,
    report: Progress | None = None,
) -> ClassNoise:
    """The noise with the smallest worst delta at `accuracy`, or the smallest accuracy figure that meets `delta`.

    Args:
        means: (labels, k) means of the query, public.
        covariances: (labels, k, k), zero for constant queries; None for all constant.
        edges: (E, 2) unordered pairs of label positions that must look alike.
        epsilon: where delta is taken.
        accuracy: budget rho on the mean squared error per coordinate.
        delta: instead of it, the worst delta to reach.
        noise_means: whether the noise may have label-dependent means.
        common_covariance: whether all labels must share one noise covariance.
        swap: take the delta of two labels changing places, for releases of all labels at once (docs/corrections, K5).
        device: where batches of integrals are evaluated: a PyTorch device, for example "cuda", or an array namespace,
            for example the module cupy; NumPy by default. Small batches stay with NumPy.
        report: called with a word and a fraction as the search goes on.
    """
    models = checked_models(means, covariances)
    pairs = np.asarray(edges, dtype=np.intp)
    if (accuracy is None) == (delta is None):
        raise ParameterError(
            "give exactly one of accuracy and delta: the other one is the answer."
        )
    told = report or (lambda _word, _share: None)
    search = Search(
        models, pairs, epsilon, noise_means, common_covariance, swap, device, told
    )
    if accuracy is not None:
        error = checks.positive("accuracy", accuracy)
        return _finished(models, epsilon, search.best(error * models.means.shape[1]))
    return _finished(
        models, epsilon, search.cheapest(checks.real("delta", delta, "(0, 1)"))
    )


def checked_models(means: ArrayLike, covariances: ArrayLike | None) -> LabelModels:
    """Query models as arrays, or an error that says which rule they break."""
    centres = np.asarray(float_array("means", means))
    if centres.ndim != 2 or len(centres) < 2 or centres.shape[1] < 1:
        raise ShapeError(
            f"means must have shape (labels, k) with at least 2 labels. Got {centres.shape}."
        )
    count, size = centres.shape
    stated = np.zeros((count, size, size)) if covariances is None else covariances
    spreads = np.asarray(float_array("covariances", stated))
    if spreads.shape != (count, size, size):
        raise ShapeError(
            f"covariances must have shape {(count, size, size)}. Got {spreads.shape}."
        )
    if not (np.isfinite(centres).all() and np.isfinite(spreads).all()):
        raise NotFiniteError(
            "means and covariances must be finite. Got NaN or infinity."
        )
    transposed = spreads.transpose(0, 2, 1)
    scale = np.max(np.abs(spreads), axis=(1, 2), keepdims=True)
    if np.any(np.abs(spreads - transposed) > 1e-10 * scale):
        raise NotSymmetricError(
            "every covariance must be symmetric. Pass (C + C.T) / 2."
        )
    spreads = (spreads + transposed) / 2
    if np.any(np.linalg.eigvalsh(spreads)[:, 0] < -1e-10 * scale[:, 0, 0]):
        raise NotPositiveDefiniteError(
            "every covariance must be positive semidefinite. Got a negative eigenvalue."
        )
    return LabelModels(centres, spreads)


def _finished(
    models: LabelModels, epsilon: float, found: dict[str, Noise]
) -> ClassNoise:
    kind = min(found, key=lambda name: found[name].figure)
    noise = found[kind]
    before, after = (
        np.sum((rows - rows.mean(axis=0)) ** 2)
        for rows in (models.means, models.means + noise.shifts)
    )
    return ClassNoise(
        noise_means=noise.shifts,
        noise_covariances=noise.spreads,
        epsilon=epsilon,
        log_worst_delta=log_delta_of(noise.figure) if kind != "centre" else -math.inf,
        accuracy=noise.cost / models.means.shape[1],
        retained_variance=float(after / before) if before > 0 else 1.0,
        kind=kind,
        candidates={
            name: math.exp(log_delta_of(one.figure)) for name, one in found.items()
        },
        duality_gap=noise.gap,
    )


def label_edges(
    graph: Graph, labels: Sequence[Any], means: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Unordered edges as positions of labels, smaller first, each once; every label has at least one.

    ('nearest', c) joins each label with the c labels of nearest means, ('distance', r) all labels with means at most r
    apart. Both look at the public means only.
    """
    count = len(labels)
    if isinstance(graph, str):
        if graph != "complete":
            raise ParameterError(f"graph must be {GRAPH_FORMS}. Got {graph!r}.")
        pairs = set(combinations(range(count), 2))
    else:
        listed = tuple(graph)
        if len(listed) == 2 and isinstance(listed[0], str):
            pairs = _by_rule(listed[0], listed[1], means)
        else:
            pairs = _given(listed, labels)
    lonely = count - len({place for pair in pairs for place in pair})
    if lonely:
        raise ParameterError(
            f"graph must give every label a neighbour: {lonely} of {count} labels have nobody to hide among. "
            "Leave them out, or join them to others."
        )
    return np.array(sorted(pairs), dtype=np.intp)


def _by_rule(rule: str, size: Any, means: NDArray[np.float64]) -> set[tuple[int, int]]:
    distance = np.sqrt(np.sum((means[:, None, :] - means[None, :, :]) ** 2, axis=2))
    count = len(means)
    if rule == "nearest":
        if int(size) != size or not 1 <= size < count:
            raise ParameterError(
                f"('nearest', c) needs a whole number c from 1 to {count - 1}. Got {size!r}."
            )
        ranked = np.argsort(
            distance + np.diag(np.full(count, np.inf)), axis=1, kind="stable"
        )[:, : int(size)]
        found = {
            (place, int(other)) for place in range(count) for other in ranked[place]
        }
    elif rule == "distance":
        checks.positive("r of ('distance', r)", size)
        found = set(
            zip(*(axis.tolist() for axis in np.nonzero(distance <= size)), strict=True)
        )
    else:
        raise ParameterError(f"graph must be {GRAPH_FORMS}. Got the rule {rule!r}.")
    return {(min(pair), max(pair)) for pair in found if pair[0] != pair[1]}


def _given(graph: Iterable[Any], labels: Sequence[Any]) -> set[tuple[int, int]]:
    place = {label: position for position, label in enumerate(labels)}
    pairs = set()
    for edge in graph:
        first, second = edge
        if first not in place or second not in place or first == second:
            raise ParameterError(
                f"every edge of graph must join two different labels of the design. Got {edge!r}."
            )
        pairs.add((min(place[first], place[second]), max(place[first], place[second])))
    return pairs
