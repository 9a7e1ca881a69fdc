"""Rigorous enclosures of delta: exact inputs in, an interval of doubles that holds the truth out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array, to_device
from flint import ctx
from numpy.typing import NDArray

from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum.arguments import epsilon_array
from gaussveil.spectrum.enclosures.ball_integral import (
    BallIntegral,
    WorkBudget,
    mean_shift,
)
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, exact_spectrum
from gaussveil.spectrum.enclosures.dominating import (
    Dominating,
    dominating_terms,
    is_sharp,
)
from gaussveil.spectrum.enclosures.exact import ExactMatrices, ExactSource
from gaussveil.spectrum.enclosures.exact_doubles import (
    Doubles,
    MatrixDoubles,
    TermDoubles,
)
from gaussveil.spectrum.enclosures.interval import (
    UNKNOWN,
    ZERO,
    Enclosure,
    intersection,
)
from gaussveil.spectrum.enclosures.matrix_reduction import (
    FEW,
    matrix_spectra,
    matrix_spectrum,
    quick_spectra,
)

NEARLY_SINGULAR = "The covariances are too close to singular to be enclosed; check that they are positive definite."
PRECISIONS = (128, 192, 320, 640, 1280, 2560)
TERM_BITS = 640
SHARPER_BITS = (256, 1024)
ENOUGH = 1e-10  # of variances: what a reduction may leave over for its terms to be those of the pair

# Arb's working precision is a global of the process.
_PRECISION_LOCK = Lock()
_USUAL_PRECISION = ctx.prec


def _after_fork() -> None:
    """In a child nobody will give back what another thread of the parent held: the lock, and a precision of its own."""
    global _PRECISION_LOCK
    _PRECISION_LOCK = Lock()
    ctx.prec = _USUAL_PRECISION


os.register_at_fork(after_in_child=_after_fork)


def precision_lock() -> Lock:
    """What whoever sets Arb's working precision must hold."""
    return _PRECISION_LOCK


def enclose_loss(
    sources: Sequence[ExactSource], batch_shape: tuple[int, ...], epsilon: Any
) -> Enclosure:
    """Enclosure of delta(epsilon) of a loss from its exact sources; arrays of ends for a batch or many epsilons."""
    levels = host(epsilon_array(epsilon, np.zeros(0)))
    shape = np.broadcast_shapes(batch_shape, levels.shape)
    if not shape:
        return enclose_delta(
            [_Origin(source, ()).at(()) for source in sources], float(levels)
        )
    ends = np.empty((4, *shape))
    for index in np.ndindex(*shape):
        place_ends = enclose_at(
            sources,
            batch_shape,
            index,
            shape,
            float(np.broadcast_to(levels, shape)[index]),
        )
        ends[(slice(None), *index)] = (
            place_ends.lower,
            place_ends.upper,
            place_ends.log_lower,
            place_ends.log_upper,
        )
    return Enclosure(*ends)


def enclose_at(
    sources: Sequence[ExactSource],
    batch_shape: tuple[int, ...],
    index: tuple[Any, ...],
    shape: tuple[int, ...],
    epsilon: float,
) -> Enclosure:
    """Enclosure at one place of `shape`, against which the batch broadcasts."""
    places = np.broadcast_to(
        np.arange(int(np.prod(batch_shape))).reshape(batch_shape), shape
    )
    if batch_shape:
        place = np.unravel_index(int(places[index]), batch_shape)
    else:
        place = ()
    return enclose_delta(
        [_Origin(source, batch_shape).at(place) for source in sources], epsilon
    )


def enclose_delta(sources: Sequence[tuple[Doubles, int]], epsilon: float) -> Enclosure:
    """Interval that contains delta_{X||Y}(epsilon) of the composition of all sources, each taken `count` times.

    Every number is taken exactly as the double it is. Precision is raised until the relative width is below 1e-10
    (usually it is about 1e-16) or a budget of work is spent; the interval is rigorous in every case, and where nothing
    at all is known by then `NumericalError` says so.
    """
    level = float(epsilon_array(epsilon, np.zeros(0)))
    active = _active(sources)
    if not active:
        return ZERO
    best = UNKNOWN
    budget = WorkBudget(sum(source.size for source, _ in active))
    reduced = False
    with _PRECISION_LOCK:
        for precision in PRECISIONS:
            if budget.left <= 0:
                break
            spectra = _spectra(active, precision)
            if spectra is None:
                continue
            reduced = True
            with ctx.workprec(precision):
                if _is_flat(spectra):
                    ends, tight = mean_shift(spectra, level)
                else:
                    ends, tight = BallIntegral(spectra, level, budget).enclose()
            best = intersection(best, ends)
            if tight:
                return best
    if best == UNKNOWN:
        undecided = (
            "This delta was not decided within the budget of work for one enclosure."
        )
        raise NumericalError(undecided if reduced else NEARLY_SINGULAR)
    return best


def _active(sources: Sequence[tuple[Doubles, int]]) -> list[tuple[Doubles, int]]:
    """The sources that count."""
    if any(count < 0 for _, count in sources):
        raise ParameterError("The count of a source must be >= 0. Got a negative one.")
    return [
        (source, int(count))
        for source, count in sources
        if count > 0 and not source.trivial
    ]


def _is_flat(spectra: Sequence[tuple[BallSpectrum, int]]) -> bool:
    """Whether the composition is a mean shift alone."""
    return all(spectrum.exact and not spectrum.terms for spectrum, _ in spectra)


def exact_terms(sources: Sequence[ExactSource]) -> BallSpectrum | None:
    """The terms of sources that are terms, all of them together; None if one is a pair of matrices."""
    origins = [_Origin(source, ()).at(()) for source in sources]
    terms = [
        (source, count) for source, count in origins if isinstance(source, TermDoubles)
    ]
    with _PRECISION_LOCK, ctx.workprec(TERM_BITS):
        if len(terms) == len(origins):
            return exact_spectrum(terms)
        return None


def _spectra(
    active: Sequence[tuple[Doubles, int]], precision: int
) -> list[tuple[BallSpectrum, int]] | None:
    """Ball spectra with their counts, at twice the bits: in K the residual of a matrix is multiplied by s."""
    spectra: list[tuple[BallSpectrum, int]] = []
    bits = 2 * precision
    with ctx.workprec(bits):
        terms = [
            (source, count)
            for source, count in active
            if isinstance(source, TermDoubles)
        ]
        if terms:
            spectra.append((exact_spectrum(terms), 1))
        matrices = [
            (source, count)
            for source, count in active
            if isinstance(source, MatrixDoubles)
        ]
        reduced = matrix_spectra(tuple(source for source, _ in matrices), bits)
    if reduced is None:
        return None
    return spectra + list(zip(reduced, (count for _, count in matrices)))


def dominate(
    sources: Sequence[ExactSource],
    batch_shape: tuple[int, ...],
    bits: int,
    together: bool,
) -> Iterator[tuple[list[NDArray[np.float64]], float]]:
    """Gaps, logs of ratios and energies that dominate each pair of matrices, and the total variation they leave out.

    Refuses what cannot be bounded with so many bits. `together`: many pairs at once, to some 25 digits.
    """
    origins = [_Origin(source, batch_shape) for source in sources]
    places = [*np.ndindex(*batch_shape)]
    with _PRECISION_LOCK, ctx.workprec(bits):
        doubles = [origin.at(place)[0] for origin in origins for place in places]
        pairs = tuple(entry for entry in doubles if isinstance(entry, MatrixDoubles))
        dominating = _all_dominating(pairs, bits, together)
    for first in range(0, len(dominating), len(places)):
        own = dominating[first : first + len(places)]
        columns = [
            np.reshape([entry[i] for entry in own], (*batch_shape, -1))
            for i in range(3)
        ]
        yield columns, max(entry.total_variation for entry in own)


def _all_dominating(
    pairs: tuple[MatrixDoubles, ...], bits: int, together: bool
) -> list[Dominating]:
    """The terms of each pair, in their order; refused where one is not bounded."""
    made: Iterable[Dominating | None]
    if together:
        made = map(dominating_terms, matrix_spectra(pairs, bits) or ())
    else:
        made = (_dominating(pair, bits) for pair in pairs)
    dominating = [terms for terms in made if terms is not None]
    if len(dominating) < len(pairs):
        raise NumericalError(NEARLY_SINGULAR)
    return dominating


def sharper(
    source: ExactSource, batch_shape: tuple[int, ...], rows: Sequence[int]
) -> list[NDArray[np.float64]]:
    """Gaps, logs of ratios and energies of some pairs of a flat batch, off by next to nothing but their rounding."""
    origin = _Origin(source, batch_shape)
    places = [np.unravel_index(row, batch_shape) if batch_shape else () for row in rows]
    pairs = [origin.at(place)[0] for place in places]
    columns_of: dict[Doubles, list[list[float]]] = {}
    with _PRECISION_LOCK:
        for bits in SHARPER_BITS:
            left = set(pairs) - columns_of.keys()
            columns_of |= _sharp_columns(
                tuple(pair for pair in dict.fromkeys(pairs) if pair in left), bits
            )
    if len(columns_of) < len(set(pairs)):
        raise NumericalError(NEARLY_SINGULAR)
    return [np.array(column) for column in zip(*(columns_of[pair] for pair in pairs))]


def _sharp_columns(
    pairs: tuple[Doubles, ...], bits: int
) -> dict[Doubles, list[list[float]]]:
    """Columns in doubles of the pairs whose residuals are small enough at this precision."""
    if not pairs:
        return {}
    with ctx.workprec(bits):
        spectra = matrix_spectra(pairs, bits) or ()
        return {
            pair: spectrum.in_doubles()
            for pair, spectrum in zip(pairs, spectra)
            if spectrum.stray < ENOUGH
        }


def _dominating(pair: MatrixDoubles, bits: int) -> Dominating | None:
    """Terms of one pair: by doubles where those leave nothing out, else by balls."""
    (quick,) = quick_spectra((pair,)) if pair.size <= FEW else (None,)
    if quick is not None and is_sharp(quick):
        terms = dominating_terms(quick)
    else:
        terms = None
    if terms is None or terms.total_variation:
        spectrum = matrix_spectrum(pair, bits)
        if spectrum is None:
            terms = None
        else:
            terms = dominating_terms(spectrum)
    return terms


def host(array: Any) -> NDArray[np.float64]:
    """Any array, on any device, as float64 in main memory."""
    elsewhere = is_torch_array(array) or is_cupy_array(array)
    return np.asarray(to_device(array, "cpu") if elsewhere else array, dtype=np.float64)


class _Origin:
    """A source of a batch of losses, read one loss at a time."""

    def __init__(self, source: ExactSource, batch_shape: tuple[int, ...]) -> None:
        self._source = source
        origin = source.origin
        if isinstance(origin, ExactMatrices):
            fields = [
                (origin.mean_x, 1),
                (origin.cov_x, 2),
                (origin.mean_y, 1),
                (origin.cov_y, 2),
            ]
            if source.swapped:
                fields = fields[2:] + fields[:2]
        else:
            if origin.mean_gap is None:
                shift = origin.energy
            else:
                shift = origin.mean_gap
            fields = [(origin.variance_gap, 1), (origin.multiplicity, 1), (shift, 1)]
        self._columns = []
        for field, rank in fields:
            column = host(field)
            shape = (*batch_shape, *column.shape[column.ndim - rank :])
            self._columns.append(
                column if column.shape == shape else np.broadcast_to(column, shape)
            )

    def at(self, place: tuple[Any, ...]) -> tuple[Doubles, int]:
        """The exact doubles of the loss at one place of the batch, with their count."""
        columns = [column[place] for column in self._columns]
        origin = self._source.origin
        if isinstance(origin, ExactMatrices):
            return MatrixDoubles.of(*columns), self._source.count
        gap, multiplicity, shift = columns
        if origin.mean_gap is None:
            name = "energy"
        else:
            name = "mean_gap"
        doubles = TermDoubles.of(
            gap,
            multiplicity=multiplicity,
            swapped=self._source.swapped,
            **{name: shift},
        )
        return doubles, self._source.count
