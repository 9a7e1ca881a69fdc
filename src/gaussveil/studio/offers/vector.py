"""Offer: a vector or table with Gaussian noise. Shape and header are public for this mechanism, and so stated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gaussveil.accounting import Account, Adjacency
from gaussveil.calibration import white_noise_scale
from gaussveil.mechanisms import GaussianRelease
from gaussveil.report.number_files import BYTES_PER_NUMBER, Numbers, encode
from gaussveil.studio.offers.offer import EPSILONS, Offer, Outcome, Picture, Plan, against_epsilon
from gaussveil.studio.offers.spelling import spelled
from gaussveil.studio.offers.tables import read_plain

MOST_DRAWN = 120
MOST_SERIES = 6


class VectorOffer(Offer):
    """Noise on every number."""

    def _mechanism(self, account: Account | None = None) -> GaussianRelease:
        order = self.order
        return GaussianRelease(
            epsilon=order["epsilon"],
            delta=order["delta"],
            l2_sensitivity=order["l2_sensitivity"],
            adjacency=order["adjacency"],
            account=account,
        )

    def _numbers(self) -> Numbers:
        found: Numbers = self._known.setdefault("numbers", read_plain(self.needed_table()))
        return found

    def plan(self) -> Plan:
        """The noise's size, which depends on the table's shape only, and very little on that."""
        shape = self._numbers().values.shape
        plan = self._mechanism().plan(shape)
        relation = Adjacency.replace_one if self.order["adjacency"] == "replace" else Adjacency.add_remove
        deviation = plan.standard_deviation
        assert isinstance(deviation, float)
        errors = [white_noise_scale(self.order["l2_sensitivity"], one, self.order["delta"]) for one in EPSILONS]
        return Plan(
            facts=(
                ("Table", f"{' x '.join(map(str, shape))} numbers; shape and names of columns are taken as public"),
                ("Noise", f"standard deviation {deviation:.6g} on every number"),
                ("Accuracy", "about two numbers in three will be off by less than that"),
                ("Grid", f"multiples of {plan.noise.grid:.3g}".replace("e-0", "e-")),
            ),
            charge=plan.charge,
            adjacency=relation(),
            accuracy=against_epsilon(
                "Noise against epsilon", "same unit as the table", {"standard deviation of the noise": errors}
            ),
        )

    def prepare(self) -> int:
        """Read the table and plan."""
        numbers = self._numbers()
        self._mechanism().plan(numbers.values.shape)
        return BYTES_PER_NUMBER * (numbers.values.size + len(numbers.columns or ())) + 4096

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(read_numbers(Path(table)).values)"

    def release(self, account: Account) -> Outcome:
        """Draw."""
        numbers = self._numbers()
        shape = " x ".join(map(str, numbers.values.shape))
        release = self._mechanism(account).release(numbers.values, released=f"{self.table_name}, {shape} numbers")
        variance = release.certificate.parameters["noise_covariance"]
        assert isinstance(variance, float)
        return Outcome(
            body=encode(Numbers(release.value, numbers.columns), f".{self.order['file_format']}"),
            certificate=release.certificate,
            facts=(("Released", f"{shape} numbers"), ("Noise", f"standard deviation {math.sqrt(variance):.6g}")),
            picture=lambda: _picture(release.value, numbers.columns),
        )


def _picture(value: Any, columns: tuple[str, ...] | None) -> Picture:
    table = np.atleast_2d(np.asarray(value).reshape(len(value), -1)) if np.ndim(value) else np.reshape(value, (1, 1))
    table = table[:MOST_DRAWN, :MOST_SERIES]
    header = columns or tuple(f"column {index + 1}" for index in range(table.shape[1]))
    return Picture(
        "Released numbers", list(range(1, len(table) + 1)), dict(zip(header, table.T.tolist())), "row", "value"
    )
