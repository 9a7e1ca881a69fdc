"""What the desk's process does: one task per line on standard input, one answer per line on standard output."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from gaussveil.errors import GaussveilError
from gaussveil.files import json_values

Task = Callable[..., dict[str, Any]]


def curve_of_file(path: str, times: int, points: int) -> dict[str, Any]:
    """The curve of a pair in a file, and the sliders that stand for it."""
    from gaussveil.report.pair_files import read_pair
    from gaussveil.studio.curves import coordinates, curve, summary

    pair = read_pair(Path(path))
    loss = pair if times == 1 else pair**times
    return {"pair": coordinates(pair), "curve": curve(loss, points), "summary": summary(loss, 1e-6, 61)}


def enclose(pair: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """Rigorous ends of delta of a pair given by sliders."""
    from gaussveil.studio.curves import PairState, enclosure

    return enclosure(PairState.model_validate(pair).loss(), epsilon)


def check_claim(path: str, times: int, epsilon: float, delta: float) -> dict[str, Any]:
    """Decide a claim on a pair in a file."""
    from gaussveil.studio.verdicts import claim_verdict

    return claim_verdict(Path(path), times, epsilon, delta)


def verify_certificate(path: str) -> dict[str, Any]:
    """Recompute a certificate and say it in plain words."""
    from gaussveil.studio.verdicts import certificate_verdict

    return certificate_verdict(Path(path))


def report_page(path: str) -> dict[str, Any]:
    """A page about a certificate, to keep or to print."""
    from gaussveil.accounting import Certificate
    from gaussveil.report.certificate import certificate_report
    from gaussveil.report.html import render

    return {"page": render(certificate_report(Certificate.read(path)))}


def statements(ledger: str) -> dict[str, Any]:
    """Every account."""
    from gaussveil.studio import books

    return books.statements(ledger)


def history(ledger: str, account: str) -> dict[str, Any]:
    """One account."""
    from gaussveil.studio import books

    return books.history(ledger, account)


def exported(ledger: str, account: str, form: str) -> dict[str, Any]:
    """An account as a file."""
    from gaussveil.studio import books

    return books.exported(ledger, account, form)


def describe_table(address: str) -> dict[str, Any]:
    """Public facts about a table: its columns and their types."""
    from gaussveil.studio.offers.tables import describe

    return describe(address)


def preview(**order: Any) -> dict[str, Any]:
    """What a release would be like, from public quantities only."""
    from gaussveil.studio.offers import preview as foresee

    return foresee(order)


def diagnose(**order: Any) -> dict[str, Any]:
    """Private figures for the owner alone."""
    from gaussveil.studio.private_figures import figures

    return figures(order)


TASKS: dict[str, Task] = {
    task.__name__: task
    for task in (
        curve_of_file,
        enclose,
        check_claim,
        verify_certificate,
        report_page,
        statements,
        history,
        exported,
        describe_table,
        preview,
        diagnose,
    )
}


def answer(line: bytes) -> dict[str, Any]:
    """Do the task of one line."""
    question = json.loads(line)
    try:
        return {"answer": TASKS[question["task"]](**question["arguments"])}
    except GaussveilError as error:
        return {"error": {"code": error.code, "message": str(error)}}


def quiet(kind: type[BaseException], _error: BaseException, place: TracebackType | None) -> None:
    """A mistake of ours ends the process; its kind and place are told, its words may hold values and are not."""
    last = traceback.extract_tb(place)[-1] if place is not None else None
    where = "" if last is None else f" at {last.filename}:{last.lineno}"
    print(f"unexpected {kind.__name__}{where}", file=sys.stderr)


def main() -> None:
    """Answer until standard input ends."""
    sys.excepthook = quiet
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        answers.write(json.dumps(json_values(answer(line), not_finite_as_null=True), allow_nan=False).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
