"""`gaussveil.toml`: what is the same in every command of a project, written once beside its data.

    unit = "meter_id"
    time = "read_at"
    in = "kWh"
    ledger = "town.ledger"

A key is the name of an option; every command that has the option takes it from there unless it is given.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gaussveil.errors import FormatError

NAME = "gaussveil.toml"
KEYS = (
    *("unit", "rows-per-unit", "household", "time", "power", "label", "in", "time-zone", "gaps"),
    *("ledger", "account", "engine", "separator", "decimal", "encoding", "time-format"),
)


def project_defaults(root: Any, folder: Path) -> dict[str, Any]:
    """The file's values for every command, as click takes them; none where there is no file."""
    file = folder / NAME
    if not file.is_file():
        return {}
    try:
        found = {key.replace("_", "-"): value for key, value in tomllib.loads(file.read_text(encoding="utf-8")).items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{NAME}: {error}") from None
    if unknown := sorted(found.keys() - set(KEYS)):
        raise FormatError(f"{NAME}: keys must be among {', '.join(KEYS)}. Got {', '.join(unknown)}.")
    if nested := sorted(key for key, value in found.items() if not isinstance(value, str | int)):
        raise FormatError(f"{NAME}: every value must be a text or a whole number. Got another one for {nested[0]}.")
    return dict(_by_command(root, found))


def _by_command(group: Any, found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, command in getattr(group, "commands", {}).items():
        taken = {parameter.name: found[key] for parameter in command.params if (key := _key(parameter)) in found}
        yield name, {**taken, **dict(_by_command(command, found))}


def _key(parameter: Any) -> str:
    return next((option[2:] for option in parameter.opts if option.startswith("--")), "")
