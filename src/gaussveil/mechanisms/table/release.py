"""Counts, sums, means, variances, shares, histograms and quantiles of a table by group, with one unit's rows hidden.

Released: for every group and answer a number, the standard deviation of its noise, and a band (`postprocessing`).

Adjacency: all rows of one unit are added or removed.

Theorem (derived: docs/math/tables.md). A unit's rows are brought by a public map into a public set C: at most
`groups_per_unit` groups, in each a weight of at most `rows_per_group` rows, every value within its range or every curve
within its ball. All answers together are sum_u c(v_u) + N(0, S), so N(t, 1) against N(0, 1) with t^2 = sup over C of
w' S^-1 w dominates: one pair, one charge, however many answers. Draws whose design depends on earlier ones have mean
shifts fixed beforehand, whose squares add up to t^2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Adjacency, Release
from gaussveil.containers import library_of
from gaussveil.errors import SchemaError
from gaussveil.mechanisms.progress import shown_progress
from gaussveil.mechanisms.release_path import Mechanism, is_planning
from gaussveil.mechanisms.table.answers import TableAnswer
from gaussveil.mechanisms.table.beside import chosen_beside
from gaussveil.mechanisms.table.draws import TableDraws
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.frames import answers_frame
from gaussveil.mechanisms.table.laws import LAWS, candidates, draws_of
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.mechanisms.table.nominal import as_planned, expected, nominal_deviations
from gaussveil.mechanisms.table.plan import TablePlan
from gaussveil.mechanisms.table.profile_noise import learnt
from gaussveil.mechanisms.table.rehearsal import rehearsals
from gaussveil.mechanisms.table.request import Request
from gaussveil.postprocessing.intervals import Interval
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import require_columns
from gaussveil.statistics.cell_reader import CellReader, require_values
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Discovered

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(kw_only=True, eq=False, repr=False)
class TableRelease(Mechanism):
    """Release answers from a table by group so that all rows of one unit stay hidden.

    >>> import numpy as np, pyarrow as pa
    >>> from gaussveil.mechanisms import Count, Mean, TableRelease
    >>> table = pa.table({"home": np.repeat(np.arange(500), 4), "zone": ["a", "b"] * 1000, "kw": np.ones(2000)})
    >>> request = TableRelease(unit="home", epsilon=1.0, delta=1e-6, by={"zone": ["a", "b"]},
    ...                        answers=[Count(), Mean("kw", between=(0, 4))])
    >>> request.release(table).value.column_names[:4]
    ['zone', 'count', 'count_sd', 'count_low']

    Args:
        unit: the column that names whose row it is; what is hidden is one unit, whole.
        epsilon, delta: the promise for the whole request.
        by: names of keys and the keys: a list of a column's values, `hour_of`, `weekday_of`, `month_of`, `date_of`,
            `bin_of`, `value_of`, or `discover` for values that nobody listed.
        answers: any of Count, Sum, Mean, Variance, Share, Histogram, CDF, Quantile; all of them are one charge.
        rows_per_group: how many rows a unit weighs at most in a group; more rows weigh less each, none is dropped. With
            the default 1 every unit present counts once, with the mean of its rows.
        groups_per_unit: in how many groups a unit counts at most, by a public hash; all by default.
        rows_per_unit: how many rows a unit has in the whole table at most, where that is public, as in a table of one
            row a person. It then counts in as many groups at most, and where `rows_per_group` is as large histograms
            count in whole rows, whose noise is smaller. Units that have more are brought within these bounds.
        unit_norm, bounds: for every Mean and Sum that does not state its own, see `Mean`; bounds="auto" also learns the
            range of every Variance and Quantile that states no `between`.
        other: also a group "other" of every listed key, for rows whose value is not among the listed ones.
        totals: also a last row, its keys missing, of sums over the groups: a unit of several groups is in it as often.
        account: where the release is debited before it is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        law: "gaussian" or "laplace" noise; "auto" plans both for this promise and takes the smaller error. Laplace
            noise answers counts, sums, means, variances, shares and histograms of stated ranges by listed keys (sums
            and means with learnt bounds, too, where no unit is expected in all groups of a time), and needs no delta:
            `delta=0` is a promise of epsilon alone. The first release of an account is Gaussian, of
            which many add up to less; later ones have the smaller error at the same debit; see `TablePlan.laws`.
        progress: whether to draw a progress bar on standard error.
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "table"
    pure = True
    unit: str
    answers: Sequence[TableAnswer] | TableAnswer
    by: Mapping[str, Any] | None = None
    rows_per_group: int = 1
    groups_per_unit: int | None = None
    rows_per_unit: int | None = None
    unit_norm: float | tuple[float, float, float] | None = None
    bounds: str | None = None
    other: bool = False
    totals: bool = False
    law: str = "auto"
    progress: bool = False

    def plan(self) -> TablePlan:
        """Noise, charge and certificate of the request, without data.

        Returns:
            A `TablePlan`: its `noise` for each sum, its charge, and the words of the certificate.

        Raises:
            ParameterError: a parameter is out of range, or answers, keys and bounds do not fit each other.
        """
        checks.one_of("law", self.law, LAWS)
        limits = self.rows_per_group, self.groups_per_unit, self.unit_norm, self.bounds
        request = Request.of(
            self.unit,
            self.by or {},
            self.answers,
            *limits,
            self.totals,
            bool(self.other),
            self.rows_per_unit,
        )
        planned, noise = self._planned(request)
        return TablePlan(
            charge=noise.charge,
            released=", ".join(one.name for one in request.answers)
            + f" by {', '.join(request.keys)}" * bool(request.keys),
            adjacency=Adjacency.add_remove(request.unit),
            assumptions=(
                "names of columns, keys, answers and every bound were chosen without looking at the data, and so were "
                "types of columns unless the guarantee names their form",
                "what each unit adds is brought within the bounds of the parameters here; nothing is believed",
            ),
            parameters=_parameters(noise),
            noise=noise,
            planned=planned,
            promise=self.promise,
            changed=lambda other: self._planned(other)[1],
        )

    def _planned(self, request: Request) -> tuple[Mapping[str, TableNoise], TableNoise]:
        """The noise of every law that can answer, and the one that is taken."""
        planned = candidates(request, self.law, self.promise)
        return planned, chosen_beside(self.account, planned, nominal_deviations)

    def release(self, data: Any) -> Release[Any]:
        """Debit, draw and certify.

        The release's `value` is a pandas or polars frame where the data came as one, and a `pyarrow.Table` from
        anything else (an Arrow table, a Source): a row per group in the order of `by`, the keys, then every answer's
        columns NAME, NAME_sd, NAME_low and NAME_high, all of doubles.

        Every refusal rests on the schema and on public parameters, and comes before the debit, as do `rehearsals`.

        Returns:
            The frame and its certificate.

        Raises:
            SchemaError: the table has no such columns, or they are of other types.
            BudgetExceededError: the account cannot pay.
        """
        plan = self.plan()
        source = self._identified(data)
        self._rehearsed(plan, source, library_of(data))
        draws = draws_of(plan.noise, source, self.generator)
        with shown_progress(self.progress, "Answering") as show:
            if not is_planning():
                show("reading", 0.0)
                draws.prepare()
                show("drawing", 0.6)
            return self._publish(
                plan, lambda: self._draw(plan, draws, library_of(data)), source
            )

    def rehearsals(self, data: Any) -> list[Release[Any]]:
        """The same release of an empty table of this schema: no row is read and nothing is spent or promised.

        Values have the columns that the release will have, filled with noise; where keys are to be discovered there
        are two, one of no group. Whoever writes or draws the release tries with these first.

        Args:
            data: the table, or a `Source`.

        Returns:
            One release, or two, none of which has a guarantee.

        Raises:
            SchemaError: the table has no such columns, or they are of other types.
        """
        return self._rehearsed(self.plan(), self._identified(data), library_of(data))

    def _identified(self, data: Any) -> Source:
        """The table, its units named by text: no unit's name makes those of others numbers."""
        source = as_source(data)
        if self.unit in source.view.columns:
            return source.identified(self.unit)
        return source

    def _rehearsed(
        self, plan: TablePlan, source: Source, library: str
    ) -> list[Release[Any]]:
        schema = source.schema.with_metadata(source.form_notes.metadata())
        made = rehearsals(plan.noise, schema, _check_schema(plan.request, schema))
        return [
            self._rehearse(plan, partial(self._draw, plan, draws, library))
            for draws in made
        ]

    def _draw(self, plan: TablePlan, draws: TableDraws, library: str) -> Any:
        request = plan.request
        if request.discovered:
            values = draws.keys()
            if not all(values.values()):
                return _nobody(plan, library)
            request = request.with_values(values)
        if request.learning:
            request = request.with_ranges(draws.ranges())
        if request is not plan.request:
            draws.noise = as_planned(plan.noise, request)
        drawn = draws.rows()
        drawn.quantiles = [one.found for one in draws.searched()]
        drawn.profiles = draws.profiles()
        columns = Estimates(draws.noise, drawn, self.totals).columns()
        return answers_frame(draws.noise.request, columns, self.totals, library)


def _nobody(plan: TablePlan, library: str) -> Any:
    """The answer where no key passed the threshold: the same columns, no rows."""
    noise = as_planned(
        plan.noise,
        plan.request.with_values({name: [""] for name in plan.request.discovered}),
    )
    columns = Estimates(noise, expected(noise, 1.0)).columns()
    empty = np.zeros(0)
    return answers_frame(
        noise.request,
        {name: Interval(*[empty] * 4) for name in columns},
        False,
        library,
        rows=0,
    )


def _check_schema(request: Request, schema: pa.Schema) -> list[str]:
    """Refuse what the columns cannot give; which columns are read."""
    profiles = [
        CellReader(request.unit, (), (answer.feature,)) for answer in request.profiles
    ]
    keys = [key.column for key in request.keys.values()]
    names = [
        *keys,
        *(name for one in (request.reader, *profiles) for name in one.columns),
    ]
    require_columns(schema, names)
    for key in request.keys.values():
        if isinstance(key, Discovered):
            require_values(schema, key.column)
    for reader in (request.reader, *profiles):
        reader.check(schema)
    if request.unit in keys:
        raise SchemaError(
            "the unit cannot be a key as well: a group of one unit hides nobody."
        )
    return list(dict.fromkeys(names))


def _parameters(noise: TableNoise) -> dict[str, object]:
    request = noise.request
    found: dict[str, object] = {
        "unit": request.unit,
        "keys": {name: _described(key) for name, key in request.keys.items()},
        "answers": [one.words for one in request.answers],
        "rows_per_group": request.rows,
        "groups_per_unit": request.touched,
        "groups_in_all": request.cells,
        "counted": request.counts,
        "averaged over": request.averaged,
        "law": noise.law,
        **noise.spent(),
        "noise variances": noise.variances(),
    }
    if request.rows_per_unit is not None:
        found["rows_per_unit"] = request.rows_per_unit
    if request.totals:
        found["totals"] = (
            "the last row is the sum over the groups: a unit of several groups is in it as often"
        )
    if request.discovered:
        thresholds = {name: noise.key_threshold(name) for name in request.discovered}
        found |= {"key thresholds": thresholds, "key total variation": noise.key_error}
    for place, answer in enumerate(request.profiles):
        radii = learnt(answer, request.layout)
        found[f"profile {place}"] = noise.profile(place).described() | {
            "learnt": radii,
            "read": str(request.layout),
        }
    return found


_KEYS = {"Listed": "listed values", "Dates": "days", "Bins": "ranges"}


def _described(key: Key | Discovered) -> str:
    if isinstance(key, Discovered):
        return f"values of {key.column} that are found, at most {key.per_unit} of each unit"
    kind = getattr(key, "part", _KEYS.get(type(key).__name__, "values"))
    return f"{kind} of {key.column}, {len(key.values)} of them"
