"""What can be ordered: orders.toml describes every kind once, in plain words; forms, checks and API are made of it."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from gaussveil_studio.offers.kinds import EVERY, KINDS

KEY = r"^[0-9a-f]{32}$"
LARGEST = 1e12  # of numbers that say nothing else
LIMITS = {"above": "gt", "from": "ge", "below": "lt", "to": "le", "pattern": "pattern"}
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Asked(BaseModel):
    """What somebody sends: fields that nobody knows are refused."""

    model_config = ConfigDict(extra="forbid")


def _listed(given: object) -> object:
    """Names as a list, or in one text separated by commas; none at all is None."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return parts
    return [part.strip() for part in parts if part.strip()] or None


def _none_if_empty(given: object) -> object:
    """What is left empty is not given."""
    if given == "":
        return None
    return given


Names = Annotated[
    Annotated[list[Text], Field(max_length=20_000)] | None, BeforeValidator(_listed)
]
TYPES: dict[str, Any] = {
    "number": float,
    "whole": int,
    "text": Text,
    "names": Names,
    "yes": bool,
}


class Order(Asked):
    """What every release promises; the fields of its kind are made of their description."""

    title: ClassVar[str]
    mechanism: str


def _field(asked: dict[str, Any]) -> tuple[Any, Any]:
    """Type and rules of one field."""
    kind = asked.get("is", "text")
    choices = asked.get("choices")
    needed = asked.get("needed", False)
    default = asked.get("default", choices[0] if choices else "" if needed else None)
    limits = {LIMITS[name]: value for name, value in asked.items() if name in LIMITS}
    if kind == "number":
        limits = {
            **({} if "gt" in limits else {"ge": -LARGEST}),
            "le": LARGEST,
            **limits,
        }
        if "lt" in limits:
            del limits["le"]
    if needed:
        limits["min_length"] = 1
    typed = Literal[tuple(choices)] if choices else TYPES[kind]
    if default is None and kind != "names":
        typed = Annotated[typed | None, BeforeValidator(_none_if_empty)]
    shown: Any = {
        "ask": asked.get("ask", "what"),
        "pick": asked.get("pick"),
        "spoken": asked.get("spoken"),
    }
    known = Field(
        default=default,
        title=asked["title"],
        description=asked["help"],
        json_schema_extra=shown,
        **limits,
    )
    return typed, known


def _order(name: str, described: dict[str, Any]) -> type[Order]:
    fields: dict[str, Any] = {
        field: _field(asked) for field, asked in (described["fields"] | EVERY).items()
    }
    fields["mechanism"] = (Literal[name], ...)
    made = create_model(
        f"{name.title()}Order", __base__=Order, __doc__=described["about"], **fields
    )
    made.title = described["title"]
    return made


ORDERS = {name: _order(name, described) for name, described in KINDS.items()}
if TYPE_CHECKING:
    AnyOrder = Order
else:
    AnyOrder = Annotated[reduce(or_, ORDERS.values()), Field(discriminator="mechanism")]


class PreviewRequest(Asked):
    """What a release would be like."""

    order: AnyOrder
    table: Text | None = Field(
        default=None, description="Id of a table; streams need none."
    )
    account: Text | None = Field(default=None, description="Account that would pay.")


class ReleaseRequest(PreviewRequest):
    """One release. The key makes it one: whatever is sent twice under one key is done once."""

    key: str = Field(
        pattern=KEY,
        description="Idempotency key, 32 hexadecimal digits; the ledger's id of the release.",
    )
    account: Text = Field(min_length=1, description="Account that pays.")
    shown: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="The digest of the preview that showed this very release.",
    )
