"""From a mechanism and its data to the privacy losses of all neighbours, in batches that fit into memory.

A mechanism is, to the auditor, a map data -> (mean, covariance) of its Gaussian output. Where the map knows a faster
way to all leave-one-out neighbours it has a method `leave_one_out(data)` that prepares what they share and returns a
function (start, stop) -> losses of rows start..stop at once, X with the row and Y without it; the maps of
`gaussveil.audit.maps` do, on any array library and device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.arguments import float_array

GaussianMap: TypeAlias = Callable[[Any], tuple[Any, Any]]
Neighbours: TypeAlias = str | Iterable[tuple[Any, Any]] | Callable[[Any], Iterable[Any]]
Batch: TypeAlias = Callable[[int, int], PrivacyLoss]

AT_ONCE = (
    1 << 14
)  # neighbours evaluated together: a matrix for each takes 19 MB at d = 12
AT_ONCE_ON_DEVICE = 1 << 18


@runtime_checkable
class LeaveOneOutMap(Protocol):
    """A map that gives the losses of many leave-one-out neighbours at once."""

    def leave_one_out(self, data: Any) -> Batch:
        """A function of (start, stop): losses of the data (X) against the data without row i (Y), start <= i < stop."""


class NeighbourLosses(Protocol):
    """Losses of numbered neighbours."""

    count: int

    def batches(self) -> Iterator[tuple[int, PrivacyLoss]]:
        """Number of the first neighbour, and losses, of each batch in order."""

    def one(self, number: int) -> tuple[PrivacyLoss, tuple[int, ...]]:
        """A loss and the place in its batch where this neighbour stands."""


class GivenLosses:
    """Pairs that the caller already has: one, a batch of any shape, or several of either."""

    def __init__(self, losses: PrivacyLoss | Sequence[PrivacyLoss]) -> None:
        if isinstance(losses, PrivacyLoss):
            self._losses = [losses]
        else:
            self._losses = list(losses)
        sizes = [
            int(np.prod(loss.batch_shape, dtype=np.int64)) for loss in self._losses
        ]
        self._starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self.count = int(self._starts[-1])

    def batches(self) -> Iterator[tuple[int, PrivacyLoss]]:
        """Each loss as it was given."""
        yield from zip(self._starts[:-1].tolist(), self._losses)

    def one(self, number: int) -> tuple[PrivacyLoss, tuple[int, ...]]:
        """A loss and the place in its batch where this neighbour stands."""
        which = int(np.searchsorted(self._starts, number, side="right")) - 1
        loss = self._losses[which]
        if loss.batch_shape:
            place = np.unravel_index(
                number - int(self._starts[which]), loss.batch_shape
            )
        else:
            place = ()
        return loss, tuple(int(index) for index in place)


class ComputedLosses:
    """Losses computed in batches when asked for, and again for a neighbour that deserves a closer look."""

    def __init__(self, count: int, batch: Batch, at_once: int = AT_ONCE) -> None:
        self.count = count
        self._batch = batch
        self._at_once = at_once

    def batches(self) -> Iterator[tuple[int, PrivacyLoss]]:
        """Batches of bounded size."""
        for start in range(0, self.count, self._at_once):
            stop = min(start + self._at_once, self.count)
            losses = self._batch(start, stop)
            if losses.batch_shape != (stop - start,):
                raise ShapeError(
                    f"'leave_one_out' must give one loss per row, a batch of shape {(stop - start,)}. "
                    f"Got {losses.batch_shape}."
                )
            yield start, losses

    def one(self, number: int) -> tuple[PrivacyLoss, tuple[int, ...]]:
        """A loss and the place in its batch where this neighbour stands."""
        return self._batch(number, number + 1), (0,)


def _computed_at_once(release: LeaveOneOutMap, data: Any) -> ComputedLosses:
    """Losses of a map that knows its own neighbours, on the host or on the data's device."""
    if is_array_api_obj(data) and not is_numpy_array(data):
        rows = int(data.shape[0])
        return ComputedLosses(rows, release.leave_one_out(data), AT_ONCE_ON_DEVICE)
    return ComputedLosses(len(data), release.leave_one_out(data), AT_ONCE)


def _every_row_left_out(
    release: GaussianMap | LeaveOneOutMap, data: Any, neighbours: str
) -> NeighbourLosses:
    if neighbours != "leave-one-out":
        raise ParameterError(
            "'neighbours' must be 'leave-one-out', pairs of data sets, or a callable data -> data sets. "
            f"Got {neighbours!r}."
        )
    if isinstance(release, LeaveOneOutMap):
        return _computed_at_once(release, data)
    return _leave_one_out(release, np.asarray(data))


def map_losses(
    release: GaussianMap | LeaveOneOutMap, data: Any, neighbours: Neighbours
) -> NeighbourLosses:
    """Losses of a map on the neighbours asked for."""
    if isinstance(neighbours, str):
        return _every_row_left_out(release, data, neighbours)
    if not callable(release):
        raise ParameterError(
            "a map that is audited on given neighbours must be callable: data -> (mean, covariance)"
        )
    if callable(neighbours):
        here = moments(release, data)
        pairs = [(here, moments(release, other)) for other in neighbours(data)]
    else:
        pairs = [
            (moments(release, rows), moments(release, other))
            for rows, other in neighbours
        ]

    def batch(start: int, stop: int) -> PrivacyLoss:
        chosen = pairs[start:stop]
        return GaussianPair(
            *(
                np.stack([pair[side][part] for pair in chosen])
                for side in (0, 1)
                for part in (0, 1)
            )
        )

    return ComputedLosses(len(pairs), batch)


def _leave_one_out(release: GaussianMap, rows: Any) -> NeighbourLosses:
    mean, covariance = moments(release, rows)

    def batch(start: int, stop: int) -> PrivacyLoss:
        without = [
            moments(release, np.delete(rows, row, axis=0)) for row in range(start, stop)
        ]
        return GaussianPair(
            mean, covariance, *(np.stack(column) for column in zip(*without))
        )

    return ComputedLosses(len(rows), batch)


def moments(release: GaussianMap, data: Any) -> tuple[Any, Any]:
    """Mean vector and covariance matrix of the output on one data set; numbers stand for one dimension."""
    answer = release(data)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ParameterError(
            f"the map must return (mean, covariance). Got {type(answer).__name__}."
        )
    mean, covariance = (
        np.asarray(float_array(name, part))
        for name, part in zip(("mean", "covariance"), answer)
    )
    return np.atleast_1d(mean), np.atleast_2d(covariance)
