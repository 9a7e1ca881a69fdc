"""Offer: counts, sums, means, variances, shares and medians of a table by public groups, one unit hidden, whole."""

from __future__ import annotations

import calendar
import json
import shlex
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import mechanisms, statistics
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.table.release import TableRelease
from gaussveil.mechanisms.table.useful import groups_apart
from gaussveil.mechanisms.usefulness import Useful
from gaussveil.report.number_files import encode_columns
from gaussveil.statistics import Source
from gaussveil.statistics.keys import Discovered
from gaussveil_studio.offers.kinds import grouped_by, what_is_asked
from gaussveil_studio.offers.offer import DAY, spelled
from gaussveil_studio.offers.periods import (
    PERIODS,
    by_periods,
    is_whole,
    unit_of,
    with_periods,
)
from gaussveil_studio.offers.rehearsed import Facts, RehearsedOffer, Reply
from gaussveil_studio.offers.rounding import uncertain
from gaussveil_studio.offers.tables import (
    HOUSEHOLD,
    READING,
    by_rows,
    open_source,
    proposed,
    rows_of,
    schema_of,
)

# what groups may be, beside the clock
FOUND = "values found"
LISTED = ("values", "values and others")
NOTHING_FOUND = (
    "no value is frequent enough to show: ask for a larger epsilon, or list the values"
)
NAMES = {
    "weekday": dict(zip(map(str, range(7)), calendar.day_name)),
    "month": dict(zip(map(str, range(13)), calendar.month_name)),
}
MANY = 8  # groups from which on a line, or a row for each, is drawn
MOST_SIMULATED = 2000
LESS = ", and less often where many rows share a value, as whole years of age do"


class TableOffer(RehearsedOffer):
    """Answers from a table by group."""

    file_name = "answers.csv"
    holds = (
        "In 95 of 100 cases the true answer lies within the band: it holds the noise that was added for privacy, and "
        "what clipping to learnt bounds took from means and sums. Values beyond a bound that was stated count as that "
        "bound; errors of measuring are not in it. Of medians it is fewer cases where many rows share a value, as "
        "whole years of age do."
    )

    def _mechanism(self, **more: Any) -> TableRelease:
        known = self._promised("rows_per_group", **more)
        return TableRelease(
            by=self._groups(),
            answers=[self._asked()],
            unit=unit_of(self.order),
            **known,
        )

    def _groups(self) -> dict[str, Any]:
        by = self.order["by"]
        column = self.order["by_column"]
        if by == "nothing":
            return {}
        if not column:
            raise ParameterError(
                "choose the column to group by, or one number for all together"
            )
        if by == FOUND:
            return {column: statistics.discover(column)}
        if by not in LISTED:
            return {
                by: getattr(statistics, f"{by}_of")(
                    column, time_zone=self.order["time_zone"]
                )
            }
        given = self.order["by_values"]
        if not given:
            raise ParameterError(
                "list the values to group by: they must be public, so they are never looked up"
            )
        values = [int(v) if v.lstrip("-").isdecimal() else v for v in given]
        return {column: statistics.value_of(column, values, other=by != "values")}

    def _asked(self) -> Any:
        kind = self.order["answer"]
        order = self.order
        if kind == "count":
            return mechanisms.Count()
        if not order["column"]:
            raise ParameterError("choose the column of numbers to answer about")
        if order["low"] is None or order["high"] is None:
            raise ParameterError(
                "say between which bounds a value lies; they must be known without the data"
            )
        between = (order["low"], order["high"])
        if kind == "median":
            return mechanisms.Quantile(order["column"], 0.5, between)
        fits = (
            kind in ("mean", "sum") and order["by"] != FOUND
        )  # both at once is more than one table can be asked
        if order["bounds"] == "learnt" and fits:
            learnt = {"bounds": "auto"}
        else:
            learnt = {}
        return getattr(mechanisms, kind.title())(order["column"], between, **learnt)

    def _simulated(self) -> pa.Table:
        """Rows of nobody: each unit once in every group, some larger than others, over a day that everybody knows."""
        schema = with_periods(
            self._rows() or schema_of(self.needed_table()), self.order, self._time()
        )
        self._mechanism().plan().request.reader.check(schema)
        if self.order["unit"] == self.order["by_column"]:
            raise SchemaError(
                "whom to hide cannot be a group as well: a group of one hides nobody"
            )
        units = min(self.order["units"], MOST_SIMULATED)
        order = self.order
        values = self._listed()
        place = np.tile(np.arange(len(values)), units)
        who = np.repeat(np.arange(units), len(values))
        if order["by"] == FOUND:  # of which each counts in one
            place = np.arange(units) % len(values)
            who = np.arange(units)
        low = order["low"] or 0.0
        high = order["high"] or 1.0
        size = np.random.default_rng(0).gamma(4.0, 0.25, units)
        columns: dict[str, Any] = {unit_of(order): who}
        if order["column"]:
            level = np.asarray(DAY)[place * len(DAY) // len(values)] / 20
            columns[order["column"]] = np.clip(
                low + (high - low) * level * size[who], low, high
            )
        if order["by"] != "nothing":
            step: Any = {"hour": "h", "weekday": "D", "month": "M"}.get(order["by"])
            if step:
                clock = np.datetime64("2024-01", step) + place
            else:
                clock = np.asarray(values)[place]
            columns[order["by_column"]] = clock.astype("M8[s]") if step else clock
        return pa.table(columns)

    def _listed(self) -> list[Any]:
        """The groups of the simulated table; where they are to be found, some that nobody has."""
        if self.order["by"] == "nothing":
            return ["all"]
        (key,) = self._groups().values()
        if not isinstance(key, Discovered):
            return list(key.values)
        schema = self._rows() or schema_of(self.needed_table())
        if pa.types.is_integer(schema.field(key.column).type):
            return [1, 2, 3]
        return ["first", "second", "third"]

    def _rows(self) -> pa.Schema | None:
        """The table as rows of household, time and reading, where it has a column for each household."""
        if self.order["unit"] == HOUSEHOLD:
            return rows_of(schema_of(self.needed_table()))
        return None

    def _data(self) -> Source:
        table = open_source(self.needed_table())
        return by_periods(
            by_rows(table) if self._rows() else table, self.order, self._time()
        )

    def _time(self) -> str:
        """The column that tells when."""
        clock = self.order["by"] in ("hour", "weekday", "month")
        return (clock and self.order["by_column"]) or proposed(
            self._rows() or schema_of(self.needed_table())
        )["time"]

    def _facts(self, rehearsed: Reply) -> Facts:
        (names, _), error = (
            rehearsed.table.values(),
            dict(rehearsed.facts).get("Typical error", "not known"),
        )
        units = min(self.order["units"], MOST_SIMULATED)
        useful = self._useful()
        less = self.order["answer"] == "median"
        counted = f"{len(names)} number{'s' * (len(names) > 1)}"
        return (
            (
                "Answers",
                f"{counted}, each with a band that holds the true one with 95 %{LESS * less}",
            ),
            (
                "Noise",
                f"standard deviation about {error} if each group has {units:,} of them, as “About how many there "
                "are” says: how many the table has is not looked at",
            ),
            *((("Worth asking", str(useful)),) if useful else ()),
        )

    def _beside_account(self) -> dict[str, Any]:
        """The law of the noise; without an account that of a first release, of which many add up to less."""
        if self.account is None:
            return {"law": "gaussian"}
        return {"law": self._mechanism(account=self.account).plan().law}

    def _useful(self) -> Useful:
        """Whether so many units can make it useful, and what to ask instead; from public numbers."""
        plan = self._mechanism(**self._beside_account()).plan()
        units = self.order["units"] * groups_apart(plan.request)
        return plan.useful(units, called="of them")

    def _doubtful(self) -> str:
        useful = self._useful()
        return "" if useful else str(useful)

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table){self._turned()})"

    def _turned(self) -> str:
        """What makes rows of a table with a column for each home, and names periods; nothing of most tables."""
        rows = self._rows()
        order = self.order
        if rows is None and is_whole(order):
            return ""
        turned = ".table().to_pandas()"
        if rows is not None:
            turned += f'.melt({json.dumps(rows.names[1])}, var_name="{HOUSEHOLD}", value_name="{READING}")'
        if is_whole(order):
            return turned
        whose = f'rows[{json.dumps(order["unit"])}].astype("string")'
        when = f"rows[{json.dumps(self._time())}]"
        named = f'{whose} + " in " + {when}.dt.strftime("{PERIODS[order["period"]]}")'
        return (
            f"{turned}.assign(**{{{json.dumps(unit_of(order))}: lambda rows: {named}}})"
        )

    def shell(self) -> tuple[str, str]:
        """The readings as rows."""
        if not self._turned():
            return super().shell()
        made = f'gaussveil.open({json.dumps(self.table_name)}){self._turned()}.to_parquet("readings.parquet")'
        return (
            f"python -c {shlex.quote(f'import gaussveil; {made}')}",
            "readings.parquet",
        )

    def _unit(self) -> str:
        unit: str = self.order["measured_in"]
        known = {
            "count": "rows",
            "share": "of rows",
            "variance": f"{unit} squared".strip(),
        }
        return known.get(self.order["answer"], unit)

    def _answer(self, mechanism: TableRelease, data: Any) -> Reply:
        order = self.order
        release = mechanism.release(data)
        found = release.value
        (name,) = (
            one.removesuffix("_sd") for one in found.column_names if one.endswith("_sd")
        )
        values, low, high = (
            found[f"{name}{end}"].to_pylist() for end in ("", "_low", "_high")
        )
        if order["by"] == "nothing":
            labels = ["all"]
        else:
            labels = [str(key) for key in found.column(0).to_pylist()]
        names = NAMES.get(order["by"], {})
        labels = [names.get(label, label) for label in labels]
        over, what = grouped_by(order), what_is_asked(order)
        unit = "" if self._unit() == order["column"] else self._unit()
        self.y_name = ", ".join(part for part in (what, unit) if part)
        self.whole = order["answer"] == "count"
        if order["by"] in (*LISTED, FOUND):
            in_order = "rows"
        else:
            in_order = "line"
        if len(labels) > MANY:
            self.kind = in_order
        else:
            self.kind = "points"
        if labels:
            deviation = float(np.median(found[f"{name}_sd"].to_numpy()))
            error = f"{uncertain(deviation)} {self._unit()}".strip()
        else:
            error = ""
        body = encode_columns(
            {column: found[column].to_numpy() for column in found.column_names}, ".csv"
        )
        told = ("Released", f"{what} by {over}" if over else what)
        facts = (told, ("Typical error", error) if labels else ("Found", NOTHING_FOUND))
        return Reply(
            {over: labels, what: values},
            release.certificate,
            facts,
            (low, high),
            body=body,
        )
