"""`gaussveil.toml`: what a project says once beside its data, for every command; read and written here alone.

Its top holds options of commands by name (`unit = "home"`). A table `[form."readings.csv"]` says how one table of data
is written and whose rows it holds; its name is the public name of the data's address, or a pattern of such names.
"""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaussveil.errors import FormatError, SourceError
from gaussveil.files import write_whole

PROJECT_FILE = "gaussveil.toml"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[")


@dataclass(frozen=True)
class Project:
    """What a file says: options of commands, and forms of tables by their public names."""

    options: Mapping[str, Any] = field(default_factory=dict)
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def form_of(self, name: str) -> Mapping[str, Any] | None:
        """What is said of the table of this public name: under the name itself, else under the first pattern."""
        if name in self.forms:
            return self.forms[name]
        return next(
            (
                form
                for pattern, form in self.forms.items()
                if fnmatch.fnmatchcase(name, pattern)
            ),
            None,
        )


def read_project(file: Path) -> Project:
    """What a project's file says; nothing where there is none."""
    if not file.is_file():
        return Project()
    said = read_toml(file)
    forms = said.pop("form", {})
    if not isinstance(forms, dict) or not all(
        isinstance(form, dict) for form in forms.values()
    ):
        raise FormatError(
            f'{file.name}: a form must be a table under the name of its data, [form."readings.csv"].'
        )
    return Project(said, forms)


def form_in(file: Path, name: str) -> Mapping[str, Any] | None:
    """The form of the table of this name in a project's file; of a file of one form, that form."""
    whole = read_toml(file)
    if "form" not in whole and file.name != PROJECT_FILE:
        return whole
    return read_project(file).form_of(name)


def read_toml(file: Path) -> dict[str, Any]:
    """A file of TOML as a dictionary."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(
            f"{file}: cannot be read ({error.strerror or 'not such a file'})"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{file.name}: {error}") from None


def write_form(file: Path, name: str, form: Mapping[str, Any]) -> None:
    """Put the form of one table into a project's file, in the place of an older one; all other lines stay."""
    read_project(file)  # a file that cannot be read is not written to
    if file.is_file():
        before = file.read_text(encoding="utf-8")
    else:
        before = ""
    kept = _without_form(before, name).rstrip("\n")
    text = "\n\n".join(part for part in (kept, form_text(name, form)) if part)
    write_whole(file, text.rstrip("\n") + "\n")


def form_text(name: str, form: Mapping[str, Any]) -> str:
    """The lines of a form; of one without a name, those of a file of its own."""
    if name:
        above = f"form.{_key(name)}"
    else:
        above = ""
    plain = {key: value for key, value in form.items() if key != "columns"}
    if above:
        lines = [f"[{above}]"]
    else:
        lines = []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    if columns := form.get("columns"):
        lines += ["", f"[{above}.columns]" if above else "[columns]"]
        lines += [
            f"{_key(column)} = {_value(value)}" for column, value in columns.items()
        ]
    return "\n".join(lines) + "\n"


def _without_form(text: str, name: str) -> str:
    """The lines of a file that belong to no table of this form."""
    kept = []
    leaving = False
    for line in text.split("\n"):
        if _HEADER.match(line):
            leaving = _names_form(line, name)
        if not leaving:
            kept.append(line)
    return "\n".join(kept)


def _names_form(header: str, name: str) -> bool:
    try:
        named = tomllib.loads(header)
    except tomllib.TOMLDecodeError:  # a line inside a value of several lines
        return False
    return isinstance(named.get("form"), dict) and name in named["form"]


def _key(key: str) -> str:
    if _BARE_KEY.fullmatch(key):
        return key
    return _value(key)


def _value(value: Any) -> str:
    """A value as TOML writes it; texts of JSON are texts of TOML."""
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(
                f"{_key(key)} = {_value(inner)}" for key, inner in value.items()
            )
            + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise FormatError(
        f"a form holds texts, whole numbers, truth values and lists of them. Got {type(value).__name__}."
    )
