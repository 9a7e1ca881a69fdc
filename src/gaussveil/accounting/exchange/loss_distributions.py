"""Privacy loss distributions out: what an account has spent as a pessimistic dp_accounting distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.directed import Directed
from gaussveil.accounting.exchange.peer_library import event_library
from gaussveil.accounting.ledger.ledger import Ledger
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.typing import Floats

MOST_NODES = 4000


def loss_distribution(ledger: Ledger, account: str, *, interval: float = 1e-3) -> Any:
    """Give everything an account has spent as a pessimistic dp_accounting PrivacyLossDistribution."""
    statement = ledger.statement(account)
    return distribution_of(
        statement.composition, statement.terms.adjacency, interval=interval
    )


def distribution_of(
    composition: Composition, adjacency: Adjacency | None, *, interval: float = 1e-3
) -> Any:
    """Give a composition as a pessimistic PrivacyLossDistribution: upper ends of delta joined by chords.

    Sampler errors raise the curve by (1 + e^epsilon) eta, so it stops falling where they take over; what is left there
    counts as infinite loss. Under a symmetric adjacency the worst orientation at each epsilon serves both directions.
    """
    event_library()
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    checks.real("interval", interval, "(0, 1]")
    if not composition.parts:
        return privacy_loss_distribution.identity(interval)
    directions = composition.directions()
    reach = max(_reach(directed) for pair in directions for directed in pair)
    # A coarser grid keeps the size bounded and stays pessimistic.
    step = max(interval, reach / MOST_NODES)
    nodes = np.arange(math.ceil(reach / step) + 1)
    epsilon = np.asarray(nodes * step, dtype=np.float64)
    ahead, back = _upper_ends(composition, directions, epsilon)
    ahead[0] = back[0] = max(ahead[0], back[0])
    sides = []
    for up, down in ((ahead, back), (back, ahead)):
        grid, heights = _real_line(nodes, step, up, down)
        sides.append(pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, heights))
    if adjacency is not None and adjacency.symmetric:
        return privacy_loss_distribution.PrivacyLossDistribution(sides[0])
    return privacy_loss_distribution.PrivacyLossDistribution(sides[0], sides[1])


def _upper_ends(
    composition: Composition,
    directions: Sequence[tuple[Directed, Directed]],
    epsilon: Floats,
) -> list[Floats]:
    """Upper ends of delta in both directions, of the worst orientation at each epsilon."""
    curves = {
        directed: directed.deltas(epsilon) for pair in directions for directed in pair
    }
    ends = []
    for side in zip(*directions, strict=True):
        worst = np.max([curves[directed] for directed in side], axis=0)
        ends.append(_raised(worst, epsilon, composition.sampler_error))
    return ends


def _raised(heights: Floats, epsilon: Floats, sampler_error: float) -> Floats:
    """Upper ends of a curve with its sampler error; delta never rises with epsilon, so the running minimum holds."""
    upper = heights * (1 + LOSS_RELATIVE_ERROR) + sampler_error * (
        1 + np.exp(np.minimum(epsilon, 700.0))
    )
    return np.minimum(np.minimum.accumulate(upper), 1.0)


def _real_line(
    nodes: NDArray[np.int64], step: float, up: Floats, down: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Divergence on negative epsilons too, by H_a(X||Y) = 1 - a + a H_{1/a}(Y||X)."""
    below = -nodes[:0:-1]
    ratio = np.exp(below * step)
    return np.concatenate([below, nodes]), np.concatenate(
        [-np.expm1(below * step) + ratio * down[:0:-1], up]
    )


def _reach(directed: Directed) -> float:
    """An epsilon beyond which so little is left that it may count as infinite."""
    reach = 1.0
    while reach < 400 and directed.delta(reach) > 1e-18:
        reach *= 1.5
    return reach
