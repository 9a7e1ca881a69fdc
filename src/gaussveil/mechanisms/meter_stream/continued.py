"""What is opened once and goes on for years: one debit, values as they come, and a state that is continued once."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from gaussveil.accounting import Account, Certificate
from gaussveil.accounting.canonical import parse_json
from gaussveil.containers import FormNotes, form_notes
from gaussveil.errors import AssumptionError, FormatError
from gaussveil.mechanisms.meter_stream import continuation
from gaussveil.mechanisms.release_path import Mechanism
from gaussveil.mechanisms.source_rows import form_assumption
from gaussveil.noise import Generator, default_generator
from gaussveil.shown import Described
from gaussveil.typing import Floats

WARNING = "contains private state: whoever reads it can take the noise off the stream"
VERSION = 1  # of records


class Continued(Described, Mechanism):
    """Base of streams and running totals: whether they are open, where their noise is from, how they are kept."""

    kept_as: ClassVar[str]
    _waiting: continuation.Continuation | None = (
        None  # a saved state that nobody went on from yet
    )
    _process: int = 0
    _read: FormNotes = FormNotes()

    @property
    def is_open(self) -> bool:
        """Whether the stream was debited and drawing began."""
        return hasattr(self, "certificate_")

    @property
    def certificate(self) -> Certificate:
        """The certificate of an opened stream."""
        if not self.is_open:
            raise AssumptionError(
                "the stream is not open: nothing was spent or drawn yet. Call open() or push() first."
            )
        return self.certificate_

    @property
    def _source(self) -> Generator:
        if self.generator is None:
            return default_generator()
        if (
            not self.generator.is_trusted
            and self.is_open
            and self.certificate_.guarantee.kind != "none"
        ):
            raise AssumptionError(
                "a stream that was certified with secure noise cannot go on with a seeded generator: leave it out."
            )
        return self.generator

    def _answered(self, values: Floats, readings: Any) -> Floats:
        """The answers to a block; the first one is drawn inside the transaction."""
        self._note_form(readings)
        if self.is_open:
            return self._push(values)
        return self._open_with(values)

    @abstractmethod
    def _open_with(self, first: Floats) -> Floats:
        """Debit, certify, and answer the first block."""

    @abstractmethod
    def _push(self, values: Floats) -> Floats:
        """The answers to a block of an open stream."""

    def _note_form(self, readings: Any) -> None:
        """Let the guarantee name what nobody wrote down of a table of readings, also of one that comes later."""
        assumed = form_assumption(readings)
        if not assumed:
            return
        self._read = form_notes(readings)
        if not self.is_open:
            return
        held = self.certificate_.guarantee
        if held.kind != "none" and assumed not in held.reason:
            reason = "; ".join(filter(None, (held.reason, assumed)))
            said = replace(held, reason=reason)
            self.certificate_ = replace(self.certificate_, guarantee=said)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise AssumptionError(
                "an open stream cannot go on in a forked process: it would answer readings twice."
            )

    def _claim_state(self) -> None:
        """Go on from what was saved: whoever else does is refused from here on."""
        if self._waiting is not None:
            self._waiting.claim()
            self._waiting = None

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write design, certificate and state to a file of the owner's; this stream or a loaded one goes on from it.

        Args:
            path: the file to write.

        Returns:
            Where it was written.
        """
        if self._waiting is not None:
            self._waiting.claim()
        if self.is_open:
            paid = self.certificate_.release_id
        else:
            paid = None
        self._waiting = continuation.save(
            Path(path), self.to_record(), self.account, paid
        )
        return Path(path)

    def to_record(self) -> dict[str, Any]:
        """Design, certificate and state as plain values; private.

        Returns:
            What `from_record` reads, fit for JSON.
        """
        opened = None
        if self.is_open:
            opened = {"certificate": self.certificate_.to_dict(), **self._state()}
        account = None
        if self.account is not None:
            account = [self.account.ledger, self.account.name]
        return {
            "warning": WARNING,
            "format": record_format(type(self)),
            "version": VERSION,
            **self._terms(),
            "open": opened,
            "account": account,
        }

    @abstractmethod
    def _terms(self) -> dict[str, Any]:
        """Of a record, what holds whether it is open or not: the design above all."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Of a record, what changes from reading to reading, and noise that later readings need."""

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, generator: Generator | None = None
    ) -> Self:
        """Inverse of `save`.

        A saved state is continued once, by whoever answers the next reading (`continuation.py`). A second continuation,
        a copy, an older state and a file that was changed are refused.

        Args:
            path: the file that `save` wrote.
            generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.

        Returns:
            The stream as it was saved; its first reading claims the state.

        Raises:
            FormatError: the file cannot be read, holds no such stream, or was changed.
            AssumptionError: the file is a copy, and no account can tell whether the other was continued.
        """
        what = f"the {cls.kept_as} {path}"
        try:
            record: Any = parse_json(Path(path).read_text(encoding="utf-8"), what)
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"{what} cannot be read: {type(error).__name__}"
            ) from error
        made = cls.from_record(record, str(path), generator=generator)
        if made.is_open:
            made._waiting = continuation.saved(
                Path(path), record, made.account, made.certificate_.release_id
            )
        return made

    @classmethod
    def from_record(
        cls, record: Any, name: str = "of a file", *, generator: Generator | None = None
    ) -> Self:
        """Inverse of `to_record`; the record may come from anybody, and messages call it `name`; `generator` draws.

        Returns:
            What was kept, with this state.

        Raises:
            FormatError: the record is of another kind, or of another version.
        """
        try:
            if record["format"] != record_format(cls) or record["version"] != VERSION:
                raise FormatError(f"{name} is not a {cls.kept_as} of version {VERSION}")
            account = None
            if record["account"] is not None:
                account = Account(*record["account"])
            made = cls._of_terms(record, account, generator)
            if record["open"] is not None:
                made.certificate_ = Certificate.from_dict(record["open"]["certificate"])
                made._go_on(record["open"])
            return made
        except FormatError:
            raise  # says itself what is wrong, and quotes nothing of the state
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"the {cls.kept_as} {name} cannot be read: {type(error).__name__}"
            ) from error

    @classmethod
    @abstractmethod
    def _of_terms(
        cls,
        record: Mapping[str, Any],
        account: Account | None,
        generator: Generator | None,
    ) -> Self:
        """Inverse of `_terms`: not open yet."""

    @abstractmethod
    def _go_on(self, state: Mapping[str, Any]) -> None:
        """Inverse of `_state`, once the certificate is there: refuse one that does not cover the design."""


def record_format(kind: type[Continued]) -> str:
    """What records of a kind are called."""
    return f"gaussveil {kind.kept_as}"
