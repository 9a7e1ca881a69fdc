"""`gaussveil study spectral`: Figures 1 to 6, Tables II and III and the sweeps of the SpDP paper; every claim."""

from __future__ import annotations

import math
from dataclasses import asdict

from gaussveil.mechanisms import TrajectoryRelease
from gaussveil.typing import Progress
from gaussveil_studies.errata.part import errata_step
from gaussveil_studies.real_data import swiss_homes
from gaussveil_studies.spectral.single_home import (
    average_errors,
    distances,
    figures,
    read_home,
    spectrum_errors,
)
from gaussveil_studies.spectral.stream_receiver import Home
from gaussveil_studies.spectral.stream_tables import sensitive_row, tables_2_and_3
from gaussveil_studies.spectral.stream_utility import measure
from gaussveil_studies.spectral.sweeps import sweeps
from gaussveil_studies.spectral.typical_stream import curve
from gaussveil_studies.study import (
    Options,
    Paper,
    Part,
    Picture,
    Step,
    Study,
    Table,
    shown,
)
from gaussveil_studies.summaries import SINGLE_HOME, SUMMARIES, SWISS_HOMES

PAPER = Paper("SpDP")

CAPTIONS = {
    "figure-1-demand": "Figure 1: the home's demand, and the distance of consecutive stretches.",
    "figure-2-lengths": "Figure 2: spectra estimated from more and more readings.",
    "figure-3-distances": "Figure 3: distances of readings grow with their number, distances of spectra do not.",
    "figure-4-private": "Figure 4: the spectrum and private ones, calibrated as printed and exactly.",
    "figure-5-filters": "Figure 5: filters of the stream as printed.",
    "figure-6-streams": "Figure 6: a day of the home and of released streams.",
    "smoothed": "What a receiver makes of our streams by post-processing.",
}


def calibration(options: Options, progress: Progress) -> Part:
    """S1: what needs no real data."""
    rows = []
    for epsilon, delta in ((math.log(2), 0.01), (0.1, 0.01), (1.0, 1e-5)):
        printed, exact = (
            _variance(epsilon, delta, kind) for kind in ("published", "exact")
        )
        rows.append(
            {
                "epsilon": epsilon,
                "delta": delta,
                "printed": printed,
                "exact": exact,
                "times": printed / exact,
            }
        )
    return Part(
        "Calibration",
        (
            "Noise variance for a ball of radius 1 by SpDP's eq. (7), which is sound, and exactly.",
        ),
        (
            Table.of(
                "variance",
                rows,
                "epsilon; delta; printed: as printed; exact; times: times too much",
            ),
        ),
    )


def _variance(epsilon: float, delta: float, kind: str) -> float:
    mechanism = TrajectoryRelease(
        epsilon=epsilon, delta=delta, l2_ball=1.0, calibration=kind
    )
    return float(mechanism.plan(4).standard_deviation) ** 2


def pictures(options: Options, progress: Progress) -> Part:
    """Figures 1 to 6 on the single home."""
    home = Home.of(read_home(options.folder()))
    rows = distances(home)
    progress("drawing", 0.3)
    drawn = figures(home)
    growth, change = (
        rows[-1][key] / rows[0][key] for key in ("time_kw", "spectrum_kw2h")
    )
    claims = (
        PAPER.judged(
            "figure-3-time",
            f"{shown(growth)} times from {rows[0]['weeks']:g} to {rows[-1]['weeks']:g} weeks",
            borne_out=growth > 1.5,
        ),
        PAPER.judged(
            "figure-3-spectra", f"{shown(change)} times", borne_out=change < 1
        ),
    )
    return Part(
        "One home at five minutes: Figures 1 to 6",
        (
            "The paper's home is not public; this is another one, so shapes compare, not digits. The first 19 weeks "
            "are declared public, the next 19 are protected.",
        ),
        (
            Table.of(
                "distances",
                rows,
                "weeks; time_kw: readings, kW; spectrum_kw2h: spectra, kW²h",
            ),
            Table.of(
                "spectra",
                spectrum_errors(home, options.pick(1, 10, 200)),
                "numbers: numbers released; ball: B, kW²h; noisy: error; drawn: drawn to the prior; kept: own part; "
                "prior: prior alone",
                "Relative error of one home's private spectrum at epsilon 1, delta 1e-5; zeros have 1",
            ),
        ),
        tuple(
            Picture.of(name, figure, CAPTIONS.get(name, name))
            for name, figure in drawn.items()
        ),
        claims,
    )


def averages(options: Options, progress: Progress) -> Part:
    """The useful form: the average spectrum of many homes, each of them hidden whole."""
    homes = swiss_homes(options.folder())
    rows = average_errors(
        homes.values, homes.step_minutes / 60, options.pick(1, 10, 200)
    )
    return Part(
        "The average spectrum of many homes",
        (
            f"{len(homes)} Swiss homes; epsilon 1, delta 1e-5, one home added or removed. Zeros have an error of 1.",
        ),
        (
            Table.of(
                "errors",
                rows,
                "numbers: numbers released; norm: public norm, kW²h; error: relative error",
            ),
        ),
    )


def tables(options: Options, progress: Progress) -> Part:
    """Tables II and III, what the printed stream tells of its spectrum, and the usefulness of ours."""
    home = Home.of(read_home(options.folder()))
    progress("Tables II and III", 0.1)
    rows = tables_2_and_3(home)
    progress("what the printed stream tells", 0.4)
    leaks = curve(home, range(1, options.pick(2, 8, 40)))
    cases = [
        (purpose, epsilon)
        for purpose in ("shape", "energy", "billing")
        for epsilon in (1.0, 2.0, 5.0)
    ]
    cases = options.pick(cases[:1], cases, cases)
    uses = []
    for place, (purpose, epsilon) in enumerate(cases):
        progress(f"{purpose}, epsilon {epsilon:g}", 0.5 + 0.5 * place / len(cases))
        uses.append(asdict(measure(home, purpose, 0.5, epsilon, options.pick(1, 2, 8))))
    plain = sensitive_row(home)
    weeks = {
        row.parameters.endswith("exact"): row
        for row in rows
        if row.name == "TrDP 1 week"
    }
    repaired = next(row for row in rows if row.name == "SpDP repaired")
    claims = (
        PAPER.judged(
            "table-3-week",
            " and ".join(
                f"{shown(row.noise_sd)} kW {'exact' if exact else 'as printed'}"
                for exact, row in sorted(weeks.items())
            ),
            borne_out=False,
        ),
        PAPER.judged(
            "table-2-spdp",
            f"as printed {shown(rows[0].sd)} of {shown(plain['sd'])} on this home; repaired {shown(repaired.sd)}",
            borne_out=False,
        ),
    )
    both = (
        "name: stream; parameters; mean; sd; noise_sd: noise sd; correlation; snr_db: SNR dB; smoothed_correlation: "
        "smoothed; event_epsilon: 3 kW event costs"
    )
    promises = (
        "name: stream; spectrum_guarantee: spectrum; trajectory_guarantee: trajectory"
    )
    useful = (
        "purpose; epsilon; noise_sd: noise sd; correlation; daily_percent: daily error %; monthly_percent: 28-day "
        "error %; peak_percent: peak hour %; repeated_epsilon: 30 days' epsilon; repeated_delta: 30 days' delta"
    )
    listed = [asdict(row) for row in rows]
    return Part(
        "Tables II and III, and what our streams are good for",
        (
            f"The home's own mean is {shown(plain['mean'])} kW, its deviation {shown(plain['sd'])} kW.",
        ),
        (
            Table.of("streams", listed, both),
            Table.of("guarantees", listed, promises, "Both guarantees of every row"),
            Table.of(
                "leak-days",
                leaks,
                "share: of the largest feasible gain; least: days, least; median; most",
                "Days until the printed stream has spent (log 2, 0.01) on the spectrum, where the private one is "
                "public (S4b): draws of the private spectrum, neighbour the worst within B, law of long stretches",
            ),
            Table.of(
                "usefulness",
                uses,
                useful,
                "Our streams for an event of 0.5 kW for an hour, after smoothing",
            ),
        ),
        (),
        claims,
    )


STUDY = Study(
    "spectral",
    "Spectra and streams of a smart meter, recomputed",
    SUMMARIES["spectral"],
    (
        Step("calibration", "calibration", calibration),
        Step("figures", "figures", pictures, files=(SINGLE_HOME,)),
        Step("tables", "tables", tables, files=(SINGLE_HOME,)),
        Step("averages", "many homes", averages, files=(SWISS_HOMES,)),
        Step("sweeps", "section IV-C", sweeps, files=(SINGLE_HOME,)),
        errata_step("SpDP"),
    ),
)
