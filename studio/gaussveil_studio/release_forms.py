"""Forms of releases: what is sent to a studio and what comes back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gaussveil_studio.offers.orders import (
    Asked,
    Text,
)


class Budget(BaseModel):
    """The account before and after; null where unbounded or not known before the release."""

    model_config = ConfigDict(extra="allow")

    account: str
    largest_epsilon: float | None = Field(
        description="About the largest epsilon that it can still pay for."
    )
    allowed: bool | None
    reason: str


class Preview(BaseModel):
    """What a release would be like, from public quantities only."""

    facts: list[tuple[str, str]]
    simulated: dict[str, Any] | None = Field(
        description="The answer with its band on a simulated table."
    )
    doubt: str = Field(description="What a stranger can hardly tell.")
    guessed_right: int = Field(
        description="Of 100 guesses of that at most; 50 are right by chance."
    )
    promised: float
    budget: Budget | None
    notes: list[str] = Field(
        default=[],
        description="What else to know: that it cannot be useful, that another account paid for this table.",
    )
    seconds: float | None = Field(
        default=None,
        description="About how long the release takes, where that is long.",
    )
    digest: str | None = Field(
        description="What to send as `shown`; null where the account does not allow it."
    )


class ReleaseStatus(BaseModel):
    """Where a release stands. `result` holds released values only."""

    model_config = ConfigDict(extra="allow")

    key: str
    state: str = Field(
        description="running, released, refused, cancelled or interrupted"
    )
    message: str
    ledger_state: str | None = Field(
        description="The ledger's entry: debited, drawing, released, void; null if none"
    )
    result: dict[str, Any] | None


class About(Asked):
    """What the owner says of a release to whoever gets it; it stands on the page that is handed on."""

    title: Text = Field(
        default="",
        title="Title",
        description="In place of the one that its columns make.",
    )
    purpose: Text = Field(
        default="", title="Purpose", description="What the numbers are for."
    )
    approver: Text = Field(
        default="",
        title="Approved by",
        description="Who approved that they are given away.",
    )


class Releases(BaseModel):
    """Releases of this studio, the latest first."""

    releases: list[ReleaseStatus]
