"""dp_accounting's own tests of its accountants, run on our drop-in; where we do otherwise, what we do instead.

The package ships them. Those of their Renyi accountant that look into its lists of orders see our Renyi divergences.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar
from unittest import mock

import mpmath as mp
import numpy as np
import pytest
from absl.testing import parameterized
from dp_accounting import NeighboringRelation, UnsupportedEventError, dp_event
from dp_accounting.pld import PLDAccountant, pld_privacy_accountant, pld_privacy_accountant_test
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant, rdp_privacy_accountant_test

from gaussveil.accounting.exchange.google import ExactAccountant

ADD, REPLACE, SPECIAL = NeighboringRelation
GAUSSIAN = dp_event.GaussianDpEvent(1.0)
SEVERAL = dp_event.ComposedDpEvent([GAUSSIAN, dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(2.0), 3)])


class TestTheirDistributionCases(pld_privacy_accountant_test.PldPrivacyAccountantTest):
    # Mixtures are compared with theirs in each run (test_drop_ins.py); these take seconds.
    test_mixture_of_gaussians_basic = pytest.mark.full(
        pld_privacy_accountant_test.PldPrivacyAccountantTest.test_mixture_of_gaussians_basic
    )

    def setUp(self) -> None:
        super().setUp()
        self.enter_context(mock.patch.object(pld_privacy_accountant, "PLDAccountant", ExactAccountant))

    @parameterized.parameters(
        (dp_event.RandomizedResponseDpEvent(0.1, 3), ADD),
        (dp_event.LaplaceDpEvent(2.0), REPLACE),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)), REPLACE),
        (dp_event.DiscreteLaplaceDpEvent(0.5, 1), REPLACE),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]), REPLACE),
    )
    def test_composition_errors_for_neighboring_relation(self, event: Any, relation: Any) -> None:
        """A replaced record moves noise twice as far, and is counted; one that does not answer is not."""
        if relation is REPLACE:
            found = ExactAccountant(relation).compose(event).get_epsilon(0.0)
            known = {dp_event.PoissonSampledDpEvent: math.log1p(0.1 * math.expm1(2.0))}
            mixture = isinstance(event, dp_event.MixtureOfGaussiansDpEvent)
            assert found == (math.inf if mixture else pytest.approx(known.get(type(event), 1.0), rel=1e-9))
            return
        with pytest.raises(UnsupportedEventError, match="no counterpart here"):
            ExactAccountant(relation).compose(event)

    def test_poisson_subsampling_laplace_not_supported_for_replace_one(self) -> None:
        """Theirs does not read it; ours does, by a bound (`test_composition_errors_for_neighboring_relation`)."""
        assert ExactAccountant(REPLACE).supports(dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)))

    def test_truncated_subsampled_gaussian_basic(self) -> None:
        """Theirs counts batches that are cut as of a replaced record, which is more than it takes."""
        ours = ExactAccountant()
        for size, count in ((4, 3), (3, 2)):
            ours.compose(dp_event.TruncatedSubsampledGaussianDpEvent(size, 0.5, 2, 1.0), count)
        assert 0.5e-6 < ours.get_delta(17.904330) < 1e-6
        assert 17.0 < ours.get_epsilon(1e-6) < 17.904330
        joins, step = dp_event.TruncatedSubsampledGaussianDpEvent(0, 0.5, 2, 1.0), dp_event.PoissonSampledDpEvent
        alone = ExactAccountant().compose(step(0.5, dp_event.GaussianDpEvent(1.0)))
        assert ExactAccountant().compose(joins).get_epsilon(1e-6) == alone.get_epsilon(1e-6)  # theirs is free


class WithOrders(ExactAccountant):
    """Shows Renyi divergences of some orders where their tests look for them."""

    def __init__(self, orders: Any = (2.0,), neighboring_relation: Any = ADD) -> None:
        super().__init__(neighboring_relation)
        self._orders = orders

    @property
    def _rdp(self) -> np.ndarray:
        loss = self._accountant.loss
        return np.array([np.max([side.renyi(order) for side in (loss, loss.reversed())]) for order in self._orders])


THEIRS = (
    "test_rdp_composition",
    "test_zero_poisson_sample",
    "test_zero_fixed_batch_sample",
    "test_epsilon_non_private_gaussian",
    "test_compute_rdp_gaussian",
    "test_compute_rdp_multi_gaussian",
    "test_epsilon_delta_consistency",
    "test_compute_eps_tree",
    "test_compute_eps_tree_decreasing",
    "test_unsupported",
    "test_no_op",
    "test_no_events",
    "test_non_private",
    "_make_test_accountants",
)


class RenyiCases(parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enter_context(mock.patch.object(rdp_privacy_accountant, "RdpAccountant", WithOrders))


def _chosen(kind: Any) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if name.startswith(THEIRS)}


TestTheirRenyiCases = type(
    "TestTheirRenyiCases", (RenyiCases,), _chosen(rdp_privacy_accountant_test.RdpPrivacyAccountantTest)
)


def test_renyi_divergences_of_their_poisson_sampled_case() -> None:
    """Their figure of order 1.5 is 3 % above the divergence; the others agree, and an integral with ours."""
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(2.5))
    theirs = {1.5: 6.70579741e-04, 2.5: 1.08548710e-03, 5.0: 2.18075656e-03, 50.0: 2.38460375e-02, 100.0: 167.416308}
    orders = [*theirs, math.inf]
    found = WithOrders(orders).compose(step, 50)._rdp
    assert found[-1] == math.inf
    mp.mp.dps = 30
    for order, ours in zip(theirs, found[:-1]):

        def power(x: mp.mpf, a: float = order) -> mp.mpf:
            return mp.npdf(x, 0, 2.5) * (1 + 0.01 * mp.expm1((x - 0.5) / 6.25)) ** a

        places = [-40, -10, 0, 10, 40, order, order + 40] if order > 40 else [-40, 0, 10, 40]
        exact = 50 * mp.log(mp.quad(power, places))
        assert 0 <= ours / (exact / (order - 1)) - 1 < 1e-9
        assert ours <= theirs[order] * (1 + 1e-8)


class TestWhatIsRead:
    EVENTS: ClassVar[list[Any]] = [
        dp_event.NoOpDpEvent(),
        dp_event.NonPrivateDpEvent(),
        GAUSSIAN,
        SEVERAL,
        dp_event.LaplaceDpEvent(1.0),
        dp_event.DiscreteLaplaceDpEvent(0.5, 2),
        dp_event.ZCDpEvent(0.1, 0.2),
        dp_event.RandomizedResponseDpEvent(0.3, 15),
        dp_event.RandomizedResponseDpEvent(1.0, 2),
        dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN),
        dp_event.PoissonSampledDpEvent(0.1, SEVERAL),
        dp_event.PoissonSampledDpEvent(1.0, SEVERAL),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)),
        dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN),
        dp_event.SampledWithoutReplacementDpEvent(1000, 10, SEVERAL),
        dp_event.SingleEpochTreeAggregationDpEvent(2.0, [3, 8]),
        dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.5, 0.4, 0.1]),
        dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 12, 1.0),
        dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 3.0, 1.0),
    ]

    @pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
    @pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda one: one.name)
    def test_ours_reads_all_that_theirs_read(self, event: Any, relation: Any) -> None:
        theirs = [PLDAccountant(relation), RdpAccountant(neighboring_relation=relation)]
        assert ExactAccountant(relation).supports(event) >= any(one.supports(event) for one in theirs)


def test_several_gaussians_of_one_batch_are_one() -> None:
    """1 + 3/4 is the energy: the noise multiplier of all of them is sqrt(4/7)."""
    alone = dp_event.GaussianDpEvent(math.sqrt(4.0 / 7.0))
    for relation, wrap in (
        (ADD, lambda inner: dp_event.PoissonSampledDpEvent(0.1, inner)),
        (REPLACE, lambda inner: dp_event.PoissonSampledDpEvent(0.1, inner)),
        (REPLACE, lambda inner: dp_event.SampledWithoutReplacementDpEvent(1000, 10, inner)),
    ):
        several, one = (ExactAccountant(relation).compose(wrap(inner)).get_epsilon(1e-6) for inner in (SEVERAL, alone))
        assert several == pytest.approx(one, rel=1e-12)
    assert (
        ExactAccountant().compose(dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([]))).supports(GAUSSIAN)
    )


@pytest.mark.parametrize(("kept", "answers"), [(0.3, 2), (0.05, 20), (0.9, 7)])
def test_randomised_response_against_a_special_record(kept: float, answers: int) -> None:
    """The exact divergence from answers that are all alike, and no larger loss than its largest."""
    ours = ExactAccountant(SPECIAL).compose(dp_event.RandomizedResponseDpEvent(kept, answers))
    truth = np.full(answers, kept / answers)
    truth[0] += 1.0 - kept
    largest = float(np.max(np.abs(np.log(truth * answers))))
    assert ours.get_epsilon(0.0) == pytest.approx(largest, rel=1e-12)
    for epsilon in (0.0, 0.1, 0.5 * largest, 0.99 * largest):
        sides = ((truth, 1 / answers), (1 / answers, truth))
        exact = max(np.sum(np.maximum(one - np.exp(epsilon) * other, 0.0)) for one, other in sides)
        assert ours.get_delta(epsilon) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize(("kept", "answers", "times"), [(0.9, 7, 20), (0.999, 100, 100)])
def test_answers_against_a_special_record_compose(kept: float, answers: int, times: int) -> None:
    """Beside a binomial sum in 40 digits, and below both of theirs; their grid forgets how often an event is used."""
    event = dp_event.RandomizedResponseDpEvent(kept, answers)
    ours = ExactAccountant(SPECIAL).compose(event, times)
    with mp.workdps(40):
        truth, alike = 1 - mp.mpf(kept) * (answers - 1) / answers, mp.mpf(1) / answers
        for epsilon in (0.0, 0.2, 1.0):
            exact = max(
                mp.fsum(
                    mp.binomial(times, k)
                    * max(x**k * (1 - x) ** (times - k) - mp.exp(epsilon) * y**k * (1 - y) ** (times - k), 0)
                    for k in range(times + 1)
                )
                for x, y in ((truth, alike), (alike, truth))
            )
            assert 0 <= ours.get_delta(epsilon) / exact - 1 < 1e-6
    renyi = RdpAccountant(neighboring_relation=SPECIAL).compose(event, times)
    grid = PLDAccountant(SPECIAL).compose(dp_event.ComposedDpEvent([event] * times))
    for delta in (1e-5, 1e-10):
        found = ours.get_epsilon(delta)
        assert found <= renyi.get_epsilon(delta)
        assert 0 <= grid.get_epsilon(delta) / found - 1 < 1e-2
