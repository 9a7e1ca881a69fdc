"""Offer: the design of a private meter stream, debited once, written as the file that the gateway runs."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting import Account
from gaussveil.mechanisms import MeterStream
from gaussveil.mechanisms.meter_stream.record import adjacency_of
from gaussveil.streaming.meters import Meter, write_meters
from gaussveil_studio.offers.offer import DAY, Offer, OfferPlan, Outcome, Picture, band
from gaussveil_studio.offers.rehearsed import NORMAL_95
from gaussveil_studio.offers.rounding import rounded_up

ROOM = 1 << 20


class StreamOffer(Offer):
    """Everything about the stream is public; no table is read."""

    file_name = "meter.json"

    def _given(self) -> dict[str, Any]:
        known = {
            name: self.order[name]
            for name in ("sample_period", "epsilon", "delta", "purpose")
        }
        return {
            **known,
            "event": (self.order["event_kw"], self.order["event_duration"]),
        }

    def plan(self) -> OfferPlan:
        """Noise on readings and energies."""
        stream = MeterStream.design(**self._given())
        plan = stream.plan()
        kw = np.asarray(DAY) / 8 + np.random.default_rng(0).normal(
            scale=plan.hourly_sd, size=len(DAY)
        )
        ends = [
            band(
                (kw - NORMAL_95 * plan.hourly_sd).tolist(),
                (kw + NORMAL_95 * plan.hourly_sd).tolist(),
            )
        ]
        hours = [*range(len(DAY))]
        return OfferPlan(
            facts=(
                (
                    "Noise",
                    f"standard deviation {plan.noise_sd:.4g} kW on a reading, {plan.hourly_sd:.4g} on an hour",
                ),
                (
                    "Energy",
                    f"error {plan.daily_energy_sd:.4g} kWh a day, {plan.monthly_energy_sd:.4g} in 28 days",
                ),
                (
                    "A habit",
                    f"on {plan.repeated_events} days has epsilon {plan.repeated_epsilon:.4g}, delta "
                    f"{rounded_up(plan.repeated_delta, 2)}",
                ),
                ("Worth asking", str(plan.useful())),
            ),
            charge=stream.design_.charge,
            adjacency=adjacency_of(stream.design_.hidden),
            simulated=Picture(
                "A simulated day, hour by hour",
                hours,
                {"kW": kw.tolist()},
                "hour",
                "kW",
                bands=ends,
            ),
        )

    def prepare(self) -> int:
        """Design."""
        self._known["stream"] = MeterStream.design(**self._given())
        return ROOM

    def shell(self) -> tuple[str, str]:
        """A history of two readings, which tells the meter's name and how often it is read."""
        step = np.timedelta64(
            round(3600 * MeterStream.design(**self._given()).design_.sample_period), "s"
        )
        times = [str(np.datetime64("2024-01-01T00:00:00") + k * step) for k in range(2)]
        rows = [
            "household,time,kw",
            *(f"{self.order['meter']},{time},1" for time in times),
        ]
        return (
            f"printf '%s\\n' {' '.join(map(shlex.quote, rows))} > history.csv",
            "history.csv",
        )

    def python(self) -> str:
        """As Python."""
        made = f"stream = MeterStream.design(**{self._given()!r}, account=account)"
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
                (
                    "Designed",
                    f"a stream of {self.order['meter']}, one reading every {self.order['sample_period']}",
                ),
                ("Noise", f"standard deviation {plan.noise_sd:.4g} kW on a reading"),
                ("Run it with", "the gateway: its page says how"),
            ),
        )
