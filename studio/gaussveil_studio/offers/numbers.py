"""Offers on few numbers: a vector that somebody computed, the spectrum of one meter, one of several known profiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import mechanisms  # each loads when it is first named
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.report.number_files import BYTES_PER_NUMBER, Numbers, encode
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import is_number, require_columns, require_numbers
from gaussveil_studio.offers.offer import ASKED_AGAIN, DAY, spelled
from gaussveil_studio.offers.rehearsed import (
    NORMAL_95,
    Facts,
    RehearsedOffer,
    Reply,
)
from gaussveil_studio.offers.rounding import percent, uncertain
from gaussveil_studio.offers.tables import open_source, read_plain, schema_of

MOST_DRAWN = 120
MOST_SERIES = 6
MOST_PROFILES = 480  # numbers: the search for their noise takes seconds then
GUESSED_SIZE = 20.0  # of simulated numbers, against the sensitivity


class VectorOffer(RehearsedOffer):
    """Noise on every number. Shape and header are public for this mechanism, and so stated."""

    kind = "line"
    y_name = "value"

    def _mechanism(self, **more: Any) -> mechanisms.GaussianRelease:
        return mechanisms.GaussianRelease(
            **self._promised("l2_sensitivity", "adjacency", **more)
        )

    def _data(self) -> Numbers:
        found: Numbers = self._known.setdefault(
            "numbers", read_plain(self.needed_table())
        )
        return found

    def _simulated(self) -> Numbers:
        numbers = self._data()
        size = GUESSED_SIZE * self.order["l2_sensitivity"] / max(DAY)
        return Numbers(
            size * np.resize(np.asarray(DAY), numbers.values[:MOST_DRAWN].shape),
            numbers.columns,
        )

    def _facts(self, rehearsed: Reply) -> Facts:
        shape = self._data().values.shape
        plan = self._mechanism().plan(shape)
        return (
            (
                "Table",
                f"{' x '.join(map(str, shape))} numbers; shape and names of columns are taken as public",
            ),
            (
                "Noise",
                f"standard deviation {uncertain(float(np.max(plan.standard_deviation)))} on every number",
            ),
            ("Grid", f"multiples of {plan.noise.grid:.3g}".replace("e-0", "e-")),
        )

    def prepare(self) -> int:
        """Read the table and plan."""
        numbers = self._data()
        self._mechanism().plan(numbers.values.shape)
        return (
            BYTES_PER_NUMBER * (numbers.values.size + len(numbers.columns or ())) + 4096
        )

    def _answer(self, mechanism: mechanisms.GaussianRelease, data: Numbers) -> Reply:
        shape = " x ".join(map(str, data.values.shape))
        release = mechanism.release(
            data.values, released=f"{self.table_name}, {shape} numbers"
        )
        reach = NORMAL_95 * float(
            np.max(mechanism.plan(data.values.shape).standard_deviation)
        )
        drawn = np.reshape(
            release.value, (len(release.value) if np.ndim(release.value) else 1, -1)
        )
        drawn = drawn[:MOST_DRAWN, :MOST_SERIES]
        header = data.columns or [
            f"column {index + 1}" for index in range(drawn.shape[1])
        ]
        table = {
            "row": list(range(1, len(drawn) + 1)),
            **dict(zip(header, drawn.T.tolist())),
        }
        body = encode(Numbers(release.value, data.columns), ".csv")
        noise = (
            (
                "Noise",
                f"standard deviation {uncertain(reach / NORMAL_95)} on every number",
            ),
        )
        return Reply(table, release.certificate, noise, reach=reach, body=body)

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(read_numbers(Path(table)).values)"


class SpectrumOffer(RehearsedOffer):
    """Power at every frequency."""

    file_name = "spectrum.csv"
    kind = "line"
    y_name = "density, kW squared hours"

    def _mechanism(self, **more: Any) -> mechanisms.PrivateSpectrum:
        return mechanisms.PrivateSpectrum(
            sample_period=self.order["minutes"] / 60,
            **self._promised("l2_ball", "points", **more),
        )

    def _chosen(self) -> list[str]:
        schema = schema_of(self.needed_table())
        column = self.order["column"]
        by = self.order["order"]
        require_numbers(schema, [column])
        require_columns(schema, [by])
        if column == by:
            raise SchemaError(
                "readings cannot be their own order: choose the column of times"
            )
        return [column, by]

    def _simulated(self) -> Source:
        count = 8 * self.order["points"]
        generator = np.random.default_rng(0)
        hours = (np.arange(count) * self.order["minutes"] / 60).astype(int) % len(DAY)
        kw = np.asarray(DAY)[hours] / max(DAY) * generator.gamma(4.0, 0.25, count)
        return as_source(pa.table(dict(zip(self._chosen(), (kw, np.arange(count))))))

    def _facts(self, rehearsed: Reply) -> Facts:
        return (("Comparison", self._mechanism().plan().comparison),)

    def _answer(self, mechanism: mechanisms.PrivateSpectrum, data: Any) -> Reply:
        release = mechanism.release(data, order=[self.order["order"]])
        hourly = np.arange(mechanism.points + 1) / (
            2 * mechanism.points * mechanism.sample_period
        )
        table = {"cycles per hour": hourly.tolist(), "density": release.value.tolist()}
        reach = NORMAL_95 * float(np.max(mechanism.plan().standard_deviation))
        return Reply(table, release.certificate, reach=reach, lowest=0.0)

    def python(self) -> str:
        """As Python."""
        chosen = f"gaussveil.open(table).select({self._chosen()!r})"
        return f"release = {spelled(self._mechanism())}.release({chosen}, order={[self.order['order']]!r})"


class LabelOffer(RehearsedOffer):
    """A row of a public table; which one is hidden. As the table is public, the rehearsal is on the table itself."""

    file_name = "profile.csv"
    simulated_on = "The first label of the table"
    kind = "line"
    y_name = "value"

    def _mechanism(self, **more: Any) -> mechanisms.ClassLabelNoise:
        return mechanisms.ClassLabelNoise(
            common_covariance=True, **self._promised(**more)
        )

    def _chosen(self) -> list[str]:
        schema = schema_of(self.needed_table())
        label = self.order["label"]
        require_columns(schema, [label])
        names = [
            one.name for one in schema if is_number(one.type) and one.name != label
        ]
        if not names:
            raise SchemaError(
                "the table must hold columns of numbers beside the labels"
            )
        return names

    def _data(self) -> tuple[list[str], Any]:
        names = self._chosen()
        table = open_source(self.needed_table()).table(
            [self.order["label"], *names], order=[self.order["label"]]
        )
        labels = [str(label) for label in table[self.order["label"]].to_pylist()]
        rows = np.stack(
            [table[name].cast(pa.float64()).to_numpy() for name in names], axis=1
        )
        if not 2 <= len(labels) <= MOST_PROFILES // len(names) or len({*labels}) < len(
            labels
        ):
            raise SchemaError(
                f"the table must hold one row for each label, {MOST_PROFILES} numbers at most in all"
            )
        if self.order["secret"] not in labels:
            raise ParameterError(
                "which is yours must be a label of the table. Got another one."
            )
        return labels, rows

    _simulated = _data

    def _facts(self, rehearsed: Reply) -> Facts:
        return (("Hidden", "which row is yours; the table itself is taken as public"),)

    def _answer(self, mechanism: mechanisms.ClassLabelNoise, data: Any) -> Reply:
        labels, rows = data
        designed = mechanism.design(rows, labels=labels)
        release = designed.release(
            self.order["secret"] if mechanism.generator is None else labels[0]
        )
        # One and the same for all labels: a label's own error would tell which it is.
        reach = NORMAL_95 * math.sqrt(designed.accuracy_)
        table = {"column": self._chosen(), "value": release.value.tolist()}
        kept = (
            ("Released", f"the row that is yours, {len(table['value'])} numbers"),
            (
                "Left to tell",
                f"{percent(designed.retained_variance_)} of what tells the profiles apart on average",
            ),
        )
        return Reply(table, release.certificate, kept, reach=reach)

    def python(self) -> str:
        """As Python; which row it is stands in no file that may be given away."""
        label = self.order["label"]
        read = f"rows = gaussveil.open(table).table({[label, *self._chosen()]!r}, order={[label]!r}).to_pandas()"
        models = f"rows.drop(columns={label!r}), labels=list(map(str, rows[{label!r}]))"
        return f"{ASKED_AGAIN}\n{read}\nrelease = {spelled(self._mechanism())}.design({models}).release(whose)"
