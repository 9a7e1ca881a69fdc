"""A release as pages show it: its title, its state, what is said to people, and how it is made again."""

from __future__ import annotations

import re
import time
from pathlib import Path as FilePath
from typing import Any

from gaussveil import mechanisms
from gaussveil_studio.answers import (
    environment,
    moment,
)
from gaussveil_studio.context import Studio
from gaussveil_studio.jobs import JobStatus
from gaussveil_studio.offers.kinds import title_of
from gaussveil_studio.offers.orders import (
    PreviewRequest,
)
from gaussveil_studio.offers.rounding import number_table
from gaussveil_studio.plain_words import paragraph


def listed(context: Studio, search: str = "") -> list[dict[str, Any]]:
    """Releases whose title, account or table holds all words of a search, the latest first."""
    rows = [
        {**one, "title": title_of(one["order"], one["table"])}
        for one in context.jobs.summaries()
    ]
    words = search.casefold().split()
    texts = (
        f"{one['title']} {one['account']} {one['state']} {one['key']}".casefold()
        for one in rows
    )
    return [
        one for one, text in zip(rows, texts) if all(word in text for word in words)
    ]


def paid_elsewhere(context: Studio, asked: PreviewRequest, table: str) -> list[str]:
    """That releases of the same table were paid from other accounts: the same people have several budgets then."""
    if asked.account is None or not table:
        return []
    paid = {
        one["account"]
        for one in context.jobs.summaries()
        if one["table"] == table and one["state"] == "released"
    }
    others = sorted(
        name for name in paid - {asked.account} if not context.is_of_tour(name)
    )
    if not others:
        return []
    named = ", ".join(f"“{name}”" for name in others[:3]) + (
        f" and {len(others) - 3} more" if len(others) > 3 else ""
    )
    return [
        f"releases of {table} were paid from {named}: what its people are promised by several accounts adds up, so pay "
        "from the same account unless these are others"
    ]


def shown_release(context: Studio, found: JobStatus) -> dict[str, Any]:
    """What is known of a release now, and its result where it is out."""
    if found.done is None or found.state != "released":
        result = None
    else:
        result = found.done
    known = {name: value for name, value in vars(found).items() if name != "done"}
    order = context.jobs.request(found.key).get("request", {}).get("order", {})
    known |= {
        "about": context.jobs.about(found.key),
        "tour": context.is_of_tour(found.account),
    }
    if result is not None:
        result = {
            **result,
            "signs": context.settings.signing_key is not None,
            **_for_people(context, found, order),
        }
        result |= (
            {"script": made_again(context, found.key)} if "python" in result else {}
        )
    if found.asked_at and not found.finished:
        elapsed = max(0.0, time.time() - found.asked_at)
    else:
        elapsed = 0.0
    return {
        **known,
        "result": result,
        "title": title_of(order, found.table),
        "elapsed": elapsed,
    }


def _for_people(
    context: Studio, found: JobStatus, order: dict[str, Any]
) -> dict[str, Any]:
    """What the page of a release says beside what was stored with it: a paragraph, and its numbers as a table."""
    done = found.done or {}
    picture = done.get("picture")
    title = context.jobs.about(found.key)["title"] or title_of(order, found.table)
    stem, _, ending = done["file"].rpartition(".")
    return {
        "paragraph": paragraph(title, moment(found.asked_at), done["certificate"]),
        "picture": picture and {"holds": "", **picture},
        "table": number_table(picture) if picture else None,
        "stem": stem if ending in ("csv", "parquet") else "",
    }


def handed_facts(context: Studio, key: str) -> dict[str, str]:
    """What stands at the head of the page that is handed on."""
    found = context.jobs.status(key)
    order = context.jobs.request(key).get("request", {}).get("order", {})
    said = context.jobs.about(key)
    told = {
        "title": said["title"] or title_of(order, found.table),
        "released_on": moment(found.asked_at),
    }
    return {**said, **told, "table": found.table}


def made_again(context: Studio, key: str) -> dict[str, Any]:
    """The script and the command that make such a release again; no command where there is none."""
    asked = context.jobs.request(key)
    done = context.jobs.status(key).done or {}
    about = {
        **asked["request"],
        "table": asked["table_name"],
        "out": done["file"],
        "line": done["python"],
    }
    about |= {
        "columns": done.get("columns"),
        "named": done.get("named") or {},
        "shell": done.get("shell", ("", about["table"])),
    }
    about["ledger"] = FilePath(asked["ledger"]).name
    # Not all of them: that would take seconds to load.
    about["mechanisms"] = sorted(
        {*dir(mechanisms)} & {*re.findall(r"\w+", about["line"])}
    )
    rendered = [
        environment().get_template(name).render(about).strip()
        for name in ("again.py.txt", "again.txt")
    ]
    return dict(zip(("python", "command"), rendered))
