"""`SubsampledLoss`: the privacy of steps on random batches, alone, repeated, in schedules, and with what stands beside.

Gaussian pairs may stand beside them, and laws of losses by atoms and pieces, of which the finite losses count here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from flint import ctx

from gaussveil.errors import ParameterError
from gaussveil.spectrum.arguments import epsilon_array, probability_array
from gaussveil.spectrum.constants import BALL_BITS, UNIT_ROUNDOFF
from gaussveil.spectrum.enclosures.enclosure import exact_terms, precision_lock
from gaussveil.spectrum.enclosures.interval import (
    ZERO,
    Enclosure,
    exp_up,
    log_down,
    stacked,
)
from gaussveil.spectrum.factors import Factors, counted
from gaussveil.spectrum.laws.loss_law import law_of
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.pair_composition import compose
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.ball_single import enclose_single, single_epsilon
from gaussveil.spectrum.subsampled.companions import (
    BallCompanions,
    Companions,
    Gaussians,
)
from gaussveil.spectrum.subsampled.contour import LEFT_OUT, Parts, chernoff
from gaussveil.spectrum.subsampled.double_bands import USEFUL_ERROR, AnyNodes
from gaussveil.spectrum.subsampled.epsilon_search import EpsilonSearch
from gaussveil.spectrum.subsampled.members import Members, draws_alone
from gaussveil.spectrum.subsampled.nodes import accurate, nodes_for
from gaussveil.spectrum.subsampled.rigorous_ends import DEEPEST, RigorousEnds
from gaussveil.spectrum.subsampled.single_beside import SingleBeside
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.stored_step import last_grid, stored
from gaussveil.spectrum.subsampled.surely_drawn import surely_drawn
from gaussveil.spectrum.subsampled.sweep import MANY, KeptNodes, epsilons, swept
from gaussveil.spectrum.subsampled.touching import NEGLIGIBLE, Side, by_slopes
from gaussveil.spectrum.subsampled.variation import variation
from gaussveil.typing import Floats

MOST_IN_BALLS = 200  # atoms of a law at uneven distances
MOST_USES = 10**10  # beyond it roundings of moments count


class SubsampledLoss(PrivacyCurve):
    """Steps with their counts, one Gaussian loss, and laws, composed: exact for a sequence fixed in advance.

    `delta`, `log_delta`, `epsilon` and `tradeoff` speak of X against Y (with the record against without), in doubles,
    to the private side of errors that are bounded (docs/math/subsampled). `enclose` proves a delta in balls.
    """

    encloses_jointly: ClassVar[bool] = True

    def __init__(
        self,
        steps: Sequence[tuple[Step, int]],
        gaussian: PrivacyLoss | None = None,
        laws: Sequence[tuple[PrivacyCurve, int]] = (),
    ) -> None:
        if gaussian is not None and gaussian.batch_shape:
            raise ParameterError(
                "Label edges cannot be composed with random batches. Got a batch of losses."
            )
        losses = [
            surely_drawn(step, n) for step, n in steps if step.sampling_rate == 1.0
        ]
        if gaussian is not None:
            losses.insert(0, gaussian)
        self.gaussian = compose(*losses) if losses else None
        counts = counted((step, n) for step, n in steps if step.sampling_rate != 1.0)
        self.steps = tuple(sorted(counts.items()))
        uses = sum(counts.values())
        if uses > MOST_USES:
            raise ParameterError(
                f"steps on random batches must be at most {MOST_USES} in all: roundings of so many count. "
                f"Got {uses}; make it fewer steps of a higher rate."
            )
        self.laws = tuple(counted(laws).items())
        in_doubles = tuple((law_of(law), count) for law, count in self.laws)
        self._kept = KeptNodes()
        self._unsettled = False
        self._parts = Parts(
            self.steps, Companions(Gaussians.of(self.gaussian), in_doubles)
        )
        self._accompanied = self._parts.companions.present
        alone = len(self.steps) == 1 and self.steps[0][1] == 1 and not self._accompanied
        self._single = self.steps[0][0] if alone else None

    def _brief(self) -> dict[str, str]:
        steps = sum(count for _, count in self.steps)
        brief = {"steps": str(steps), "different": str(len(self.steps))}
        if self.laws:
            brief["laws"] = str(sum(count for _, count in self.laws))
        return brief

    def factors(self) -> Factors:
        """Its steps, its Gaussian loss and the laws."""
        gaussians = () if self.gaussian is None else ((self.gaussian, 1),)
        return Factors(gaussians, self.steps, self.laws)

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """The profiles that an account keeps of its steps, the Gaussian loss and the laws."""
        gaussians = () if self.gaussian is None else ((self.gaussian, 1),)
        return (
            *((stored(step), count) for step, count in self.steps),
            *gaussians,
            *self.laws,
        )

    def affordable_nodes(self, work: float) -> float:
        """Few, when it is composed with others on a grid."""
        return 256

    @property
    def largest_loss(self) -> float:
        """Sum of the largest losses, rounded up; beyond it delta is 0."""
        bounds = [step.largest_loss * count for step, count in self.steps]
        if self.gaussian is not None:
            bounds.append(float(self.gaussian.renyi(math.inf)))
        bounds += [law.largest_loss * count for law, count in self.laws]
        return math.fsum(bounds) * (1.0 + 8.0 * UNIT_ROUNDOFF)

    def reversed(self) -> SubsampledLoss:
        """X and Y exchanged; itself where that changes nothing."""
        return self._back

    @cached_property
    def _back(self) -> SubsampledLoss:
        still = all(step.replace for step, _ in self.steps) and all(
            law.symmetric for law, _ in self.laws
        )
        if still and not self._parts.companions.gaussians.variance_gap.any():
            return self
        gaussian = None if self.gaussian is None else self.gaussian.reversed()
        laws = [(law.reversed(), count) for law, count in self.laws]
        steps = [(step.reversed(), count) for step, count in self.steps]
        back = SubsampledLoss(steps, gaussian, laws)
        back._back = self
        return back

    def cumulant(self, order: float) -> float:
        """K(s) = log E_X[exp(s L)] at a real order; s times the Renyi divergence of order 1 + s."""
        return self._parts.real_moments(float(order))[0]

    def renyi(self, order: float) -> float:
        """Renyi divergence of an order above 1, its rounding included."""
        with np.errstate(all="ignore"):
            if order == math.inf:
                divergence = self.largest_loss
            else:
                divergence = self.cumulant(order - 1.0) / (order - 1.0)
        return divergence * (1.0 + 1e-11) if math.isfinite(divergence) else math.inf

    def log_delta(self, epsilon: Any) -> Any:
        """log of delta(epsilon), its error bound included."""
        levels = epsilon_array(epsilon, np.zeros(()))
        evaluate = self._side.evaluate if levels.size >= MANY else self._evaluate
        at_levels = swept(evaluate, np.ravel(levels), self._kept)
        upper = np.minimum(at_levels.value + at_levels.error, 0.0)
        return np.reshape(upper, levels.shape)[()]

    @np.errstate(all="ignore")
    def chernoff(self, epsilon: float, level: float = -math.inf) -> float:
        """An upper bound of log delta from the moment at one real order, which costs next to nothing.

        Outputs that are too rare for a delta of e^level have moments that are not: without them it is far nearer.
        """
        if epsilon >= self.largest_loss:
            return -math.inf
        if not self.steps and not self.laws:
            return math.inf
        return chernoff(self._parts.windowed(level + LEFT_OUT), epsilon)

    def log_dp_delta(self, epsilon: float) -> float:
        """log of the worse direction's delta; the other one is computed only where its bound leaves it open."""
        forward = float(self.log_delta(epsilon))
        backward = self.reversed()
        surely_below = (
            backward is self or epsilon == 0.0 or backward.chernoff(epsilon) <= forward
        )
        if surely_below:
            return forward
        return max(forward, float(backward.log_delta(epsilon)))

    def _divergence(self, epsilon: Floats) -> Any:
        return exp_up(self.log_delta(epsilon))

    def epsilon(self, delta: Any) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, on the private side."""
        asked = probability_array("delta", delta, np.zeros(()))
        goals = np.ravel(asked)
        alone = self._private_epsilon
        if self._by_contour:
            answers = epsilons(self._side.evaluate, alone, goals, self._kept)
        else:
            answers = np.array([alone(float(goal)) for goal in goals])
        return np.reshape(answers, asked.shape)[()]

    def dp_epsilon(self, delta: Any) -> Any:
        """Smallest epsilon of (epsilon, delta)-differential privacy; the other direction is solved if it is worse."""
        forward = self.epsilon(delta)
        backward = self.reversed()
        if backward is self:
            return forward
        goals = np.ravel(probability_array("delta", delta, np.zeros(())))
        levels = np.ravel(np.where(np.isfinite(forward), forward, 0.0))
        # delta(0) is the same in both directions
        asked = (goals > 0.0) & (levels > 0.0)
        goals = goals[asked]
        levels = levels[asked]
        if goals.size >= MANY:
            logs = backward.log_delta(levels)
            worse = any(log > log_down(goal) for log, goal in zip(logs, goals))
        else:
            worse = any(
                backward._exceeds(log_down(goal), float(level))
                for level, goal in zip(levels, goals)
            )
        if not worse:
            return forward
        return np.maximum(forward, backward.epsilon(delta))[()]

    def tradeoff(self, type_one_error: Any) -> Any:
        """Smallest type II error at each type I error, or a little less; by slopes of delta where they are known."""
        errors = probability_array("type_one_error", type_one_error, np.zeros(()))
        sides = (self._side, self.reversed()._side)
        heights = by_slopes(sides, errors, self._by_contour, bool(self.laws))
        return super().tradeoff(errors) if heights is None else heights

    def enclose(self, epsilon: Any) -> Enclosure:
        """Rigorous ends of delta(epsilon), in ball arithmetic."""
        if self._plain is not None:
            return self._plain.enclose(epsilon)
        levels = epsilon_array(epsilon, np.zeros(()))
        return stacked(
            [self._enclose_at(float(level)) for level in np.ravel(levels)], levels.shape
        )

    def dp_enclose(self, epsilon: float) -> Enclosure:
        """Rigorous ends of the worse direction's delta; the other one is enclosed unless it is surely smaller."""
        from gaussveil.spectrum.subsampled.surely_below import surely_below

        ahead = self.enclose(epsilon)
        back = self.reversed()
        balls = None
        if back._by_contour and epsilon < back.largest_loss and ahead.lower > 0.0:
            balls = back._in_balls  # else that is quick
        if (
            back is self
            or epsilon == 0.0
            or (
                balls is not None
                and surely_below(back.steps, balls, epsilon, ahead.log_lower)
            )
        ):
            return ahead
        return ahead.larger(back.enclose(epsilon))

    def dp_delta_upper(self, epsilon: float) -> float:
        """At least the worse direction's delta."""
        return float(exp_up(self.log_dp_delta(epsilon)))

    @np.errstate(all="ignore")
    def _exceeds(self, goal: float, epsilon: float) -> bool:
        """Whether log delta may exceed a goal."""
        if self.chernoff(epsilon) <= goal:
            return False
        if self._by_contour:
            value, _, error = nodes_for(self._parts, epsilon, goal).log_delta(epsilon)
            if math.isfinite(error):
                return value + error > goal
        return float(self.log_delta(epsilon)) > goal

    def _evaluate(
        self, epsilon: float, nodes: AnyNodes | None = None, *, many: bool = False
    ) -> tuple[float, float, float, AnyNodes | None]:
        """log delta, its slope, its error bound, and the nodes it came from; those given serve if they are accurate."""
        if epsilon >= self.largest_loss:
            return -math.inf, 0.0, 0.0, nodes
        if not self._by_contour:
            return float(self.enclose(epsilon).log_upper), math.nan, 0.0, nodes
        with np.errstate(all="ignore"):
            if nodes is not None and accurate(
                *(answer := nodes.log_delta(epsilon)), epsilon
            ):
                return *answer, nodes
            if many and self._unsettled and (ends := self._ends.of_many(epsilon)):
                return float(ends.log_upper), math.nan, 0.0, None
            value, slope, error, nodes = self._ends.settled(epsilon)
        self._unsettled = not error < USEFUL_ERROR
        if error < USEFUL_ERROR:
            return value, slope, error, nodes
        ends = (many and self._ends.of_many(epsilon)) or self._ends.at(epsilon)
        upper = float(ends.log_upper)
        if upper < DEEPEST:
            upper = min(upper, self.chernoff(epsilon))  # windows tell none apart
        return upper, math.nan, 0.0, None

    @property
    def _side(self) -> Side:
        evaluate = partial(self._evaluate, many=True)
        sweep = partial(swept, evaluate, kept=self._kept)
        bound = partial(self.chernoff, level=NEGLIGIBLE - 2.0)
        return Side(evaluate, sweep, bound, self.largest_loss)

    def _enclose_at(self, epsilon: float, goal: float | None = None) -> Enclosure:
        """Rigorous ends; a log delta that is searched for says how deep they must look."""
        if epsilon >= self.largest_loss:
            return ZERO
        if self._single is not None:
            return enclose_single(self._single, epsilon)
        if self._closed is None:
            return self._ends.at(epsilon, goal)
        ends = self._closed.enclose(epsilon)
        if ends.log_upper < 0.0 or ends.log_lower > -math.inf:
            return ends
        return self._ends.at(epsilon, goal)

    @cached_property
    def _closed(self) -> Members | SingleBeside | None:
        """Of a single step beside laws, and of a record so far out of the noise that no grid holds it."""
        if self.laws:
            return SingleBeside.of(self._parts, self.laws)
        return draws_alone(self._parts, self._ends.beside)

    @cached_property
    def _ends(self) -> RigorousEnds:
        """What finds these: lines, bands and grids."""
        return RigorousEnds(self._parts, self._in_balls, lambda: self._grid)

    @property
    def _by_contour(self) -> bool:
        """Whether nothing simpler decides."""
        simpler = (self._plain, self._single, self._closed)
        return all(way is None for way in simpler)

    @cached_property
    def _plain(self) -> PrivacyLoss | None:
        """The Gaussian loss, if that is all; one that says nothing of nothing."""
        if self.steps or self.laws:
            return None
        if self.gaussian is not None:
            return self.gaussian
        return PrivacyLoss.from_terms([0.0], [1.0], [0.0])

    @cached_property
    def _in_balls(self) -> BallCompanions | None:
        """What stands beside the steps in ball arithmetic; None where its exact form is not known, or too long."""
        if any(law_of(law).uneven > MOST_IN_BALLS for law, _ in self.laws):
            return None
        if self.gaussian is None:
            pairs = None
        else:
            pairs = exact_terms(self.gaussian._sources)
        if pairs is None and self.gaussian is not None:
            return None
        with precision_lock(), ctx.workprec(BALL_BITS):
            laws: list[tuple[Any, int]] = [(law, count) for law, count in self.laws]
            in_balls = tuple((law.ball_law(), count) for law, count in laws)
            return BallCompanions(pairs, in_balls)

    @cached_property
    def _grid(self) -> PrivacyCurve:
        """A pessimistic composition, for the few places where no contour settles in doubles."""
        return last_grid(self.steps, self.gaussian, self.laws)

    @np.errstate(all="ignore")
    def _private_epsilon(self, delta: float) -> float:
        if self._plain is not None:
            return float(self._plain.epsilon(delta))
        if delta <= 0.0:
            return self.largest_loss
        if self._single is not None:
            return single_epsilon(self._single, log_down(delta))
        if variation(self.steps, self.gaussian, self.laws) <= delta:
            return 0.0
        if self._closed is not None:
            return self._closed.epsilon(delta, self.largest_loss)
        search = EpsilonSearch(
            self._parts,
            log_down(delta),
            self.largest_loss,
            self.chernoff,
            self._enclose_at,
        )
        return search.epsilon()
