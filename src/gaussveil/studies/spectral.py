"""The SpDP paper on a single home at five minutes: its figures and tables, with its parameters and with ours; run with

    python -m gaussveil.studies.spectral [folder of the data sets] [folder for results]

The paper's home is not public; this is another one, so shapes compare, not digits. "Published" rows use calibrations
and streams as printed: SpDP's stream is refuted here by recovering the protected spectrum (docs/corrections, S4b), and
by the distance of a single event (S4). Table III's decibels are computed correctly (S6).
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.errors import MissingDataError
from gaussveil.mechanisms import MeterStream, PrivateSpectrum, TrajectoryRelease, calibrate_ball
from gaussveil.mechanisms.stream_events import fourier, largest_event
from gaussveil.noise import SeededGenerator
from gaussveil.published.spdp_stream import PublishedStream, low_pass, recovered_spectrum
from gaussveil.report.figures import save
from gaussveil.spectrum import GaussianPair
from gaussveil.studies.stream_figures import distance_figure, spectra_figure, streams_figure
from gaussveil.studies.stream_receiver import DAY, PERIOD, WEEK, Floats, Home
from gaussveil.studies.stream_utility import measure, snr_db
from gaussveil.timeseries import welch_psd

FILE = "home_uci_5min_kw.csv.gz"
POINTS = 288
TABLE_I: dict[str, Any] = {"epsilon": math.log(2), "delta": 0.01, "correlation": 0.5, "smoothing": (0.8, 0.39)}
PAPER_BALL = 0.12
CUTOFF_HZ, GAIN = 2e-4, 0.8
DURATIONS = {"4 h": 48, "48 h": 576, "1 week": 2016}
EVENT = (3.0, 12)


def read_home(folder: Path | None = None) -> Floats:
    """The single home, kW every five minutes."""
    path = (folder or Path(os.environ.get("GAUSSVEIL_DATA", "."))) / FILE
    if not path.is_file():
        raise MissingDataError(f"{FILE} was not found; name its folder, or set GAUSSVEIL_DATA to it")
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)


def distances(home: Home) -> list[dict[str, float]]:
    """Figures 1b and 3: consecutive stretches drift apart in time, their spectra do not."""
    rows = []
    for weeks in (1, 2, 3, 4, 6, 8, 9):
        size = weeks * WEEK
        one, other = home.public[:size], home.public[size : 2 * size]
        spectra = [welch_psd(part, POINTS, period=PERIOD) for part in (one, other)]
        rows.append({"weeks": weeks, "time_kw": float(np.linalg.norm(one - other)),
                     "spectrum_kw2h": float(np.linalg.norm(spectra[0] - spectra[1]))})  # fmt: skip
    return rows


def trajectory_balls(home: Home) -> dict[str, float]:
    """B of SpDP eq. (13) on the public half: largest distance of two stretches, by duration."""
    balls = {}
    for name, size in DURATIONS.items():
        parts = home.public[: home.public.size // size * size].reshape(-1, size)
        squares = np.sum(parts**2, axis=1)
        balls[name] = math.sqrt(float(np.max(squares[:, None] + squares - 2 * parts @ parts.T)))
    return balls


def published_rows(home: Home, seed: int = 1) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Tables II and III: SpDP as printed against TrDP, and what an attacker gets out of the former."""
    rng = np.random.default_rng(seed)
    raw = welch_psd(home.protected, POINTS)
    ball = calibrate_ball([home.public[k * 8 * WEEK : (k + 1) * 8 * WEEK] for k in range(2)], points=POINTS,
                          sample_period=PERIOD)  # fmt: skip
    private = PrivateSpectrum(
        **TABLE_I, l2_ball=ball, sample_period=PERIOD, calibration="published", generator=SeededGenerator(seed)
    )
    noisy = private.release(home.protected).value / PERIOD
    reduction = low_pass(GAIN, CUTOFF_HZ, 300.0)
    gain = GAIN
    while True:  # "F is a low-pass filter with adaptable" gain, lowered until gamma is positive
        try:
            stream = PublishedStream.design(raw, noisy + 1e-6 * noisy.max(), reduction, taps=2 * POINTS)
            break
        except ValueError:
            gain *= 0.9
            reduction = low_pass(gain, CUTOFF_HZ, 300.0)
    centred = home.protected - home.protected.mean()
    released = stream.run(centred, rng)
    noise_sd = float(np.std(released - stream.reduction.apply(centred)))
    rows = [_row("SpDP as printed (not private)", home.protected, released + home.protected.mean(), noise_sd)]
    for name, radius in trajectory_balls(home).items():
        for calibration in ("published", "exact"):
            sd = float(TrajectoryRelease(epsilon=TABLE_I["epsilon"], delta=TABLE_I["delta"], l2_ball=radius,
                                         calibration=calibration).plan(4).standard_deviation)  # fmt: skip
            noisy_stream = home.protected + sd * rng.standard_normal(home.protected.size)
            rows.append(_row(f"TrDP {name}, {calibration}", home.protected, noisy_stream, sd))
    return rows, _refutation(stream, centred, raw, noisy + 1e-6 * noisy.max(), rng, float(ball), gain)


def repaired_row(home: Home, epsilon: float = 1.0, event_kw: float = 0.5) -> dict[str, Any]:
    """Algorithm 2 repaired: filters from the private spectrum only, raised to the promised event; both guarantees."""
    ball = calibrate_ball(
        [home.public[k * 8 * WEEK : (k + 1) * 8 * WEEK] for k in range(2)], points=POINTS, sample_period=PERIOD
    )
    mechanism = PrivateSpectrum(
        epsilon=epsilon, delta=1e-5, l2_ball=ball, smoothing=(1.0, 0.39), sample_period=PERIOD,
        generator=SeededGenerator(5),
    )  # fmt: skip
    stream = MeterStream.design(
        sample_period=PERIOD, epsilon=epsilon, delta=1e-5, event=(event_kw, "1h"), purpose="spectrum",
        history=home.protected, spectrum=mechanism, generator=SeededGenerator(6),
    )  # fmt: skip
    released = stream.push_many(home.protected)
    stated = stream.certificate.parameters
    row = _row("SpDP repaired", home.protected, released, stream.design_.noise_sd)
    return {**row, **{name: stated[name] for name in ("trajectory", "spectrum", "together", "repeated_events")}}


def _refutation(
    stream: PublishedStream,
    centred: Floats,
    raw: Floats,
    private: Floats,
    rng: np.random.Generator,
    ball: float,
    gain: float,
) -> dict[str, Any]:
    strong = stream.reduction.power(np.pi * np.arange(raw.size) / (raw.size - 1)) > 0.25 * gain**2
    errors = {}
    for days in (133, 532, 2128):
        length = days * DAY
        series = np.resize(centred, length)
        found = recovered_spectrum(stream, series, stream.run(series, rng), private)
        errors[days] = float(np.linalg.norm((found - raw)[strong]) * PERIOD)

    def ratio(angles: Floats) -> Floats:
        return np.asarray(stream.reduction.power(angles) / np.maximum(stream.noise.power(angles), 1e-12))

    shift = EVENT[0] * math.sqrt(largest_event(fourier(ratio, EVENT[1], tolerance=1e-6)))
    return {
        "protected_ball_kw2h": ball, "attack_error_kw2h_by_days": errors, "event_shift": shift, "reduction_gain": gain,
        "event_epsilon": float(GaussianPair.mean_shift(shift).epsilon(TABLE_I["delta"])),
    }  # fmt: skip


def _row(name: str, truth: Floats, released: Floats, noise_sd: float) -> dict[str, Any]:
    return {"name": name, "mean": float(released.mean()), "sd": float(released.std()), "noise_sd": noise_sd,
            "correlation": float(np.corrcoef(truth, released)[0, 1]), "snr_db": snr_db(truth, noise_sd)}  # fmt: skip


def main(data: Path | None = None, out: Path | None = None, draws: int = 3) -> dict[str, Any]:
    """Run everything; figures and `spectral.json` go to `out`."""
    home = Home.of(read_home(data))
    table, refuted = published_rows(home)
    result: dict[str, Any] = {
        "sensitive": {"mean": float(home.protected.mean()), "sd": float(home.protected.std())},
        "distances": distances(home),
        "trajectory_balls_kw": trajectory_balls(home),
        "tables_2_and_3": table,
        "refutation": refuted,
        "repaired": repaired_row(home),
        "streams": [
            asdict(measure(home, purpose, event_kw, epsilon, draws))
            for event_kw in (0.5, 3.0) for purpose in ("shape", "energy", "billing") for epsilon in (1.0, 2.0, 5.0)
        ],
    }  # fmt: skip
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        save(distance_figure(result["distances"]), out / "distances.svg")
        save(spectra_figure(home, PAPER_BALL, TABLE_I), out / "spectra.svg")
        save(streams_figure(home, trajectory_balls(home), TABLE_I), out / "streams.svg")
        (out / "spectral.json").write_text(json.dumps(result, indent=1, default=dict), encoding="utf-8")
    return result


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:3]] + [None, None]
    print(json.dumps(main(folders[0], folders[1]), indent=1, default=dict))
