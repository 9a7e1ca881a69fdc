"""The form of a table: how it is written, and what each column holds. Public, and pinned where somebody wrote it down.

With a form that was written down, reading is a public map of each cell by itself: a cell that does not fit is missing,
nothing refuses, and no cell decides how another is read. What nobody wrote down is found in the first lines of the file
and told (`Dialect.found`), for then the guarantee rests on it.
"""

from __future__ import annotations

import codecs
import os
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gaussveil.checks import one_of, refuse
from gaussveil.engines.dialect import ABOUT, ColumnForm, Dialect
from gaussveil.engines.kinds import sql_kind
from gaussveil.engines.location import Location, public_name
from gaussveil.errors import FormatError, ParameterError, SchemaError
from gaussveil.project_file import form_in

_TIMES = {"DATE", "TIMESTAMP", "TIMESTAMPTZ"}
WRITTEN = ("separator", "decimal", "encoding", "time_format")
_KEYS = (*WRITTEN, "above", "comment", "missing", *ABOUT, "columns")
_SAID_ELSEWHERE = ("types", "missing", "schema")


@dataclass(frozen=True)
class Given:
    """What the owner says of a table: by keyword, in the environment, or in a form that was written down."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    time_format: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    pinned: Dialect | None = None
    about: Dialect = field(default_factory=Dialect)
    """Says whose rows these are and on which clock, where no more of the form was written down."""

    def dialect(self, names: Sequence[str]) -> Dialect:
        """The pinned form for a table of these columns; those that it does not know are text."""
        assert self.pinned is not None
        require_known(
            [column.name for column in self.pinned.columns], names, "the form"
        )
        pinned = {column.name: column for column in self.pinned.columns}
        columns = [pinned.get(name, ColumnForm(name, "VARCHAR")) for name in names]
        return replace(self.pinned, columns=tuple(self._declared(columns)))

    def typed(self, dialect: Dialect) -> Dialect:
        """A form that was found, with what the owner says of columns and missing marks."""
        require_known(self.types, [column.name for column in dialect.columns], "types")
        unclear = tuple(
            (name, why) for name, why in dialect.unclear if name not in self.types
        )
        return replace(
            dialect.about(self.about),
            columns=tuple(self._declared(dialect.columns)),
            unclear=unclear,
            missing=self.missing,
        )

    def _declared(self, columns: Sequence[ColumnForm]) -> list[ColumnForm]:
        return [
            self.column(column) if column.name in self.types else column
            for column in columns
        ]

    def column(self, column: ColumnForm) -> ColumnForm:
        """A column as the owner says it is."""
        kind = self.types[column.name]
        return replace(
            column, kind=kind, form=self.time_format if kind in _TIMES else None
        )


def given_form(
    location: Location | None = None,
    types: Mapping[str, str] | None = None,
    written: Mapping[str, Any] | None = None,
) -> Given:
    """What the owner says about a table: keywords first, then the environment, then a form that was written down.

    Of a table that has types of its own, what only files of text need is refused; its columns of text may be typed.
    """
    options = dict.fromkeys((*WRITTEN, "missing", "schema")) | dict(written or {})
    if unknown := [
        name for name in options if name not in (*WRITTEN, "missing", "schema")
    ]:
        one_of("options", unknown[0], (*WRITTEN, *_SAID_ELSEWHERE))
    stated = {name: _said_of_text(name, options[name], location) for name in WRITTEN}
    declared = _types(_or_environment(types, "TYPES"))
    marks = _marks(_or_environment(options["missing"], "MISSING"))
    _check_written(stated)
    pinned, about = _pinned(options["schema"], location)
    if pinned is None:
        return Given(**stated, types=declared, missing=marks, about=about)
    over = {
        name: stated[name]
        for name in ("separator", "decimal", "encoding")
        if stated[name]
    }
    pinned = replace(
        pinned, **over, missing=tuple(dict.fromkeys((*pinned.missing, *marks)))
    )
    return Given(**stated, types=declared, missing=pinned.missing, pinned=pinned)


def _or_environment(said: Any, name: str) -> Any:
    """What the owner said, else what stands in the environment."""
    if said is not None:
        return said
    return os.environ.get(f"GAUSSVEIL_{name}")


def _said_of_text(name: str, said: Any, location: Location | None) -> Any:
    """How cells are written, if it is said; None for a table that has types of its own, of which it cannot be said."""
    of_text = location is None or location.kind == "csv"
    if of_text or name in ("decimal", "time_format"):
        return said or os.environ.get(f"GAUSSVEIL_{name.upper()}") or None
    if said:
        _refuse_stored(name, location)
    return None


def _refuse_stored(name: str, location: Location | None) -> None:
    if location is None:
        kind = "this"
    else:
        kind = location.kind
    raise ParameterError(
        f"{name} is declared of CSV files only: a table of kind {kind} has its own."
    )


def _check_written(said: dict[str, Any]) -> None:
    """Refuse what no file can be written in; in place, so that names have one spelling."""
    if said.get("separator"):
        said["separator"] = {"tab": "\t", "\\t": "\t"}.get(
            said["separator"], said["separator"]
        )
        if len(said["separator"]) != 1:
            refuse("separator", "one sign, or 'tab'", said["separator"])
    if said.get("decimal"):
        one_of("decimal", said["decimal"], (".", ","))
    if said.get("encoding"):
        try:
            said["encoding"] = codecs.lookup(said["encoding"]).name
        except LookupError:
            refuse(
                "encoding",
                "the name of an encoding such as windows-1252",
                said["encoding"],
            )
        said["encoding"] = {"cp1252": "windows-1252"}.get(
            said["encoding"], said["encoding"]
        )


def _types(words: object) -> dict[str, str]:
    """Types of columns, from a mapping or from home=text,kw=number."""
    if isinstance(words, str):
        pairs = [part.rpartition("=") for part in words.split(",") if part.strip()]
        if not all(sign and name.strip() for name, sign, _ in pairs):
            raise ParameterError(
                f"types must be such as home=text,kw=number. Got {words!r}."
            )
        words = {name.strip(): word for name, _, word in pairs}
    if not isinstance(words, Mapping | None):
        raise ParameterError(
            f"types must say what columns hold, by name. Got {type(words).__name__}."
        )
    return {name: sql_kind(word) for name, word in (words or {}).items()}


def _marks(said: object) -> tuple[str, ...]:
    """Marks of missing cells, from a list, one mark, or several separated by commas."""
    if said is None:
        return ()
    if isinstance(said, str):
        return tuple(part.strip() for part in said.split(",") if part.strip())
    if isinstance(said, int | float) and not isinstance(said, bool):
        return (f"{said:g}" if isinstance(said, float) else str(said),)
    if isinstance(said, Sequence):
        return tuple(dict.fromkeys(mark for text in said for mark in _mark(text)))
    raise ParameterError(
        f"missing must be a list of marks such as -999. Got {type(said).__name__}."
    )


def _mark(one: object) -> tuple[str, ...]:
    if isinstance(one, str):
        return (one.strip(),)
    return _marks(one)


Written = tuple[Dialect | None, Dialect]


def _pinned(schema: object, location: Location | None) -> Written:
    """The form that was written down for this table, if any; else what is said about its rows alone."""
    if isinstance(schema, Dialect):
        return replace(schema, found=(), unclear=()), Dialect()
    if isinstance(schema, Mapping):
        return form_from(schema, "schema"), Dialect()
    place = _or_environment(schema, "SCHEMA")
    asked = place is not None
    # where a command found one in its folder
    if not asked:
        place = os.environ.get("GAUSSVEIL_PROJECT")
    if place is None:
        return None, Dialect()
    if not isinstance(place, str | os.PathLike):
        raise ParameterError(
            f"schema must be a file of a form, or a form. Got {type(place).__name__}."
        )
    file = Path(place)
    name = _name_of(location)
    form = form_in(file, name)
    if form is None or not form.keys() - set(ABOUT):
        if asked:
            raise SchemaError(
                f"{file.name} holds no form of {name!r}: write it with gaussveil schema."
            )
        return None, form_from(form or {}, file.name)
    return form_from(form, file.name), Dialect()


def _name_of(location: Location | None) -> str:
    """The name under which a table's form is written down."""
    if location is None:
        return ""
    return public_name(f"{location.address}#{location.table}".rstrip("#"))


def form_from(said: Mapping[str, Any], place: str) -> Dialect:
    """A form as it was written down; refused, by its own words alone, where it says what no form can say."""
    if unknown := sorted(said.keys() - set(_KEYS)):
        raise FormatError(
            f"{place}: the keys of a form must be among {', '.join(_KEYS)}. Got {', '.join(unknown)}."
        )
    options = dict(said)
    _check_types(options, place)
    written: dict[str, Any] = {
        name: options[name]
        for name in ("separator", "decimal", "encoding")
        if name in options
    }
    _check_written(written)
    require_zone(options.get("time_zone"), f"{place}: time_zone")
    named = options.get("columns", {})
    form = options.get("time_format")
    columns = [_column_from(name, value, form, place) for name, value in named.items()]
    return Dialect(
        **written,
        above=max(0, int(options.get("above", 0))),
        comment=options.get("comment", ""),
        columns=tuple(columns),
        missing=_marks(options.get("missing")),
        unit=options.get("unit"),
        people=options.get("people"),
        time_zone=options.get("time_zone"),
    )


def _check_types(known: Mapping[str, Any], place: str) -> None:
    """Refuse what a key of a form cannot hold."""
    for name, kind in (
        ("columns", Mapping),
        ("missing", list | tuple | str | int | float),
        ("above", int),
    ):
        if name in known and not isinstance(known[name], kind):
            raise FormatError(
                f"{place}: {name} of a form cannot be {type(known[name]).__name__}."
            )
    texts = [
        name
        for name in _KEYS
        if name not in ("columns", "missing", "above") and name in known
    ]
    if wrong := [name for name in texts if not isinstance(known[name], str)]:
        raise FormatError(
            f"{place}: {wrong[0]} of a form must be a text. Got {type(known[wrong[0]]).__name__}."
        )


def require_zone(name: str | None, said: str = "time_zone") -> None:
    """Refuse a clock that nobody knows."""
    if name is not None and name not in zoneinfo.available_timezones():
        refuse(said, "a name such as 'Europe/Zurich'", name)


def _column_from(
    name: str, said: object, time_format: str | None, place: str
) -> ColumnForm:
    if isinstance(said, str):
        said = {"type": said}
    if not isinstance(said, Mapping) or said.keys() - {"type", "format", "missing"}:
        raise FormatError(
            f"{place}: a column of a form has a type, and may have a format and missing marks."
        )
    kind = sql_kind(said.get("type", "text"))
    if kind in _TIMES:
        form = said.get("format", time_format)
    else:
        form = None
    if not isinstance(form, str | None):
        raise FormatError(
            f"{place}: the format of a column must be a text such as %d.%m.%Y."
        )
    return ColumnForm(name, kind, form, _marks(said.get("missing")))


def require_known(
    wanted: Sequence[str] | Mapping[str, str], names: Sequence[str], place: str
) -> None:
    """Refuse columns that the table does not have: names are public."""
    if unknown := [name for name in wanted if name not in names]:
        raise SchemaError(
            f"{place} declares {', '.join(map(repr, unknown))}, which the table does not have."
        )
