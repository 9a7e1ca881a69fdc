"""Offers that preview by a rehearsal: the very release, on rows of nobody that have the table's shape.

Each kind says how its mechanism is made of the order, what it reads, which rows it rehearses on, and what its answer
is; what a preview shows, how a release is drawn, written and pictured is the same for all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaussveil.accounting import Account, Certificate
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.noise import SeededGenerator
from gaussveil.report.number_files import encode_columns
from gaussveil.statistics.block import is_number, require_columns, require_numbers
from gaussveil_studio.offers.offer import (
    CLOSE,
    Offer,
    OfferPlan,
    Outcome,
    Picture,
    band,
    spelled,
    spread,
)
from gaussveil_studio.offers.tables import open_source, schema_of

MOST_SIMULATED = 20_000
NORMAL_95 = 1.96
NOISE_ALONE = (
    "In 95 of 100 cases the number without noise lies within the band. It holds the noise that was added for privacy; "
    "errors of measuring, and of who is in the table at all, are not in it."
)
ROOM = 1 << 20
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reply:
    """A table whose first column names its rows and whose others are drawn, each with its ends where they are known."""

    table: Mapping[str, Sequence[Any]]
    certificate: Certificate
    facts: Facts = ()
    ends: tuple[Sequence[float], Sequence[float]] | None = None
    """Lower and upper ends of the one column that is drawn; or:"""
    reach: float | None = None
    """How far off a number is at most in 95 of 100 cases."""
    lowest: float = -math.inf
    skipped: int = 0
    """Rows that are not drawn: an intercept has another unit than slopes."""
    beside: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that are written and not drawn."""
    body: bytes | None = None
    """The file, where it is no table."""
    rows: Sequence[Sequence[str]] = ()
    """The first rows of the file, under their names, where what is released is rows."""
    band_name: str = "95 % band"

    def ends_of(
        self, values: Sequence[float]
    ) -> tuple[Sequence[float], Sequence[float]] | None:
        """The ends of a column."""
        if self.reach is None:
            return self.ends
        return [max(v - self.reach, self.lowest) for v in values], [
            v + self.reach for v in values
        ]

    def picture(
        self,
        title: str,
        kind: str,
        y_name: str,
        others: Sequence[Reply] = (),
        holds: str = "",
        own_scale: bool = False,
        whole: bool = False,
    ) -> Picture:
        """The answer with its bands: its own, or the spread of other answers to the same question."""
        (x_name, names), *drawn = self.table.items()
        rows = slice(self.skipped, None)
        bands = []
        for place, (_, values) in enumerate(drawn):
            if ends := self.ends_of(values):
                bands.append(
                    band(ends[0][rows], ends[1][rows], self.band_name, of=place)
                )
            elif len(others) > 1:
                bands.append(
                    spread(
                        [list(one.table.values())[place + 1][rows] for one in others],
                        place,
                    )
                )
        series = {name: list(values[rows]) for name, values in drawn}
        if bands:
            told = holds
        else:
            told = ""
        return Picture(
            title,
            list(names[rows]),
            series,
            x_name,
            y_name,
            kind,
            bands=bands,
            holds=told,
            own_scale=own_scale,
            whole=whole,
        )

    def encoded(self) -> bytes:
        """The file."""
        if self.body is not None:
            return self.body
        _, values = self.table.values()
        ends = dict(zip(("low", "high"), self.ends_of(values) or ()))
        columns = {**self.table, **ends, **self.beside}
        return encode_columns(
            {name: np.asarray(each) for name, each in columns.items()}, ".csv"
        )


class RehearsedOffer(Offer):
    """What the kinds have in common."""

    kind = "points"
    y_name = "coefficient"
    simulated_on = "On a simulated table of the same shape"
    holds = NOISE_ALONE
    own_scale = False
    whole = False
    rehearsals = 1  # several, where the mechanism tells no intervals: then their spread is the band

    @abstractmethod
    def _mechanism(self, **more: Any) -> Any:
        """The mechanism of the order; an account, a generator or another epsilon beside it."""

    @abstractmethod
    def _simulated(self) -> Any:
        """Rows of nobody, of the same shape."""

    @abstractmethod
    def _answer(self, mechanism: Any, data: Any) -> Reply:
        """Debit, draw, and the answer as a table."""

    def _data(self) -> Any:
        return open_source(self.needed_table()).select(self._chosen())

    def _facts(self, rehearsed: Reply) -> Facts:
        return ()

    def _beside_account(self) -> dict[str, Any]:
        """What the mechanism would choose by the account that pays; a rehearsal pays from none, so it is told."""
        return {}

    def _doubtful(self) -> str:
        """Why such a release cannot be useful, where public numbers say so."""
        return ""

    def _promised(self, *names: str, **more: Any) -> dict[str, Any]:
        """Parameters that the mechanism and the order call alike."""
        if self.order.get("people"):
            whose = {"people": self.order["people"]}
        else:
            whose = {}
        return {
            **{name: self.order[name] for name in ("epsilon", "delta", *names)},
            **whose,
            **more,
        }

    def plan(self) -> OfferPlan:
        """The charge and the answers that simulated rows give; from the schema alone."""
        data = self._simulated()
        seeds = map(SeededGenerator, range(1, 1 + self.rehearsals))
        beside = self._beside_account()
        found = [
            self._answer(self._mechanism(generator=seed, **beside), data)
            for seed in seeds
        ]
        self._known["room"] = ROOM + 4 * len(
            found[0].encoded()
        )  # the release will be as large, about
        known = found[0].certificate
        picture = self._drawn(found[0], self.simulated_on, found)
        dearer = getattr(self, "charge_at", None)
        return OfferPlan(
            self._facts(found[0]),
            known.charge,
            known.adjacency,
            simulated=picture,
            charge_at=dearer,
            doubtful=self._doubtful(),
        )

    def prepare(self) -> int:
        """Open the table and rehearse."""
        self.plan()
        return int(self._known["room"])

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.fit(gaussveil.open(table).select({self._chosen()!r}))"

    def columns(self) -> list[str]:
        """The features."""
        given = [self.order.get(name) for name in ("target", "label", "unit", "order")]
        return [name for name in self._chosen() if name not in given]

    def release(self, account: Account) -> Outcome:
        """Read the table and draw."""
        found = self._answer(self._mechanism(account=account), self._data())
        return Outcome(
            body=found.encoded(),
            certificate=found.certificate,
            facts=tuple(
                {"Released": found.certificate.released, **dict(found.facts)}.items()
            ),
            picture=lambda: self._drawn(found, "Released"),
            rows=found.rows,
        )

    def nearly_exact(self) -> Picture:
        """The same with next to no noise."""
        return self._drawn(self._answer(self._mechanism(**CLOSE), self._data()), "")

    def _drawn(
        self,
        answer: Reply,
        title: str,
        others: Sequence[Reply] = (),
    ) -> Picture:
        if not len(next(iter(answer.table.values()))):
            raise ParameterError(
                "nothing would show: no value is frequent enough at so small an epsilon"
            )
        return answer.picture(
            title,
            self.kind,
            self.y_name,
            others,
            self.holds,
            self.own_scale,
            self.whole,
        )

    def _chosen(self) -> list[str]:
        """Features, target and unit: those that were named, else all columns of numbers; all checked by the schema."""
        order = self.order
        if "columns" not in order:
            return []
        skipped = [
            order[name] for name in ("target", "label", "unit") if order.get(name)
        ]
        schema = schema_of(self.needed_table())
        require_columns(schema, [*(order["columns"] or ()), *skipped])
        if len(set(skipped)) < len(skipped):
            raise SchemaError(
                "whom to hide cannot be what is told as well: choose another column"
            )
        numbers = [one.name for one in schema if is_number(one.type)]
        features = [
            name
            for name in dict.fromkeys(order["columns"] or numbers)
            if name not in skipped
        ]
        if not features:
            raise ParameterError("choose at least one column of numbers beside these")
        require_numbers(schema, features)
        return [*features, *skipped]

    def _features(self, rows: int) -> tuple[dict[str, Any], Any]:
        """Simulated features between -1 and 1 that half agree, and whose row it is; and a number told by them."""
        order = self.order
        generator = np.random.default_rng(0)
        count = min(rows, MOST_SIMULATED)
        common = generator.uniform(-1, 1, size=count)
        columns = {
            name: (common + generator.uniform(-1, 1, size=count)) / 2
            for name in self.columns()
        }
        if order.get("unit"):
            columns[order["unit"]] = np.arange(count) // (order["rows_per_unit"] or 1)
        return columns, common + generator.normal(size=count) / 2
