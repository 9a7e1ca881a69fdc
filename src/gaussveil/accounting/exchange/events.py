"""Exchange with Google's dp_accounting: events in, events and privacy loss distributions out.

`dp_accounting` is optional: it is imported when it is needed. What is no pair of ours is read as a proven bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting.accountant import Accountant
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.cumulants import renyi_bound
from gaussveil.accounting.exchange.cut_batches import (
    randomly_moved,
    repeatedly_drawn,
    truncated_batch,
)
from gaussveil.accounting.exchange.noise_scales import checked_scale, over
from gaussveil.accounting.exchange.peer_library import event_library
from gaussveil.accounting.exchange.selection import best_of_many
from gaussveil.accounting.relation import RELATIONS
from gaussveil.errors import (
    InputError,
    ParameterError,
)
from gaussveil.spectrum import GaussianPair, PrivacyCurve
from gaussveil.spectrum.mixtures import (
    ReplacedInSample,
)
from gaussveil.spectrum.profiles import (
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    RandomisedResponse,
    ResponseOrNoise,
)
from gaussveil.spectrum.renyi_bounds import RenyiBound, ZeroConcentrated
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch

SPECIAL = "replace by a special record"  # whose answers do not depend on it
REASONS = {  # why kinds of events cannot be read
    "NonPrivateDpEvent": "it is not private",
    "UnsupportedDpEvent": "its sender could not describe it",
}


def charges_from_event(
    event: Any, *, replace: bool = False, relation: str | None = None
) -> list[tuple[Charge, int]]:
    """Read a dp_accounting event as charges and counts, for add/remove adjacency or for a replaced record.

    What is not private is refused, as is randomised response of an added record, who answers or does not.
    """
    relation = relation or RELATIONS[int(replace)]
    library = event_library()
    if is_empty(event):
        return []
    if isinstance(event, library.SelfComposedDpEvent):
        times = int(event.count)
        if times != event.count or times < 0:
            raise ParameterError(
                f"an event must be composed a whole number of times, not negative. Got {event.count}."
            )
        return [
            (charge, count * times)
            for charge, count in charges_from_event(event.event, relation=relation)
            if times
        ]
    if isinstance(event, library.ComposedDpEvent):
        return [
            charge
            for inner in event.events
            for charge in charges_from_event(inner, relation=relation)
        ]
    return [(Charge(_single(event, relation)), 1)]


def _single(event: Any, relation: str) -> PrivacyCurve:
    noise = _noise(event)
    if noise is not None:
        return GaussianPair.mean_shift(over(_move(relation), noise))
    library = event_library()
    for kind, read in _READERS.items():
        if isinstance(event, getattr(library, kind)):
            curve = read(event, relation)
            if curve is not None:
                return curve
    name = type(event).__name__
    if relation == RELATIONS[1]:
        record = "a replaced"
    else:
        record = "an added or removed"
    reason = REASONS.get(name, f"no pair is known here for {record} record")
    advice = (
        "Charge it as an approximate-dp profile with its own (epsilon, delta) instead"
    )
    raise InputError(f"{name} has no counterpart here: {reason}. {advice}")


def _move(relation: str) -> float:
    """How far a record moves a sum: a replaced one twice as far."""
    if relation == RELATIONS[1]:
        return 2.0
    return 1.0


def _zero_concentrated(event: Any, relation: str) -> ZeroConcentrated:
    return ZeroConcentrated(float(event.rho), float(event.xi))


def _laplace(event: Any, relation: str) -> Laplace:
    return Laplace(over(_move(relation), event.noise_multiplier))


def _discrete_laplace(event: Any, relation: str) -> DiscreteLaplace:
    steps = int(_move(relation)) * int(event.sensitivity)
    return DiscreteLaplace(steps, -over(-1.0, event.noise_parameter))


def _randomised_response(event: Any, relation: str) -> PrivacyCurve | None:
    """None for an added record, who answers or does not."""
    if relation == RELATIONS[0]:
        return None
    buckets = int(event.num_buckets)
    share = checked_scale(event.noise_parameter) / event.num_buckets
    if relation == SPECIAL:  # whose answers are all alike
        return ResponseOrNoise(event.noise_parameter, buckets)
    loss = math.log((1.0 - event.noise_parameter) / share + 1.0) * (1.0 + 1e-15)
    return RandomisedResponse(loss, buckets)


def _mixture(event: Any, relation: str) -> PrivacyCurve:
    if not abs(math.fsum(event.sampling_probs) - 1.0) <= 1e-9:
        checks.refuse(
            "sampling_probs", "probabilities that add up to 1", event.sampling_probs
        )
    moves = sorted(zip(event.sensitivities, event.sampling_probs))
    noise = checked_scale(event.standard_deviation)
    return randomly_moved(noise, moves, relation == RELATIONS[1])


def _truncated(event: Any, relation: str) -> PrivacyCurve:
    return truncated_batch(event, relation == RELATIONS[1])


def _sampled(event: Any, relation: str) -> PrivacyCurve:
    """A mechanism on a sample that each record joins by itself."""
    inner = event.event
    rate = checks.real("sampling_probability", event.sampling_probability, "(0, 1]")
    if relation == RELATIONS[1] and rate < 1.0:
        noise = _noise(inner)
        if noise is not None:
            return ReplacedInBatch(noise, max(rate, 1e-9))
        return ReplacedInSample(_together(inner, relation), rate)
    source = _together(inner, relation)
    if rate == 1.0:
        return source
    return PoissonSubsampled(source, max(rate, 1e-12))


def _together(event: Any, relation: str, free: bool = False) -> PrivacyCurve:
    """All that happens to a sample as one profile; of several, or if it may not name neighbours, their divergences."""
    if _noise(event) is not None:
        return _single(event, relation)
    parts = [
        (part.source, part.count * times)
        for charge, times in charges_from_event(event, relation=relation)
        for part in charge.parts
    ]
    if len(parts) == 1:
        source, count = parts[0]
        if count == 1 and not (free and source.neighbours):
            return source
    return _divergences(parts)


def _divergences(parts: list[tuple[Any, int]]) -> RenyiBound:
    bound = renyi_bound(parts)
    if bound is None:
        raise InputError(
            "what is sampled or selected has no counterpart here: its Renyi divergences are infinite"
        )
    return bound


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
    still = isinstance(event, event_library().NoOpDpEvent) or not any(
        getattr(event, "sensitivities", (1.0,))
    )
    still = still or all(event is not None and is_empty(event) for event in inner)
    return (
        still
        or getattr(event, "num_buckets", 2) == 1
        or any(getattr(event, name, 1) == 0 for name in drawn)
    )


def _noise(event: Any) -> float | None:
    """The noise multiplier of a Gaussian event, or of several together, rounded down; None for anything else."""
    library = event_library()
    if isinstance(event, library.GaussianDpEvent):
        return checked_scale(event.noise_multiplier)
    if isinstance(event, library.SingleEpochTreeAggregationDpEvent):
        noise = _tree_noise(event)
        if noise is not None:
            return noise
    if isinstance(event, library.ComposedDpEvent | library.SelfComposedDpEvent):
        return _noise_together(event)
    return None


def _tree_noise(event: Any) -> float | None:
    counts = event.step_counts
    if not isinstance(counts, list | tuple):
        counts = [counts]
    # nodes of the deepest tree that hold one record
    depth = math.ceil(math.log2(max(counts) + 1))
    if depth:
        return checked_scale(event.noise_multiplier) / math.sqrt(depth) * (1.0 - 1e-15)
    return None


def _noise_together(event: Any) -> float | None:
    """Of several Gaussians: their squared mean shifts add up."""
    energies = []
    for charge, times in charges_from_event(event):
        for part in charge.parts:
            energy = part.mean_shift_energy
            if energy is None:
                return None
            energies.append(float(np.max(energy)) * times)
    if energies:
        return (1.0 - 1e-15) / math.sqrt(math.fsum(energies))
    return None


def _drawn_once(event: Any, relation: str) -> PrivacyCurve:
    """Batches of a fixed size in which a record has one place at most (derived: docs/math/profiles)."""
    draws, size = _draws_and_size(event)
    noise = _noise(event.event)
    replace = relation == RELATIONS[1]
    rate = max(min(over(draws, size), 1.0), 1e-9)
    if noise is not None and replace:
        return FixedSizeBatch(noise, rate)
    source = _together(event.event, RELATIONS[1], not replace)
    if replace:
        return ReplacedInSample(source, rate)
    return PoissonSubsampled(source, rate)


def _drawn_often(event: Any, relation: str) -> PrivacyCurve:
    """Batches of a fixed size, k places of which are the record's (derived: docs/math/profiles)."""
    draws, size = _draws_and_size(event)
    noise = _noise(event.event)
    if noise is None:
        raise InputError(
            "SampledWithReplacementDpEvent has no counterpart here but for Gaussian noise: k may exceed 1"
        )
    return repeatedly_drawn(noise, draws, size, relation == RELATIONS[1])


def _draws_and_size(event: Any) -> tuple[int, int]:
    draws = checks.whole("sample_size", event.sample_size)
    size = checks.whole("source_dataset_size", event.source_dataset_size)
    return draws, size


def _selected(event: Any, relation: str) -> RenyiBound:
    """The best of a random number of runs (Papernot, Steinke 2022, Theorems 2 and 6)."""
    mean = checks.real("mean", event.mean, "[1, inf)")
    shape = float(event.shape)
    if not shape >= 0.0:
        checks.refuse("shape", "at least 0", event.shape)
    once = Accountant(RELATIONS[int(relation == RELATIONS[1])])
    for charge, count in charges_from_event(event.event, relation=relation):
        once.add(charge, count)
    return best_of_many(_divergences(once._parts), once.loss, mean, shape)


_READERS: dict[str, Callable[[Any, str], PrivacyCurve | None]] = {
    "PoissonSampledDpEvent": _sampled,
    "ZCDpEvent": _zero_concentrated,
    "LaplaceDpEvent": _laplace,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _randomised_response,
    "SampledWithoutReplacementDpEvent": _drawn_once,
    "SampledWithReplacementDpEvent": _drawn_often,
    "MixtureOfGaussiansDpEvent": _mixture,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "RepeatAndSelectDpEvent": _selected,
}
"""What each kind of event is here; None where that depends on the relation, and is nothing."""
