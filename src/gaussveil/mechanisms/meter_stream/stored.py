"""A meter stream as it stands: its design, certificate, filters and registers, and the record that it goes on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from gaussveil.accounting import Account, Certificate
from gaussveil.errors import FormatError
from gaussveil.mechanisms.meter_stream.continued import WARNING, Continued
from gaussveil.mechanisms.meter_stream.design import StreamDesign, check_hides
from gaussveil.mechanisms.meter_stream.record import (
    check_paid,
    design_from_dict,
    design_to_dict,
    learnt_and_paid,
)
from gaussveil.mechanisms.meter_stream.registers import (
    Energy,
    RegisterBank,
    register_bank,
)
from gaussveil.mechanisms.release_path import check_generator
from gaussveil.noise import Generator
from gaussveil.noise.filter_bank import FilterBank

FORMAT = "gaussveil meter stream"
VERSION = 1


class StoredStream(Continued):
    """Base of `MeterStream`: what is kept of it between two readings."""

    def __init__(
        self,
        *,
        design: StreamDesign,
        account: Account | None = None,
        generator: Generator | None = None,
        spectrum: Certificate | None = None,
    ) -> None:
        check_generator(generator)
        super().__init__(
            epsilon=design.epsilon,
            delta=design.delta,
            account=account,
            generator=generator,
        )
        self.design_ = design
        self.spectrum_ = spectrum
        self.energies: list[Energy] = []
        self.outputs: list[float] = []  # of a fleet, which can say any window's sum
        self._bank: FilterBank
        self._registers: RegisterBank
        self._index = 0

    def _prepare(self) -> FilterBank:
        self._process = os.getpid()
        self._bank = FilterBank([self.design_.filter])
        self._registers = register_bank(self.design_)
        return self._bank

    def to_record(self) -> dict[str, Any]:
        """Design, certificate and state as plain values; private.

        Returns:
            What `from_record` reads, fit for JSON.
        """
        record: dict[str, Any] = {
            "warning": WARNING,
            "format": FORMAT,
            "version": VERSION,
            "design": design_to_dict(self.design_),
            "spectrum": None if self.spectrum_ is None else self.spectrum_.to_dict(),
            "index": self._index,
            "outputs": self.outputs,
            "open": None,
            "account": None
            if self.account is None
            else [self.account.ledger, self.account.name],
        }
        if self.is_open:
            record["open"] = {
                "certificate": self.certificate_.to_dict(),
                "states": self._bank.states[:, 0].tolist(),
                "past": self._bank.past[:, 0].tolist(),
                "sums": self._registers.sums,
                "remainders": self._registers.remainders,
            }
        return record

    @classmethod
    def from_record(
        cls, record: Any, name: str = "of a file", *, generator: Generator | None = None
    ) -> Self:
        """Inverse of `to_record`; the record may come from anybody, and messages call it `name`; `generator` draws.

        Returns:
            The stream with this state.

        Raises:
            FormatError: the record is no stream, or of another version.
        """
        try:
            if record["format"] != FORMAT or record["version"] != VERSION:
                raise FormatError(f"{name} is not a meter stream of version {VERSION}")
            spectrum, account = learnt_and_paid(record)
            design = design_from_dict(record["design"])
            check_hides(design)
            made = cls(
                design=design, account=account, generator=generator, spectrum=spectrum
            )
            made._index = int(record["index"])
            made.outputs = list(map(float, record.get("outputs", [])))
            if record["open"] is not None:
                made._go_on(record["open"])
            return made
        except FormatError:
            raise  # says itself what is wrong, and quotes nothing of the state
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"the meter stream {name} cannot be read: {type(error).__name__}"
            ) from error

    def _go_on(self, state: Mapping[str, Any]) -> None:
        """Take up the certificate and the state of a stream that was open."""
        bank = self._prepare()
        self.certificate_ = Certificate.from_dict(state["certificate"])
        check_paid(self.design_, self.certificate_, self.mechanism)
        bank.states[:, 0] = state["states"]
        bank.past[:, 0] = state["past"]
        sums = (None if total is None else int(total) for total in state["sums"])
        self._registers.sums = list(sums)
        self._registers.remainders = list(map(float, state.get("remainders", [])))

    def __sklearn_clone__(self) -> Self:
        return self.__reduce__()[0]()

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        # A copy is a new stream with its own debit: two continuations of one noise would cancel it.
        given: dict[str, Any] = {
            "design": self.design_,
            "account": self.account,
            "generator": self.generator,
        }
        return partial(type(self), spectrum=self.spectrum_, **given), ()
