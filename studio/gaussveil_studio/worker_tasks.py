"""What the worker does: one task per line on standard input, one answer per line on standard output."""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from types import TracebackType
from typing import Any

from gaussveil.errors import GaussveilError
from gaussveil.files import json_values

# Each is a function of that name; its module loads when it is first asked for.
TASKS = {
    "curve_of_file": "verdicts",
    "enclose": "verdicts",
    "check_claim": "verdicts",
    "verify_certificate": "verdicts",
    "verify_release": "verdicts",
    "handed_page": "handed_on",
    "converted": "handed_on",
    "package": "handed_on",
    "sampled": "verdicts",
    "sign": "verdicts",
    "what_if": "offers.affordability",
    "cards": "account_views",
    "history": "account_views",
    "exported": "account_views",
    "describe_table": "offers.tables",
    "keep_form": "offers.tables",
    "preview": "offers",
    "warm": "offers",
    "diagnose": "private_figures",
}


def answer(line: bytes) -> dict[str, Any]:
    """Do the task of one line."""
    question = json.loads(line)
    try:
        task = getattr(
            import_module(f"gaussveil_studio.{TASKS[question['task']]}"),
            question["task"],
        )
        return {"answer": task(**question["arguments"])}
    except GaussveilError as error:
        return {
            "error": {
                "code": error.code,
                "message": str(error),
                "field": getattr(error, "field", None),
            }
        }


def quiet(
    kind: type[BaseException], _error: BaseException, place: TracebackType | None
) -> None:
    """A mistake of ours ends the process; its kind and place are told, its words may hold values and are not."""
    if place is not None:
        last = traceback.extract_tb(place)[-1]
    else:
        last = None
    if last is None:
        where = ""
    else:
        where = f" at {last.filename}:{last.lineno}"
    print(f"unexpected {kind.__name__}{where}", file=sys.stderr)


def main() -> None:
    """Answer until standard input ends."""
    sys.excepthook = quiet
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        answers.write(
            json.dumps(
                json_values(answer(line), not_finite_as_null=True), allow_nan=False
            ).encode()
            + b"\n"
        )
        answers.flush()


if __name__ == "__main__":
    main()
