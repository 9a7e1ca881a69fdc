"""Options that several commands share: one name, one type, one sentence of help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.accounting import Account

Epsilon = Annotated[float, typer.Option(help="Promise: epsilon.", show_default=False)]
Delta = Annotated[float, typer.Option(help="Promise: delta.", show_default=False)]
RowNorm = Annotated[
    float,
    typer.Option(
        help="Public bound; longer rows are shortened to it.", show_default=False
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Feature columns, separated by commas; all by default."),
]
Relation = Literal[
    "add-remove", "replace"
]  # neighbouring relations that need no further parameters
UnitColumn = Annotated[
    str | None,
    typer.Option(help="Column that names whose row it is; needs --rows-per-unit."),
]
RowsPerUnit = Annotated[
    int | None, typer.Option(help="Rows that each unit may contribute.")
]
PayingLedger = Annotated[
    Path | None, typer.Option(help="Ledger file; needs --account.")
]
PayingAccount = Annotated[
    str | None, typer.Option(help="Account that pays; needs --ledger.")
]
ReleaseId = Annotated[
    str | None,
    typer.Option(
        help="Name of this release, paid and drawn once: a retry under another --out pays nothing."
    ),
]
People = Annotated[
    str | None,
    typer.Option(
        help="Whose rows these are, where the account is kept for people: 'homes of Aarau'."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say what would be released; spend and write nothing."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Plot = Annotated[
    Path | None, typer.Option(help="Draw into this file (.svg, .png or .pdf).")
]
Claim = Annotated[
    str,
    typer.Option(help="The claimed guarantee: epsilon,delta.", metavar="EPSILON,DELTA"),
]
MetersFile = Annotated[
    Path,
    typer.Argument(help="File of meters from `stream design`.", show_default=False),
]
ResetFrom = Annotated[
    int | None, typer.Option(help="State lost: answer from this sequence number on.")
]
MetricsSeconds = Annotated[
    float, typer.Option(help="Seconds between metrics lines on stderr; 0 for none.")
]


class Written:
    """Reads the name of a file that a command writes; knows the endings, for a dry run that leaves it out."""

    __name__ = "path"  # what the help calls it

    def __init__(self, *endings: str) -> None:
        self.endings = endings

    def __call__(self, text: str | Path) -> Path:
        """The file that the option names."""
        return Path(text)

    @property
    def placeholder(self) -> str:
        """A name for a file that is not written."""
        return ".not-written" + "".join(self.endings[:1])


def listed(text: str | Sequence[str] | None) -> list[str]:
    """The names in an option that takes several, separated by commas."""
    if not isinstance(text, str):
        return list(text or ())
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """The numbers in an option that takes several, separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            f"{option} must hold numbers separated by commas. Got {text!r}."
        ) from None


def parse_ranges(texts: list[str]) -> dict[str, tuple[float, float]]:
    """Ranges of --between by column, the one for all columns under the empty name."""
    ranges = {}
    for text in texts:
        column, _, ends = text.rpartition(":")
        low, *high = parse_numbers("--between", ends)
        if len(high) != 1:
            raise ParameterError(
                f"--between must be LOW,HIGH or COLUMN:LOW,HIGH, as in kw:0,10. Got {text!r}."
            )
        if column in ranges:
            raise ParameterError(
                f"--between must be given once for a column. Got another range, {text!r}."
            )
        ranges[column] = (low, high[0])
    return ranges


def paying_account(ledger: Path | None, account: str | None) -> Account | None:
    """The account that pays for a release; None where nothing is to be recorded."""
    from gaussveil.accounting import Account

    if (ledger is None) != (account is None):
        raise ParameterError(
            "--ledger and --account must be given together, or neither (then nothing is recorded)"
        )
    if ledger is not None and account is not None:
        return Account(ledger, account)
    return None


def parse_claim(claim: str) -> tuple[float, float]:
    """The epsilon and delta of an option --claim."""
    try:
        claimed_epsilon, claimed_delta = (float(part) for part in claim.split(","))
    except ValueError:
        raise ParameterError(
            f"--claim must be two numbers, EPSILON,DELTA, as in 1,1e-6. Got {claim!r}."
        ) from None
    if not (0.0 <= claimed_epsilon < float("inf") and 0.0 <= claimed_delta <= 1.0):
        raise ParameterError(
            f"--claim needs a finite epsilon >= 0 and a delta in [0, 1]. Got {claim!r}."
        )
    return claimed_epsilon, claimed_delta
