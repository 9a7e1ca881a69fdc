"""`gaussveil study spectral`: Figures 1 to 6 and Tables II and III of the SpDP paper, and what is refuted."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
from scipy.linalg import toeplitz

from gaussveil.audit import audit
from gaussveil.mechanisms import TrajectoryRelease
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Filter
from gaussveil.typing import Progress
from gaussveil_studies.published.spdp_stream import PublishedStream
from gaussveil_studies.real_data import SINGLE_HOME
from gaussveil_studies.spectral.single_home import distances, figures, read_home
from gaussveil_studies.spectral.stream_receiver import Home
from gaussveil_studies.spectral.stream_tables import PAPER_BALL, TABLE_I, AsPrinted, sensitive_row, tables_2_and_3
from gaussveil_studies.spectral.stream_utility import measure
from gaussveil_studies.study import Options, Paper, Part, Picture, Step, Study, Table, shown
from gaussveil_studies.summaries import SUMMARIES

PAPER = Paper(__file__)

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
    """S1, S4b and S6: what needs no real data."""
    rows = []
    for epsilon, delta in ((math.log(2), 0.01), (0.1, 0.01), (1.0, 1e-5)):
        printed, exact = (_variance(epsilon, delta, kind) for kind in ("published", "exact"))
        rows.append({"epsilon": epsilon, "delta": delta, "printed": printed, "exact": exact, "times": printed / exact})
    progress("the stream with the raw spectrum", 0.5)
    horizons = options.pick((4, 8), (4, 8, 16, 32), (4, 8, 16, 32, 64))
    leaks = [{"samples": horizon, **_leak(horizon)} for horizon in horizons]
    decibels = 20 * math.log10(1.74 / 180.0)
    claims = (
        PAPER.judged(
            "s1-calibration",
            f"{shown(rows[0]['times'])} times what is needed",
            because=f"sound but loose; {shown(rows[1]['times'])} times at (0.1, 0.01) (S1)",
        ),
        PAPER.judged(
            "s4b-stream",
            f"{shown(leaks[-1]['delta'])} after {leaks[-1]['samples']} readings",
            refuted=all(bool(row["refuted"]) for row in leaks),
        ),
        PAPER.judged("s6-hours", f"{576 * 5 / 60:g} h", refuted=576 * 5 / 60 != 4),
        PAPER.judged("s6-decibels", f"{decibels:.1f} dB", refuted=abs(decibels + 5.5e-4) > 1),
    )
    return Part(
        "Calibration, and a stream that tells its spectrum",
        (
            "Noise variance for a ball of radius 1 by SpDP's eq. (7) and exactly. Below, an AR(1) home and a neighbour "
            "0.12 kW²h away: exact delta of what somebody who knows the readings sees of the printed stream.",
        ),
        (
            Table.of(
                "variance",
                rows,
                "epsilon; delta; printed: as printed; exact; times: times too much",
            ),
            Table.of(
                "leak",
                leaks,
                "samples: readings seen; delta: exact delta at log 2; refuted: auditor refutes",
            ),
        ),
        (),
        claims,
    )


def _variance(epsilon: float, delta: float, kind: str) -> float:
    mechanism = TrajectoryRelease(epsilon=epsilon, delta=delta, l2_ball=1.0, calibration=kind)
    return float(mechanism.plan(4).standard_deviation) ** 2


def _leak(horizon: int) -> dict[str, float | bool]:
    """Exact delta of the printed stream's noise, seen by who knows the readings, for two spectra B apart (S4b)."""
    frequency = np.linspace(0.0, np.pi, 145)
    raw = 0.36 / np.abs(1.0 - 0.8 * np.exp(-1j * frequency)) ** 2
    slow = np.where(frequency < 1.0, 1.0, 0.0)
    neighbour = raw + PAPER_BALL * slow / np.linalg.norm(slow)
    released = 0.64 * raw + 0.02  # a private spectrum that both homes can give
    gain = Filter(np.array([0.8]), np.array([1.0]))  # Table I's, at every frequency
    covariances = [
        toeplitz(np.fft.irfft(PublishedStream.design(spectrum, released, gain).gamma)[:horizon])
        for spectrum in (raw, neighbour)
    ]
    zero = np.zeros(horizon)
    pair = GaussianPair(zero, covariances[0], zero, covariances[1])
    found = audit(pair, claim=(TABLE_I["epsilon"], TABLE_I["delta"]))
    return {"delta": float(found.delta[0]), "refuted": found.refuted}


def pictures(options: Options, progress: Progress) -> Part:
    """Figures 1 to 6 on the single home."""
    home = Home.of(read_home(options.folder()))
    rows = distances(home)
    progress("drawing", 0.3)
    drawn = figures(home)
    growth, change = (rows[-1][key] / rows[0][key] for key in ("time_kw", "spectrum_kw2h"))
    claims = (
        PAPER.judged(
            "figure-3-time",
            f"{shown(growth)} times from {rows[0]['weeks']:g} to {rows[-1]['weeks']:g} weeks",
            agrees=growth > 1.5,
        ),
        PAPER.judged("figure-3-spectra", f"{shown(change)} times", agrees=change < 1),
    )
    return Part(
        "One home at five minutes: Figures 1 to 6",
        (
            "The paper's home is not public; this is another one, so shapes compare, not digits. The first 19 weeks "
            "are declared public, the next 19 are protected.",
        ),
        (Table.of("distances", rows, "weeks; time_kw: readings, kW; spectrum_kw2h: spectra, kW²h"),),
        tuple(Picture.of(name, figure, CAPTIONS.get(name, name)) for name, figure in drawn.items()),
        claims,
    )


def tables(options: Options, progress: Progress) -> Part:
    """Tables II and III, the attack on the printed stream, and the usefulness of ours."""
    home = Home.of(read_home(options.folder()))
    progress("Tables II and III", 0.1)
    rows = tables_2_and_3(home)
    progress("the attack", 0.4)
    attack = AsPrinted.of(home, PAPER_BALL).refutation(home)
    errors = attack["attack_error_kw2h_by_days"]
    cases = [(purpose, epsilon) for purpose in ("shape", "energy", "billing") for epsilon in (1.0, 2.0, 5.0)]
    cases = options.pick(cases[:1], cases, cases)
    uses = []
    for place, (purpose, epsilon) in enumerate(cases):
        progress(f"{purpose}, epsilon {epsilon:g}", 0.5 + 0.5 * place / len(cases))
        uses.append(asdict(measure(home, purpose, 0.5, epsilon, options.pick(1, 2, 8))))
    plain = sensitive_row(home)
    weeks = {row.parameters.endswith("exact"): row for row in rows if row.name == "TrDP 1 week"}
    repaired = next(row for row in rows if row.name == "SpDP repaired")
    first, last = (errors[days] for days in (min(errors), max(errors)))
    claims = [
        PAPER.judged(
            "table-3-event",
            f"epsilon {shown(attack['event_epsilon'])}",
            printed=f"epsilon {shown(TABLE_I['epsilon'], 2)}",
            refuted=attack["event_epsilon"] > 2 * TABLE_I["epsilon"],
        ),
        PAPER.judged(
            "s4b-attack",
            f"error {shown(first)} after {min(errors)} days, {shown(last)} after {max(errors)}",
            printed=f"B = {PAPER_BALL:g} kW²h",
            refuted=last < first,
        ),
        PAPER.judged(
            "table-3-week",
            " and ".join(
                f"{shown(row.noise_sd)} kW {'exact' if exact else 'as printed'}" for exact, row in sorted(weeks.items())
            ),
        ),
        PAPER.judged(
            "table-2-spdp",
            f"as printed {shown(rows[0].sd)} of {shown(plain['sd'])} on this home; repaired {shown(repaired.sd)}",
        ),
    ]
    both = (
        "name: stream; parameters; mean; sd; noise_sd: noise sd; correlation; snr_db: SNR dB; smoothed_correlation: "
        "smoothed; event_epsilon: 3 kW event costs"
    )
    promises = "name: stream; spectrum_guarantee: spectrum; trajectory_guarantee: trajectory"
    useful = (
        "purpose; epsilon; noise_sd: noise sd; correlation; daily_percent: daily error %; monthly_percent: 28-day "
        "error %; peak_percent: peak hour %; repeated_epsilon: 30 days' epsilon; repeated_delta: 30 days' delta"
    )
    listed = [asdict(row) for row in rows]
    return Part(
        "Tables II and III, the attack, and what our streams are good for",
        (f"The home's own mean is {shown(plain['mean'])} kW, its deviation {shown(plain['sd'])} kW.",),
        (
            Table.of("streams", listed, both),
            Table.of("guarantees", listed, promises, "Both guarantees of every row"),
            Table.of("usefulness", uses, useful, "Our streams for an event of 0.5 kW for an hour, after smoothing"),
        ),
        (),
        tuple(claims),
    )


STUDY = Study(
    "spectral",
    "Spectra and streams of a smart meter, recomputed",
    SUMMARIES["spectral"],
    (
        Step("calibration", "calibration", calibration),
        Step("figures", "figures", pictures, files=(SINGLE_HOME,)),
        Step("tables", "tables", tables, files=(SINGLE_HOME,)),
    ),
)
