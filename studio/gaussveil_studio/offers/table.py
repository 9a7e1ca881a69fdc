"""Offer: counts, sums, means, variances, shares and medians of a table by public groups, one unit hidden, whole."""

from __future__ import annotations

import json
import shlex
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import mechanisms, statistics
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.table.release import TableRelease
from gaussveil.report.number_files import encode_columns
from gaussveil.statistics import Source
from gaussveil_studio.offers.offer import DAY, spelled
from gaussveil_studio.offers.rehearsed import Answer, Facts, RehearsedOffer
from gaussveil_studio.offers.tables import HOUSEHOLD, READING, by_rows, open_source, rows_of, schema_of

MANY = 8  # groups from which on a line, or a row for each, is drawn
MOST_SIMULATED = 2000


class TableOffer(RehearsedOffer):
    """Answers from a table by group."""

    file_name = "answers.csv"
    holds = (
        "In 95 of 100 cases the true answer lies within the band: it holds the noise that was added for privacy, and "
        "what clipping to learnt bounds took from means and sums. Values beyond a bound that was stated count as that "
        "bound; errors of measuring are not in it."
    )

    def _mechanism(self, **more: Any) -> TableRelease:
        known = self._promised("unit", "rows_per_group", **more)
        return TableRelease(by=self._groups(), answers=[self._asked()], **known)

    def _groups(self) -> dict[str, Any]:
        by, column = self.order["by"], self.order["by_column"]
        if by == "nothing":
            return {}
        if not column:
            raise ParameterError("choose the column to group by, or one number for all together")
        if by != "values":
            return {by: getattr(statistics, f"{by}_of")(column, time_zone=self.order["time_zone"])}
        listed = self.order["by_values"]
        if not listed:
            raise ParameterError("list the values to group by: they must be public, so they are never looked up")
        return {column: statistics.value_of(column, [int(v) if v.lstrip("-").isdecimal() else v for v in listed])}

    def _asked(self) -> Any:
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

    def _simulated(self) -> pa.Table:
        """Rows of nobody: each unit once in every group, some larger than others, over a day that everybody knows."""
        self._mechanism().plan().request.reader.check(self._rows() or schema_of(self.needed_table()))
        if self.order["unit"] == self.order["by_column"]:
            raise SchemaError("whom to hide cannot be a group as well: a group of one hides nobody")
        units = min(self.order["units"], MOST_SIMULATED)
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

    def _rows(self) -> pa.Schema | None:
        """The table as rows of household, time and reading, where it has a column for each household."""
        return rows_of(schema_of(self.needed_table())) if self.order["unit"] == HOUSEHOLD else None

    def _data(self) -> Source:
        table = open_source(self.needed_table())
        return by_rows(table) if self._rows() else table

    def _facts(self, rehearsed: Answer) -> Facts:
        (names, _), error = rehearsed.table.values(), dict(rehearsed.facts)["Typical error"]
        units = min(self.order["units"], MOST_SIMULATED)
        return (
            ("Answers", f"{len(names)} number{'s' * (len(names) > 1)}, each with its error and its 95 % interval"),
            ("Noise", f"standard deviation about {error} if each group has {units} of them"),
        )

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table){self._melted()})"

    def _melted(self) -> str:
        if (rows := self._rows()) is None:
            return ""
        time = json.dumps(rows.names[1])
        return f'.table().to_pandas().melt({time}, var_name="{HOUSEHOLD}", value_name="{READING}")'

    def shell(self) -> tuple[str, str]:
        """The readings as rows."""
        if not self._melted():
            return super().shell()
        made = f'gaussveil.open({json.dumps(self.table_name)}){self._melted()}.to_parquet("readings.parquet")'
        return f"python -c {shlex.quote(f'import gaussveil; {made}')}", "readings.parquet"

    def _unit(self) -> str:
        unit: str = self.order["measured_in"]
        known = {"count": "rows", "share": "share of rows", "variance": f"{unit} squared".strip()}
        return known.get(self.order["answer"], unit)

    def _answer(self, mechanism: TableRelease, data: Any) -> Answer:
        order, release = self.order, mechanism.release(data)
        found = release.value
        (name,) = (one.removesuffix("_sd") for one in found.column_names if one.endswith("_sd"))
        values, low, high = (found[f"{name}{end}"].to_pylist() for end in ("", "_low", "_high"))
        labels = ["all"] if order["by"] == "nothing" else [str(key) for key in found.column(0).to_pylist()]
        over = {"nothing": "", "values": order["by_column"]}.get(order["by"], f"{order['by']} of {order['by_column']}")
        what = "count" if order["answer"] == "count" else f"{order['answer']} of {order['column']}"
        self.y_name = ", ".join(part for part in (what, self._unit()) if part)
        in_order = "rows" if order["by"] == "values" else "line"
        self.kind = in_order if len(labels) > MANY else "points"
        error = f"{float(np.median(found[f'{name}_sd'].to_numpy())):.3g} {self._unit()}".strip()
        body = encode_columns({column: found[column].to_numpy() for column in found.column_names}, ".csv")
        facts = (("Typical error", error),)
        return Answer({over: labels, what: values}, release.certificate, facts, (low, high), body=body)
