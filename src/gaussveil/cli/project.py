"""`gaussveil.toml`: what is the same in every command of a project, written once beside its data (docs/sources.md).

A key is the name of an option; every command that has the option takes it from there unless it is given.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from gaussveil.errors import FormatError
from gaussveil.project_file import PROJECT_FILE, form_in, read_project

_OF_A_FORM = {
    "unit": "unit",
    "household": "unit",
    "people": "people",
    "time_zone": "time_zone",
}
KEYS = (
    *(
        "unit",
        "rows-per-unit",
        "household",
        "time",
        "power",
        "label",
        "in",
        "time-zone",
        "gaps",
    ),
    *(
        "ledger",
        "account",
        "people",
        "engine",
        "separator",
        "decimal",
        "encoding",
        "time-format",
        "types",
        "schema",
    ),
)


def project_defaults(root: Any, command: str, file: Path) -> dict[str, Any]:
    """The file's values for a command, as click takes them."""
    options = {
        key.replace("_", "-"): value
        for key, value in read_project(file).options.items()
    }
    if unknown := sorted(options.keys() - set(KEYS)):
        raise FormatError(
            f"{file.name}: keys must be among {', '.join(KEYS)}. Got {', '.join(unknown)}."
        )
    if nested := sorted(
        key for key, value in options.items() if not isinstance(value, str | int)
    ):
        raise FormatError(
            f"{file.name}: every value must be a text or a whole number. Got another for {nested[0]}."
        )
    return {command: _values(root.commands[command], options)}


def form_defaults(
    address: object, schema: str | None, wanted: Collection[str]
) -> dict[str, str]:
    """What the form of a table says of a command's options: whose rows these are, which people, on which clock."""
    from gaussveil.engines.location import public_name

    file = Path(schema or Path.cwd() / PROJECT_FILE)
    if not isinstance(address, str | Path) or not file.is_file():
        return {}
    form = form_in(file, public_name(str(address))) or {}
    options = {name: form.get(key) for name, key in _OF_A_FORM.items()}
    return {
        name: text
        for name, text in options.items()
        if isinstance(text, str) and name in wanted
    }


def _values(command: Any, found: dict[str, Any]) -> dict[str, Any]:
    taken = {
        parameter.name: found[key]
        for parameter in command.params
        if (key := _key(parameter)) in found
    }
    inner = getattr(command, "commands", {})
    return {**taken, **{name: _values(one, found) for name, one in inner.items()}}


def _key(parameter: Any) -> str:
    return next(
        (option[2:] for option in parameter.opts if option.startswith("--")), ""
    )
