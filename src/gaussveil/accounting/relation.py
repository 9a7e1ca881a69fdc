"""Which data sets count as neighbours in an accountant: a record is added or removed, or replaced by another."""

from __future__ import annotations

from typing import Any

from gaussveil.checks import one_of

ADD_REMOVE, REPLACE = RELATIONS = ("add-remove", "replace")


def relation_of(value: Any) -> str:
    """The relation, if it is one."""
    if isinstance(value, str) and value in RELATIONS:
        return value
    checked: str = one_of("relation", value, RELATIONS)
    return checked
