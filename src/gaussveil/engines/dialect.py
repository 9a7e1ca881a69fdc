"""A table's form as such: how it is written, what its columns hold, and the words for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

KINDS = {  # what a column may hold, in words, and in the SQL of the engine that reads cells
    "text": "VARCHAR",
    "whole": "BIGINT",
    "number": "DOUBLE",
    "truth": "BOOLEAN",
    "date": "DATE",
    "time": "TIMESTAMP",
    "instant": "TIMESTAMPTZ",
}
NOTHING = "NULL"  # the kind of a column in which nobody has seen a cell
_WORDS = {kind: word for word, kind in KINDS.items()} | {NOTHING: "text"}
_SPOKEN = {"whole": "whole numbers", "number": "numbers", "date": "days"} | {
    "truth": "true or false",
    "time": "times",
    "instant": "times with a zone",
}
_TOLD = 12  # columns
ABOUT = ("unit", "people", "time_zone")
"""What a form says of the rows, beside how they are written."""


@dataclass(frozen=True)
class ColumnForm:
    """A column: its name, its SQL type, the form of its times where it is not ISO 8601, and its own missing marks."""

    name: str
    kind: str
    form: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """What it holds, in the words of a form."""
        return _WORDS.get(self.kind, self.kind.lower())

    def toml(self) -> object:
        """As a form says it: the word alone where that is all."""
        more: dict[str, object]
        if self.form:
            more = {"format": self.form}
        else:
            more = {}
        more |= {"missing": list(self.missing)} if self.missing else {}
        if more:
            return {"type": self.word, **more}
        return self.word


@dataclass(frozen=True)
class Dialect:
    """How a table is written, what its columns hold, which cells are missing and whose rows these are."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    above: int = 0  # lines above the names, titles and empty ones
    comment: str = ""
    columns: tuple[ColumnForm, ...] = ()
    unclear: tuple[tuple[str, str], ...] = ()  # columns that stay text, and why
    missing: tuple[str, ...] = ()
    unit: str | None = None
    people: str | None = None
    time_zone: str | None = None  # the clock on which hours and days are read
    found: tuple[str, ...] = ()
    """What nobody said: it was found in the first lines, which are private."""

    def identified(self, names: Sequence[str]) -> Dialect:
        """The same with these columns as text, byte for byte, whatever they seem to hold."""
        columns = [
            replace(column, kind="VARCHAR", form=None)
            if column.name in names
            else column
            for column in self.columns
        ]
        return replace(self, columns=tuple(columns))

    def about(self, said: Dialect) -> Dialect:
        """The same form of a table of whose rows, and of whose clock, that one speaks."""
        return replace(
            self, unit=said.unit, people=said.people, time_zone=said.time_zone
        )

    def words(self) -> str:
        """What is unusual about it, for people; nothing where it is as programs write it."""
        words = []
        if self.separator != ",":
            words.append(
                "separated by "
                + {";": "semicolons", "\t": "tabs"}.get(
                    self.separator, repr(self.separator)
                )
            )
        if self.decimal != ".":
            words.append("decimal commas")
        if self.encoding != "utf-8":
            words.append(f"letters in {self.encoding}")
        if self.above:
            words.append(f"names in line {self.above + 1}")
        words += [
            f"{column.name!r} as {column.form}"
            for column in self.columns
            if column.form
        ]
        for reason in dict.fromkeys(why for _, why in self.unclear):
            names = ", ".join(repr(name) for name, why in self.unclear if why == reason)
            words.append(f"{names} as text, since {reason}")
        return ", ".join(words)

    def all_words(self) -> str:
        """The whole form in a line, for people: what was chosen for every column."""
        kinds = [
            f"{column.name} {_SPOKEN.get(column.word, column.word)}"
            for column in self.columns[:_TOLD]
        ]
        beyond = len(self.columns) - _TOLD
        if beyond > 0:
            kinds.append(f"and {beyond} more column{'s' * (beyond > 1)}")
        return "; ".join(filter(None, (self.words(), ", ".join(kinds))))

    def toml(self) -> dict[str, Any]:
        """As a form says it; what nobody needs to say is left out."""
        usual = Dialect()
        names = (
            "separator",
            "decimal",
            "encoding",
            "above",
            "comment",
            "missing",
            *ABOUT,
        )
        options = {
            name: getattr(self, name)
            for name in names
            if getattr(self, name) != getattr(usual, name)
        }
        return {
            "separator": self.separator,
            "decimal": self.decimal,
            "encoding": self.encoding,
            **options,
            "missing": list(self.missing),
            "columns": {column.name: column.toml() for column in self.columns},
        }
