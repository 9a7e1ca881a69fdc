"""The kinds of releases as orders.toml describes them, and the jobs that people want done, in their words.

Apart from the models, so that a release need not load those.
"""

from __future__ import annotations

import tomllib
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


def title_of(order: dict[str, Any], table: str) -> str:
    """What a release is called on pages."""
    kind = KINDS.get(order.get("mechanism", ""), {"title": "Release"})
    words = kind.get("called", kind["title"]).format_map(order)
    listed = [
        (f" by {by}", f" by {order.get('by_column')}")
        for by in ("values found", "values and others", "values")
    ]
    for spoken, meant in ((" of None", ""), (" by nothing", ""), *listed):
        words = words.replace(spoken, meant)
    return f"{words[:1].upper()}{words[1:]}, {table}" if table else words
