"""Offer: one Gaussian per class of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussveil.accounting import Account
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import MixtureModel, PrivateGaussianMixture
from gaussveil.mechanisms.mixture.records import classes_from_words
from gaussveil.statistics import Source
from gaussveil.studio.offers.offer import EPSILONS, Offer, Outcome, Picture, Plan, against_epsilon, names
from gaussveil.studio.offers.spelling import spelled
from gaussveil.studio.offers.tables import open_source

BYTES_PER_PARAMETER = 64
COUNTS = "counts and sums in the ball"


class MixtureOffer(Offer):
    """A density and a classifier to hand on."""

    file_form = "mixture.json"

    def _mechanism(self, table: Source, account: Account | None = None) -> PrivateGaussianMixture:
        order, columns = self.order, self.order["columns"]
        return PrivateGaussianMixture(
            epsilon=order["epsilon"],
            delta=order["delta"],
            radius=order["radius"],
            classes=self._classes(table),
            nominal_size=order["nominal_size"],
            columns=columns,
            account=account,
        )

    def _classes(self, table: Source) -> list[Any] | int:
        given = names(self.order["classes"])
        if self.order["label"]:
            if given is None:
                raise ParameterError("classes must be given: labels are public and never looked up")
            return classes_from_words(table, self.order["label"], given)
        if given is None or len(given) != 1 or not given[0].isdecimal() or len(given[0]) > 4:
            raise ParameterError("without a label column, classes must say how many clusters to find")
        return int(given[0])

    def plan(self) -> Plan:
        """The charge, and the noise of the first pass where the number of records is guessed; from the schema alone."""
        table, label = open_source(self.needed_table()), self.order["label"]
        mechanism = self._mechanism(table)
        plan = mechanism.plan(table, label)
        known = plan.parameters
        facts = [
            ("Model", plan.released),
            ("Mean shift", f"{known['mean_shift']:.4g} noise deviations for one record, over all passes together"),
        ]
        accuracy = None
        if "noise" in known:
            facts.append(("Noise", f"standard deviation {_count_noise(known):.4g} on the first count of every class"))
            errors = []
            for one in EPSILONS:
                mechanism.epsilon = one
                errors.append(_count_noise(mechanism.plan(table, label).parameters))
            accuracy = against_epsilon(
                "Noise on class counts against epsilon", "records", {"standard deviation": errors}
            )
        else:
            facts.append(("Noise", "is divided by the first noisy counts; give a guess of the records to see it here"))
        return Plan(facts, plan.charge, plan.adjacency, accuracy)

    def prepare(self) -> int:
        """Open the table and plan."""
        table = open_source(self.needed_table())
        mechanism = self._mechanism(table)
        mechanism.plan(table, self.order["label"])
        classes = self._classes(table)
        listed = classes if isinstance(classes, int) else len(classes)
        return BYTES_PER_PARAMETER * listed * (len(table.schema.names) + 1) ** 2 + 65536

    def python(self) -> str:
        """As Python."""
        given = spelled(self._mechanism(open_source(self.needed_table())))
        return f"release = {given}.fit(gaussveil.open(table), {self.order['label']!r})"

    def release(self, account: Account) -> Outcome:
        """Fit."""
        table = open_source(self.needed_table())
        mechanism = self._mechanism(table, account).fit(table, self.order["label"])
        model = mechanism.model_
        weights = ", ".join(f"{name}: {weight:.3g}" for name, weight in zip(model.classes, model.weights))
        return Outcome(
            body=model.to_json().encode(),
            certificate=mechanism.certificate_,
            facts=(("Released", mechanism.certificate_.released), ("Weights", weights)),
            picture=lambda: _picture(model),
        )


def _picture(model: MixtureModel) -> Picture:
    means = {f"class {name}": np.asarray(mean).tolist() for name, mean in zip(model.classes, model.means)}
    return Picture("Released means", list(model.columns), means, "column", "mean", kind="bar")


def _count_noise(known: Any) -> float:
    return float(known["noise"][COUNTS][0])
