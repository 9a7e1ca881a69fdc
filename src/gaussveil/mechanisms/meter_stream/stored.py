"""A meter stream as it stands: its design, certificate, filters and registers, and the record that it goes on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from gaussveil.accounting import Account, Certificate
from gaussveil.mechanisms.meter_stream.continued import Continued
from gaussveil.mechanisms.meter_stream.design import StreamDesign, check_hides
from gaussveil.mechanisms.meter_stream.record import (
    check_paid,
    design_from_dict,
    design_to_dict,
)
from gaussveil.mechanisms.meter_stream.registers import (
    Energy,
    RegisterBank,
    register_bank,
)
from gaussveil.mechanisms.release_path import check_generator
from gaussveil.noise import Generator
from gaussveil.noise.filter_bank import FilterBank


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

    def _terms(self) -> dict[str, Any]:
        spectrum = None
        if self.spectrum_ is not None:
            spectrum = self.spectrum_.to_dict()
        return {
            "design": design_to_dict(self.design_),
            "spectrum": spectrum,
            "index": self._index,
            "outputs": self.outputs,
        }

    def _state(self) -> dict[str, Any]:
        return {
            "states": self._bank.states[:, 0].tolist(),
            "past": self._bank.past[:, 0].tolist(),
            "sums": self._registers.sums,
            "remainders": self._registers.remainders,
        }

    @classmethod
    def _of_terms(
        cls,
        record: Mapping[str, Any],
        account: Account | None,
        generator: Generator | None,
    ) -> Self:
        spectrum = None
        if record["spectrum"] is not None:
            spectrum = Certificate.from_dict(record["spectrum"])
        design = design_from_dict(record["design"])
        check_hides(design)
        made = cls(
            design=design, account=account, generator=generator, spectrum=spectrum
        )
        made._index = int(record["index"])
        made.outputs = list(map(float, record.get("outputs", [])))
        return made

    def _go_on(self, state: Mapping[str, Any]) -> None:
        bank = self._prepare()
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
