"""The noise of units' curves: how what a profile may lose is divided among its draws, and how wide each becomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from gaussveil.calibration.boxes import box_noise
from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design, shared_design
from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.postprocessing.intervals import Variances, Z
from gaussveil.statistics import ExactSum
from gaussveil.typing import Floats

# Of the squared loss: where groups stand for themselves, and of curves over moments.
ALONE = {
    "units": 0.07,
    "rough": 0.05,
    "smooth": 0.76,
    "norm of rough": 0.05,
    "norm of smooth": 0.07,
}
CURVES = {
    "units": 0.045,
    "presence": 0.02,
    "rough": 0.065,
    "smooth": 0.37,
    "rest": 0.32,
}
CURVES |= {
    "norm of presence": 0.01,
    "norm of rough": 0.04,
    "norm of smooth": 0.08,
    "norm of rest": 0.05,
}
SUMMED = {
    "units": 3.0,
    "presence": 2.0,
}  # times as much where counts are multiplied by the centre
PLACED = {
    "units": 4.0
}  # where a unit's curve is at one of several places, whose counts are smaller


def learnt(answer: Mean | Sum, layout: Layout) -> list[str]:
    """Which radii of values must be learnt; where groups stand for themselves there is no rest."""
    if answer.unit_norm is None:
        given = 0
    else:
        given = np.size(answer.unit_norm)
    return list(_parts(layout)[given:])


def nominal_noise(answer: Mean | Sum, layout: Layout, present: int) -> float:
    """Deviation of the noise of a group, for units in `present` groups, at a distance of 1 with a quarter as rest.

    Only for comparing layouts; a unit at fewer groups than its place has moments leaves most to the rest.
    """
    shares = ProfileNoise(answer, layout, 1, 1.0).shares
    inside = float(layout.inside.mean())
    smooth = float(present)
    rest = present / 16
    if layout.moments == layout.functions:
        return math.sqrt((smooth + rest) / shares["smooth"])
    if present < layout.moments:
        smooth = inside * present
        rest = (1 - inside) * present + rest
    return math.sqrt(
        inside * smooth / shares["smooth"] + (1 - inside) * rest / shares["rest"]
    )


def _parts(layout: Layout) -> tuple[str, ...]:
    return ("rough", "smooth", "rest")[: 3 if layout.moments > layout.functions else 2]


@dataclass(frozen=True)
class ProfileNoise:
    """Gaussian noise of all draws of one profile, for a squared loss."""

    answer: Mean | Sum
    layout: Layout
    rows: int
    loss: float
    far: ClassVar[float] = 1.0
    """How many times as many deviations noise strays as a Gaussian does, where that is hardly ever."""

    @property
    def z(self) -> float:
        """Within how many deviations 95 % of the noise lie."""
        return Z

    @cached_property
    def shares(self) -> dict[str, float]:
        """How the loss is divided among the draws."""
        layout = self.layout
        whole: Mapping[str, float] = ALONE
        if layout.moments > 1:
            whole = CURVES
        factors: dict[str, float] = {}
        if layout.places > 1 and layout.moments > 1:
            factors |= PLACED
        if isinstance(self.answer, Sum):
            factors |= SUMMED
        shares = {
            name: share * factors.get(name, 1.0)
            for name, share in whole.items()
            if "rest" not in name or "rest" in _parts(layout)
        }
        return {name: share / sum(shares.values()) for name, share in shares.items()}

    @cached_property
    def losses(self) -> dict[str, float]:
        """What each draw may lose."""
        return {name: share * self.loss for name, share in self.shares.items()}

    def deviation(self, name: str) -> float:
        """Of a count in a histogram of norms, or over the radius of a number in a part."""
        return float(self.losses[name] ** -0.5)

    @property
    def places(self) -> Variances:
        """Noise of the rows per moment at a place, of which a unit has at most `rows` at each that it touches."""
        box = box_noise(self.layout.places, self.layout.places_touched)
        scale = self.rows**2 / self.losses["units"]
        return Variances(box.own * scale, box.shared * scale)

    def ball(self, name: str, radius: float) -> float:
        """The length that a part of this radius is scaled to before it is summed."""
        return radius

    def described(self) -> dict[str, object]:
        """How the loss is divided, for the certificate."""
        return {"shares": self.shares}

    def knowing(self, units: float) -> Self:
        """The noise of what is drawn once it is known how many units there are."""
        return self

    def drawn_places(self, draws: NoisySums, sums: ExactSum) -> Floats:
        """Rows per moment at each place, from those of all moments."""
        noise = self.places
        whole = self.layout.moments**2
        touched = self.layout.places_touched
        draws.spend(self.losses["units"])
        if noise.shared <= 2.0**-40 * noise.own:
            design = noise_design(math.sqrt(noise.one * whole), sums.shape, touched)
        else:
            design = shared_design(
                noise.own * whole, noise.shared * whole, sums.shape, touched
            )
        return draws.noisy(design, sums) / self.layout.moments

    def refined(
        self, draws: NoisySums, places: Floats, sums: ExactSum
    ) -> tuple[Floats, Variances]:
        """Rows at each place and their noise once all is drawn that tells of them."""
        return places, self.counted

    @property
    def counted(self) -> Variances:
        """Noise of the rows per moment at a place, once all is drawn that tells of them."""
        return self.places

    def drawn_counts(
        self, draws: NoisySums, name: str, sums: ExactSum, differing: int
    ) -> Floats:
        """A histogram of norms, in which two neighbours differ in so many numbers."""
        draws.spend(self.losses[name])
        design = noise_design(self.deviation(name), sums.shape, differing)
        return draws.noisy(design, sums)

    def drawn_sums(
        self, draws: NoisySums, name: str, sums: ExactSum, radius: float
    ) -> Floats:
        """Sums of a part that was scaled into a ball."""
        draws.spend(self.losses[name])
        scale = radius / math.sqrt(self.losses[name])
        return draws.noisy(noise_design(scale, sums.shape, sums.shape[0]), sums)
