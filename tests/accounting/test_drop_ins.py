"""Drop-in accountants against the packages whose contract they keep."""

from __future__ import annotations

import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from gaussveil.accounting.exchange.events import charges_from_event
from gaussveil.accounting.exchange.google import ExactAccountant
from gaussveil.errors import ParameterError
from gaussveil.spectrum.mixtures import GaussianMixture
from gaussveil.spectrum.profiles import profile_from_dict

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
STEP = dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.1))
EVENTS = [
    (dp_event.GaussianDpEvent(2.0), NeighboringRelation.ADD_OR_REMOVE_ONE),
    (dp_event.GaussianDpEvent(4.0), REPLACE),
    (dp_event.SelfComposedDpEvent(STEP, 100), NeighboringRelation.ADD_OR_REMOVE_ONE),
    (dp_event.SelfComposedDpEvent(STEP, 100), REPLACE),
    (dp_event.LaplaceDpEvent(3.0), NeighboringRelation.ADD_OR_REMOVE_ONE),
    (dp_event.DiscreteLaplaceDpEvent(0.4, 2), NeighboringRelation.ADD_OR_REMOVE_ONE),
    (dp_event.RandomizedResponseDpEvent(0.6, 4), REPLACE),
    pytest.param(
        dp_event.MixtureOfGaussiansDpEvent(1.2, [0.0, 1.0], [0.9, 0.1]),
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        marks=pytest.mark.full,
    ),
    (dp_event.MixtureOfGaussiansDpEvent(1.2, [0.0, 0.5, 1.0], [0.8, 0.1, 0.1]), NeighboringRelation.ADD_OR_REMOVE_ONE),
    (dp_event.ComposedDpEvent([STEP, dp_event.GaussianDpEvent(3.0)]), NeighboringRelation.ADD_OR_REMOVE_ONE),
]


@pytest.mark.parametrize(("event", "relation"), EVENTS, ids=lambda value: type(value).__name__)
def test_never_above_their_upper_ends_and_close(event: object, relation: object) -> None:
    ours = ExactAccountant(relation).compose(event)
    mixture = isinstance(event, dp_event.MixtureOfGaussiansDpEvent)  # which takes them long on their own grid
    grid = {"value_discretization_interval": 1e-3} if mixture else {}
    theirs = PLDAccountant(relation, **grid).compose(event)
    for epsilon in (0.3, 1.0):
        found, upper = ours.get_delta(epsilon), theirs.get_delta(epsilon)
        assert found <= upper * (1 + 1e-6) + 1e-12
        assert found == pytest.approx(upper, rel=1e-2, abs=1e-12)
    assert ours.get_epsilon(1e-4) <= theirs.get_epsilon(1e-4) + 1e-9
    assert ours.ledger == theirs.ledger


def test_fixed_size_batches_and_trees_are_within_their_renyi_bounds() -> None:
    def batch(noise: float) -> dp_event.DpEvent:
        return dp_event.SampledWithoutReplacementDpEvent(1000, 50, dp_event.GaussianDpEvent(noise))

    # Their Renyi accountant takes the noise over how far a replaced record moves the sum; we, like their other
    # accountant, over how far a single record does, which is half of it.
    ours = ExactAccountant(REPLACE).compose(batch(4.0), 20).get_epsilon(1e-5)
    theirs = RdpAccountant(neighboring_relation=REPLACE).compose(batch(2.0), 20).get_epsilon(1e-5)
    assert 0.3 * theirs <= ours <= theirs
    tree = dp_event.SingleEpochTreeAggregationDpEvent(5.0, [7, 15])
    ours = ExactAccountant(SPECIAL).compose(tree).get_epsilon(1e-5)
    theirs = RdpAccountant(neighboring_relation=SPECIAL).compose(tree).get_epsilon(1e-5)
    assert 0.8 * theirs <= ours <= theirs


@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE])
def test_zero_concentrated_events_are_bounds(relation: object) -> None:
    """Never below a Gaussian mechanism of the same rho, and not above what their Renyi accountant makes of it."""
    event, alike = dp_event.ZCDpEvent(0.02, 0.01), dp_event.GaussianDpEvent(1 / math.sqrt(2 * 0.02))
    ours = ExactAccountant(relation).compose(event, 3)
    theirs = RdpAccountant([1 + 0.1 * k for k in range(1, 900)], relation).compose(event, 3)
    exact = ExactAccountant().compose(alike, 3)
    for delta in (1e-3, 1e-6, 1e-9):
        assert exact.get_epsilon(delta) < ours.get_epsilon(delta) <= theirs.get_epsilon(delta) * (1 + 1e-9)
    mixed = dp_event.ComposedDpEvent([event, STEP])
    joined = ExactAccountant().compose(mixed)
    assert joined.get_epsilon(1e-6) > ExactAccountant().compose(event).get_epsilon(1e-6)
    assert joined.get_epsilon(1e-6) <= 1.5 * RdpAccountant().compose(mixed).get_epsilon(1e-6)


@pytest.mark.parametrize("shape", [math.inf, 0.0, 1.0, 0.5])
def test_repeated_selection_is_within_their_renyi_bound(shape: float) -> None:
    selected = dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(STEP, 50), 4.0, shape)
    ours = ExactAccountant().compose(selected)
    theirs = RdpAccountant().compose(selected)
    once = ExactAccountant().compose(selected.event).get_epsilon(1e-6)
    for delta in (1e-5, 1e-8):
        assert once < ours.get_epsilon(delta) <= theirs.get_epsilon(delta) * (1 + 1e-9)


@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE])
@pytest.mark.parametrize("most", [8, pytest.param(16, marks=pytest.mark.full), 30])
def test_batches_cut_at_a_size(relation: object, most: int) -> None:
    """Never below the same batches uncut, where hardly any is cut; near what their accountant makes of it."""
    event = dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, most, 1.0)
    ours = ExactAccountant(relation).compose(event)
    theirs = PLDAccountant(relation, value_discretization_interval=1e-3).compose(event)
    uncut = ExactAccountant(relation).compose(dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)))
    for epsilon in (0.5, 1.5):
        if most == 30:
            assert uncut.get_delta(epsilon) * (1 - 1e-6) <= ours.get_delta(epsilon)
        assert ours.get_delta(epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=0.15)


def test_mixtures_in_both_directions_against_integrals() -> None:
    """Delta is the integral of the positive part of a difference of densities."""
    shifts, shares = (0.0, 0.7, 2.5), (0.9, 0.08, 0.02)
    found, (x, step) = GaussianMixture(shifts, shares), np.linspace(-14.0, 16.0, 3_000_001, retstep=True)
    still = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    moved = still * sum(p * np.exp(c * x - 0.5 * c * c) for c, p in zip(shifts, shares))
    for epsilon in (0.0, 0.05, 0.8):
        for curve, one, other in ((found, moved, still), (found.reversed(), still, moved)):
            wanted = step * float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())
            assert float(curve.delta(epsilon)) == pytest.approx(wanted, rel=1e-8)
    assert profile_from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("shape", [pytest.param(math.inf, marks=pytest.mark.full), 0.0, 1.0])
def test_the_best_of_several_laplace_runs(shape: float) -> None:
    """Above one run, and not above their bound."""
    inner = dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(5.0), 3), STEP])
    for once in (dp_event.LaplaceDpEvent(2.0), inner):
        selected = dp_event.RepeatAndSelectDpEvent(once, 3.0, shape)
        ours, theirs = ExactAccountant().compose(selected), RdpAccountant().compose(selected)
        for delta in (1e-4, 1e-6):
            found = ours.get_epsilon(delta)
            assert ExactAccountant().compose(once).get_epsilon(delta) < found <= theirs.get_epsilon(delta) * (1 + 1e-9)


@pytest.mark.parametrize(("size", "draws"), [(50, 1), pytest.param(50, 20, marks=pytest.mark.full), (30, 30)])
def test_batches_drawn_with_replacement(size: int, draws: int) -> None:
    """Exact for a removed record where all others are the same; for a replaced one not below others that are 0."""
    event, noise = dp_event.SampledWithReplacementDpEvent(size, draws, dp_event.GaussianDpEvent(2.0)), 2.0
    x, step = np.linspace(-40.0, 60.0, 400_001, retstep=True)
    shares = [math.comb(draws, k) * (size - 1) ** (draws - k) / size**draws for k in range(draws + 1)]

    def density(move: float) -> np.ndarray:
        return sum(p * np.exp(-0.5 * ((x - move * k) / noise) ** 2) for k, p in enumerate(shares)) / noise

    removed, replaced = (ExactAccountant(relation).compose(event) for relation in (ADD, REPLACE))
    still, moved = density(0.0), density(2.0)
    pairs = [(moved, still), (still, moved), (density(1.0), density(-1.0))]
    for epsilon in (0.05, 0.5, 1.5):
        weight = math.exp(epsilon)
        there, back, other = (
            step * float(np.maximum(one - weight * two, 0.0).sum()) / math.sqrt(2.0 * math.pi) for one, two in pairs
        )
        assert removed.get_delta(epsilon) == pytest.approx(max(there, back), rel=1e-6)
        assert max(there, back, other) * (1 - 1e-6) <= replaced.get_delta(epsilon)
    if draws == 1:  # as without replacement
        alone = dp_event.SampledWithoutReplacementDpEvent(size, 1, dp_event.GaussianDpEvent(2.0))
        for relation, found in ((ADD, removed), (REPLACE, replaced)):
            assert found.get_delta(0.5) == pytest.approx(
                ExactAccountant(relation).compose(alone).get_delta(0.5), rel=1e-9
            )


NOISES = {
    "Laplace": (dp_event.LaplaceDpEvent(2.0), 0.5),
    "DiscreteLaplace": (dp_event.DiscreteLaplaceDpEvent(0.25, 2), 0.5),
    "ZCDp": (dp_event.ZCDpEvent(0.02, 0.01), math.inf),
    "Tree": (dp_event.SingleEpochTreeAggregationDpEvent(6.0, [7]), math.inf),
    "Mixture": (dp_event.MixtureOfGaussiansDpEvent(3.0, [0.0, 1.0, 2.0], [0.5, 0.4, 0.1]), math.inf),
    "Several": (dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(8.0), STEP]), math.inf),
    "Batch": (dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.GaussianDpEvent(3.0)), math.inf),
    "Selected": (dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(4.0), 2.0, 0.0), math.inf),
    "Nothing": (dp_event.NoOpDpEvent(), 0.0),
}
EACH_RUN = [  # one relation of each kind; all with --full
    pytest.param(name, relation, id=f"{name}-{relation.name}", marks=pytest.mark.full if (i + j) % 3 else ())
    for i, name in enumerate(NOISES)
    for j, relation in enumerate(NeighboringRelation)
]


@pytest.mark.parametrize(("name", "relation"), EACH_RUN)
def test_any_mechanism_is_sampled_and_selected(name: str, relation: object) -> None:
    """A sample costs less than its mechanism and the best of several runs more; a pure loss is amplified as known."""
    event, pure = NOISES[name]
    pure *= 2.0 if relation is REPLACE else 1.0

    def spent(one: dp_event.DpEvent) -> float:
        return ExactAccountant(relation).compose(one).get_epsilon(1e-4)

    alone = spent(event)
    sampled = spent(dp_event.PoissonSampledDpEvent(0.2, event))
    drawn = spent(dp_event.SampledWithoutReplacementDpEvent(100, 5, event))
    best = spent(dp_event.RepeatAndSelectDpEvent(event, 3.0, 1.0))
    assert sampled <= alone <= best
    if math.isfinite(pure):
        assert sampled <= math.log1p(0.2 * math.expm1(pure)) * (1 + 1e-12)
        assert drawn <= math.log1p(0.05 * math.expm1(2.0 * NOISES[name][1])) * (1 + 1e-12)


ANSWER = dp_event.RandomizedResponseDpEvent(0.7, 5)


@pytest.mark.parametrize("shape", [math.inf, pytest.param(0.0, marks=pytest.mark.full)])
@pytest.mark.parametrize(("once", "relation"), [(dp_event.ZCDpEvent(0.05, 0.01), ADD), (ANSWER, REPLACE)])
def test_the_best_of_several_is_never_above_their_bound(once: object, relation: object, shape: float) -> None:
    """Composed with others, too: then divergences are added up, as theirs are."""
    selected = dp_event.RepeatAndSelectDpEvent(once, 3.0, shape)
    for event in (selected, dp_event.ComposedDpEvent([selected, once])):
        ours = ExactAccountant(relation).compose(event).get_epsilon(1e-5)
        theirs = RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-5)
        assert ExactAccountant(relation).compose(once).get_epsilon(1e-5) < ours <= theirs * (1 + 1e-6)


def test_mixtures_of_a_replaced_record_against_an_integral() -> None:
    """Not below moves one way against the same moves the other way, and below the largest move alone."""
    moves, shares = (0.0, 0.5, 1.0), (0.8, 0.15, 0.05)
    ours = ExactAccountant(REPLACE).compose(dp_event.MixtureOfGaussiansDpEvent(1.5, moves, shares))
    x, step = np.linspace(-15.0, 15.0, 60_001, retstep=True)
    there, back = (
        sum(p * np.exp(-0.5 * ((x - sign * c) / 1.5) ** 2) for c, p in zip(moves, shares)) for sign in (1.0, -1.0)
    )
    largest = ExactAccountant(REPLACE).compose(dp_event.GaussianDpEvent(1.5))
    for epsilon in (0.05, 0.5, 1.5):
        gap = np.maximum(there - math.exp(epsilon) * back, 0.0).sum()
        wanted = step * float(gap) / (1.5 * math.sqrt(2 * math.pi))
        assert wanted * (1 - 1e-6) <= ours.get_delta(epsilon) < 0.25 * largest.get_delta(epsilon)


def test_nothing_and_everything() -> None:
    ours = ExactAccountant()
    assert ours.compose(dp_event.NoOpDpEvent()).get_epsilon(1e-5) == 0.0
    assert ours.supports(STEP)
    assert not ours.supports(dp_event.UnsupportedDpEvent())
    drawn = dp_event.SampledWithReplacementDpEvent(100, 10, STEP)
    assert not ours.supports(dp_event.ComposedDpEvent([STEP, drawn]))
    with pytest.raises(dp_accounting.UnsupportedEventError):
        ours.compose(drawn)
    assert ours.get_epsilon(1e-5) == 0.0
    ours.compose(dp_event.NonPrivateDpEvent())
    assert math.isinf(ours.get_epsilon(1e-5))
    assert ours.get_delta(1.0) == 1.0
    assert not ExactAccountant().supports(dp_event.RandomizedResponseDpEvent(0.5, 3))


REFUSED = [
    (
        dp_event.RepeatAndSelectDpEvent(
            dp_event.SampledWithReplacementDpEvent(100, 60, dp_event.GaussianDpEvent(1.0)), 3.0, 1.0
        ),
        "Renyi divergences are infinite",
    ),
    (dp_event.SampledWithReplacementDpEvent(100, 10, STEP), "but for Gaussian noise"),
    (dp_event.PoissonSampledDpEvent(1.5, dp_event.GaussianDpEvent(1.0)), "sampling_probability must be"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.8, 0.1, 0.2]), "add up to 1"),
    (dp_event.RandomizedResponseDpEvent(0.5, 3), "added or removed record"),
    (dp_event.UnsupportedDpEvent(), "sender could not describe it"),
]


@pytest.mark.parametrize(("event", "sentence"), REFUSED, ids=lambda value: type(value).__name__)
def test_what_is_not_accounted_is_refused_by_name(event: object, sentence: str) -> None:
    ours = ExactAccountant()
    assert not ours.supports(event)
    with pytest.raises(dp_accounting.UnsupportedEventError, match=sentence):
        ours.compose(event)
    assert ours.get_epsilon(1e-5) == 0.0  # nothing was counted


def test_a_factory_of_it_calibrates_their_mechanisms() -> None:
    def make(noise: float) -> dp_accounting.DpEvent:
        return dp_event.PoissonSampledDpEvent(0.05, dp_event.GaussianDpEvent(noise))

    bracket = dp_accounting.ExplicitBracketInterval(0.4, 2.0)
    noise = dp_accounting.calibrate_dp_mechanism(ExactAccountant, make, 0.5, 1e-6, bracket, tol=1e-4)
    assert ExactAccountant().compose(make(noise)).get_epsilon(1e-6) <= 0.5


@pytest.mark.parametrize(("size", "most"), [(10, -1), (-3, 1)])
def test_negative_sizes_of_cut_batches_are_refused_by_name(size: int, most: int) -> None:
    with pytest.raises(ParameterError, match=r"(truncated_batch|dataset)_size must be a whole number"):
        charges_from_event(dp_event.TruncatedSubsampledGaussianDpEvent(size, 0.1, most, 1.0))
