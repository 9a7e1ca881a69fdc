"""Exchange with Google's dp_accounting: events in, events and privacy loss distributions out.

`dp_accounting` is optional: it is imported when it is needed. What is no pair of ours is read as a proven bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.accounting.accountant import Accountant
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.charge import Charge, Part
from gaussveil.accounting.composition import Composition, Directed
from gaussveil.accounting.cumulants import renyi_bound
from gaussveil.accounting.ledger.ledger import Ledger
from gaussveil.accounting.relation import RELATIONS
from gaussveil.errors import (
    AssumptionError,
    InputError,
    MissingDependencyError,
    ParameterError,
    install,
)
from gaussveil.spectrum import GaussianPair, PrivacyCurve
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.spectrum.mixtures import (
    LARGEST_SHIFT,
    GaussianMixture,
    PublicChoice,
    ReplacedInSample,
)
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    PrivacyProfile,
    RandomisedResponse,
    ResponseOrNoise,
)
from gaussveil.spectrum.renyi_bounds import RenyiBound, ZeroConcentrated
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.typing import Floats

MOST_NODES = 4000
CUTS = 32  # how finely batches cut at a size are told apart
MOST_MOVES = 40  # of one record, drawn more than once into a batch
RARE = 1e-8  # probability of more moves than are told apart
SPECIAL = "replace by a special record"  # whose answers do not depend on it
REASONS = {  # why kinds of events cannot be read
    "NonPrivateDpEvent": "it is not private",
    "UnsupportedDpEvent": "its sender could not describe it",
}


def _library() -> ModuleType:
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise MissingDependencyError(
            f"exchange needs dp_accounting: {install('exchange')}"
        ) from error
    module: ModuleType = dp_event  # some kinds of events are found there only
    return module


def charges_from_event(
    event: Any, *, replace: bool = False, relation: str | None = None
) -> list[tuple[Charge, int]]:
    """Read a dp_accounting event as charges and counts, for add/remove adjacency or for a replaced record.

    What is not private is refused, as is randomised response of an added record, who answers or does not.
    """
    relation = relation or RELATIONS[int(replace)]
    library = _library()
    if is_empty(event):
        return []
    if isinstance(event, library.SelfComposedDpEvent):
        times = int(event.count)
        if times != event.count or times < 0:
            raise ParameterError(
                f"an event must be composed a whole number of times, not negative. Got {event.count}."
            )
        return [
            (charge, n * times)
            for charge, n in charges_from_event(event.event, relation=relation)
            if times
        ]
    if isinstance(event, library.ComposedDpEvent):
        return [
            found
            for inner in event.events
            for found in charges_from_event(inner, relation=relation)
        ]
    return [(Charge(_single(event, relation)), 1)]


def _single(event: Any, relation: str) -> PrivacyCurve:
    library = _library()
    replace = relation == RELATIONS[1]
    # a replaced record moves a sum twice as far
    if replace:
        moved = 2.0
    else:
        moved = 1.0
    if (noise := _noise(event)) is not None:
        return GaussianPair.mean_shift(_over(moved, noise))
    if isinstance(event, library.PoissonSampledDpEvent):
        return _sampled(event, relation)
    if isinstance(event, library.ZCDpEvent):
        return ZeroConcentrated(float(event.rho), float(event.xi))
    if isinstance(event, library.LaplaceDpEvent):
        return Laplace(_over(moved, event.noise_multiplier))
    if isinstance(event, library.DiscreteLaplaceDpEvent):
        return DiscreteLaplace(
            int(moved) * int(event.sensitivity), -_over(-1.0, event.noise_parameter)
        )
    if (
        isinstance(event, library.RandomizedResponseDpEvent)
        and relation != RELATIONS[0]
    ):
        share = _scale(event.noise_parameter) / event.num_buckets
        if relation == SPECIAL:  # whose answers are all alike
            return ResponseOrNoise(event.noise_parameter, int(event.num_buckets))
        loss = math.log((1.0 - event.noise_parameter) / share + 1.0) * (1.0 + 1e-15)
        return RandomisedResponse(loss, int(event.num_buckets))
    if isinstance(
        event,
        library.SampledWithoutReplacementDpEvent
        | library.SampledWithReplacementDpEvent,
    ):
        return _drawn(event, relation)
    if isinstance(event, library.MixtureOfGaussiansDpEvent):
        if not abs(math.fsum(event.sampling_probs) - 1.0) <= 1e-9:
            checks.refuse(
                "sampling_probs", "probabilities that add up to 1", event.sampling_probs
            )
        return _moved(
            _scale(event.standard_deviation),
            sorted(zip(event.sensitivities, event.sampling_probs)),
            replace,
        )
    if isinstance(event, library.TruncatedSubsampledGaussianDpEvent):
        return _truncated(event, replace)
    if isinstance(event, library.RepeatAndSelectDpEvent):
        return _selected(event, relation)
    name = type(event).__name__
    if replace:
        record = "a replaced"
    else:
        record = "an added or removed"
    known = REASONS.get(name, f"no pair is known here for {record} record")
    advice = (
        "Charge it as an approximate-dp profile with its own (epsilon, delta) instead"
    )
    raise InputError(f"{name} has no counterpart here: {known}. {advice}")


def _sampled(event: Any, relation: str) -> PrivacyCurve:
    """A mechanism on a sample that each record joins by itself."""
    event, rate = (
        event.event,
        checks.real("sampling_probability", event.sampling_probability, "(0, 1]"),
    )
    if relation == RELATIONS[1] and rate < 1.0:
        if (noise := _noise(event)) is not None:
            return ReplacedInBatch(noise, max(rate, 1e-9))
        return ReplacedInSample(_one(event, relation), rate)
    source = _one(event, relation)
    if rate == 1.0:
        return source
    return PoissonSubsampled(source, max(rate, 1e-12))


def _one(event: Any, relation: str, free: bool = False) -> PrivacyCurve:
    """All that happens to a sample as one profile; of several, or if it may not name neighbours, their divergences."""
    if _noise(event) is not None:
        return _single(event, relation)
    found = charges_from_event(event, relation=relation)
    parts = [
        (part.source, part.count * n) for charge, n in found for part in charge.parts
    ]
    alone = (
        len(parts) == 1 and parts[0][1] == 1 and not (free and parts[0][0].neighbours)
    )
    if alone:
        return parts[0][0]
    return _divergences(parts)


def _divergences(parts: list[tuple[Any, int]]) -> RenyiBound:
    if (found := renyi_bound(parts)) is None:
        raise InputError(
            "what is sampled or selected has no counterpart here: its Renyi divergences are infinite"
        )
    return found


def is_empty(event: Any) -> bool:
    """Whether nothing of the data enters: no record is drawn, there is one answer, or nothing moves."""
    drawn = (
        "sampling_probability",
        "sample_size",
        "truncated_batch_size",
    )  # a record may join an empty table
    inner = getattr(
        event, "events", [event.event] if hasattr(event, "event") else [None]
    )
    still = isinstance(event, _library().NoOpDpEvent) or not any(
        getattr(event, "sensitivities", (1.0,))
    )
    still = still or all(one is not None and is_empty(one) for one in inner)
    return (
        still
        or getattr(event, "num_buckets", 2) == 1
        or any(getattr(event, name, 1) == 0 for name in drawn)
    )


def _noise(event: Any) -> float | None:
    """The noise multiplier of a Gaussian event, or of several together, rounded down; None for anything else."""
    library = _library()
    if isinstance(event, library.GaussianDpEvent):
        return _scale(event.noise_multiplier)
    if isinstance(event, library.SingleEpochTreeAggregationDpEvent):
        if isinstance(event.step_counts, list | tuple):
            counts = event.step_counts
        else:
            counts = [event.step_counts]
        depth = math.ceil(
            math.log2(max(counts) + 1)
        )  # nodes of the deepest tree that hold one record
        if depth:
            return _scale(event.noise_multiplier) / math.sqrt(depth) * (1.0 - 1e-15)
        return None
    several = isinstance(event, library.ComposedDpEvent | library.SelfComposedDpEvent)
    parts = [
        (part, n)
        for charge, n in (charges_from_event(event) if several else [])
        for part in charge.parts
    ]
    energies = [
        float(np.max(energy)) * n
        for part, n in parts
        if (energy := part.mean_shift_energy) is not None
    ]
    if energies and len(energies) == len(parts):
        return (1.0 - 1e-15) / math.sqrt(math.fsum(energies))
    return None


def _truncated(event: Any, replace: bool) -> PrivacyProfile:
    """Batches cut at a size, given how many others were drawn (derived: docs/math/profiles); several as the fewest."""
    most = checks.whole("truncated_batch_size", event.truncated_batch_size, "[0, inf)")
    size = checks.whole("dataset_size", event.dataset_size, "[0, inf)")
    noise = _scale(event.noise_multiplier)
    rate = checks.real("sampling_probability", event.sampling_probability, "(0, 1]")
    moved, swapped = (GaussianPair.mean_shift(_over(by, noise)) for by in (1.0, 2.0))
    whole: PrivacyProfile
    if replace:
        whole = ReplacedInBatch(noise, rate)
    else:
        whole = PoissonSubsampled(moved, rate)
    # a record may join a table of that size
    if replace:
        others = size - 1
    else:
        others = size
    if most > others:
        return whole
    spread = math.sqrt(others * rate) + 1.0
    firsts = sorted(
        {
            min(most + int(share * spread), others)
            for share in np.linspace(0.0, 8.0, CUTS)
        }
    )
    tails = [
        float(scipy.special.bdtrc(first - 1, others, rate)) for first in firsts
    ] + [0.0]
    parts: list[tuple[float, PrivacyProfile]] = [(1.0 - tails[0], whole)]
    for first, weight in zip(
        firsts, (above - below for above, below in pairwise(tails))
    ):
        stays = max(rate * most / (first + 1) * (1.0 + 1e-12), 1e-9)
        cut = (
            FixedSizeBatch(noise, stays)
            if replace
            else PoissonSubsampled(swapped, stays)
        )
        parts.append((weight * (1.0 + 1e-10), cut))
    return PublicChoice(
        tuple(weight for weight, _ in parts), tuple(part for _, part in parts)
    )


def _drawn(event: Any, relation: str) -> PrivacyCurve:
    """Batches of a fixed size, k places of which are the record's (derived: docs/math/profiles)."""
    draws, size = (
        checks.whole(name, getattr(event, name))
        for name in ("sample_size", "source_dataset_size")
    )
    noise = _noise(event.event)
    replace = relation == RELATIONS[1]
    if not isinstance(event, _library().SampledWithReplacementDpEvent):
        rate = max(min(_over(draws, size), 1.0), 1e-9)
        if noise is not None and replace:
            return FixedSizeBatch(noise, rate)
        return (ReplacedInSample if replace else PoissonSubsampled)(
            _one(event.event, RELATIONS[1], not replace), rate
        )
    if noise is None:
        raise InputError(
            "SampledWithReplacementDpEvent has no counterpart here but for Gaussian noise: k may exceed 1"
        )
    if replace:
        largest = 200.0
    else:
        largest = LARGEST_SHIFT
    moves = [
        k
        for k in range(1, min(draws, MOST_MOVES) + 1)
        if 1e-4 <= 2.0 * k / noise < largest
    ]
    tails = [
        float(scipy.special.bdtrc(k, draws, 1.0 / size)) * (1.0 + 1e-12)
        for k in (0, *moves)
    ]
    if not moves or tails[-1] > RARE:
        return GaussianPair.mean_shift(
            _over(2.0 * draws, noise)
        )  # as if it held them all
    found = [
        (k if replace else 2.0 * k, above - below)
        for k, (above, below) in zip(moves, pairwise(tails))
    ]
    return _moved(noise, [(0.0, max(1.0 - tails[0], 0.0)), *found], replace, tails[-1])


def _moved(
    noise: float, found: list[tuple[float, float]], replace: bool, left: float = 0.0
) -> PrivacyProfile:
    """Noise on a sum that a record moves by random amounts, increasing; amounts `left` out have an infinite loss."""
    if len(found) == 2 and found[0][0] == 0.0 and not (replace or left):
        return PoissonSubsampled(
            GaussianPair.mean_shift(_over(found[1][0], noise)), float(found[1][1])
        )
    kinds = [(move, share) for move, share in found if share and (move or not replace)]
    rate = min(math.fsum(share for _, share in kinds) + left, 1.0)
    if replace:
        parts: list[tuple[float, PrivacyProfile]] = [
            (
                share / rate,
                FixedSizeBatch(noise / move * (1.0 - 1e-15), max(rate, 1e-9)),
            )
            for move, share in kinds
        ]
    else:
        shares = tuple(share / (1.0 - left) for _, share in kinds)
        parts = [
            (
                1.0 - left,
                GaussianMixture(tuple(_over(move, noise) for move, _ in kinds), shares),
            )
        ]
    parts += [(left / rate, ApproximatePoint(0.0, 1.0))] * (left > 0.0)
    if len(parts) > 1:
        return PublicChoice(*zip(*parts))
    return parts[0][1]


def _selected(event: Any, relation: str) -> RenyiBound:
    """The best of a random number of runs (Papernot, Steinke 2022, Theorems 2 and 6)."""
    mean = checks.real("mean", event.mean, "[1, inf)")
    shape = float(event.shape)
    if not shape >= 0.0:
        checks.refuse("shape", "at least 0", event.shape)
    once = Accountant(RELATIONS[int(relation == RELATIONS[1])])
    for charge, count in charges_from_event(event.event, relation=relation):
        once.add(charge, count)
    known = _divergences(once._parts)
    orders = np.array(known.orders)
    divergences = np.array(known.divergences)
    if shape == math.inf:
        levels = np.log1p(1.0 / (orders - 1.0)) * (1.0 - 1e-15)
        sides = (once.loss, once.loss.reversed())
        errors = [1.0 + side.relative_error for side in sides]
        chances = mean * np.max(
            [
                np.asarray(side.delta(levels)) * more
                for side, more in zip(sides, errors)
            ],
            axis=0,
        )
    else:
        # gamma, at which that many runs are expected
        low = 1e-300
        high = 1.0
        for _ in range(1100):
            gamma = math.sqrt(low * high)
            log = math.log(gamma)
            if shape == 0.0:
                share = -log
            else:
                share = -math.expm1(shape * log) / shape
            low, high = (
                (gamma, high) if (1.0 - gamma) / gamma > mean * share else (low, gamma)
            )
            if high <= low * (1.0 + 1e-12):
                break
        chances = (1.0 + shape) * np.min(
            (1.0 - 1.0 / orders) * divergences - math.log(low) / orders
        )
    found = divergences + chances + math.log(mean) / (orders - 1.0)
    falling = np.minimum.accumulate(found[::-1])[
        ::-1
    ]  # divergences grow with the order
    return RenyiBound(known.orders, tuple(falling * (1.0 + 1e-12)))


def _over(moved: float, scale: float) -> float:
    """moved / scale, rounded up."""
    found = moved / _scale(scale)
    exact = Fraction(moved) / Fraction(float(scale))
    if found >= exact:
        return found
    return math.nextafter(found, math.inf)


def _scale(noise_multiplier: float) -> float:
    return checks.positive("noise_multiplier", noise_multiplier)


def event_from_charges(charges: list[tuple[Charge, int]]) -> Any:
    """Write charges as one dp_accounting event, where every part has one; sampler errors have none and are refused.

    A label graph or a pair with different variances has no event: export a privacy loss distribution instead.
    """
    library = _library()
    events = []
    for charge, count in charges:
        if charge.sampler_error:
            what = f"a sampler error of {charge.sampler_error:.3g}"
            raise AssumptionError(
                f"{what} has no event; export a privacy loss distribution, which charges it"
            )
        for part in charge.parts:
            events.append(
                library.SelfComposedDpEvent(_event(library, part), part.count * count)
            )
    return library.ComposedDpEvent(events)


def _event(library: ModuleType, part: Part) -> Any:
    energy = Part(part.source, 1).mean_shift_energy
    if energy is not None:
        # Less noise costs more, so the noise multiplier is rounded down; of several edges the worst counts.
        worst = float(np.max(energy))
        if worst:
            return library.GaussianDpEvent(math.nextafter(1 / math.sqrt(worst), 0.0))
        return library.NoOpDpEvent()
    source = part.source
    if isinstance(source, Laplace):
        return library.LaplaceDpEvent(1 / source.shift_over_scale)
    if type(source) is PoissonSubsampled and source.base.stored_as:
        return library.PoissonSampledDpEvent(
            source.rate, _event(library, Part(source.base, 1))
        )
    name = Charge(source).describe()
    raise InputError(
        f"{name} has no event in dp_accounting; export a privacy loss distribution instead"
    )


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
    _library()
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
    curves = {
        directed: directed.deltas(epsilon) for pair in directions for directed in pair
    }
    ahead, back = (
        _raised(
            np.max([curves[directed] for directed in side], axis=0),
            epsilon,
            composition.sampler_error,
        )
        for side in zip(*directions, strict=True)
    )
    ahead[0] = back[0] = max(ahead[0], back[0])
    sides = []
    for up, down in ((ahead, back), (back, ahead)):
        grid, heights = _real_line(nodes, step, up, down)
        sides.append(pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, heights))
    if adjacency is not None and adjacency.symmetric:
        return privacy_loss_distribution.PrivacyLossDistribution(sides[0])
    return privacy_loss_distribution.PrivacyLossDistribution(sides[0], sides[1])


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
    return next(
        reach
        for k in range(17)
        if (reach := 1.5**k) >= 400 or directed.delta(reach) <= 1e-18
    )
