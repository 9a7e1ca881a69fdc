"""`Accountant`: the privacy of a training run or of any list of releases, and the noise that a promise needs.

Pairs and steps share one contour integral, all else joins on a grid; answers are on the private side.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from gaussveil.accounting.account import Account
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.certificates.draft import CertificateDraft
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.cumulants import renyi_bound, renyi_upper
from gaussveil.accounting.debits import transaction
from gaussveil.accounting.groups import of_group
from gaussveil.accounting.noise_design import DPSGD, Allocation, Gaussian, NoiseDesign
from gaussveil.accounting.pure_losses import largest_loss
from gaussveil.accounting.relation import ADD_REMOVE, relation_of
from gaussveil.checks import real, refuse, whole
from gaussveil.errors import ParameterError
from gaussveil.shown import Shown
from gaussveil.spectrum import Enclosure, PrivacyCurve, PrivacyLoss, composed
from gaussveil.spectrum.attack_risk import GaussianDP
from gaussveil.spectrum.group_curve import MOST_MEMBERS
from gaussveil.spectrum.laws.loss_tables import is_table
from gaussveil.spectrum.laws.pair_law import Pair
from gaussveil.spectrum.renyi_bounds import RenyiBound
from gaussveil.spectrum.subsampled.composed import lower_end
from gaussveil.spectrum.worse_orientation import WorseOrientation

__all__ = ["DPSGD", "Accountant", "Allocation", "Gaussian"]

ROUNDED_UP = 1.0 + 1e-15  # of one product of doubles
OUTWARDS = 1e-11  # by which an epsilon is raised, so that what a charge stores, rounded, keeps the promise
CARRIED_OUT = "the training program clipped, sampled and drew its noise as was counted here; it was not watched"


class Accountant(Shown):
    """Adds up releases; `epsilon`, `delta` and the attack risks speak of all of them together.

    Exact for a sequence fixed in advance (what is asked may follow earlier answers, the mechanisms not).

    Args:
        relation: "add-remove", where neighbours differ by one record that is there or not, or "replace", where one is
            exchanged for another.

    Raises:
        ParameterError: the relation is neither.

    >>> import gaussveil
    >>> accountant = gaussveil.Accountant().add(gaussveil.DPSGD(noise_multiplier=1.0, sampling_rate=0.01), steps=1000)
    >>> round(accountant.epsilon(1e-5), 4)
    1.8282
    """

    def __init__(self, relation: str = ADD_REMOVE) -> None:
        self.relation = relation_of(relation)
        self._parts: list[tuple[PrivacyCurve, int]] = []
        self._loss: PrivacyCurve | None = None

    def _brief(self) -> dict[str, str]:
        return {
            "releases": str(sum(count for _, count in self._parts)),
            "relation": self.relation,
        }

    def add(
        self, mechanism: NoiseDesign | PrivacyCurve | Charge, steps: int = 1
    ) -> Accountant:
        """Count `steps` uses of a mechanism, a privacy curve or a charge.

        Args:
            mechanism: a `DPSGD`, a `Gaussian`, a `Pair` or its table, another privacy curve, or a charge.
            steps: how often it is used, at least once.

        Returns:
            The accountant itself, so that calls can follow one another.

        Raises:
            ParameterError: it is none of these, speaks of neighbours of another relation, or its noise is still open.
        """
        counted = whole("steps", steps, "[1, 9007199254740992]")
        if not isinstance(mechanism, PrivacyCurve | Charge):
            if not is_table(mechanism):
                refuse(
                    "mechanism",
                    "a DPSGD, a Gaussian, a Pair, another privacy curve or a charge",
                    mechanism,
                )
            mechanism = Pair(mechanism)
        return self._add(mechanism, counted)

    def _add(self, mechanism: PrivacyCurve | Charge, steps: int) -> Accountant:
        """The same of arguments that were checked."""
        self._parts += [
            (curve, count * steps)
            for curve, count in mechanism.parts_for(self.relation)
        ]
        self._loss = None
        return self

    def group(self, members: int) -> Accountant:
        """An accountant of the same releases for `members` records at once: those of one person, or a household.

        Exact for Gaussian noise, Laplace, discrete noise and the exponential mechanism, where each member moves the
        value as far; sound for all else, by as many tests in a row. What is added later is not for groups.

        Returns:
            A new accountant; this one stays as it is.

        Raises:
            ParameterError: members is not a whole number from 1 on, or above what a group may have.

        >>> import gaussveil
        >>> once = gaussveil.Accountant().add(gaussveil.Gaussian(noise_multiplier=6))
        >>> thrice = gaussveil.Accountant().add(gaussveil.Gaussian(noise_multiplier=2))
        >>> round(once.group(3).epsilon(1e-5), 9) == round(thrice.epsilon(1e-5), 9)
        True
        """
        members = whole("members", members, f"[1, {MOST_MEMBERS}]")
        grouped = Accountant(self.relation)
        grouped._parts = of_group(self._oriented(), members)
        return grouped

    @property
    def charges(self) -> list[tuple[Charge, int]]:
        """What an account is charged for the same: charges with their counts."""
        return [
            (Charge(kept), uses * count)
            for curve, count in self._parts
            for kept, uses in curve.charged()
        ]

    def certify(
        self,
        *,
        delta: float,
        epsilon: float | None = None,
        account: Account | None = None,
        unit: str = "record",
        released: str = "a model trained with noise",
        assumptions: Sequence[str] = (),
        release_id: str | None = None,
    ) -> Certificate:
        """Charge an account for everything counted so far, durably, and certify it; call it before anything is shown.

        Arguments:
            delta: promised together with epsilon.
            epsilon: the promise; the smallest that holds at delta where it is not given.
            account: who pays; without one nothing is recorded, and the certificate says so.
            unit: whose record it is that neighbours differ in.
            released: what will be shown, in words.
            assumptions: what the promise rests on besides what is stated always: that the training program clipped,
                sampled and drew noise as it was counted.
            release_id: a name of one's own; the same name is charged once.

        Returns:
            The certificate of everything counted, with its place in the ledger where an account paid.

        Raises:
            ParameterError: nothing was added yet.
            BudgetExceededError: the account cannot pay; then the run must not be shown.
        """
        if not self._parts:
            raise ParameterError(
                "releases must be added before they are certified. Got none."
            )
        if epsilon is not None:
            promised = epsilon
        else:
            promised = self.epsilon(delta) * (1.0 + OUTWARDS) + OUTWARDS
        charges = [charge * count for charge, count in self.charges]
        draft = CertificateDraft(
            released=released,
            mechanism="training with noise, counted by an accountant",
            adjacency=Adjacency.add_remove(unit)
            if self.relation == ADD_REMOVE
            else Adjacency.replace_one(unit),
            epsilon=promised,
            delta=delta,
            assumptions=(CARRIED_OUT, *assumptions),
        )
        with transaction(
            account, reduce(operator.add, charges), draft, release_id=release_id
        ) as debit:
            debit.draw(lambda: None)  # the noise was drawn by the training program
        return debit.certificate

    @property
    def loss(self) -> PrivacyCurve:
        """The composed privacy curve; exact, or on a grid where curves without factors take part."""
        if self._loss is None:
            whole = composed(self._oriented())
            if whole is not None:
                self._loss = whole
            else:
                self._loss = PrivacyLoss.from_terms([0.0], [1.0], [0.0])
        return self._loss

    def _oriented(self) -> list[tuple[PrivacyCurve, int]]:
        """The parts; among several, where a record is replaced, each that is not symmetric either way round."""
        if self.relation == ADD_REMOVE or sum(count for _, count in self._parts) < 2:
            return list(self._parts)
        return [
            (curve if curve.symmetric else WorseOrientation(curve), count)
            for curve, count in self._parts
        ]

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of (epsilon, delta)-differential privacy, on the private side.

        Returns:
            The least of three upper ends: by the composed losses, by the largest loss there can be, and by sums of
            bounds.

        Raises:
            ParameterError: delta is not between 0 and 1.
        """
        real("delta", delta, "[0, 1]")
        ends = [float(np.max(self.loss.dp_epsilon(delta)))]
        worst = [(WorseOrientation(curve), count) for curve, count in self._parts]
        ends.append(
            float(largest_loss(worst)) * ROUNDED_UP
        )  # a grid's upper ends do not reach it
        ends += [float(bound.epsilon(delta)) for bound in self._added()]
        return min(ends)

    def delta(self, epsilon: float) -> float:
        """Smallest delta of (epsilon, delta)-differential privacy, its error bound included.

        Returns:
            A proven upper end where `enclose` says proven, else one whose errors are estimated; at most 1.

        Raises:
            ParameterError: epsilon is negative or not finite.
        """
        return self._delta(real("epsilon", epsilon, "[0, inf)"))

    def _delta(self, epsilon: float) -> float:
        """The same of an argument that was checked."""
        bounds = [float(bound.delta(epsilon)) for bound in self._added()]
        return min(self.loss.dp_delta_upper(epsilon), 1.0, *bounds)

    def _added(self) -> list[RenyiBound]:
        """Divergences added up, which may say more than a grid where nothing else is known of a part; or nothing."""
        if not any(curve.only_bounded for curve, _ in self._parts):
            return []
        bound = renyi_bound(self._parts)
        if bound is not None:
            return [bound]
        return []

    def enclose(self, epsilon: float) -> Enclosure:
        """Ends of delta(epsilon), `proven` or not; where there is a grid the lower one is that of exact parts.

        Returns:
            An `Enclosure` around the worse direction's delta.

        Raises:
            ParameterError: epsilon is negative or not finite.
        """
        real("epsilon", epsilon, "[0, inf)")
        whole = self.loss.dp_enclose(epsilon)
        fainter = [(curve.fainter(), count) for curve, count in self._parts]
        if self.loss.factors() is None:
            ends = self._below(fainter, epsilon), self.delta(epsilon)
            if whole.proven:
                return whole
            return Enclosure.of(*ends, proven=False)
        below = composed(fainter)
        if below is None or all(
            faint is other for (faint, _), (other, _) in zip(fainter, self._parts)
        ):
            return whole
        low = below.dp_enclose(epsilon)
        return Enclosure(
            low.lower,
            whole.upper,
            low.log_lower,
            whole.log_upper,
            proven=low.proven and whole.proven,
        )

    def _below(self, parts: list[tuple[PrivacyCurve, int]], epsilon: float) -> float:
        """A lower end of delta where not all parts are under one contour."""
        whole = composed(parts)
        lower_ends = [lower_end(parts, epsilon)]
        if whole is not None and not whole.batch_shape:
            lower_ends.append(float(whole.dp_enclose(epsilon).lower))
        return max(lower_ends)

    def tradeoff(self, type_one_error: Any) -> Any:
        """Smallest type II error of any test at the given type I error, in the worse direction.

        Args:
            type_one_error: probability that the test errs without the record, a number or an array.

        Returns:
            The type II error, in the shape of `type_one_error`.
        """
        return np.minimum(
            self.loss.tradeoff(type_one_error),
            self.loss.reversed().tradeoff(type_one_error),
        )[()]

    def advantage(self) -> float:
        """Largest true-positive rate less false-positive rate of any attack.

        Returns:
            A number between 0 and 1: delta at epsilon 0.
        """
        return self.delta(0.0)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Largest true-positive rate of any attack with the given false-positive rate.

        Args:
            false_positive_rate: of the attack, a number or an array.

        Returns:
            The rate of the stronger attack: with the record against without it, or the other way round.
        """
        return float(np.max(self.loss.true_positive_rate(false_positive_rate)))

    def mu(self, smallest_delta: float = 1e-10) -> GaussianDP:
        """Smallest Gaussian-DP curve above this one, down to `smallest_delta`, with its regret.

        Returns:
            A `GaussianDP`: `mu`, and as `regret` the most by which it overstates a true-positive rate.
        """
        return self.loss.mu(smallest_delta)

    def renyi(self, order: float) -> float:
        """Renyi divergence of an order above 1, in the worse direction; an upper end where profiles take part.

        Returns:
            The divergence; infinite where it does not exist.

        Raises:
            ParameterError: the order is not above 1.
        """
        real("order", order, "(1, inf)")
        if self.loss.factors() is not None:
            return float(
                max(
                    np.max(side.renyi(order))
                    for side in (self.loss, self.loss.reversed())
                )
            ) * (1.0 + 1e-13)
        return (
            math.fsum(count * renyi_upper(curve, order) for curve, count in self._parts)
            * ROUNDED_UP
        )

    def _curve(self) -> PrivacyCurve:
        return self.loss
