"""The kinds of releases as orders.toml describes them, and the jobs that people want done, in their words.

Apart from the models, so that a release need not load those.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _described(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


KINDS: dict[str, Any] = _described("orders.toml")
EVERY = KINDS.pop("every")["fields"]
JOBS: dict[str, dict[str, Any]] = {
    name: {"order": {}, "needs": [], "rare": False, **job}
    for name, job in _described("jobs.toml").items()
}


def job_of(kind: str, wanted: str = "") -> str:
    """The job that a form is for: the one that was wanted, or the usual one of a kind of release."""
    if JOBS.get(wanted, {}).get("kind") == kind:
        return wanted
    if kind == "table":
        usual = "averages"
    else:
        usual = ""
    return usual or next(name for name, job in JOBS.items() if job["kind"] == kind)


ANSWERS = {"mean": "average", "sum": "total"}
CLOCKS = {"hour": "hour of the day", "weekday": "day of the week", "month": "month"}


def what_is_asked(order: Mapping[str, Any]) -> str:
    """The answer of an order on a table, in words: average of kw."""
    kind = order["answer"]
    if kind == "count":
        return "count"
    words = f"{ANSWERS.get(kind, kind)} of {order['column']}"
    if kind == "share" and None not in (order["low"], order["high"]):
        words += f" between {order['low']:g} and {order['high']:g}"
    return words


def grouped_by(order: Mapping[str, Any]) -> str:
    """What there is one number for each of, in words; empty of one number for all."""
    by = order["by"]
    if by == "nothing":
        return ""
    return str(CLOCKS.get(by, order["by_column"]))


def title_of(order: dict[str, Any], table: str) -> str:
    """What a release is called on pages."""
    kind = KINDS.get(order.get("mechanism", ""), {"title": "Release"})
    words = str(kind.get("called", kind["title"])).format_map(order)
    if order.get("mechanism") == "table":
        asked = what_is_asked(order)
        words = f"{asked[:1].upper()}{asked[1:]}"
        if over := grouped_by(order):
            words += f" by {over}"
    return f"{words}, {table}" if table else words
