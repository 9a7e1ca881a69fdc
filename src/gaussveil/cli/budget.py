"""`gaussveil budget`: what accounts have spent, their history, and whether the ledger is intact."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gaussveil.cli.budget_plan import AccountName, LedgerFile, new, plan_releases
from gaussveil.cli.files import check_targets, reserved
from gaussveil.cli.options import Json
from gaussveil.cli.output import (
    DONE,
    EXIT_CODE_HELP,
    NO,
    digits,
    print_json,
    print_line,
    print_table,
    tell,
)
from gaussveil.files import PRIVATE, printable

if TYPE_CHECKING:
    from gaussveil.accounting import Ledger

budget_app = typer.Typer(
    name="budget",
    help="Privacy budgets: new, plan, show, history, check, export, void.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
)
budget_app.command("new", epilog=EXIT_CODE_HELP)(new)
budget_app.command("plan", epilog=EXIT_CODE_HELP)(plan_releases)


@budget_app.command("show", epilog=EXIT_CODE_HELP)
def show(
    ledger: LedgerFile,
    account: Annotated[
        str | None, typer.Option(help="Name of the account; without it all are listed.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what an account has spent.

    Epsilon at its delta, delta at its epsilon, every entry with its state.

    Example: gaussveil budget show home.ledger --account homes --json
    """
    from gaussveil.accounting import Ledger
    from gaussveil.accounting.names import listed

    book = Ledger(ledger)
    if account is None:
        _list_accounts(book, json)
        return
    statement = book.statement(account)
    entries = book.entries(account)
    if json:
        shown = [
            {"id": e.id, "state": e.state, "what": e.what, "debited_at": e.debited_at}
            for e in entries
        ]
        print_json({**statement.to_dict(), "lost": list(book.lost()), "entries": shown})
        return
    terms = statement.terms
    rows = [
        (
            "budget",
            f"epsilon {digits(terms.budget.epsilon)}",
            f"delta {digits(terms.budget.delta)}",
        ),
        (
            "spent, at that delta",
            f"epsilon {digits(statement.spent_epsilon)}",
            f"delta {digits(terms.budget.delta)}",
        ),
        (
            "spent, at that epsilon",
            f"epsilon {digits(terms.budget.epsilon)}",
            f"delta {digits(statement.spent_delta)}",
        ),
    ]
    print_table(["", "", ""], rows, title=f"Account {listed(statement.terms.name)}")
    if terms.people:
        print_line(f"people: {listed(terms.people)}")
    for line in (*statement.notices, *book.lost()):
        print_line(line)
    print_line(f"rule: {terms.composition}")
    if statement.filter_used is not None:
        print_line(f"{100 * statement.filter_used:.3g} % of the budget is spent")
    words = {
        "none": "none: at least one release carries no guarantee, so the account as a whole gives none"
    }
    print_line(f"guarantee: {words.get(statement.guarantee, statement.guarantee)}")
    print_line(f"neighbours: {terms.adjacency or 'fixed by the first release'}")
    if statement.unfinished:
        print_line(
            f"unfinished: {statement.unfinished} (at work now, or killed; they count as spent)"
        )
    # Plain lines: ids must be readable in full, and what a user wrote is not markup.
    for entry in entries:
        print(
            printable(f"{entry.debited_at}  {entry.state:<8}  {entry.id}  {entry.what}")
        )


def _list_accounts(book: Ledger, json: bool) -> None:
    from gaussveil.accounting.names import listed

    statements = {name: book.statement(name) for name in book.accounts()}
    if json:
        print_json(
            {
                "accounts": [statement.to_dict() for statement in statements.values()],
                "lost": list(book.lost()),
            }
        )
        return
    rows = [
        (
            listed(name),
            *map(
                digits,
                (
                    budget.epsilon,
                    budget.delta,
                    statement.spent_epsilon,
                    statement.spent_delta,
                ),
            ),
        )
        for name, statement in statements.items()
        for budget in (statement.terms.budget,)
    ]
    print_table(
        ("account", "budget epsilon", "delta", "spent epsilon", "spent delta"), rows
    )
    for line in dict.fromkeys(
        line for statement in statements.values() for line in statement.notices
    ):
        print_line(line)
    for gap in book.lost():
        print_line(gap)


@budget_app.command("history", epilog=EXIT_CODE_HELP)
def history(ledger: LedgerFile, account: AccountName, json: Json = False) -> None:
    """Show the account's log, and check that the ledger is intact.

    Example: gaussveil budget history home.ledger --account homes
    """
    from gaussveil.accounting import Ledger
    from gaussveil.accounting.ledger.statements import as_rows

    book = Ledger(ledger)
    book.check()
    events = book.history(account)
    if json:
        print_json({"account": account, "intact": True, "events": as_rows(events)})
        return
    rows = [
        (
            event.at[:19].replace("T", " "),
            event.event,
            event.entry,
            _in_words(event.detail),
        )
        for event in events
    ]
    print_table(("when (UTC)", "event", "entry", "what"), rows)
    print_line("the ledger is intact")


@budget_app.command("check", epilog=EXIT_CODE_HELP)
def check(
    ledger: LedgerFile,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Folder of certificates that were given out, or one of them."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check that the ledger is intact and holds what certificates say.

    A ledger restored from an old copy, or rewritten, cannot agree with certificates that were given out since: those
    beside it, or those of --against. Nor with its witness, the file beside it that notes how far it had come. Ends with
    1 if one contradicts it.

    Example: gaussveil budget check home.ledger --against certificates/
    """
    from gaussveil.accounting import Ledger
    from gaussveil.accounting.ledger.against import compare
    from gaussveil.cli.certificates import held_in

    book = Ledger(ledger)
    book.check()
    if against is not None:
        held = held_in(against)
    else:
        held = held_in(book.path.resolve().parent, deep=False)
    differences = compare(book, held)
    lost = book.lost()
    lines = ["the ledger is intact", *lost]
    lines += (
        [
            f"{differences.compared} certificates compared, {differences.elsewhere} of other ledgers or of none"
        ]
        if held
        else []
    )
    answer: dict[str, object] = {
        "intact": True,
        "compared": differences.compared,
        "elsewhere": differences.elsewhere,
    }
    answer |= {"contradictions": list(differences.problems), "lost": list(lost)}
    tell(
        answer,
        [
            *lines,
            *(
                f"contradicted by {printable(problem)}"
                for problem in differences.problems
            ),
        ],
        json=json,
    )
    raise typer.Exit(NO if differences.problems or lost else DONE)


@budget_app.command("export", epilog=EXIT_CODE_HELP)
def export(
    ledger: LedgerFile,
    account: AccountName,
    out: Annotated[Path, typer.Option(help="File to write.", show_default=False)],
    table: Annotated[
        Literal["json", "csv"],
        typer.Option("--format", help="All of it in JSON, or entries in CSV."),
    ] = "json",
    json: Json = False,
) -> None:
    """Write an account to a file.

    Example: gaussveil budget export home.ledger --account homes --out homes.json
    """
    from gaussveil.accounting import Ledger
    from gaussveil.accounting.ledger.export import account_csv, account_json

    check_targets(out, ledger=ledger, force=True)
    text = (account_csv if table == "csv" else account_json)(Ledger(ledger), account)
    with reserved(out, mode=PRIVATE) as stream:  # an account's history is the owner's
        stream.write(text.encode())
    tell(
        {"account": account, "out": str(out), "format": table},
        [f"wrote {out}"],
        json=json,
    )


@budget_app.command("void", epilog=EXIT_CODE_HELP)
def void(
    ledger: LedgerFile,
    entry: Annotated[str, typer.Option(help="Id of the entry.", show_default=False)],
    reason: Annotated[
        str, typer.Option(help="Why; kept in the log.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Give back a debit whose draw never began.

    Example: gaussveil budget void home.ledger --entry 3f0c --reason "the job was cancelled before it drew"
    """
    from gaussveil.accounting import Ledger

    Ledger(ledger).void(entry, reason)
    tell({"entry": entry, "state": "void"}, [f"entry {entry} is void"], json=json)


def _in_words(detail: str) -> str:
    """What an event was about; all of it stands in --json."""
    if detail.startswith("{"):
        stated = json_format.loads(detail)
    else:
        stated = {"what": detail}
    if "epsilon" in stated:
        promise = f"epsilon {stated['epsilon']:g}, delta {stated['delta']:g}"
    else:
        promise = ""
    return printable(str(stated.get("what") or stated.get("reason") or promise))
