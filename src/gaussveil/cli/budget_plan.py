"""`gaussveil budget new` and `plan`: what a budget is to be, and what each of many releases may promise then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.files import read_json
from gaussveil.cli.options import Json, Relation
from gaussveil.cli.output import (
    digits,
    tell,
)
from gaussveil.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from gaussveil.accounting import Adjacency, Charge
    from gaussveil.accounting.even_plan import EvenPlan

LedgerFile = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="Ledger file.", show_default=False)
]


Releases = Annotated[
    int | None, typer.Option(help="Plan so many equal releases, such as 52 weeks.")
]


ReleaseDelta = Annotated[
    float | None,
    typer.Option(
        help="Delta that each planned release promises; an equal part of the budget's by default."
    ),
]


AccountName = Annotated[
    str, typer.Option("--account", help="Name of the account.", show_default=False)
]


def new(
    ledger: LedgerFile,
    account: AccountName,
    epsilon: Annotated[
        float, typer.Option(help="Budget: epsilon.", show_default=False)
    ],
    delta: Annotated[float, typer.Option(help="Budget: delta.", show_default=False)],
    people: Annotated[
        str,
        typer.Option(
            help="Whose budget it is, as in 'homes of Aarau': all tables of theirs pay from it."
        ),
    ] = "",
    dataset: Annotated[
        str, typer.Option(help="Name of the data that the account protects.")
    ] = "",
    adjacency: Annotated[
        Relation | None,
        typer.Option(
            help="Neighbouring relation; by default the first release fixes it."
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="Column that names whose row it is, with --adjacency; else record."
        ),
    ] = None,
    rule: Annotated[
        Literal["adaptive", "planned"] | None,
        typer.Option(
            help="How releases compose: adaptive by default, planned with --plan or --releases."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The planned releases: JSON list of charges, each with a 'count'."
        ),
    ] = None,
    releases: Releases = None,
    release_delta: ReleaseDelta = None,
    filter_name: Annotated[
        Literal["auto", "mean-shift", "renyi"],
        typer.Option("--filter", help="Filter of an adaptive account."),
    ] = "auto",
    order: Annotated[
        float | None,
        typer.Option(help="Order s of the Renyi filter; by default the best one."),
    ] = None,
    json: Json = False,
) -> None:
    """Open an account; the ledger file is made if it does not exist.

    With --releases the budget is planned for so many equal releases, such as 52 weeks, and what each may promise is
    told.

    Example: gaussveil budget new home.ledger --account homes --epsilon 3 --delta 1e-5
    """
    from gaussveil.accounting import Ledger
    from gaussveil.accounting.names import listed

    if plan is not None and releases is not None:
        raise ParameterError(
            "--plan and --releases must not be given together: each says what is planned"
        )
    even = _even_plan(epsilon, delta, releases, release_delta)
    if even is not None:
        planned = [(even.charge, even.releases)]
        adjacency = adjacency or "add-remove"
    elif plan is not None:
        planned = _read_plan(plan)
    else:
        planned = []
    if rule is None:
        rule = "planned" if plan or even else "adaptive"
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": _relation(adjacency, unit),
        "rule": rule,
        "plan": planned,
        "filter": filter_name,
        "order": order,
        "people": people,
    }
    # before the file is made, so that a bad budget leaves none behind
    budget, _ = Ledger.check_terms(account, **terms)
    budget.require_usable()
    book = Ledger(ledger) if ledger.exists() else Ledger.create(ledger)
    book.open_account(account, dataset=dataset, **terms)
    statement = book.statement(account)
    lines = [
        f"opened account {listed(statement.terms.name)}: epsilon {digits(epsilon)}, delta {digits(delta)}, {rule}"
    ]
    facts = statement.to_dict()
    if even is not None:
        facts |= _each(even)
        lines.append(_words(even))
    tell(facts, [*lines, *statement.notices], json=json)


def _even_plan(
    epsilon: float, delta: float, releases: int | None, release_delta: float | None
) -> EvenPlan | None:
    from gaussveil.accounting.even_plan import EvenPlan

    if releases is not None:
        return EvenPlan.of(epsilon, delta, releases, release_delta=release_delta)
    if release_delta is not None:
        raise ParameterError("--release-delta must be given with --releases")
    return None


def plan_releases(
    epsilon: Annotated[
        float, typer.Option(help="Budget: epsilon.", show_default=False)
    ],
    delta: Annotated[float, typer.Option(help="Budget: delta.", show_default=False)],
    releases: Annotated[
        int,
        typer.Option(
            help="How many equal releases, such as 52 weeks.", show_default=False
        ),
    ],
    release_delta: ReleaseDelta = None,
    json: Json = False,
) -> None:
    """Say what each of so many releases may promise: epsilon per week for a year's budget.

    Nothing is opened or spent; `budget new --releases` opens an account for the same plan.

    Example: gaussveil budget plan --epsilon 3 --delta 1e-5 --releases 52
    """
    from gaussveil.accounting.even_plan import EvenPlan

    even = EvenPlan.of(epsilon, delta, releases, release_delta=release_delta)
    tell(_each(even), [_words(even)], json=json)


def _each(even: EvenPlan) -> dict[str, object]:
    each = {"epsilon": even.epsilon, "delta": even.delta}
    return {"releases": even.releases, "each": each, "charge": even.charge.to_dict()}


def _words(even: EvenPlan) -> str:
    return f"{even.releases} releases of --epsilon {even.epsilon!r} --delta {even.delta!r} each"


def _relation(adjacency: Relation | None, unit: str | None) -> Adjacency | None:
    from gaussveil.accounting import Adjacency

    if adjacency is None:
        if unit is not None:
            raise ParameterError(
                "--unit needs --adjacency; without it the first release fixes both"
            )
        return None
    if adjacency == "replace":
        make = Adjacency.replace_one
    else:
        make = Adjacency.add_remove
    return make(unit or "record")


def _read_plan(path: Path) -> list[tuple[Charge, int]]:
    from gaussveil.accounting import Charge

    listed = read_json(path)
    if not isinstance(listed, list) or not all(
        isinstance(item, dict) for item in listed
    ):
        raise FormatError(
            f"the plan {path} must be a JSON list of objects with 'charge' and 'count'"
        )
    return [
        (Charge.from_dict(item.get("charge")), item.get("count", 1)) for item in listed
    ]
