"""Synthetic rows: a table of nobody with the columns, order and types of the private one."""

from __future__ import annotations

import csv
import io
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import WriteOptions, write_csv

from gaussveil import mechanisms  # each loads when it is first named
from gaussveil.errors import SchemaError
from gaussveil.postprocessing.synthetic.quality import Quality
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import require_columns
from gaussveil.statistics.unit import Unit
from gaussveil_studio.offers.offer import spelled
from gaussveil_studio.offers.rehearsed import (
    MOST_SIMULATED,
    Facts,
    RehearsedOffer,
    Reply,
)
from gaussveil_studio.offers.tables import open_source, schema_of

# of its mean, between which nine tenths of the largest distances of a bridge lie
INNER = 0.60
OUTER = 1.56
SHOWN = 8  # rows on the page
MOST_ADVICE = 3  # sentences beside them, and one of what helps
HELPS = "Leave such a column out, or take fewer columns, more rows or a larger epsilon."
WORDS = ("first", "second", "third")


class SyntheticOffer(RehearsedOffer):
    """Rows to publish; ranges and values of columns are learnt inside the budget."""

    file_name = "synthetic.csv"
    kind = "bar"
    y_name = "off by, of 100 rows"
    simulated_on = "How far off columns will be: a simulated table of the same shape"
    holds = (
        "How far each column, by itself, is off because of the noise: in 9 of 10 cases by a number within its band. "
        "What is lost between columns, and numbers that were moved into a range, are not in it."
    )

    def _mechanism(self, **more: Any) -> mechanisms.SyntheticTable:
        order = self.order
        Unit.of(
            order["unit"], order["rows_per_unit"]
        )  # refused together, before rows are simulated
        return mechanisms.SyntheticTable(
            columns=self._named(),
            bounds="auto",
            label=order["label"],
            series=order["series"] or None,
            **self._promised("unit", "rows_per_unit", "rows", **more),
        )

    def _named(self) -> list[str]:
        """The columns that the rows have: those that were chosen, else all but the one of people."""
        order = self.order
        schema = schema_of(self.needed_table())
        require_columns(
            schema,
            [*(order["columns"] or ()), *filter(None, (order["unit"], order["label"]))],
        )
        if order["unit"] and order["unit"] in (order["columns"] or ()):
            raise SchemaError(
                "whom to hide cannot be what is told as well: choose another column"
            )
        chosen = [
            name for name in order["columns"] or schema.names if name != order["unit"]
        ]
        return [
            *chosen,
            *(
                [order["label"]]
                if order["label"] and order["label"] not in chosen
                else []
            ),
        ]

    def _chosen(self) -> list[str]:
        return [*self._named(), *([self.order["unit"]] if self.order["unit"] else [])]

    def _data(self) -> Any:
        return open_source(self.needed_table())

    def _simulated(self) -> Source:
        schema = schema_of(self.needed_table())
        generator = np.random.default_rng(0)
        count = min(self.order["rows"], MOST_SIMULATED)
        rows_per_unit = self._mechanism().rows_per_unit
        columns = {
            name: _cells(schema.field(name).type, count, generator)
            for name in self._named()
        }
        if rows_per_unit is not None:
            units = np.arange(count) // rows_per_unit
            columns[self.order["unit"]] = pa.array([f"{unit}" for unit in units])
        return as_source(pa.table(columns))

    def _facts(self, rehearsed: Reply) -> Facts:
        return (("Rows", "as many as there are, about"), *rehearsed.facts)

    def _answer(self, mechanism: mechanisms.SyntheticTable, data: Any) -> Reply:
        release = mechanism.release(data)
        quality = release.value.quality
        assert quality is not None
        rows = release.value.sample(None, 0, anyway=True)
        if not quality.usable:
            rows = rows.slice(0, 0)
        off = [100 * gap for gap in quality.gaps.values()]
        told = (
            "Off by",
            f"about {100 * quality.mean_gap:.2g} of 100 rows, each column",
        )
        advice = " ".join(_advice(quality))
        beware = (("Beware", advice),) * bool(advice)
        ends = [INNER * one for one in off], [OUTER * one for one in off]
        table: dict[str, list[Any]] = {"column": list(quality.gaps), "off by": off}
        body = _encoded(rows)
        return Reply(
            table,
            release.certificate,
            (told, *beware),
            ends,
            body=body,
            rows=list(islice(csv.reader(io.StringIO(body.decode())), 1 + SHOWN)),
            band_name="9 of 10 cases",
        )

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table))"


def _advice(quality: Quality) -> list[str]:
    """What to know of such rows before they are used, and what of the form would help."""
    told = []
    if not quality.usable:
        told = [
            f"These rows are of no use: {quality.on_distance}. Take fewer columns, a larger epsilon, or more rows."
        ]
    told += [f"{one.says.format(f'“{one.column}”')}." for one in quality.findings]
    if quality.findings:
        told = [*told[:MOST_ADVICE], HELPS]
    return [one.replace("%", " %") for one in told]


def _encoded(rows: pa.Table) -> bytes:
    buffer = io.BytesIO()
    write_csv(rows, buffer, WriteOptions(quoting_style="needed"))
    return buffer.getvalue()


def _cells(kind: pa.DataType, count: int, generator: np.random.Generator) -> pa.Array:
    """Simulated cells of a type."""
    types = pa.types
    if types.is_boolean(kind):
        return pa.array(generator.random(count) < 0.5)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return pa.array(np.rint(50 + 15 * generator.standard_normal(count))).cast(
            kind, safe=False
        )
    if types.is_temporal(kind):
        days = pa.array(
            generator.integers(18_000, 19_000, count).astype(np.int32)
        ).cast(pa.date32())
        return days.cast(pa.timestamp("s")).cast(kind, safe=False)
    words = pa.array(
        [WORDS[place] for place in generator.integers(0, len(WORDS), count)]
    )
    if not types.is_dictionary(kind):
        return words.cast(kind)
    return words.dictionary_encode()
