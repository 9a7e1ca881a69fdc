"""What every engine that scans a table opens alike: its address, its form, its columns, and views of it."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import pyarrow as pa

from gaussveil.containers import FOUND_IN_FILES, FormNotes
from gaussveil.engines.dialect import Dialect
from gaussveil.engines.form import Given, given_form
from gaussveil.engines.location import Location, locate
from gaussveil.engines.pieces import mixed_columns
from gaussveil.engines.sql import kept_rows, select_rows
from gaussveil.engines.typed_columns import is_read_from_text
from gaussveil.engines.whole_files import require_whole
from gaussveil.statistics.column_types import with_found_types
from gaussveil.statistics.source import Source, View, Watch


class ScannedSource(Source):
    """A table in files or a database, of which an engine scans what SQL selects."""

    dialect: Dialect
    _location: Location
    _mixed: frozenset[str]
    _schema: pa.Schema
    _table: str
    """SQL of the whole table."""
    _own_schema: pa.Schema | None = None
    """Columns as they are stored, before the form; none where all cells are text."""
    _rows: str
    """SQL of the rows of the view."""

    def _find(
        self,
        uri: str | os.PathLike[str],
        types: Mapping[str, str] | None,
        written: Mapping[str, Any],
    ) -> Given:
        """Where the table is, and what its owner says of it; files must be whole."""
        self._location = locate(uri)
        form = given_form(self._location, types, written)
        if self._location.local:
            require_whole(self._location.files())
        self.watch = Watch()
        return form

    def _find_mixed(self) -> None:
        """Columns that are of one type in one file and of another in the next."""
        self._mixed = frozenset()
        if self._location.local and self._location.kind == "parquet":
            self._mixed = mixed_columns(self._location.files())

    def _see_all(self) -> None:
        """The view of the whole table; what changes from now on is noticed."""
        self.view = View(tuple(self._schema.names))
        self._rows = self._table
        if self._location.local:
            self.watch.check(self.fingerprint())

    @property
    def form_notes(self) -> FormNotes:
        """What the form says beside names and types: whose rows these are, the clock, what nobody wrote down."""
        form = self.dialect
        return FormNotes(form.found, form.people, form.time_zone)

    @property
    def table_schema(self) -> pa.Schema:
        """Schema of the whole table; types that were found in cells are marked."""
        if FOUND_IN_FILES in self.dialect.found:
            return with_found_types(self._schema, self._schema.names)
        return self._schema

    def identified(self, unit: str) -> Self:
        """The same table, its units named by the text of their cells, byte for byte."""
        if not is_read_from_text(unit, self.dialect, self._own_schema):
            return self
        other = self._alike()
        other.dialect = self.dialect.identified([unit])
        with self._told():
            other._shape()
        return other._with_view(self.view)

    def _with_view(self, view: View) -> Self:
        other = self._alike()
        other.view = view
        other._rows = kept_rows(
            view, self._table, self._names_in_sql, other._hash_function
        )
        return other

    def _alike(self) -> Self:
        """The same table of the same connection; whoever asks for it changes its view or form."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _query(self, columns: Sequence[str], order: Sequence[str]) -> str:
        return select_rows(self.view, self._rows, self._names_in_sql, columns, order)

    def _begin(self) -> None:
        """Note the table before its first pass: what changes during it must not go unseen."""
        if not self.watch.begun:
            self.watch.check(self.fingerprint())

    @property
    @abstractmethod
    def _of_text(self) -> bool:
        """Whether the form decides what cells hold."""

    @abstractmethod
    def _shape(self) -> None:
        """What the table is by its form: SQL, and the names and types of its columns."""

    @abstractmethod
    def _told(self) -> AbstractContextManager[None]:
        """Tell that the table cannot be read, without the engine's words, which may quote a value of it."""

    @abstractmethod
    def _hash_function(self, key: bytes, columns: Sequence[str] | None) -> str:
        """Give the engine the keyed hash of these columns (None: of two integers) under a fresh name."""

    @staticmethod
    @abstractmethod
    def _names_in_sql(names: Sequence[str]) -> str:
        """Names of columns as the engine's SQL quotes them."""
