"""Public graphs of labels that must look alike: complete, nearest neighbours, within a distance, or given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.errors import ParameterError

Graph = str | tuple[str, float] | Iterable[tuple[Any, Any]]

GRAPH_FORMS = "'complete', ('nearest', how many), ('distance', how far), or pairs of labels"


def label_edges(graph: Graph, labels: Sequence[Any], means: NDArray[np.float64]) -> NDArray[np.intp]:
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
            raise ParameterError(f"('nearest', c) needs a whole number c from 1 to {count - 1}. Got {size!r}.")
        ranked = np.argsort(distance + np.diag(np.full(count, np.inf)), axis=1, kind="stable")[:, : int(size)]
        found = {(place, int(other)) for place in range(count) for other in ranked[place]}
    elif rule == "distance":
        checks.positive("r of ('distance', r)", size)
        found = set(zip(*(axis.tolist() for axis in np.nonzero(distance <= size)), strict=True))
    else:
        raise ParameterError(f"graph must be {GRAPH_FORMS}. Got the rule {rule!r}.")
    return {(min(pair), max(pair)) for pair in found if pair[0] != pair[1]}


def _given(graph: Iterable[Any], labels: Sequence[Any]) -> set[tuple[int, int]]:
    place = {label: position for position, label in enumerate(labels)}
    pairs = set()
    for edge in graph:
        first, second = edge
        if first not in place or second not in place or first == second:
            raise ParameterError(f"every edge of graph must join two different labels of the design. Got {edge!r}.")
        pairs.add((min(place[first], place[second]), max(place[first], place[second])))
    return pairs
