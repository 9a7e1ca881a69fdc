"""Discrete Laplace noise for counts, sums, means, variances, shares and histograms: pure epsilon, delta 0.

Theorem (derived: docs/math/tables.md, "Laplace"). A unit moves all numbers of one draw by at most D in l1 norm, rows of
at most `rows_per_group` in each of at most `groups_per_unit` groups. Integer noise of law exp(-|i|/b) in every number
is then dominated by the pair of one number that moves by D: the trade-off curves of shifts form a group at integers,
so a chain of shifts that add up to D is never easier to tell than D at once. It is D/b-private with delta 0.

A sum that is divided by a count is drawn with it as two halves of the rows, (rows + sum) / 2 and (rows - sum) / 2:
both grow by no more than the rows together, so the pair costs what the count alone does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gaussveil.accounting import Charge
from gaussveil.errors import NumericalError
from gaussveil.mechanisms.table.answers import CDF, Quantile
from gaussveil.mechanisms.table.draws import Drawn, TableDraws, bins_of
from gaussveil.mechanisms.table.laplace_designs import Design, noisy
from gaussveil.mechanisms.table.laplace_profile import LaplaceProfileNoise
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.mechanisms.table.request import Request
from gaussveil.noise.laplace import LARGEST_SCALE
from gaussveil.postprocessing.intervals import Variances
from gaussveil.spectrum.profiles import DiscreteLaplace
from gaussveil.statistics import ExactSum
from gaussveil.statistics.fixed_point import Limbs, carry
from gaussveil.statistics.unit_cells import BIN_BITS, ROW_BITS
from gaussveil.typing import Floats

RESERVE = 1 - 2.0**-40  # of epsilon, for the roundings of the parts that add up to it


def unfit(request: Request) -> str | None:
    """What in a request this law cannot answer, if anything."""
    if request.discovered:
        return f"the key {next(iter(request.discovered))!r}, which is to be discovered"
    for one in request.answers:
        if (
            isinstance(one, CDF | Quantile)
            or (one in request.profiles and request.layout.moments > 1)
            or one in request.learning
        ):
            return f"{one!r}"
    return None


@dataclass(frozen=True)
class LaplaceNoise(TableNoise):
    """Every draw of a request, for an epsilon (which stands in `mean_shift`)."""

    law: ClassVar[str] = "laplace"

    @cached_property
    def losses(self) -> dict[str, float]:
        """Epsilon of each draw: shares as the cube roots of their costs, which minimises the sum of variances."""
        roots = {name: cost ** (1 / 3) for name, cost in self._costs.items()}
        total = self.mean_shift * RESERVE / sum(roots.values())
        return {name: total * root for name, root in roots.items()}

    @cached_property
    def _costs(self) -> dict[str, float]:
        request, (count, features) = self.request, self._weights
        pairs = len(features)
        if pairs:
            rows = 4 * pairs * count + 4 * pairs**2 * sum(features)
        else:
            rows = 2 * count
        if request.counted:
            costs = {"rows": rows}
        else:
            costs = {}
        costs |= {f"sum {k}": 2.0 for k in range(len(request.lone_sums))}
        costs |= {f"profile {k}": 2.0 for k in range(len(request.profiles))}
        return costs | {f"histogram {k}": 2.0 for k in range(len(request.histograms))}

    @cached_property
    def designs(self) -> dict[str, Design]:
        """Every draw by name; halves of the rows by the feature's place."""
        request = self.request
        found: dict[str, Design] = {}
        moved = request.rows * request.touched
        touched = request.touched
        for name, epsilon in self.losses.items():
            pairs = len(request.features)
            if name == "rows" and pairs:
                half = Design.of(
                    moved, 2 * touched, epsilon / pairs, 2.0 ** -(ROW_BITS + 1)
                )
                found |= {f"rows {k}": half for k in range(pairs)}
            elif name.startswith("profile"):
                found[name] = self.profile(int(name.split()[1])).design
            elif name.startswith("histogram"):
                histogram = request.histograms[int(name.split()[1])]
                bins = histogram.bins.size + 1
                unit = 1.0 if histogram.whole else 2.0**-BIN_BITS
                found[name] = Design.of(moved, touched * bins, epsilon, unit)
            else:
                found[name] = Design.of(
                    moved, touched, epsilon, 1.0 if name == "rows" else 2.0**-ROW_BITS
                )
        return found

    @property
    def drawable(self) -> bool:
        """Whether the sampler reaches these scales."""
        return (
            self.mean_shift > 0
            and all(one.scale < LARGEST_SCALE / 2 for one in self.designs.values())
            and all(
                self.profile(place).drawable
                for place in range(len(self.request.profiles))
            )
        )

    @property
    def charge(self) -> Charge:
        """What one unit can lose: draws side by side."""
        parts = [
            Charge(DiscreteLaplace(one.shift, one.scale))
            for one in self.designs.values()
        ]
        return sum(parts[1:], start=parts[0])

    @property
    def z(self) -> float:
        """Half a 95 % interval over the deviation, of the draw that needs most."""
        return max(one.reach for one in self.designs.values())

    def profile(self, place: int) -> LaplaceProfileNoise:
        """The noise of the draws of a mean or sum within balls."""
        request = self.request
        epsilon = self.losses[f"profile {place}"]
        return LaplaceProfileNoise(
            request.profiles[place], request.layout, request.rows, epsilon
        )

    # In rows^2, of the numbers as they are drawn; of halves of the rows their sum and difference.

    @cached_property
    def count(self) -> Variances:
        """Variance of a count."""
        if not self.request.features:
            return Variances(self.designs["rows"].variance)
        return Variances(
            2 * self.designs["rows 0"].variance / len(self.request.features)
        )

    @cached_property
    def features(self) -> tuple[float, ...]:
        """Variance of the sum of each feature."""
        return tuple(
            2 * self.designs[f"rows {k}"].variance
            for k in range(len(self.request.features))
        )

    @cached_property
    def lone_sums(self) -> tuple[Variances, ...]:
        """Variance of each lone sum, in units of its largest value."""
        return tuple(
            Variances(self.designs[f"sum {k}"].variance)
            for k in range(len(self.request.lone_sums))
        )

    @cached_property
    def histograms(self) -> tuple[float, ...]:
        """Variance of a bin of each histogram."""
        return tuple(
            self.designs[f"histogram {k}"].variance
            for k in range(len(self.request.histograms))
        )

    @property
    def sampler_error(self) -> float:
        """None: the sampler is exact."""
        return 0.0

    def spent(self) -> dict[str, object]:
        """What is spent on each draw, for the certificate."""
        return {"epsilons": self.losses}

    def variances(self) -> dict[str, object]:
        """What is drawn, for the certificate; of a profile as one number that a unit moves by 1."""
        found: dict[str, object] = {
            name: one.variance for name, one in self.designs.items()
        }
        for place in range(len(self.request.profiles)):
            found[f"profile {place}"] = self.profile(place).variance
        return found


@dataclass(repr=False)  # holds exact sums
class LaplaceDraws(TableDraws):
    """One release's access to a table: every draw spends a part of epsilon."""

    @property
    def _designs(self) -> dict[str, Design]:
        assert isinstance(self.noise, LaplaceNoise)
        return self.noise.designs

    def spend(self, loss: float) -> None:
        """Add what one unit can lose next; nothing is drawn beyond what the release was charged for."""
        self.spent += loss
        if self.spent > self.mean_shift:
            raise NumericalError(
                "the draws would spend more than was charged for them; report this as a defect."
            )

    def rows(self) -> Drawn:
        """Counts, sums and histograms of all groups: one pass, one draw of each kind."""
        request = self.noise.request
        noise = self.noise
        drawn = Drawn()
        state = self._totals()
        for name, loss in noise.losses.items():
            if not name.startswith("profile"):
                self.spend(loss)
        limbs = np.moveaxis(state["features"], 1, 0)
        if request.counted and not request.features:
            drawn.rows = self._drawn("rows", ExactSum(state["rows"], 1.0))
        elif request.counted:
            counts = []
            for place in range(len(request.features)):
                one, other = self._halves(f"rows {place}", state["rows"], limbs[place])
                counts.append(one + other)
                drawn.features.append(one - other)
            drawn.rows = np.mean(counts, axis=0)
        for place, sums in enumerate(limbs[len(request.features) :]):
            drawn.lone_sums.append(
                self._drawn(f"sum {place}", ExactSum(sums, 2.0**-ROW_BITS))
            )
        for place, bins in enumerate(bins_of(state)[: len(request.histograms)]):
            drawn.histograms.append(self._drawn(f"histogram {place}", bins))
        return drawn

    def _halves(self, name: str, rows: Limbs, feature: Limbs) -> tuple[Floats, Floats]:
        """Noisy (rows + feature) / 2 and (rows - feature) / 2."""
        whole = _times(rows, ROW_BITS)
        unit = 2.0 ** -(ROW_BITS + 1)
        return (
            self._drawn(name, ExactSum(carry(whole + feature), unit)),
            self._drawn(name, ExactSum(carry(whole - feature), unit)),
        )

    def _drawn(self, name: str, sums: ExactSum) -> Floats:
        """The sums rounded exactly to the draw's grid, plus its noise."""
        return noisy(self._designs[name], sums, self.generator)


def _times(limbs: Limbs, bits: int) -> Limbs:
    """128-bit integers times a power of two."""
    moved = np.zeros_like(limbs)
    places, rest = divmod(bits, 32)
    moved[places:] = carry(limbs.copy())[: len(limbs) - places] << rest
    return carry(moved)
