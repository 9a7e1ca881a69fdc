"""The main job, start to end, on a town of homes: what `gaussveil demo` does.

A ledger is opened with budgets; the town's average day, the feeder's energy as it grows, synthetic days, one meter's
registers and stream, an evening's forecast of one home and a sketch of the homes' profiles are released, each debited
first; every certificate is recomputed and every release audited on its real neighbours. What may be shared
(`TownReleases`) and what only the owner may see come back apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gaussveil.accounting import (
    Account,
    Certificate,
    Ledger,
    PrivateDiagnostics,
    verify,
)
from gaussveil.audit import Audit
from gaussveil.mechanisms import (
    Mean,
    MeterStream,
    PrivateSketch,
    SyntheticTable,
    TableRelease,
)
from gaussveil.noise import Generator
from gaussveil.statistics import hour_of
from gaussveil.timeseries import Readings
from gaussveil.typing import Progress
from gaussveil_town import tables
from gaussveil_town.audits import audit_charge, audit_sketch, audit_stream, shortened
from gaussveil_town.evening import Evening, released_evening
from gaussveil_town.feeder import by_zone, energies, feeder_total
from gaussveil_town.released import Checked, Spending, TownReleases

BUDGET = (4.0, 1e-5)  # of every account but the forecast's
FORECAST_BUDGET = (20.0, 0.02)  # of the home whose evening is forecast
DELTA = 1e-6  # of every other release
PROFILE_EPSILON = 1.0
TOTAL_EPSILON = 1.0
DAYS_EPSILON = 2.0
SKETCH_EPSILON = 1.0
STREAM_EPSILON = 1.0
ROW_NORM = 4.0
COMPONENTS = 1024
EVENT = (0.5, "1h")  # what the stream hides: half a kilowatt for an hour
SYNTHETIC_DAYS = 2000
PROFILE = "profile"
TOTAL = "total"
FORECAST = "forecast"
DAYS = "days"
STREAM = "stream"
SKETCH = "sketch"
HOMES_ACCOUNT = "all homes"
DAY_ACCOUNT = "one home's day"
METER_ACCOUNT = "one meter"
HOME_ACCOUNT = "one home's forecast"
_PROTECTS = {
    HOMES_ACCOUNT: "whether a home is in the town at all",
    DAY_ACCOUNT: "any 24 hours of one home",
    METER_ACCOUNT: "one event of half a kilowatt for an hour",
    HOME_ACCOUNT: "which home of its group is forecast",
}


@dataclass(frozen=True)
class TownAudit:
    """A release by name, and the exact audit of it on its real neighbours: private."""

    name: str
    found: Audit


@dataclass(frozen=True, eq=False)
class TownRun:
    """What the demo made: what may be shared, what only the owner may see, and the audits (private, too)."""

    releases: TownReleases
    diagnostics: PrivateDiagnostics
    audits: tuple[TownAudit, ...]


def quiet(_word: str, _share: float) -> None:
    """Progress that nobody watches."""


def run_town(
    readings: Readings,
    ledger: Path,
    *,
    source: str,
    generator: Generator | None = None,
    progress: Progress = quiet,
) -> TownRun:
    """Do the whole job on readings of a town, against a new ledger file.

    `source` says in public words where the readings come from. A `SeededGenerator` makes the pictures repeatable and
    the guarantees void; the certificates then say so.
    """
    town = tables.whole_days(readings)
    progress("opening a ledger", 0.02)
    accounts = _opened(Ledger.create(ledger), source)
    homes_account = accounts[HOMES_ACCOUNT]
    progress("averaging the town's day", 0.03)
    profile = _profile(homes_account, generator).release(tables.reading_table(town))
    progress("adding up the feeder's energy", 0.2)
    total = feeder_total(
        town,
        accounts[DAY_ACCOUNT],
        generator,
        epsilon=TOTAL_EPSILON,
        delta=DELTA,
    )
    progress("describing the homes' days", 0.3)
    days = _days(homes_account, generator)
    table = tables.day_table(town)
    described = days.release(table)
    synthetic = days.sample(SYNTHETIC_DAYS, 0, anyway=True)
    progress("streaming one meter", 0.4)
    stream = _stream(town, accounts[METER_ACCOUNT], generator)
    kw = stream.push_many(town.values[0])
    progress("forecasting an evening of one home", 0.5)
    evening = released_evening(town, accounts[HOME_ACCOUNT], generator)
    progress("sketching the homes", 0.75)
    sketch = _sketch(homes_account, generator)
    released = sketch.release(
        tables.home_table(town), released="sketch of the homes' profiles"
    )

    progress("recomputing the certificates", 0.80)
    named = {
        PROFILE: profile.certificate,
        TOTAL: total.certificate,
        DAYS: described.certificate,
        STREAM: stream.certificate,
        FORECAST: evening.release.certificate,
        SKETCH: released.certificate,
    }
    checked = tuple(
        Checked(name, certificate, verify(certificate))
        for name, certificate in named.items()
    )
    progress("auditing every release on its real neighbours", 0.88)
    exact = {
        STREAM: audit_stream(stream.certificate, stream, town.values[0]),
        SKETCH: audit_sketch(
            released.certificate, released.value, tables.home_rows(town)
        ),
    }
    audits = tuple(
        TownAudit(name, exact.get(name) or audit_charge(certificate))
        for name, certificate in named.items()
    )
    day_kwh = np.array(
        [energy.kwh for energy in stream.energies if energy.name == "day"]
    )
    releases = TownReleases(
        source=source,
        repeatable=generator is not None and not generator.is_trusted,
        homes=len(town),
        profile=profile.value,
        total=total,
        by_zone=by_zone(len(town), epsilon=PROFILE_EPSILON, delta=DELTA),
        model=described.value,
        synthetic=synthetic,
        stream_times=town.times,
        stream_kw=kw,
        day_kwh=day_kwh,
        forecast=evening.release.value,
        sketch=released.value,
        checked=checked,
        spending=_spending(Ledger(ledger), list(named.values())),
    )
    progress("done", 1.0)
    return TownRun(releases, _diagnostics(town, evening, audits), audits)


def _opened(book: Ledger, source: str) -> dict[str, Account]:
    """An account for each of what is hidden."""
    rules = {HOMES_ACCOUNT: "renyi"}
    return {
        name: book.open_account(
            name,
            epsilon=_budget(name)[0],
            delta=_budget(name)[1],
            dataset=source,
            filter=rules.get(name, "mean-shift"),
            sampler_share=0.05,
        )
        for name in _PROTECTS
    }


def _budget(account: str) -> tuple[float, float]:
    if account == HOME_ACCOUNT:
        return FORECAST_BUDGET
    return BUDGET


def _profile(account: Account, generator: Generator | None) -> TableRelease:
    """The town's average day by hour; not even how much a home draws is assumed to be known."""
    return TableRelease(
        unit="household",
        epsilon=PROFILE_EPSILON,
        delta=DELTA,
        by={"hour": hour_of("time")},
        answers=Mean("kw", bounds="auto"),
        account=account,
        generator=generator,
    )


def _days(account: Account, generator: Generator | None) -> SyntheticTable:
    """Days of every home in eight parts, by kind of day; a home has a week of them."""
    return SyntheticTable(
        epsilon=DAYS_EPSILON,
        delta=DELTA,
        between=dict.fromkeys(tables.PARTS, (tables.FLOOR_KW, tables.LARGEST_KW)),
        values={"kind": list(tables.DAY_KINDS)},
        label="kind",
        unit="household",
        rows_per_unit=tables.PROFILE_DAYS,
        account=account,
        generator=generator,
    )


def _stream(
    town: Readings, account: Account, generator: Generator | None
) -> MeterStream:
    return MeterStream.design(
        sample_period=town.step_minutes / 60,
        epsilon=STREAM_EPSILON,
        delta=DELTA,
        event=EVENT,
        purpose="billing",
        account=account,
        generator=generator,
    )


def _sketch(account: Account, generator: Generator | None) -> PrivateSketch:
    return PrivateSketch(
        epsilon=SKETCH_EPSILON,
        delta=DELTA,
        row_norm=ROW_NORM,
        n_components=COMPONENTS,
        account=account,
        generator=generator,
        columns=tables.PARTS,
        unit="household",
        rows_per_unit=1,
    )


def _spending(
    book: Ledger, certificates: Sequence[Certificate]
) -> tuple[Spending, ...]:
    found = []
    for name, protects in _PROTECTS.items():
        own = [
            certificate for certificate in certificates if certificate.account == name
        ]
        delta, summed = (
            float(sum(getattr(one, part) for one in own))
            for part in ("delta", "epsilon")
        )
        # Rounded to the private side, a single release can come out a hair above its own promise, which holds as well.
        exact = min(book.statement(name).composition.epsilon(delta), summed)
        found.append(
            Spending(
                account=name,
                protects=protects,
                releases=len(own),
                budget=_budget(name),
                delta=delta,
                summed_epsilon=summed,
                exact_epsilon=exact,
            )
        )
    return tuple(found)


def _diagnostics(
    town: Readings,
    evening: Evening,
    audits: Sequence[TownAudit],
) -> PrivateDiagnostics:
    """The truth beside every release, and how far off each is."""
    rows = tables.home_rows(town)
    kept = shortened(rows, ROW_NORM)
    return PrivateDiagnostics(
        plain_kw=evening.plain,
        truth_kw=evening.truth,
        dial=[vars(point) for point in evening.dial],
        day_quantiles=tables.day_quantiles(town),
        total_kwh=np.cumsum(energies(town).sum(axis=1)),
        meter_kw=town.values[0].copy(),
        moments=np.sum(rows**2, axis=0),
        moments_kept=np.sum(kept**2, axis=0),
        audits=[{"release": item.name, "audit": item.found} for item in audits],
    )
