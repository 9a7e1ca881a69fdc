"""One release, in a process of its own: read, plan, take the files' room, debit, draw, write.

Whatever can be refused is refused before the debit. From the debit on a cancel is ignored: what is paid is delivered,
also where the process is killed before the files have their names (`unfinished`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from gaussveil.errors import GaussveilError
from gaussveil.files import json_values
from gaussveil_studio.jobs import CERTIFICATE, GO, write_json
from gaussveil_studio.spoken import refused
from gaussveil_studio.unfinished import note_unfinished, settled
from gaussveil_studio.worker_tasks import quiet

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate
    from gaussveil_studio.offers.offer import Offer, Outcome

STAGES = (
    "reading the table",
    "designing the noise",
    "debiting the account and drawing",
    "writing the files",
)
ROOM = 4 << 20  # bytes for the certificate


class CancelledError(BaseException):
    """The user changed their mind."""


def cancelled(_number: int, _frame: FrameType | None) -> None:
    """Stop where nothing is spent yet."""
    raise CancelledError


def run(folder: Path, address: str | None) -> None:
    """Do the release that the folder's request asks for; say in done.json what became of it."""
    signal.signal(signal.SIGTERM, cancelled)
    try:
        done = release(folder, address)
    except (GaussveilError, ArithmeticError) as error:
        order = json.loads((folder / "request.json").read_text(encoding="utf-8"))[
            "request"
        ]["order"]
        told = refused(error, order)
        message = _named(folder, address, str(told))
        done = {
            "state": "refused",
            "code": told.code,
            "message": f"{message}.",
            "field": told.field,
        }
    except CancelledError:
        done = {"state": "cancelled", "code": "", "message": "Cancelled."}
    write_json(folder / "done.json", json_values(done, not_finite_as_null=True))


def release(folder: Path, address: str | None) -> dict[str, Any]:
    """Prepare, then spend."""
    tell(folder, 0)
    from gaussveil.accounting import Account
    from gaussveil.accounting.debits import release_id_given
    from gaussveil.files import read_json, reserved
    from gaussveil.report.released import with_digest
    from gaussveil_studio.offers import make_offer
    from gaussveil_studio.shown import require_shown

    asked: Any = read_json(folder / "request.json")
    request = asked["request"]
    payer = Account(asked["ledger"], request["account"])
    offer = make_offer(request["order"], address, asked["table_name"], payer)
    tell(folder, 1, offer.seconds())
    room = offer.prepare()
    with ExitStack() as files:
        body = files.enter_context(reserved(folder / offer.file_name, room))
        note = files.enter_context(reserved(folder / CERTIFICATE, ROOM))
        tell(folder, 2)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if (folder / "cancelled").exists():
            raise CancelledError
        require_shown(
            request, address, asked["ledger"]
        )  # another release may have come before this one
        with release_id_given(request["key"]):
            outcome = offer.release(payer)
        with suppress(
            OSError
        ):  # a disk that is full now must not lose a release whose room is taken
            tell(folder, 3)
        certificate = (
            with_digest(outcome.certificate, offer.file_name, outcome.body)
            .to_json()
            .encode()
        )
        settled(body, outcome.body)
        settled(note, certificate)
        complete = (
            files.pop_all()
        )  # the files get their names from here on, whatever else fails
        try:
            done = _done(offer, outcome)
            with suppress(OSError):
                note_unfinished(
                    folder,
                    done,
                    {offer.file_name: outcome.body, CERTIFICATE: certificate},
                )
        finally:
            complete.close()
    return done


def _done(offer: Offer, outcome: Outcome) -> dict[str, Any]:
    """What is told of a release that was drawn."""
    from gaussveil_studio.offers.affordability import doubt, guessed_right
    from gaussveil_studio.offers.kinds import title_of
    from gaussveil_studio.plain_words import explained

    promise = outcome.certificate
    return {
        "state": "released",
        "code": "",
        "message": "Released.",
        "file": offer.file_name,
        "facts": [list(fact) for fact in outcome.facts],
        "explained": explained(promise, title_of(dict(offer.order), offer.table_name)),
        "picture": drawn(outcome),
        "rows": [list(row) for row in outcome.rows],
        "python": offer.python(),
        "shell": offer.shell(),
        "columns": offer.columns(),
        "named": offer.named(),
        "explore": pair_of(promise),
        "certificate": {
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "delta_upper": promise.delta_upper,
            "unit": promise.adjacency.unit,
            "doubt": doubt(promise.adjacency),
            "guessed_right": guessed_right(
                promise.charge, promise.adjacency, promise.epsilon, promise.delta
            ),
        },
    }


def pair_of(certificate: Certificate) -> str:
    """The address of Explore that shows the pair a release is judged by; empty where sliders cannot show it."""
    from gaussveil.spectrum import PrivacyLoss
    from gaussveil_studio.sliders import coordinates

    first, *others = certificate.charge.parts
    if isinstance(first.source, PrivacyLoss) and not others:
        found = coordinates(first.source)
    else:
        found = None
    ratio, shift = (
        ",".join(map(repr, found[name])) if found else ""
        for name in ("variance_ratio", "mean_shift")
    )
    if found:
        return f"/explore?r={ratio}&m={shift}&k={first.count}"
    return ""


def drawn(outcome: Outcome) -> dict[str, Any] | None:
    """The picture; a release that cannot be drawn is a release all the same."""
    try:
        if outcome.picture is None:
            return None
        return outcome.picture().to_dict()
    except (GaussveilError, ArithmeticError, ValueError):
        return None


def tell(folder: Path, stage: int, seconds: float | None = None) -> None:
    """Say how far the work is, and about how long it takes in all where that is long."""
    known = {
        "stage": stage,
        "stages": len(STAGES),
        "words": STAGES[stage],
        "pid": os.getpid(),
        "seconds": seconds,
    }
    write_json(folder / "progress.json", known)


def _named(folder: Path, address: str | None, message: str) -> str:
    """Our errors may name the table's file; a page says what the user calls it, not where it lies."""
    asked = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    if address is None:
        shown = message
    else:
        shown = message.replace(address, str(asked["table_name"]))
    return shown.replace(f"{folder}/", "").rstrip(".")


if __name__ == "__main__":
    sys.excepthook = quiet
    # A server that died before it wrote down our number says nothing: then nothing is done and nothing is spent.
    word, _, address = sys.stdin.buffer.read().partition(b"\n")
    if word == GO:
        run(Path(sys.argv[1]), address.decode() or None)
