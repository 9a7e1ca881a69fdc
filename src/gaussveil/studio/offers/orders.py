"""What can be ordered: each mechanism's parameters with their help in plain words. Forms and API are made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KEY = r"^[0-9a-f]{32}$"
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Order(BaseModel):
    """What every release promises."""

    model_config = ConfigDict(extra="forbid")

    epsilon: float = Field(
        default=1.0,
        gt=0,
        le=50,
        title="Epsilon",
        description="How much one person may change what others can conclude. Smaller protects more; 1 is common.",
    )
    delta: float = Field(
        default=1e-6,
        gt=0,
        lt=1,
        title="Delta",
        description="Chance that the promise above does not hold. Well below one over the number of people.",
    )


class VectorOrder(Order):
    """A vector or table of numbers with noise on every number."""

    mechanism: Literal["vector"]
    l2_sensitivity: float = Field(
        default=1.0,
        gt=0,
        le=1e12,
        title="Sensitivity",
        description="How far apart, at most, two tables can lie that differ by one person: square root of the summed "
        "squared differences. You must know it without looking at the data.",
    )
    adjacency: Literal["add-remove", "replace"] = Field(
        default="add-remove",
        title="Neighbours",
        description="Whether one person is added or removed, or replaced by another.",
    )
    file_format: Literal["csv", "parquet", "npy"] = Field(
        default="csv", title="File format", description="Of the file you download."
    )


class SketchOrder(Order):
    """A random-projection sketch of a numeric table: second moments, regression, principal components."""

    mechanism: Literal["sketch"]
    row_norm: float = Field(
        default=1.0,
        gt=0,
        le=1e12,
        title="Row norm",
        description="Longer rows are shortened to this length before they count. A public choice, not a fact of data.",
    )
    components: int = Field(
        default=64,
        ge=1,
        le=4096,
        title="Components",
        description="Columns of the sketch. More of them average better, and each gets more noise.",
    )
    row_bound: float | None = Field(
        default=None, gt=0, le=1e12, title="Rows, about", description="A public guess, for the preview only."
    )
    columns: Text | None = Field(
        default=None, title="Columns", description="Names separated by commas; all columns by default."
    )


class MixtureOrder(Order):
    """One Gaussian per class of a labelled table: a distribution to sample from and to classify with."""

    mechanism: Literal["mixture"]
    radius: float = Field(
        default=1.0,
        gt=0,
        le=1e12,
        title="Radius",
        description="Records farther than this from the origin are moved to the ball's surface. A public choice.",
    )
    label: Text | None = Field(
        default=None, title="Label column", description="Leave it empty to look for clusters instead."
    )
    classes: Text = Field(
        default="",
        title="Classes",
        description="The public labels, separated by commas; without a label column, how many clusters to find.",
    )
    nominal_size: int | None = Field(
        default=None, ge=1, le=10**12, title="Records, about", description="A public guess: it divides the budget well."
    )
    columns: Text | None = Field(
        default=None, title="Columns", description="Features, separated by commas; all other columns by default."
    )


class ForecastOrder(Order):
    """A household's load forecast that could as well be another household's of its cluster."""

    mechanism: Literal["forecast"]
    household: Text = Field(default="", title="Household", description="Whose forecast, or whose cluster.")
    whole_cluster: bool = Field(
        default=False, title="Whole cluster", description="Forecast all households of the cluster, without names."
    )
    horizon: Text = Field(default="3h", title="Horizon", description="How far ahead: 45min, 3h, 1d.")
    clusters: int = Field(
        default=6,
        ge=1,
        le=1000,
        title="Clusters",
        description="Groups of similar households. Fewer means larger groups to hide in.",
    )
    past: Literal["past known", "random past"] = Field(
        default="past known",
        title="What the receiver may know",
        description='"past known" assumes the worst; "random past" rests on a model of the readings.',
    )
    unit: Literal["kW", "W", "kWh", "Wh"] = Field(default="kW", title="Unit", description="Of the readings, per step.")
    file_format: Literal["csv", "parquet"] = Field(
        default="csv", title="File format", description="Of the file you download."
    )


class StreamOrder(Order):
    """The design of a private stream of meter readings, for the gateway to run. Its account is debited once."""

    mechanism: Literal["stream"]
    meter: Text = Field(
        default="meter",
        min_length=1,
        pattern=r"^[^/+#\x00-\x1f\x7f]+$",
        title="Meter",
        description="Name of the meter, as in the gateway's topics.",
    )
    sample_period: Text = Field(default="15min", title="Sample period", description="Time between readings: 5min, 1h.")
    event_kw: float = Field(
        default=0.5, gt=0, le=1e6, title="Hidden event, kW", description="How much the one hidden event draws, at most."
    )
    event_duration: Text = Field(
        default="1h", title="Hidden event, duration", description="How long it lasts, at most: 30min, 1h."
    )
    purpose: Literal["shape", "energy", "billing"] = Field(
        default="billing",
        title="Purpose",
        description="What the stream must serve: the load's shape, energy over days, or bills.",
    )


AnyOrder = Annotated[
    VectorOrder | SketchOrder | MixtureOrder | ForecastOrder | StreamOrder, Field(discriminator="mechanism")
]
ORDERS: dict[str, type[Order]] = {
    "vector": VectorOrder,
    "sketch": SketchOrder,
    "mixture": MixtureOrder,
    "forecast": ForecastOrder,
    "stream": StreamOrder,
}
TITLES = {
    "vector": "Vector or table",
    "sketch": "Sketch",
    "mixture": "Mixture",
    "forecast": "Load forecast",
    "stream": "Stream design",
}


class PreviewRequest(BaseModel):
    """What a release would be like."""

    model_config = ConfigDict(extra="forbid")

    order: AnyOrder
    table: Text | None = Field(default=None, description="Id of a table; streams need none.")
    account: Text | None = Field(default=None, description="Account that would pay.")


class ReleaseRequest(BaseModel):
    """One release. The key makes it one: whatever is sent twice under one key is done once."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(pattern=KEY, description="Idempotency key, 32 hexadecimal digits; the ledger's id of the release.")
    order: AnyOrder
    table: Text | None = Field(default=None, description="Id of a table; streams need none.")
    account: Text = Field(min_length=1, description="Account that pays.")
