"""Both ends of delta on a grid, in bounded time: where no contour settles, this always answers.

Write W = dX/dY of one step. Delta is E_Y (W_1 ... W_T - e^eps)_+, which grows with each W, and is convex in it. So of
outputs whose losses lie in a cell, W may be moved to the cell's ends with the same mean, which raises delta, or to its
mean, which lowers it (Jensen); the means then move on to nodes with mass from a neighbour, by as much on either side.
Outputs beyond a place from which on the loss of all steps surely exceeds epsilon count exactly (derived:
docs/math/subsampled). Losses add, masses convolve, with the error bounds of `discrete.tilted_convolution`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.errors import NumericalError
from gaussveil.spectrum.discrete.masses import LossMasses
from gaussveil.spectrum.discrete.tilted_convolution import (
    CountedMasses,
    moments,
    tilted_convolution,
)
from gaussveil.spectrum.enclosures.interval import UNKNOWN, Enclosure
from gaussveil.spectrum.laws.loss_law import LossLaw
from gaussveil.spectrum.laws.on_nodes import (
    common_width,
    ends_of,
    lowered_law,
    raised_law,
)
from gaussveil.spectrum.roots import lowest
from gaussveil.spectrum.subsampled.cell_probabilities import (
    CELL_ERROR,
    CellProbabilities,
    cell_probabilities,
    common_loss,
    lowest_loss,
    nodes_with_mass,
    shares_kept,
)
from gaussveil.spectrum.subsampled.companions import NO_SHIFT, Shift
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

SKETCH_CELLS = 2048  # cells of a first look
MOST_GRID_NODES = 2**20
ACCURACY = 1e-10  # of delta, relative: cells need not be narrower than that takes
LARGEST_STEP_LOSS = 600.0  # loss of one step
LAST_OUTPUT = 38.0  # outputs beyond have no probability in doubles
GRID_DIGITS = 23.0  # e-foldings below delta
Laws = Sequence[tuple[LossLaw, int]]


class GridMasses(NamedTuple):
    """Masses under X of losses up to a cut, less an offset, and lower and upper ends of what lies beyond the cut."""

    masses: LossMasses
    beyond_x: tuple[float, float]
    beyond_y: tuple[float, float]


def _tails(step: Step, cut: float) -> tuple[tuple[float, float], tuple[float, float]]:
    if cut >= step.largest_loss:
        return (0.0, 0.0), (0.0, 0.0)
    tail = cell_probabilities(step, np.array([cut, math.inf]))
    under_x = float(tail.under_x[0])
    under_y = float(tail.under_y[0])
    return (under_x * (1 - CELL_ERROR), under_x * (1 + CELL_ERROR)), (
        under_y * (1 - CELL_ERROR),
        under_y * (1 + CELL_ERROR),
    )


def raised(
    step: Step, interval: float, first: int, last: int, offset: float = 0.0
) -> GridMasses:
    """Masses on nodes first..last that dominate the step's losses up to the last node."""
    nodes: Floats = interval * np.arange(float(first), float(last + 1)) + offset
    probabilities = cell_probabilities(step, np.append(-math.inf, nodes))
    inner = CellProbabilities(*(column[1:] for column in probabilities))
    below = float(probabilities.under_y[0])
    under_y = inner.under_y
    with np.errstate(all="ignore"):
        lift, error = inner.lift(nodes[:-1])
        share = (lift + error) / (under_y * math.expm1(interval) * np.exp(nodes[:-1]))
    share = np.clip(np.where(under_y > 0.0, share, 1.0), 0.0, 1.0)
    mass = np.append(below, under_y * share)
    mass[:-1] += under_y * (1.0 - share)
    mass *= np.exp(nodes) * ((1.0 + CELL_ERROR) * (1.0 + 2.0**-49))
    return GridMasses(
        LossMasses(interval, first, mass, 0.0), *_tails(step, float(nodes[-1]))
    )


def lowered(
    step: Step, interval: float, first: int, last: int, offset: float = 0.0
) -> GridMasses:
    """Masses on nodes first..last that the step's losses up to one and a half intervals beyond the last dominate.

    A mean above its node draws mass up from the node before, one below it draws mass down from the next; where there is
    too little, the first stays on its node, and the other goes down to the one before.
    """
    nodes: Floats = interval * np.arange(float(first), float(last + 1)) + offset
    end = nodes[-1] + 1.5 * interval
    size = nodes.size
    nodes = nodes[: nodes_with_mass(step, nodes, interval, end)]
    edges = np.append(nodes - 0.5 * interval, end)
    if lowest_loss(step) > nodes[0]:
        edges[0] = -math.inf
    probabilities = cell_probabilities(step, edges)
    under_y = probabilities.under_y * (1.0 - CELL_ERROR)
    lift, error = probabilities.lift(nodes)
    lift -= error
    gap = math.expm1(interval) * np.exp(nodes)  # of W, from a node to the next
    down = np.maximum(-lift, 0.0) / gap
    kept = shares_kept(under_y, down)
    stays = kept * under_y
    down = kept * down
    up = np.minimum(np.maximum(lift[1:], 0.0) / gap[:-1], 0.45 * stays[:-1])
    mass = stays + down
    mass[1:] += up - down[:-1]
    mass[:-1] += (under_y - stays)[1:] - up
    mass = np.maximum(mass, 0.0) * np.exp(nodes) * (1.0 - 2.0**-49)
    mass = np.append(mass, np.zeros(size - mass.size))
    return GridMasses(
        LossMasses(interval, first, mass, 0.0), *_tails(step, float(edges[-1]))
    )


class GridPlan(NamedTuple):
    """Tilt, ends of the window of sums, interval, and the span of each step's losses."""

    order: float
    bottom: float
    top: float
    interval: float
    spans: list[tuple[float, float]]
    sure: bool  # whether one loss beyond its span makes the sum exceed epsilon

    @staticmethod
    def of(
        steps: Sequence[tuple[Step, int]],
        epsilon: float,
        log_delta: float,
        most: int,
        laws: Laws = (),
    ) -> GridPlan:
        """Chosen from a sketch; any choice is sound, a good one is tight."""
        uses = sum(count for _, count in (*steps, *laws))
        ends = [ends_of(law) for law, _ in laws]
        least_sum = math.fsum(count * lowest_loss(step) for step, count in steps)
        least_sum += math.fsum(n * end[0] for end, (_, n) in zip(ends, laws))
        reach = min(
            math.sqrt(2.0 * (GRID_DIGITS + math.log(uses) - log_delta)), LAST_OUTPUT
        )
        most_sum = math.fsum(count * step.largest_loss for step, count in steps)
        most_sum += math.fsum(n * law.largest_loss for law, n in laws)
        enough = [epsilon - least_sum + lowest_loss(step) for step, _ in steps]
        spans = []
        for (step, _), each in zip(steps, enough):
            too_little = -math.inf
            if most_sum < math.inf:
                too_little = epsilon - most_sum + step.largest_loss
            spans.append(_span(step, reach, too_little, each))
        sure = -math.inf < least_sum and epsilon < math.inf
        sure = sure and all(high >= each for (_, high), each in zip(spans, enough))
        widest = max(high - low for low, high in (*spans, *ends))
        if max(high for _, high in spans) > LARGEST_STEP_LOSS:
            raise NumericalError(
                f"a single step's loss may exceed {LARGEST_STEP_LOSS}, which no grid holds: add noise."
            )
        cell = widest / SKETCH_CELLS
        sketch = [
            (raised(step, cell, *_nodes(span, cell)).masses, count)
            for (step, count), span in zip(steps, spans)
        ]
        sketch += [(raised_law(law, cell), count) for law, count in laws]

        def bound(log_order: float) -> float:
            order = math.exp(log_order)
            log_bound = moments(sketch, order)[0] - order * epsilon
            log_bound += order * math.log(order) - (1.0 + order) * math.log1p(order)
            if math.isfinite(log_bound):
                return log_bound
            return 1e300

        order = math.exp(
            lowest(bound, math.log(1e-3 / widest), math.log(1e5 / widest), xtol=0.02)
        )
        _, mean, variance = moments(sketch, 0.0)
        if (
            mean - epsilon > math.sqrt(variance) > 0.0
        ):  # delta is nearly 1, whatever the order
            order = max(order, 1.0 / math.sqrt(variance))
        higher = order * np.geomspace(1.05, 30.0, 30)
        level = GRID_DIGITS - log_delta - order * epsilon
        top = min(
            (moments(sketch, float(c))[0] + level) / (float(c) - order) for c in higher
        )
        top = max(top, epsilon + cell)
        least = math.fsum(n * low for (low, _), (_, n) in zip(spans, steps))
        least += math.fsum(n * end[0] for end, (_, n) in zip(ends, laws))
        bottom = epsilon - (GRID_DIGITS + 10.0 - log_delta) / order
        bottom = max(bottom, least - 2.0 * uses * cell)  # no sum is lower
        interval = math.sqrt(8.0 * ACCURACY / uses) / order
        interval = max(min(interval, cell), max(top - bottom, widest) / most)
        if laws:
            interval = common_width([law for law, _ in laws], interval)
        return GridPlan(order, bottom, top, interval, spans, sure)


def _span(
    step: Step, reach: float, too_little: float, enough: float
) -> tuple[float, float]:
    """Losses of outputs within reach, from where others may still make up for it to where one decides alone."""
    shift = 1.0 / step.noise_multiplier
    ends = np.array([-reach, reach + shift])
    low, high = step.log_density(ends)
    if step.replace:
        low, high = step.log_density(ends) - step.log_density(-ends)
    if step.backward:
        low = -high
        high = -step.floor
    low = max(low, lowest_loss(step), -LARGEST_STEP_LOSS)
    if too_little < high:
        low = max(low, too_little)
    enough *= 1.0 + 1e-12
    if enough > low:
        high = min(high, enough)
    return float(low), float(high)


def _nodes(
    span: tuple[float, float], interval: float, offset: float = 0.0
) -> tuple[int, int]:
    """Nodes that hold a span of losses, and one more below."""
    return math.floor((span[0] - offset) / interval) - 1, math.ceil(
        (span[1] - offset) / interval
    )


def enclose_on_grid(
    steps: Sequence[tuple[Step, int]],
    epsilon: float,
    log_delta: float,
    most_nodes: int = MOST_GRID_NODES,
    beside: Shift = NO_SHIFT,
    laws: Laws = (),
) -> Enclosure:
    """Ends of delta, which is about e^log_delta; roundings are charged, doubles of the normal law trusted to 1e-13.

    Beside the steps there may be a mean shift, and laws of finite losses.
    """
    fewer = (*steps, *beside.steps(up=False))
    more = (*steps, *beside.steps(up=True))
    if not fewer or len(fewer) < len(more):
        return UNKNOWN
    with np.errstate(all="ignore"):
        plan = GridPlan.of(more, epsilon, max(log_delta, -700.0), most_nodes, laws)
        # Where one loss alone spans far more than the sum needs, a grid that serves the sum has no memory for it.
        if any(np.ptp(span) > 4 * most_nodes * plan.interval for span in plan.spans):
            return UNKNOWN
        lower = _end(fewer, epsilon, plan, laws, upwards=False)
        upper = _end(more, epsilon, plan, laws, upwards=True)
    if math.isnan(lower) or math.isnan(upper):
        return UNKNOWN
    log_lower, log_upper = (
        math.log(end) if end > 0.0 else -math.inf for end in (lower, upper)
    )
    # not proven: of doubles, whose roundings are charged
    return Enclosure(lower, upper, log_lower, log_upper, proven=False)


def _end(
    steps: Sequence[tuple[Step, int]],
    epsilon: float,
    plan: GridPlan,
    laws: Laws = (),
    *,
    upwards: bool,
) -> float:
    """One end of delta: of sums of losses on the grid, and of outputs beyond it."""
    if upwards:
        cells_of = raised
        side = 1.0
    else:
        cells_of = lowered
        side = -1.0
    cells = []
    offsets = []
    for (step, count), span in zip(steps, plan.spans):
        offset = common_loss(step, plan.interval)
        first, last = _nodes(span, plan.interval, offset)
        cells.append((cells_of(step, plan.interval, first, last, offset), count))
        offsets.append(count * offset)
    moved = epsilon - math.fsum(offsets)
    masses = [(held.masses, count) for held, count in cells]
    lowered_by = 0.0
    for law, count in laws:
        if upwards:
            masses.append((raised_law(law, plan.interval), count))
            continue
        below, moved_up = lowered_law(law, plan.interval)
        masses.append((below, count))
        lowered_by += count * moved_up * (1.0 + 1e-12)
    within = within_window(masses, moved + lowered_by, moved - epsilon, plan, side)
    beyond = max(_beyond(cells, epsilon, plan, side), 0.0)
    return min(max((within + beyond) * (1.0 + side * 1e-15), 0.0), 1.0)


def _beyond(
    cells: Sequence[tuple[GridMasses, int]],
    epsilon: float,
    plan: GridPlan,
    side: float,
) -> float:
    """An end of X(A) - e^eps Y(A), A that one loss lies beyond its span, if that makes the sum exceed epsilon.

    Else A gives between 0 and X(A).
    """
    up = int(side > 0.0)
    under_x = _any([(held.beyond_x[up], count) for held, count in cells], side)
    if not plan.sure:
        return under_x if up else 0.0
    under_y = _any([(held.beyond_y[1 - up], count) for held, count in cells], -side)
    grown = math.exp(min(epsilon, 700.0)) * (1.0 - side * 2.0**-50)
    return under_x - grown * under_y


def _any(probabilities: Sequence[tuple[float, int]], sign: float) -> float:
    """Probability that one of many events happens, rounded up or down."""
    log_none = math.fsum(
        count * math.log1p(-min(probability, 1.0 - 2.0**-53))
        for probability, count in probabilities
    )
    return -math.expm1(log_none) * (1.0 + sign * 1e-14)


def within_window(
    parts: CountedMasses, epsilon: float, moved: float, plan: GridPlan, side: float
) -> float:
    """An end of E (1 - e^(epsilon - sum))_+ of the masses; epsilon and their sum are moved by the offsets."""
    interval = plan.interval
    order = plan.order
    first = math.floor((plan.bottom + moved) / interval)
    size = int(
        scipy.fft.next_fast_len(
            math.ceil((plan.top + moved) / interval) - first + 2, real=True
        )
    )
    composed, error, log_scale, slack = tilted_convolution(parts, order, size)
    composed = np.roll(composed, -(first % size))
    loss = interval * np.arange(first, first + size)
    counts = loss > epsilon * (1.0 - side * 2.0**-50)
    loss = loss[counts]
    composed = composed[counts]
    slack += 2.0**-50 * order * float(np.abs(loss).max(initial=0.0))
    weight = np.exp(np.minimum(log_scale - order * loss + side * slack, 700.0))
    weight *= -np.expm1(epsilon * (1.0 - side * 2.0**-50) - loss)
    delta = float(composed @ weight) * (
        1.0 + side * 1e-12
    ) + side * 1.001 * error * float(np.linalg.norm(weight))
    # sums above the window are counted elsewhere: below epsilon, as nothing, or inside, as more than they are
    end = interval * (first + size)
    higher = _tail_order(parts, order, end)
    log_tail = moments(parts, higher)[0] - (higher - order) * end
    delta += side * math.exp(min(log_tail - order * min(epsilon, end) + 1e-6, 0.0))
    lowest_sum = sum(part.first * count for part, count in parts)
    if side < 0.0 and lowest_sum < first:  # those below it are counted inside
        delta -= 1.001 * math.exp(-order * interval * size)
    return max(delta, 0.0)


def _tail_order(parts: CountedMasses, order: float, end: float) -> float:
    """An order above the given one at which Chernoff's bound of sums beyond the end is small; any is sound."""
    coarse = [(_thinned(part), count) for part, count in parts]
    higher = order * np.geomspace(1.05, 30.0, 30)
    logs = [moments(coarse, c)[0] - (c - order) * end for c in higher.tolist()]
    return float(higher[int(np.argmin(logs))])


def _thinned(masses: LossMasses) -> LossMasses:
    """About the same masses on few nodes."""
    share = max(masses.mass.size // SKETCH_CELLS, 1)
    starts = np.arange(0, masses.mass.size, share)
    first = round(masses.first / share)
    mass = np.add.reduceat(masses.mass, starts)
    return LossMasses(share * masses.interval, first, mass, 0.0)
