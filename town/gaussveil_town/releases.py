"""The main job, start to end, on a town of homes: what `gaussveil demo` does.

A ledger is opened with a budget; the town's average day, three evening forecasts of one home, a mixture of load
profiles, a stream of one meter and a sketch of the homes' profiles are released, each debited first; every certificate
is recomputed and every release audited on its real neighbours. What may be shared (`TownReleases`) and what only the
owner may see come back apart.
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
    Release,
    verify,
)
from gaussveil.audit import Audit
from gaussveil.mechanisms import (
    Mean,
    MeterStream,
    PrivateForecast,
    PrivateForecaster,
    PrivateGaussianMixture,
    PrivateSketch,
    TableRelease,
)
from gaussveil.noise import Generator
from gaussveil.statistics import hour_of
from gaussveil.timeseries import Readings
from gaussveil.typing import Floats, Progress
from gaussveil_town import tables
from gaussveil_town.audits import audit_charge, audit_sketch, audit_stream, shortened
from gaussveil_town.released import Checked, Spending, TownReleases

BUDGET = (4.0, 1e-5)  # of every account
DELTA = 1e-6  # of every release
PROFILE_EPSILON = 1.0
FORECAST_EPSILON = 1.0
MIXTURE_EPSILON = 2.0
SKETCH_EPSILON = 1.0
STREAM_EPSILON = 1.0
EVENINGS = 3
EVENING_HOUR = 17
HORIZON = "3h"
DISTRICT = (
    40  # homes that the forecast hides among, at most; more would only take longer
)
PROFILE_RADIUS = 4.5  # log kW, about the public centre
ROW_NORM = 4.0
COMPONENTS = 256
EVENT = (0.5, "1h")  # what the stream hides: half a kilowatt for an hour
SYNTHETIC_DAYS = 2000
PROFILE = "profile"
FORECAST = "forecast"
MIXTURE = "mixture"
STREAM = "stream"
SKETCH = "sketch"
_PROTECTS = {
    "one home's forecast": "which home of its cluster is forecast",
    "all homes": "whether a home is in the town at all",
    "one meter": "one event of half a kilowatt for an hour",
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
    book = Ledger.create(ledger)
    forecast_account, homes_account, meter_account = (
        book.open_account(
            name,
            epsilon=BUDGET[0],
            delta=BUDGET[1],
            dataset=source,
            filter=rule,
            sampler_share=0.05,
        )
        for name, rule in zip(_PROTECTS, ("mean-shift", "renyi", "mean-shift"))
    )
    progress("averaging the town's day", 0.03)
    profile = _profile(homes_account, generator).release(tables.reading_table(town))
    progress("forecasting three evenings of one home", 0.05)
    evenings = _forecast(town, forecast_account, generator, progress)
    progress("fitting a mixture of load profiles", 0.60)
    mixture = _mixture(town, homes_account, generator)
    synthetic, kinds = mixture.model_.sample(SYNTHETIC_DAYS, 0)
    progress("streaming one meter", 0.68)
    stream = _stream(town, meter_account, generator)
    kw = stream.push_many(town.values[0])
    progress("sketching the homes", 0.75)
    sketch = _sketch(homes_account, generator)
    released = sketch.release(
        tables.home_table(town), released="sketch of the homes' profiles"
    )

    progress("recomputing the certificates", 0.80)
    named = [(PROFILE, profile.certificate)]
    named += [(FORECAST, one.certificate) for one in evenings.releases]
    named += [
        (MIXTURE, mixture.certificate_),
        (STREAM, stream.certificate),
        (SKETCH, released.certificate),
    ]
    checked = tuple(
        Checked(name, certificate, verify(certificate)) for name, certificate in named
    )
    progress("auditing every release on its real neighbours", 0.88)
    audits = (
        TownAudit(PROFILE, audit_charge(profile.certificate)),
        *(
            TownAudit(FORECAST, audit_charge(one.certificate))
            for one in evenings.releases
        ),
        TownAudit(MIXTURE, audit_charge(mixture.certificate_)),
        TownAudit(STREAM, audit_stream(stream.certificate, stream, town.values[0])),
        TownAudit(
            SKETCH,
            audit_sketch(released.certificate, released.value, tables.home_rows(town)),
        ),
    )
    day_kwh = np.array(
        [energy.kwh for energy in stream.energies if energy.name == "day"]
    )
    spent = _spending(book, [certificate for _, certificate in named])
    releases = TownReleases(
        source=source,
        repeatable=generator is not None and not generator.is_trusted,
        profile=profile.value,
        forecasts=tuple(one.value for one in evenings.releases),
        model=mixture.model_,
        synthetic=synthetic,
        synthetic_kinds=kinds,
        stream_times=town.times,
        stream_kw=kw,
        day_kwh=day_kwh,
        sketch=released.value,
        checked=checked,
        spending=spent,
    )
    progress("done", 1.0)
    return TownRun(releases, _diagnostics(town, evenings, mixture, audits), audits)


@dataclass(frozen=True, eq=False)
class _Evenings:
    """The forecasts, and for the owner the plain ones and what came true."""

    releases: list[Release[PrivateForecast]]
    plain: list[Floats]
    truth: list[Floats]


def _forecast(
    town: Readings, account: Account, generator: Generator | None, progress: Progress
) -> _Evenings:
    """Three evenings of the first home, each from everything before it; models and clusters are fitted once."""
    district = town.select(town.households[:DISTRICT])
    per_day = town.steps_per_day
    begins = [
        town.count - (EVENINGS - k) * per_day + EVENING_HOUR * per_day // 24
        for k in range(EVENINGS)
    ]
    forecaster = PrivateForecaster(
        horizon=HORIZON,
        epsilon=FORECAST_EPSILON,
        delta=DELTA,
        clusters=max(1, min(3, len(district) // 12)),
        smallest_cluster=min(6, len(district)),
        account=account,
        generator=generator,
    ).fit(district.window(0, begins[0]))
    found = _Evenings([], [], [])
    home = district.households[0]
    for number, begin in enumerate(begins):
        progress("forecasting three evenings of one home", 0.15 + 0.15 * number)
        past = district.window(0, begin)
        release = forecaster.release(home, past)
        found.releases.append(release)
        steps = release.value.times.size
        found.plain.append(np.asarray(forecaster.diagnostics(home, past)["plain_kw"]))
        found.truth.append(district.values[0, begin : begin + steps])
    return found


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


def _mixture(
    town: Readings, account: Account, generator: Generator | None
) -> PrivateGaussianMixture:
    return PrivateGaussianMixture(
        epsilon=MIXTURE_EPSILON,
        delta=DELTA,
        radius=PROFILE_RADIUS,
        centre=[tables.CENTRE] * len(tables.PARTS),
        classes=list(tables.DAY_KINDS),
        columns=list(tables.PARTS),
        unit="household",
        rows_per_unit=tables.PROFILE_DAYS,
        account=account,
        generator=generator,
    ).fit(tables.day_table(town), "kind")


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
                budget=BUDGET,
                delta=delta,
                summed_epsilon=summed,
                exact_epsilon=exact,
            )
        )
    return tuple(found)


def _diagnostics(
    town: Readings,
    evenings: _Evenings,
    mixture: PrivateGaussianMixture,
    audits: Sequence[TownAudit],
) -> PrivateDiagnostics:
    """The truth beside every release, and how far off each is."""
    rows = tables.home_rows(town)
    kept = shortened(rows, ROW_NORM)
    measured = mixture.diagnose(tables.day_table(town), "kind")
    return PrivateDiagnostics(
        plain_kw=evenings.plain,
        truth_kw=evenings.truth,
        day_quantiles=tables.day_quantiles(town),
        mixture_divergence=measured["fitted_released"],
        meter_kw=town.values[0].copy(),
        moments=np.sum(rows**2, axis=0),
        moments_kept=np.sum(kept**2, axis=0),
        audits=[{"release": item.name, "audit": item.found} for item in audits],
    )
