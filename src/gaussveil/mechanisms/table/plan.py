"""What a request will cost and how far off its answers will be, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gaussveil import checks
from gaussveil.mechanisms.release_path import Plan, Promise
from gaussveil.mechanisms.table.answers import (
    Count,
    Histogram,
    Mean,
    Sum,
    TableAnswer,
    Variance,
)
from gaussveil.mechanisms.table.laws import Law, compared
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.mechanisms.table.nominal import nominal_deviations
from gaussveil.mechanisms.table.profile_noise import learnt, nominal_noise
from gaussveil.mechanisms.table.radii import doubted
from gaussveil.mechanisms.table.request import Request
from gaussveil.mechanisms.table.useful import usefulness
from gaussveil.mechanisms.usefulness import Useful
from gaussveil.statistics.keys import Listed

# units over the noise of a histogram that finds a bound hardly ever wrong
TRUSTED_NORM = 8
TRUSTED_RANGE = 12
HIDDEN = 2.0  # deviations of noise that may hide some of those that would be seen
TRUSTED = "norm of rough", "norm of smooth", "norm of rest"
MOST_SHOWN = 12  # answers in the text of a plan


@dataclass(frozen=True, kw_only=True, eq=False)
class TablePlan(Plan):
    """Everything about a request that does not depend on the data."""

    noise: TableNoise
    planned: Mapping[str, TableNoise]
    """The noise of every law that was asked for and can answer the request."""
    promise: Promise
    changed: Callable[[Request], TableNoise]
    """The noise that another request would get for the same promise: planned anew, its law chosen anew."""

    @property
    def law(self) -> str:
        """The law of the noise: "gaussian", or "laplace", which needs no delta."""
        return self.noise.law

    def laws(self) -> dict[str, Law]:
        """The law taken beside the other: error, cost alone, and of ten such releases in one account."""
        return compared(self.planned, self.law, nominal_deviations, self.promise)

    @property
    def request(self) -> Request:
        """What is asked."""
        return self.noise.request

    def __repr__(self) -> str:
        wide = ", ".join(
            f"{name} {sd:.3g}"
            for name, sd in list(self.deviations().items())[:MOST_SHOWN]
        )
        if Count in map(type, self.request.answers):
            counts = f" (counts: {self.request.counts})"
        else:
            counts = ""
        rows = self.request.in_rows and f"; {self.request.in_rows}"
        return f"TablePlan({self.released}{counts}{rows}; {self.law} noise, sd at 1000 units a group: {wide})"

    @property
    def doubts(self) -> list[str]:
        """What in the lists of keys looks mistyped, in sentences; what no row has is told by no release."""
        return [
            words
            for key in self.request.keys.values()
            if isinstance(key, Listed)
            for words in key.doubts
        ]

    def deviations(
        self, units: int = 1000, *, at_ends: bool = False
    ) -> dict[str, float]:
        """Standard deviation of every number, as if every group had this many units in the middle of their ranges.

        The noise of a count moves a mean the more, the farther it lies from the middle: most at the ends of its range.
        Bounds that the release will learn are those of a nominal table, whose values are of size 1: where yours are of
        another size, multiply by it (by its square for a variance).
        """
        many = checks.whole("units", units)
        return nominal_deviations(self.noise, many, 1.0 if at_ends else 0.0)

    @property
    def is_nominal(self) -> bool:
        """Whether some deviations rest on bounds of a nominal table, because the release will learn them."""
        return bool(self.request.learning) or any(
            learnt(one, self.request.layout) for one in self.request.profiles
        )

    @property
    def fewest_units(self) -> int:
        """From how many units on bounds that are learnt can be trusted; 0 where none are."""
        losses = self.noise.losses
        request = self.request
        fewest = [
            TRUSTED_RANGE * losses[f"range {column}"] ** -0.5
            for column in request.learnt_ranges
        ]
        for place in range(len(request.profiles)):
            noise = self.noise.profile(place).knowing(0.0)
            fewest += [
                TRUSTED_NORM * noise.far * noise.deviation(name)
                for name in noise.shares
                if name in TRUSTED
            ]
        return math.ceil(max(fewest, default=0.0))

    def unseen(self, units: int = 1000) -> int:
        """How many of so many units may lie far beyond all others, as marks for missing cells do, with nothing told.

        Neither a value nor its band knows of them where bounds are learnt: no noisy histogram shows so few. Where a
        range is stated it is 0.

        Args:
            units: how many there are in all.
        """
        many = checks.whole("units", units)
        found = [0.0]
        for place in range(len(self.request.profiles)):
            noise = self.noise.profile(place).knowing(many)
            found += [
                doubted(noise.deviation(name), noise.far)
                + HIDDEN * noise.deviation(name)
                for name in noise.shares
                if name in TRUSTED[1:]
            ]
        return min(math.ceil(max(found)), many)

    def useful(
        self,
        units: int | None = None,
        *,
        spread: float | None = None,
        called: str = "units",
    ) -> Useful:
        """Whether so many units can make the request useful, or from how many on; in words, from public numbers.

        `spread` is the difference between groups that is to be seen; by default a tenth of stated ranges. `called` is
        what the verdict calls the units: homes, patients.
        """

        def serves(request: Request) -> bool:
            other = replace(self, noise=self.changed(request))
            needed = other.useful(spread=spread).needed
            return needed is not None and units is not None and needed <= units

        return usefulness(
            self.request,
            self.deviations,
            units,
            spread,
            self.fewest_units or 0,
            serves,
            called,
        )

    def layouts(self) -> dict[str, str]:
        """How means and sums within balls are read, why, and how wide their noise would be, about, read otherwise."""
        request = self.request
        found = {}
        for place, answer in enumerate(request.profiles):
            alone = request.layout.moments == 1
            layout = request.layout
            other = replace(
                request, groups_per_unit=request.cells if alone else 1
            ).layout
            if alone:
                present = 1
            else:
                present = layout.moments
            ratio = nominal_noise(answer, other, present) / nominal_noise(
                answer, layout, present
            )
            if alone:
                otherwise = f"as one curve (groups_per_unit={request.cells})"
            else:
                otherwise = "group by group"
            ratio *= self._gaussian_over(place)  # curves are Gaussian
            words = f"; {otherwise} its noise would be about {ratio:.1f} times as wide"
            told = request.cells > 1 and "gaussian" in self.planned
            found[answer.name] = f"{layout}{words * told}"
        return found

    def _gaussian_over(self, place: int) -> float:
        """Gaussian noise of a mean or sum within balls, as curves have it, over the noise that it has."""
        taken = self.noise.profile(place)
        gaussian = self.planned.get("gaussian", self.noise).profile(place)
        return gaussian.deviation("smooth") / taken.deviation("smooth")

    @property
    def shares(self) -> dict[str, float]:
        """Which part of the squared mean shift each draw takes."""
        total = sum(self.noise.losses.values())
        return {name: loss / total for name, loss in self.noise.losses.items()}

    @property
    def costliest(self) -> tuple[str, float]:
        """The one change that would make the noise smallest, and by which factor, even where units are crowded."""
        return min(
            self.alternatives(crowded=True).items(),
            key=lambda one: one[1],
            default=("nothing", 1.0),
        )

    def alternatives(
        self, units: int = 1000, *, crowded: bool = False
    ) -> dict[str, float]:
        """What other bounds would make of the deviations, as a factor (geometric mean over the answers)."""
        told = self.alternatives_of_each(units, crowded=crowded)
        return {
            words: math.exp(float(np.mean(np.log([*factors.values()]))))
            for words, factors in told.items()
        }

    def alternatives_of_each(
        self, units: int = 1000, *, crowded: bool = False
    ) -> dict[str, dict[str, float]]:
        """What other bounds would make of the deviation of each number, as factors: every changed request is planned.

        In how many groups units really are nobody knows: fewer `groups_per_unit` leave the groups as they are where no
        unit is in more, and where all are in as many as they may be, with so much less of their units. The truth lies
        between both ends.

        Args:
            units: how many each group is taken to have, before any change.
            crowded: whether every unit is taken to be in as many groups as it may be.
        """
        now = self.deviations(units)
        factors: dict[str, dict[str, float]] = {}
        for words, other in changed_requests(self.request).items():
            left = units
            if crowded and other.touched < self.request.touched:
                left = max(1, units * other.touched // self.request.touched)
            then = nominal_deviations(self.changed(other), left)
            ratios = {
                name: sd / now[name]
                for name, sd in then.items()
                if now.get(name, 0) > 0
            }
            if ratios:
                factors[words] = ratios
        return factors


def changed_requests(request: Request) -> dict[str, Request]:
    """The request with one bound halved, or one answer less, each in words."""
    changed: dict[str, Request] = {}
    if request.rows > 1:
        half = request.rows // 2
        changed[f"rows_per_group={half}"] = replace(request, rows=half)
    if request.touched > 1:
        half = max(request.touched // 2, 1)
        changed[f"groups_per_unit={half}"] = replace(request, groups_per_unit=half)
    for answer in request.answers:
        narrow = _of_half_range(answer, request)
        if narrow is not None:
            words = f"{answer.name}: between={narrow.between}"
            changed[words] = _with_another(request, answer, narrow)
        if isinstance(answer, Histogram) and not answer.whole:
            whole = replace(answer, whole=True)
            words = f"{answer.name}: whole=True"
            changed[words] = _with_another(request, answer, whole)
        if len(request.answers) > 1:
            rest = tuple(other for other in request.answers if other != answer)
            changed[f"without {answer.name}"] = replace(request, answers=rest)
    return changed


def _with_another(
    request: Request, answer: TableAnswer, another: TableAnswer
) -> Request:
    """The request with one answer exchanged."""
    answers = [another if other == answer else other for other in request.answers]
    return replace(request, answers=tuple(answers))


def _of_half_range(
    answer: TableAnswer, request: Request
) -> Mean | Sum | Variance | None:
    """The answer with the lower half of its range; None where none was stated, or it will be learnt."""
    if not isinstance(answer, Mean | Sum | Variance) or answer in request.learning:
        return None
    if answer.between is None:
        return None
    low, high = answer.between
    return replace(answer, between=(low, low + (high - low) / 2))
