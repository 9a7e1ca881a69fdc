"""White-box audit: the exact delta of every neighbour, both ways, against a claimed (epsilon, delta).

NDIS section 7 audits one pair by an upper estimate; an auditor who accuses needs a lower end (docs/corrections N7).
Here every neighbour is evaluated by the exact spectrum, the worst ones again in ball arithmetic, and only a rigorous
lower end above the claim refutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gaussveil import checks
from gaussveil.accounting import PrivateDiagnostics
from gaussveil.audit.binomial import Claim
from gaussveil.audit.neighbours import (
    GaussianMap,
    GivenLosses,
    LeaveOneOutMap,
    NeighbourLosses,
    Neighbours,
    map_losses,
)
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum import Enclosure, PrivacyLoss
from gaussveil.spectrum.enclosures.enclosure import enclose_at, host
from gaussveil.spectrum.verified import dp_delta_upper
from gaussveil.typing import Floats

Verdict: TypeAlias = Literal["holds-on-these-neighbours", "refuted", "undecided"]

MOST_ENCLOSURES = 64
CURVE_POINTS = 201


@dataclass(frozen=True)
class Finding:
    """One neighbour looked at closely: exact deltas both ways and a rigorous interval around the larger one."""

    neighbour: int
    delta_x_y: float
    delta_y_x: float
    lower: float
    upper: float
    log_lower: float
    log_upper: float


class Audit(PrivateDiagnostics):
    """Outcome of a white-box audit: private, since it tells which records stand out.

    `verdict`, `findings` (the worst neighbours, worst first), `log_delta` (one row per neighbour: X||Y and Y||X) and,
    for `write(path)`, the same without the long arrays.
    """

    __slots__ = ("claim", "findings", "log_delta", "verdict")

    def __init__(
        self,
        claim: Claim,
        verdict: Verdict,
        findings: tuple[Finding, ...],
        log_delta: Floats,
    ) -> None:
        self.claim = claim
        self.verdict = verdict
        self.findings = findings
        self.log_delta = log_delta
        share, curve = self.curve()
        super().__init__(
            claim={"epsilon": claim.epsilon, "delta": claim.delta},
            verdict=verdict,
            neighbours=len(log_delta),
            above_the_claim=int(np.sum(self.delta > claim.delta)),
            worst=[vars(finding) for finding in findings],
            distribution={"share_of_neighbours": share, "delta": curve},
        )

    @property
    def refuted(self) -> bool:
        """Whether some neighbour contradicts the claim for certain."""
        return self.verdict == "refuted"

    @property
    def delta(self) -> Floats:
        """Exact delta of each neighbour, the worse direction."""
        result: Floats = np.exp(np.max(self.log_delta, axis=1))
        return result

    def curve(self) -> tuple[Floats, Floats]:
        """What to draw: delta of the neighbours sorted from worst to best, against the share of neighbours."""
        share = np.linspace(0.0, 1.0, min(CURVE_POINTS, len(self.log_delta)))
        return share, np.quantile(self.delta, 1.0 - share)


def audit(
    map_or_pairs: GaussianMap | LeaveOneOutMap | PrivacyLoss | Sequence[PrivacyLoss],
    data: Any = None,
    *,
    claim: tuple[float, float],
    neighbours: Neighbours = "leave-one-out",
    worst: int = 5,
    rounding: float = 1e-9,
) -> Audit:
    """Audit a Gaussian-output mechanism on actual data, or pairs of Gaussians, against a claimed (epsilon, delta).

    `map_or_pairs` maps data to (mean, covariance) of the output, or is a `PrivacyLoss` (a batch of pairs) or several.
    `neighbours`: "leave-one-out" (every row), pairs of data sets, or a callable that gives the neighbours of the data.
    `worst` neighbours are enclosed and listed. `rounding` is the relative error granted to the map's own arithmetic:
    a claim overstepped by less stays undecided.

    >>> from gaussveil import GaussianPair
    >>> audit(GaussianPair.mean_shift([0.5, 1.0]), claim=(1.0, 0.1)).verdict
    'refuted'
    """
    claimed = Claim.of(claim)
    checks.whole("worst", worst)
    losses = _losses(map_or_pairs, data, neighbours)
    if losses.count < 1:
        raise ParameterError("an audit needs at least one neighbour. Got none.")
    log_delta = _evaluate(losses, claimed.epsilon)
    severity = np.max(log_delta, axis=1)
    findings: dict[int, Finding] = {}

    def refuted_by(numbers: Sequence[int]) -> bool:
        refuted = False
        for number in numbers:
            if refuted and len(findings) >= worst:
                break
            if number not in findings:
                findings[number] = _look_closely(
                    losses, number, log_delta[number], claimed.epsilon
                )
            refuted |= claimed.is_exceeded(
                findings[number].lower, findings[number].log_lower, rounding
            )
        return refuted

    def is_covered(number: int) -> bool:
        return claimed.covers(findings[number].upper)

    verdict: Verdict = "undecided"
    if refuted_by(_largest(severity, max(worst, 1))):
        verdict = (
            "refuted"  # one neighbour is enough: nothing has to be proven of the others
        )
    else:
        upper = _proven(losses, claimed.epsilon)
        close = (upper >= claimed.delta) & (upper > 0)
        near = int(np.sum(close))
        # First what is not proven to lie below the claim, and of that the worst.
        order = np.lexsort((-severity, ~close))[
            : max(worst, min(near, MOST_ENCLOSURES))
        ].tolist()
        if refuted_by(order):
            verdict = "refuted"
        elif near <= len(order) and all(map(is_covered, order)):
            verdict = "holds-on-these-neighbours"
    listed = sorted(findings.values(), key=lambda found: -found.log_upper)
    return Audit(claimed, verdict, tuple(listed[:worst]), log_delta)


def _largest(values: Floats, count: int) -> list[int]:
    """Where the largest values stand, the very largest first."""
    if count < len(values):
        places = np.argpartition(-values, count)[:count]
    else:
        places = np.arange(len(values))
    ordered: list[int] = places[np.lexsort((places, -values[places]))].tolist()
    return ordered


def _losses(
    map_or_pairs: GaussianMap | LeaveOneOutMap | PrivacyLoss | Sequence[PrivacyLoss],
    data: Any,
    neighbours: Neighbours,
) -> NeighbourLosses:
    if isinstance(map_or_pairs, PrivacyLoss):
        return GivenLosses(map_or_pairs)
    if isinstance(map_or_pairs, Sequence):
        if not all(isinstance(loss, PrivacyLoss) for loss in map_or_pairs):
            raise ParameterError(
                "a sequence of pairs must hold GaussianPair or PrivacyLoss objects only"
            )
        return GivenLosses(map_or_pairs)
    if data is None and (isinstance(neighbours, str) or callable(neighbours)):
        raise ParameterError(
            "'data' is needed to audit a map on the neighbours of the data"
        )
    return map_losses(map_or_pairs, data, neighbours)


def _evaluate(losses: NeighbourLosses, epsilon: float) -> Floats:
    """log delta of every neighbour, columns X||Y and Y||X."""
    result = np.full((losses.count, 2), np.nan)
    for start, loss in losses.batches():
        for column, direction in enumerate((loss, loss.reversed())):
            values = host(direction.log_delta(epsilon)).reshape(-1)
            result[start : start + values.size, column] = values
    if np.any(np.isnan(result)):
        raise NumericalError(
            "the delta of a neighbour could not be computed; check that the map's output is sensible"
        )
    return result


def _proven(losses: NeighbourLosses, epsilon: float) -> Floats:
    """A proven upper end of every neighbour's delta, the worse direction."""
    upper = np.ones(losses.count)
    for start, loss in losses.batches():
        deltas = dp_delta_upper(loss, epsilon).reshape(-1)
        upper[start : start + deltas.size] = deltas
    return upper


def _look_closely(
    losses: NeighbourLosses, number: int, log_delta: Floats, epsilon: float
) -> Finding:
    loss, place = losses.one(number)
    both: list[Enclosure] = [
        enclose_at(
            direction.sources, loss.batch_shape, place, loss.batch_shape, epsilon
        )
        for direction in (loss, loss.reversed())
    ]
    forward, backward = np.exp(log_delta)
    ends = {
        name: max(float(getattr(enclosure, name)) for enclosure in both)
        for name in ("lower", "upper", "log_lower", "log_upper")
    }
    return Finding(number, float(forward), float(backward), **ends)
