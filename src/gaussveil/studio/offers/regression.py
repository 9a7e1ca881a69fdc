"""Offer: a linear regression with intervals. The preview is a rehearsal on a simulated table of the same shape."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.accounting import Account
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import LinearFit, PrivateLinearRegression
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import is_number, require_columns, require_numbers
from gaussveil.studio.offers.offer import Offer, Outcome, Picture, Plan, band
from gaussveil.studio.offers.spelling import spelled
from gaussveil.studio.offers.tables import open_source, schema_of

MOST_SIMULATED = 20_000


class RegressionOffer(Offer):
    """Coefficients and their intervals."""

    file_name = "coefficients.json"

    def _mechanism(self, account: Account | None = None) -> PrivateLinearRegression:
        order = self.order
        if (order["low"] is None) != (order["high"] is None):
            raise ParameterError("give both bounds of what is explained, or none")
        given = {} if order["low"] is None else {order["target"]: (order["low"], order["high"])}
        return PrivateLinearRegression(
            epsilon=order["epsilon"],
            delta=order["delta"],
            target=(order["target"],),
            target_bounds=given or "auto",
            unit=order["unit"] or None,
            rows_per_unit=order["rows_per_unit"],
            account=account,
        )

    def _chosen(self) -> list[str]:
        order, skipped = self.order, (self.order["target"], self.order["unit"])
        schema = schema_of(self.needed_table())
        require_columns(schema, [*(order["columns"] or ()), *(name for name in skipped if name)])
        numbers = [one.name for one in schema if is_number(one.type) and one.name not in skipped]
        features = [name for name in order["columns"] or numbers if name not in skipped]
        require_numbers(schema, [*features, order["target"]])
        if not features or order["unit"] == order["target"]:
            raise ParameterError("choose at least one column that explains the other, and another one to hide")
        return list(dict.fromkeys([*features, order["target"], *([order["unit"]] if order["unit"] else [])]))

    def _table(self) -> Source:
        return open_source(self.needed_table()).select(self._chosen())

    def plan(self) -> Plan:
        """The charge, and the coefficients that a simulated table would give; from the schema alone."""
        mechanism = self._mechanism()
        mechanism.fit(as_source(self._simulated(self._chosen())))
        (fit,) = mechanism.fits_
        found = mechanism.certificate_
        return Plan(
            facts=(
                ("Answers", f"{len(fit.names)} coefficients with their 95 % intervals"),
                ("Bounds", "searched, for a fifth of the budget" if self.order["low"] is None else "as you gave them"),
            ),
            charge=found.charge,
            adjacency=found.adjacency,
            simulated=_picture(fit, "On a simulated table of the same shape"),
        )

    def _simulated(self, names: list[str]) -> pa.Table:
        """Rows of nobody: features of one size, a target that half follows from them."""
        order, generator = self.order, np.random.default_rng(0)
        rows = min(order["rows"], MOST_SIMULATED)
        features = [name for name in names if name not in (order["target"], order["unit"])]
        values = generator.uniform(-1, 1, size=(rows, len(features)))
        target = values.mean(axis=1) + generator.normal(size=rows) / (2 * len(features)) ** 0.5
        low, high = (-1.0, 1.0) if order["low"] is None else (order["low"], order["high"])
        columns = dict(zip(features, values.T))
        columns[order["target"]] = (low + high) / 2 + (high - low) / 4 * target
        if order["unit"]:
            columns[order["unit"]] = np.arange(rows) // (order["rows_per_unit"] or 1)
        return pa.table({name: columns[name] for name in names})

    def prepare(self) -> int:
        """Open the table and rehearse."""
        self.plan()
        return 65536 + 4096 * len(self._chosen())

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.fit(gaussveil.open(table).select({self._chosen()!r}))"

    def release(self, account: Account) -> Outcome:
        """Read the table once and draw."""
        mechanism = self._mechanism(account).fit(self._table())
        (fit,) = mechanism.fits_
        rows = zip(fit.names, fit.coefficients.tolist(), fit.interval.tolist(), fit.informed)
        listed = [
            {"name": name, "coefficient": value, "low": low, "high": high, "trusted": told}
            for name, value, (low, high), told in rows
        ]
        body: dict[str, Any] = {"target": fit.target, "coefficients": listed, "residual": fit.residual_deviation}
        return Outcome(
            body=(json.dumps(body, indent=2) + "\n").encode(),
            certificate=mechanism.certificate_,
            facts=(
                ("Released", f"{fit.target} explained by {', '.join(fit.names[1:])}"),
                ("Residual", f"standard deviation {fit.residual_deviation:.4g}"),
                *((("Beware", "the noise is above the signal: do not trust these intervals"),) * (not fit.trusted)),
            ),
            picture=lambda: _picture(fit, "Released coefficients"),
        )


def _picture(fit: LinearFit, title: str) -> Picture:
    names = list(fit.names[1:])
    low, high = fit.interval[1:].T.tolist()
    series = {f"change of {fit.target} per unit": fit.coefficients[1:].tolist()}
    return Picture(title, names, series, "column", "coefficient", "points", bands=[band(low, high)])
