"""Offer: the design of a private meter stream, debited once, written as the file that the gateway runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from gaussveil.accounting import Account
from gaussveil.mechanisms import MeterStream
from gaussveil.mechanisms.meter_stream.record import adjacency_of
from gaussveil.streaming.meters import Meter, write_meters
from gaussveil.studio.offers.offer import EPSILONS, Offer, Outcome, Plan, against_epsilon

ROOM = 1 << 20


class StreamOffer(Offer):
    """Everything about the stream is public; no table is read."""

    file_form = "meter.json"

    def _stream(self, account: Account | None = None, **changed: Any) -> MeterStream:
        order = {**self.order, **changed}
        return MeterStream.design(
            sample_period=order["sample_period"],
            epsilon=order["epsilon"],
            delta=order["delta"],
            event=(order["event_kw"], order["event_duration"]),
            purpose=order["purpose"],
            account=account,
        )

    def plan(self) -> Plan:
        """Noise on readings and energies."""
        stream = self._stream()
        plan = stream.plan()
        found = [self._stream(epsilon=one).plan() for one in EPSILONS]
        return Plan(
            facts=(
                ("Noise", f"standard deviation {plan.noise_sd:.4g} kW on a reading, {plan.hourly_sd:.4g} on an hour"),
                ("Energy", f"error {plan.daily_energy_sd:.4g} kWh a day, {plan.monthly_energy_sd:.4g} in 28 days"),
                (
                    "A habit",
                    f"on {plan.repeated_events} days has epsilon {plan.repeated_epsilon:.4g}, delta "
                    f"{plan.repeated_delta:.2g}",
                ),
                ("Good for", ", ".join(plan.good_for) or "nothing: ask for less, or protect smaller events"),
            ),
            charge=stream.design_.charge,
            adjacency=adjacency_of(stream.design_.hidden),
            accuracy=against_epsilon(
                "Error against epsilon",
                "standard deviation",
                {
                    "kW on an hour": [one.hourly_sd for one in found],
                    "kWh a day": [one.daily_energy_sd for one in found],
                },
            ),
        )

    def prepare(self) -> int:
        """Design."""
        self._known["stream"] = self._stream()
        return ROOM

    def python(self) -> str:
        """As Python."""
        given = {name: self.order[name] for name in ("sample_period", "epsilon", "delta", "purpose")}
        event = (self.order["event_kw"], self.order["event_duration"])
        made = f"stream = MeterStream.design(**{given!r}, event={event!r}, account=account)"
        return f"{made}\nrelease = Release(stream, stream.open())"

    def release(self, account: Account) -> Outcome:
        """Debit the stream; its readings are drawn later, by the gateway."""
        stream: MeterStream = self._known["stream"]
        stream.account = account
        certificate = stream.open()
        plan = stream.plan()
        with tempfile.TemporaryDirectory() as folder:
            meter = Meter(self.order["meter"], stream.design_, certificate)
            body = write_meters([meter], Path(folder) / self.file_name).read_bytes()
        return Outcome(
            body=body,
            certificate=certificate,
            facts=(
                ("Designed", f"a stream of {self.order['meter']}, one reading every {self.order['sample_period']}"),
                ("Noise", f"standard deviation {plan.noise_sd:.4g} kW on a reading"),
                ("Run it with", f"gaussveil stream run {self.file_name}"),
            ),
        )
