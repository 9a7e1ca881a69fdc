"""Offer: counts, sums, means, variances, shares and medians of a table by public groups, one unit hidden, whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import mechanisms, statistics
from gaussveil.accounting import Account
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.table.release import TablePlan, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.report.number_files import encode_columns
from gaussveil.studio.offers.offer import EPSILONS, Offer, Outcome, Picture, Plan, against_epsilon, band
from gaussveil.studio.offers.spelling import spelled
from gaussveil.studio.offers.tables import open_source, schema_of

ROOM_PER_GROUP = 512
MANY = 8  # groups from which on a line is drawn
MOST_SIMULATED = 2000
CLOSE = 1e4  # an epsilon that hides nothing
# A day of a home as everybody knows it: public, and of no data.
DAY = (2, 2, 1, 1, 1, 2, 4, 6, 6, 5, 5, 6, 7, 6, 5, 5, 6, 8, 10, 10, 9, 7, 5, 3)


class TableOffer(Offer):
    """Answers from a table by group."""

    file_name = "answers.csv"

    def _mechanism(self, account: Account | None = None, **changed: Any) -> TableRelease:
        order = self.order
        known = {name: order[name] for name in ("unit", "epsilon", "delta", "rows_per_group")}
        return TableRelease(**{**known, **changed}, by=self._groups(), answers=[self._answer()], account=account)

    def _groups(self) -> dict[str, Any]:
        by, column = self.order["by"], self.order["by_column"]
        if by == "nothing":
            return {}
        if not column:
            raise ParameterError("choose the column to group by, or one number for all together")
        if by != "values":
            return {by: getattr(statistics, f"{by}_of")(column, tz=self.order["time_zone"])}
        listed = self.order["by_values"]
        if not listed:
            raise ParameterError("list the values to group by: they must be public, so they are never looked up")
        return {column: statistics.value_of(column, [int(v) if v.lstrip("-").isdecimal() else v for v in listed])}

    def _answer(self) -> Any:
        order, kind = self.order, self.order["answer"]
        if kind == "count":
            return mechanisms.Count()
        if not order["column"]:
            raise ParameterError("choose the column of numbers to answer about")
        if order["low"] is None or order["high"] is None:
            raise ParameterError("say between which bounds a value lies; they must be known without the data")
        between = (order["low"], order["high"])
        if kind == "median":
            return mechanisms.Quantile(order["column"], 0.5, between)
        learnt = {"bounds": "auto"} if order["bounds"] == "learnt" and kind in ("mean", "sum") else {}
        return getattr(mechanisms, kind.title())(order["column"], between, **learnt)

    def _planned(self) -> TablePlan:
        plan = self._mechanism().plan()
        plan.request.reader.check(schema_of(self.needed_table()))
        if self.order["unit"] == self.order["by_column"]:
            raise SchemaError("whom to hide cannot be a group as well: a group of one hides nobody")
        return plan

    def plan(self) -> Plan:
        """The noise of every answer, and a rehearsal on a simulated table of the same shape; no data."""
        plan, units = self._planned(), min(self.order["units"], MOST_SIMULATED)
        rehearsed = self._mechanism(generator=SeededGenerator(0)).release(self._simulated(units)).value
        error = f"{self._typical_error(rehearsed)} if each group has {units} of them"
        accuracy = None
        if not any(map(math.isnan, plan.deviations().values())):
            errors = [sum(self._mechanism(epsilon=one).plan().deviations(units).values()) for one in EPSILONS]
            accuracy = against_epsilon("Error against epsilon", self._unit(), {"standard deviation": errors})
        return Plan(
            facts=(
                ("Answers", f"{len(rehearsed)} numbers, each with its error and its 95 % interval"),
                ("Noise", f"standard deviation about {error}"),
            ),
            charge=plan.charge,
            adjacency=plan.adjacency,
            accuracy=accuracy,
            simulated=self._picture(f"On a simulated table of {units}", rehearsed),
        )

    def _simulated(self, units: int) -> pa.Table:
        """Rows of nobody: each unit once in every group, some larger than others, over a day that everybody knows."""
        order, (values, *_) = self.order, [*(list(key.values) for key in self._groups().values()), ["all"]]
        place, who = np.tile(np.arange(len(values)), units), np.repeat(np.arange(units), len(values))
        low, high = order["low"] or 0.0, order["high"] or 1.0
        size = np.random.default_rng(0).gamma(4.0, 0.25, units)
        columns: dict[str, Any] = {order["unit"]: who}
        if order["column"]:
            level = np.asarray(DAY)[place * len(DAY) // len(values)] / 20
            columns[order["column"]] = np.clip(low + (high - low) * level * size[who], low, high)
        if order["by"] != "nothing":
            step: Any = {"hour": "h", "weekday": "D", "month": "M"}.get(order["by"])
            clock = np.datetime64("2024-01", step) + place if step else np.asarray(values)[place]
            columns[order["by_column"]] = clock.astype("M8[s]") if step else clock
        return pa.table(columns)

    def prepare(self) -> int:
        """Open the table and plan."""
        self._planned()
        return ROOM_PER_GROUP * math.prod(len(key.values) for key in self._groups().values()) + 4096

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table))"

    def release(self, account: Account) -> Outcome:
        """Read the table once and draw."""
        release = self._mechanism(account).release(open_source(self.needed_table()))
        value = release.value
        return Outcome(
            body=encode_columns({name: value[name].to_numpy() for name in value.column_names}, ".csv"),
            certificate=release.certificate,
            facts=(("Released", release.certificate.released), ("Typical error", self._typical_error(value))),
            picture=lambda: self._picture("Released answers", value),
        )

    def almost_exact(self, name: str) -> list[float]:
        """The same answers with next to no noise, for the owner of the data alone."""
        found: list[float] = (
            self._mechanism(epsilon=CLOSE).release(open_source(self.needed_table())).value[name].to_pylist()
        )
        return found

    def _unit(self) -> str:
        unit: str = self.order["measured_in"]
        known = {"count": "rows", "share": "share of rows", "variance": f"{unit} squared".strip()}
        return known.get(self.order["answer"], unit)

    def _typical_error(self, answers: pa.Table) -> str:
        (name,) = (one for one in answers.column_names if one.endswith("_sd"))
        return f"{float(np.median(answers[name].to_numpy())):.3g} {self._unit()}".strip()

    def _picture(self, title: str, answers: pa.Table) -> Picture:
        order, unit = self.order, self._unit()
        what = order["answer"] if order["answer"] == "count" else f"{order['answer']} of {order['column']}"
        (name,) = (one.removesuffix("_sd") for one in answers.column_names if one.endswith("_sd"))
        values, low, high = (answers[f"{name}{end}"].to_pylist() for end in ("", "_low", "_high"))
        labels = ["all"] if order["by"] == "nothing" else [str(key) for key in answers.column(0).to_pylist()]
        over = {"nothing": "", "values": order["by_column"]}.get(order["by"], f"{order['by']} of {order['by_column']}")
        kind, named = "line" if len(labels) > MANY else "points", f"{what}, {unit}" if unit else what
        return Picture(title, labels, {what: values}, over, named, kind, bands=[band(low, high)])
