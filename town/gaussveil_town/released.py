"""What may leave the town: released values, certificates and what they cost. Nothing private is in it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from gaussveil.accounting import Certificate, Verification
from gaussveil.mechanisms import PrivateForecast, Sketch, SyntheticModel
from gaussveil.typing import Floats, Times
from gaussveil_town.feeder import FeederTotal


@dataclass(frozen=True)
class Spending:
    """What one account spent: its releases composed exactly, beside the sum of their promises, at the same delta."""

    account: str
    protects: str
    releases: int
    budget: tuple[float, float]
    delta: float
    summed_epsilon: float
    exact_epsilon: float

    @property
    def saved(self) -> float:
        """Share of the summed epsilon that exact composition does not charge."""
        return 1.0 - self.exact_epsilon / self.summed_epsilon


@dataclass(frozen=True)
class Checked:
    """A release by name, with its certificate and what recomputing the certificate found."""

    name: str
    certificate: Certificate
    verification: Verification


@dataclass(frozen=True, eq=False)
class TownReleases:
    """Everything that may leave the town: released values, certificates, what was spent. Nothing private is in it."""

    source: str
    repeatable: bool
    homes: int
    profile: pa.Table
    total: FeederTotal
    by_zone: str
    """What a plan says of an average day by zone, which was not asked for."""
    model: SyntheticModel
    synthetic: pa.Table
    stream_times: Times
    stream_kw: Floats
    day_kwh: Floats
    forecast: PrivateForecast
    sketch: Sketch
    checked: tuple[Checked, ...]
    spending: tuple[Spending, ...]
