"""What can be ordered: each mechanism's parameters with their help in plain words. Forms and API are made of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
KEY = r"^[0-9a-f]{32}$"
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Asked(BaseModel):
    """What somebody sends: fields that nobody knows are refused."""

    model_config = ConfigDict(extra="forbid")


def _asked(words: str, default: Any = 1.0, ask: str = "what", pick: str | None = None, **limits: Any) -> Any:
    """A field of a form and of the API; numbers are positive and bounded unless told otherwise.

    `words` is where its title and help stand in words.toml, `ask` the question of the form that it belongs to (what,
    whom, much, more), `pick` the columns to choose from.
    """
    numbers = {"gt": 0, "le": 1e12} if isinstance(default, float) else {}
    kind, _, name = words.partition(".")
    title, help_text = WORDS[kind][name]
    shown: Any = {"ask": ask, "pick": pick}
    return Field(default=default, title=title, description=help_text, json_schema_extra=shown, **{**numbers, **limits})


def _listed(given: object) -> object:
    """Names as a list, or in one text separated by commas; none at all is None."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return parts
    return [part.strip() for part in parts if part.strip()] or None


Names = Annotated[Annotated[list[Text], Field(max_length=20_000)] | None, BeforeValidator(_listed)]


class Order(Asked):
    """What every release promises."""

    title: ClassVar[str]
    epsilon: float = _asked("every.epsilon", ask="much", le=50)
    delta: float = _asked("every.delta", 1e-6, "more", le=None, lt=1)


class TableOrder(Order):
    """For example the average day of all homes, hour by hour. Everything that one home contributes stays hidden."""

    title: ClassVar = "Averages, counts and sums by group"
    mechanism: Literal["table"]
    answer: Literal["mean", "sum", "count", "variance", "share", "median"] = _asked("table.answer", "mean")
    column: Text | None = _asked("table.column", None, pick="number")
    low: float | None = _asked("table.low", None, ge=-1e12, le=1e12)
    high: float | None = _asked("table.high", None, ge=-1e12, le=1e12)
    by: Literal["nothing", "hour", "weekday", "month", "values"] = _asked("table.by", "hour")
    by_column: Text | None = _asked("table.by_column", None, pick="any")
    by_values: Names = _asked("table.by_values", None)
    bounds: Literal["learnt", "as given"] = _asked("table.bounds", "learnt", "more")
    measured_in: Text = _asked("table.measured_in", "")
    unit: Text = _asked("table.unit", "", "whom", "any", min_length=1)
    units: int = _asked("table.units", 1000, "whom", ge=1, le=10**12)
    rows_per_group: int = _asked("table.rows_per_group", 1, "more", ge=1, le=10**6)
    time_zone: Text | None = _asked("table.time_zone", None, "more")


class RegressionOrder(Order):
    """How one column depends on others: coefficients with intervals that hold the privacy noise too."""

    title: ClassVar = "How columns depend on each other"
    mechanism: Literal["regression"]
    target: Text = _asked("regression.target", "", pick="number", min_length=1)
    columns: Names = _asked("regression.columns", None, pick="numbers")
    low: float | None = _asked("regression.low", None, ge=-1e12, le=1e12)
    high: float | None = _asked("regression.high", None, ge=-1e12, le=1e12)
    unit: Text | None = _asked("regression.unit", None, "whom", "any")
    rows_per_unit: int | None = _asked("regression.rows_per_unit", None, "whom", ge=1, le=10**6)
    rows: int = _asked("regression.rows", 1000, "whom", ge=10, le=10**6)


class VectorOrder(Order):
    """A file of totals or rates that you computed yourself, with noise on every number."""

    title: ClassVar = "Numbers that you computed"
    mechanism: Literal["vector"]
    l2_sensitivity: float = _asked("vector.l2_sensitivity", ask="whom")
    adjacency: Literal["add-remove", "replace"] = _asked("vector.adjacency", "add-remove", "whom")
    file_format: Literal["csv", "parquet", "npy"] = _asked("vector.file_format", "csv")


class SketchOrder(Order):
    """A random-projection sketch of a numeric table: second moments, regression, principal components."""

    title: ClassVar = "Second moments of a wide table"
    mechanism: Literal["sketch"]
    row_norm: float = _asked("sketch.row_norm", ask="whom")
    components: int = _asked("sketch.components", 64, ge=1, le=4096)
    row_bound: float | None = _asked("sketch.row_bound", None, gt=0, le=1e12)
    columns: Names = _asked("sketch.columns", None, pick="numbers")


class MixtureOrder(Order):
    """One Gaussian per class of a labelled table: a distribution to sample from and to classify with."""

    title: ClassVar = "Typical classes"
    mechanism: Literal["mixture"]
    radius: float = _asked("mixture.radius", ask="whom")
    label: Text | None = _asked("mixture.label", None, pick="any")
    classes: Text = _asked("mixture.classes", "")
    nominal_size: int | None = _asked("mixture.nominal_size", None, ge=1, le=10**12)
    columns: Names = _asked("mixture.columns", None, pick="numbers")


class ForecastOrder(Order):
    """A household's load forecast that could as well be another household's of its cluster."""

    title: ClassVar = "A load forecast"
    mechanism: Literal["forecast"]
    household: Text = _asked("forecast.household", "")
    whole_cluster: bool = _asked("forecast.whole_cluster", False)
    horizon: Text = _asked("forecast.horizon", "3h")
    clusters: int = _asked("forecast.clusters", 6, ge=1, le=1000)
    past: Literal["past known", "random past"] = _asked("forecast.past", "past known")
    measured_in: Literal["kW", "W", "kWh", "Wh"] = _asked("forecast.measured_in", "kW")
    file_format: Literal["csv", "parquet"] = _asked("forecast.file_format", "csv")


class StreamOrder(Order):
    """The design of a private stream of meter readings, for the gateway to run. Its account is debited once."""

    title: ClassVar = "A meter's stream"
    mechanism: Literal["stream"]
    meter: Text = _asked("stream.meter", "meter", min_length=1, pattern="^[^/+#\\x00-\\x1f\\x7f]+$")
    sample_period: Text = _asked("stream.sample_period", "15min")
    event_kw: float = _asked("stream.event_kw", 0.5, le=1000000.0)
    event_duration: Text = _asked("stream.event_duration", "1h")
    purpose: Literal["shape", "energy", "billing"] = _asked("stream.purpose", "billing")


AnyOrder = Annotated[
    TableOrder | RegressionOrder | MixtureOrder | ForecastOrder | StreamOrder | SketchOrder | VectorOrder,
    Field(discriminator="mechanism"),
]
_KINDS: tuple[type[Order], ...] = get_args(get_args(AnyOrder)[0])
ORDERS = {get_args(kind.model_fields["mechanism"].annotation)[0]: kind for kind in _KINDS}


class PreviewRequest(Asked):
    """What a release would be like."""

    order: AnyOrder
    table: Text | None = Field(default=None, description="Id of a table; streams need none.")
    account: Text | None = Field(default=None, description="Account that would pay.")


class ReleaseRequest(Asked):
    """One release. The key makes it one: whatever is sent twice under one key is done once."""

    key: str = Field(pattern=KEY, description="Idempotency key, 32 hexadecimal digits; the ledger's id of the release.")
    order: AnyOrder
    table: Text | None = Field(default=None, description="Id of a table; streams need none.")
    account: Text = Field(min_length=1, description="Account that pays.")
    shown: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="The digest of the preview that showed this very release."
    )
