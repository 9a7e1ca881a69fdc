"""Which data sets count as neighbours in an accountant: a record is added or removed, or replaced by another."""

from __future__ import annotations

from typing import Any

from gaussveil.checks import one_of

ADD_REMOVE, REPLACE = RELATIONS = ("add-remove", "replace")
FORMER_SPELLINGS = {"add or remove": ADD_REMOVE}


def relation_of(value: Any) -> str:
    """The relation by its one name; a former spelling is understood."""
    if isinstance(value, str):
        known = FORMER_SPELLINGS.get(value, value)
    else:
        known = value
    return one_of("relation", known, RELATIONS)
