"""What can be ordered: each mechanism's parameters with their help in plain words. Forms and API are made of them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

KEY = r"^[0-9a-f]{32}$"
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Asked(BaseModel):
    """What somebody sends: fields that nobody knows are refused."""

    model_config = ConfigDict(extra="forbid")


def _asked(title: str, help_text: str, default: Any = 1.0, **limits: Any) -> Any:
    """A field of a form and of the API; numbers are positive and bounded unless told otherwise."""
    numbers = {"gt": 0, "le": 1e12} if isinstance(default, float) else {}
    return Field(default=default, title=title, description=help_text, **{**numbers, **limits})


class Order(Asked):
    """What every release promises."""

    title: ClassVar[str]
    epsilon: float = _asked(
        "Epsilon", "How much one person may change what others can conclude. Smaller protects more; 1 is common.", le=50
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

    title: ClassVar = "Vector or table"
    mechanism: Literal["vector"]
    l2_sensitivity: float = _asked(
        "Sensitivity",
        "How far apart, at most, two tables can lie that differ by one person: square root of the summed "
        "squared differences. You must know it without looking at the data.",
    )
    adjacency: Literal["add-remove", "replace"] = _asked(
        "Neighbours", "Whether one person is added or removed, or replaced by another.", "add-remove"
    )
    file_format: Literal["csv", "parquet", "npy"] = _asked("File format", "Of the file you download.", "csv")


class SketchOrder(Order):
    """A random-projection sketch of a numeric table: second moments, regression, principal components."""

    title: ClassVar = "Sketch"
    mechanism: Literal["sketch"]
    row_norm: float = _asked(
        "Row norm", "Longer rows are shortened to this length before they count. A public choice, not a fact of data."
    )
    components: int = _asked(
        "Components", "Columns of the sketch. More of them average better, and each gets more noise.", 64, ge=1, le=4096
    )
    row_bound: float | None = _asked("Rows, about", "A public guess, for the preview only.", None, gt=0, le=1e12)
    columns: Text | None = _asked("Columns", "Names separated by commas; all columns by default.", None)


class MixtureOrder(Order):
    """One Gaussian per class of a labelled table: a distribution to sample from and to classify with."""

    title: ClassVar = "Mixture"
    mechanism: Literal["mixture"]
    radius: float = _asked(
        "Radius", "Records farther than this from the origin are moved to the ball's surface. A public choice."
    )
    label: Text | None = _asked("Label column", "Leave it empty to look for clusters instead.", None)
    classes: Text = _asked(
        "Classes",
        "The public labels, separated by commas; without a label column, how many clusters to find.",
        "",
    )
    nominal_size: int | None = _asked(
        "Records, about", "A public guess: it divides the budget well.", None, ge=1, le=10**12
    )
    columns: Text | None = _asked("Columns", "Features, separated by commas; all other columns by default.", None)


class ForecastOrder(Order):
    """A household's load forecast that could as well be another household's of its cluster."""

    title: ClassVar = "Load forecast"
    mechanism: Literal["forecast"]
    household: Text = _asked("Household", "Whose forecast, or whose cluster.", "")
    whole_cluster: bool = _asked("Whole cluster", "Forecast all households of the cluster, without names.", False)
    horizon: Text = _asked("Horizon", "How far ahead: 45min, 3h, 1d.", "3h")
    clusters: int = _asked(
        "Clusters", "Groups of similar households. Fewer means larger groups to hide in.", 6, ge=1, le=1000
    )
    past: Literal["past known", "random past"] = _asked(
        "What the receiver may know",
        '"past known" assumes the worst; "random past" rests on a model of the readings.',
        "past known",
    )
    measured_in: Literal["kW", "W", "kWh", "Wh"] = _asked("Measured in", "Of the readings, per step.", "kW")
    file_format: Literal["csv", "parquet"] = _asked("File format", "Of the file you download.", "csv")


class StreamOrder(Order):
    """The design of a private stream of meter readings, for the gateway to run. Its account is debited once."""

    title: ClassVar = "Stream design"
    mechanism: Literal["stream"]
    meter: Text = _asked(
        "Meter",
        "Name of the meter, as in the gateway's topics.",
        "meter",
        min_length=1,
        pattern=r"^[^/+#\x00-\x1f\x7f]+$",
    )
    sample_period: Text = _asked("Sample period", "Time between readings: 5min, 1h.", "15min")
    event_kw: float = _asked("Hidden event, kW", "How much the one hidden event draws, at most.", 0.5, le=1e6)
    event_duration: Text = _asked("Hidden event, duration", "How long it lasts, at most: 30min, 1h.", "1h")
    purpose: Literal["shape", "energy", "billing"] = _asked(
        "Purpose", "What the stream must serve: the load's shape, energy over days, or bills.", "billing"
    )


AnyOrder = Annotated[
    VectorOrder | SketchOrder | MixtureOrder | ForecastOrder | StreamOrder, Field(discriminator="mechanism")
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
