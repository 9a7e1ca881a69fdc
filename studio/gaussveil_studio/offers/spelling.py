"""A release as a Python script and as a command, which make such a release again and debit the account again."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

ASKED_AGAIN = 'whose = input("Whose is it? That stands in no file: ")'


def spelled(call: Any) -> str:
    """A mechanism as Python spells it: the parameters that are not at their defaults."""
    known = {one.name: getattr(call, one.name) for one in fields(call) if one.init and one.name != "account"}
    usual = {one.name: one.default for one in fields(call) if one.default is not MISSING}
    shown = [f"{name}={value!r}" for name, value in known.items() if name not in usual or usual[name] != value]
    return f"{type(call).__name__}({', '.join([*shown, 'account=account'])})"
