"""`gaussveil backup` and `gaussveil restore`: a ledger and a gateway's state in one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli.files import check_targets
from gaussveil.cli.options import Force, Json
from gaussveil.cli.output import tell
from gaussveil.errors import ParameterError

LedgerFile = Annotated[Path | None, typer.Option(help="Ledger file.")]


def backup(
    out: Annotated[Path, typer.Argument(help="Archive to write.", show_default=False)],
    ledger: LedgerFile = None,
    meters: Annotated[
        Path | None, typer.Option(help="File of meters; its state goes along.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder of the state; beside METERS by default.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a ledger, a gateway's meters and state, or all of them to one archive, also while they are in use.

    Example: gaussveil backup monday.tar --ledger home.ledger
    """
    from gaussveil.streaming.backup import write_backup

    check_targets(out, inputs=[meters], ledger=ledger, force=force)
    made = write_backup(out, ledger, meters, state)
    line = f"wrote {out}: {len(made.sums)} files, {made.ledger_events} events of the ledger; it holds private state"
    tell({"out": str(out), **vars(made)}, [line], json=json)


def restore(
    archive: Annotated[
        Path, typer.Argument(help="Archive of `gaussveil backup`.", show_default=False)
    ],
    to: Annotated[Path | None, typer.Option(help="New folder to restore to.")] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Check the archive; without --to, restore nothing."
        ),
    ] = False,
    certificate: Annotated[
        list[Path] | None,
        typer.Option(help="Certificate that the ledger must know; may be repeated."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger in use, which must continue the one in the archive."),
    ] = None,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="Nothing was debited or answered since the backup: continue.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check an archive, and unpack it to a new folder.

    A restored gateway answers nothing before `stream run --reset-from`, unless nothing was answered since (--moved).

    Example: gaussveil restore monday.tar --verify --ledger home.ledger
    """
    from gaussveil.streaming.backup import restore_backup, verify_backup

    if to is None and not verify:
        raise ParameterError("give --to FOLDER to restore, or --verify to check only")
    verdict = verify_backup(archive, certificate or (), ledger)
    lines = [
        f"verified {archive}, made {verdict.made}: {verdict.ledger_events} events, "
        f"head {verdict.ledger_head[:16] or 'none'}"
    ]
    if to is not None:
        restore_backup(archive, to, moved=moved)
        lines.append(
            f"restored to {to}; debits and answers since {verdict.made} are not in it"
        )
    tell(
        {
            "archive": str(archive),
            "to": None if to is None else str(to),
            **vars(verdict),
        },
        lines,
        json=json,
    )
