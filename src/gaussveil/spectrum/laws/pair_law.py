"""`Pair`: a mechanism of one's own, by the two laws of its answer on neighbouring data (derived: docs/math/profiles).

An answer that is drawn with probability p with the record and q without it has the loss log(p/q); where q is 0 it is
infinite. Densities and distributions of losses are brought to such probabilities by `laws.densities` and
`laws.loss_tables`, never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.checks import refuse
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.constants import MOST_ATOMS, ULP
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.laws.has_law import FiniteLosses, HasLaw
from gaussveil.spectrum.laws.loss_tables import Tables, is_table, tables_of
from gaussveil.spectrum.laws.tail_sums import TailSums
from gaussveil.spectrum.named_profile import store
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Floats

if TYPE_CHECKING:
    from flint import arb

    from gaussveil.spectrum.laws.ball_law import BallLaw

ADDS_UP = 1e-9  # to which probabilities must add up to 1; they are divided by their sum
Probabilities = tuple[float, ...]


@dataclass(frozen=True, init=False, repr=False)
class Pair(HasLaw):
    """Any mechanism, by the law of its answer with the record (`p`) and without it (`q`), for the worst neighbours.

    Arguments:
        p: probabilities of the answers with the record, a sequence or a mapping from answer to probability; or their
            density, a function of arrays or a distribution of `scipy.stats`; or a table of privacy losses, an object
            of dp_accounting (`PrivacyLossDistribution`, pessimistic), and no `q`.
        q: the same without the record.
        support: of densities, the interval in which answers are told apart; what lies outside is charged.
        breaks: of densities, places inside where they jump or have a kink; others are found, at some cost.
        error: of densities, the most probability that either may have outside of the support. What is found missing
            there is charged as an answer that reveals everything.
        other: probabilities of both laws in the other direction, where they are not the same exchanged.

    Probabilities are divided by their sum, which must be 1 to a billionth.

    Raises:
        ParameterError: probabilities are negative or do not add up, or p and q are not of one kind.
        ShapeError: there are not as many in both.

    >>> import gaussveil
    >>> answer = gaussveil.Pair({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75})
    >>> round(gaussveil.Accountant().add(answer, 2).epsilon(0.01), 4)
    2.1793
    """

    name: ClassVar[str] = "pair"
    _least: ClassVar[Pair | None] = None  # of densities: their cells, which tell less
    _lacks: ClassVar[float] = 0.0
    relative_error: ClassVar[float] = 0.0  # values are upper ends
    p: Probabilities
    q: Probabilities
    other: tuple[Probabilities, ...]

    def __init__(
        self,
        p: Any,
        q: Any = None,
        other: Sequence[Sequence[float]] = (),
        *,
        support: tuple[float, float] | None = None,
        breaks: Sequence[float] = (),
        error: float = 1e-9,
    ) -> None:
        lower_pair = None
        if q is None and not is_table(p):
            refuse("q", "given, unless p is a table of privacy losses", q)
        if q is None:
            tables = tables_of(p)
        elif _has_density(p) and _has_density(q):
            from gaussveil.spectrum.laws.densities import of_densities

            raised, merged, lacks = of_densities(p, q, support, breaks, error)
            tables = Tables(*raised)
            lower_pair = Pair(*merged)
            store(lower_pair, "_lacks", lacks)
        else:
            tables = Tables(*_listed(p, q), tuple(map(tuple, other)))
        store(self, "p", _checked("p", tables.p))
        store(self, "q", _checked("q", tables.q))
        store(
            self, "other", tuple(_checked("other", column) for column in tables.other)
        )
        if len(self.p) != len(self.q) or len(self.other) not in (0, 2):
            raise ShapeError(
                f"'p' and 'q' must have one probability for each answer. Got {len(self.p)} and {len(self.q)}."
            )
        if lower_pair is not None:
            store(self, "_least", lower_pair)

    @classmethod
    def of_losses(cls, losses: Sequence[float], probabilities: Sequence[float]) -> Pair:
        """The pair whose privacy losses have these probabilities with the record; a loss may be infinite.

        Arguments:
            losses: log(p/q) of each answer.
            probabilities: p of each answer.

        Without the record they have q = p e^-loss; what these lack to 1 goes to an answer that the record excludes.

        Returns:
            The pair as a table of answers.

        Raises:
            ParameterError: probabilities are negative, do not add up to 1, or leave no room for those without the
                record.
            ShapeError: losses or probabilities are no list.
        """
        values, masses = _listed(list(losses), list(probabilities))
        under_x = np.array(_checked("probabilities", masses))
        with np.errstate(over="ignore"):
            under_y = under_x * np.exp(-np.array(values, dtype=np.float64))
        total = float(np.sum(under_y))
        if not total <= 1.0 + ADDS_UP:
            raise ParameterError(
                f"probabilities times e^-loss must add up to at most 1, as those without the record. Got {total!r}."
            )
        under_y /= max(total, 1.0)
        rest = max(1.0 - float(np.sum(under_y)), 0.0)
        return cls([*under_x.tolist(), 0.0], [*under_y.tolist(), rest])

    # --- the curve

    def _brief(self) -> dict[str, str]:
        return {"answers": str(len(self.p))}

    @property
    def parameters(self) -> dict[str, Any]:
        """Both laws, and those of the other direction where they are not the same exchanged."""
        return {"p": self.p, "q": self.q, "other": self.other}

    def reversed(self) -> Pair:
        """X and Y exchanged; itself where that changes nothing."""
        if not self.other and sorted(zip(self.p, self.q)) == sorted(
            zip(self.q, self.p)
        ):
            return self
        if self.other:
            exchanged = Pair(self.other[0], self.other[1], (self.p, self.q))
        else:
            exchanged = Pair(self.q, self.p)
        if self._least is not None:
            store(exchanged, "_least", self._least.reversed())
        store(exchanged, "_lacks", self._lacks)
        return exchanged

    def fainter(self) -> PrivacyCurve:
        """Of densities their cells, whose probabilities are right but for what `rounded_by` says."""
        return self._least or self

    @property
    def rounded_by(self) -> float:
        """Total variation by which the cells of a density may be away from their probabilities."""
        return self._lacks

    @property
    def proven(self) -> bool:
        """Whether probabilities were given: those of densities are found by quadrature."""
        return self._least is None and self._lacks == 0.0

    def factors(self) -> Factors | None:
        """Itself, unless it has too many answers."""
        if len(self.p) <= MOST_ATOMS:
            return super().factors()
        return None

    @property
    def finite(self) -> HasLaw:
        """The answers that are possible without the record."""
        if self.infinity == self.reversed().infinity == 0.0:
            return self
        return FiniteLosses(self)

    @property
    def infinity(self) -> float:
        """The probability of answers that are impossible without the record."""
        return self._sums.infinity

    @property
    def largest_loss(self) -> float:
        """The largest finite one, rounded up."""
        largest = float(self._sums.losses[-1]) if self._sums.losses.size else 0.0
        return max(largest, 0.0) + 8.0 * ULP * (1.0 + abs(largest))

    @cached_property
    def _sums(self) -> TailSums:
        return TailSums.of(np.array(self.p), np.array(self.q))

    def _divergence(self, epsilon: Floats) -> Any:
        return self._sums.delta(epsilon)

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta; of densities they are not proven: quadrature found their probabilities.

        Args:
            epsilon: privacy level.
        """
        ends = super().enclose(epsilon)
        if self.proven:
            return ends
        return Enclosure.of(ends.lower, ends.upper, proven=False)

    def _in_balls(self, epsilon: arb) -> arb:
        from flint import arb

        under_x, under_y, infinity = self._in_ball_columns()
        grown = epsilon.exp()
        delta = infinity
        for mass_x, mass_y in zip(under_x, under_y):
            part = mass_x - grown * mass_y
            if part > 0:
                delta += part
            elif not part < 0:
                delta += part.union(arb(0))
        return delta

    def ball_law(self) -> BallLaw:
        """Every answer that is possible both ways."""
        from gaussveil.spectrum.laws.ball_law import law

        under_x, under_y, infinity = self._in_ball_columns()
        losses = [(mass_x / mass_y).log() for mass_x, mass_y in zip(under_x, under_y)]
        return law(losses, under_x, (), infinity)

    def _in_ball_columns(self) -> tuple[list[arb], list[arb], arb]:
        """Probabilities under X and under Y of the answers possible both ways, and of those impossible under Y."""
        from flint import arb

        whole = [sum(map(arb, column), arb(0)) for column in (self.p, self.q)]
        both = [
            (mass_x, mass_y)
            for mass_x, mass_y in zip(self.p, self.q)
            if mass_x and mass_y
        ]
        infinite = [
            mass_x for mass_x, mass_y in zip(self.p, self.q) if mass_x and not mass_y
        ]
        return (
            [arb(mass_x) / whole[0] for mass_x, _ in both],
            [arb(mass_y) / whole[1] for _, mass_y in both],
            sum(map(arb, infinite), arb(0)) / whole[0],
        )


def _has_density(law: Any) -> bool:
    return callable(law) or hasattr(law, "pdf")


def _listed(p: Any, q: Any) -> tuple[Any, Any]:
    """Two sequences in the same order; of mappings, over the answers that either knows."""
    if isinstance(p, Mapping) != isinstance(q, Mapping):
        raise ParameterError(
            "'p' and 'q' must be two sequences, two mappings or two densities. Got one of each."
        )
    if not isinstance(p, Mapping):
        return p, q
    answers = list(dict.fromkeys([*p, *q]))
    return [p.get(answer, 0.0) for answer in answers], [
        q.get(answer, 0.0) for answer in answers
    ]


def _checked(name: str, values: Any) -> Probabilities:
    array = float_array(name, values)
    require_finite(name, array)
    if array.ndim != 1 or not array.size:
        raise ShapeError(
            f"'{name}' must be a list of probabilities. Got shape {array.shape}."
        )
    if array.min() < 0.0 or not abs(math.fsum(array) - 1.0) <= ADDS_UP:
        raise ParameterError(
            f"'{name}' must be probabilities, with sum 1. Got a sum of {array.sum()!r}, a least of {array.min()!r}."
        )
    return tuple(array.tolist())
