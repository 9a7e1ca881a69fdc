"""Our numbers beside those of other privacy libraries, each in an environment of its own: `gaussveil study peers`.

Three questions. Does the noise a library calibrates keep its promise (our auditor decides)? What delta does its
accountant give for composed Gaussians, where the closed form is known? What delta follows from general-purpose
distributions of quadratic forms (gx2, Davies) for two Gaussians?
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import __version__
from gaussveil.audit import audit
from gaussveil.calibration import mean_shift_for
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil_studies.peers.environments import Peer, davies_tails

DIFFPRIVLIB = Peer("diffprivlib", ("diffprivlib==0.6.6", "scikit-learn<1.9"))
AUTODP = Peer("autodp", ("autodp==0.2.3.1",))
DP_ACCOUNTING = Peer("dp-accounting", ("dp-accounting==0.6.0",))
OPENDP = Peer("opendp", ("opendp==0.16.0",))
PRV_ACCOUNTANT = Peer("prv-accountant", ("prv-accountant==0.2.0",))
GX2 = Peer("gx2", ("gx2==1.5",))

CALIBRATORS = {
    DIFFPRIVLIB: "diffprivlib_sigma",
    AUTODP: "autodp_sigma",
    DP_ACCOUNTING: "dp_accounting_sigma",
    OPENDP: "opendp_sigma",
}
ACCOUNTANTS = {
    DP_ACCOUNTING: "dp_accounting_delta",
    AUTODP: "autodp_delta",
    PRV_ACCOUNTANT: "prv_accountant_delta",
}
PROMISES = ((1.0, 1e-6), (5.0, 1e-17), (10.0, 9.8e-23))
COMPOSITIONS = (
    (1.0, 1, 1.0),
    (30.0, 1000, 4.0),
    (1.0, 10_000, 5500.0),
)  # sigma, how many, epsilon
SMALLEST_SURVEYED = (
    1e-9  # delta below it is beyond what a difference of two tails can hold
)
PAIRS = {
    "two variances near each other": ([0.1, -0.05], [0.4, 0.2], 0.5),
    "one variance doubled, d = 4": ([-1.0, 0.0, 0.0, 0.0], [0.3, 0.3, 0.0, 0.0], 1.0),
    "a far tail": ([0.02, -0.01, 0.015], [0.1, 0.1, 0.0], 2.0),
}


ALL_PEERS = (DIFFPRIVLIB, AUTODP, DP_ACCOUNTING, OPENDP, PRV_ACCOUNTANT, GX2)


def install_peers(folder: Path) -> None:
    """Make the environments that are missing."""
    for peer in ALL_PEERS:
        peer.install(folder)


def peers_present() -> str:
    """Which peers a study would ask: what its results depend on besides our own code."""
    found = [
        f"{peer.name}: {peer.interpreter(Path()) or 'absent'}" for peer in ALL_PEERS
    ]
    return "\n".join([*found, f"R: {shutil.which('Rscript') or 'absent'}"])


@dataclass(frozen=True)
class Calibration:
    """Noise that a library takes to suffice for (epsilon, delta) at sensitivity 1, and what the auditor says."""

    peer: str
    version: str
    epsilon: float
    delta: float
    sigma: float | None
    exact_delta: float | None
    times_too_much: float | None
    verdict: str


def calibrations(
    folder: Path = Path(), promises: Sequence[tuple[float, float]] = PROMISES
) -> list[Calibration]:
    """Every library's noise for every promise, audited; ours first."""
    rows = [
        _audited(
            "gaussveil",
            __version__,
            epsilon,
            delta,
            {"sigma": 1.0 / mean_shift_for(epsilon, delta)},
        )
        for epsilon, delta in promises
    ]
    for peer, task in CALIBRATORS.items():
        for epsilon, delta in promises:
            answer = peer.ask(task, {"epsilon": epsilon, "delta": delta}, folder)
            rows.append(
                _audited(peer.name, answer.get("version", ""), epsilon, delta, answer)
            )
    return rows


def _audited(
    name: str, version: str, epsilon: float, delta: float, answer: dict[str, Any]
) -> Calibration:
    if "failed" in answer:
        return Calibration(
            name,
            version,
            epsilon,
            delta,
            None,
            None,
            None,
            f"no answer: {answer['failed']}",
        )
    sigma = float(answer["sigma"])
    found = audit(GaussianPair.mean_shift(1.0 / sigma), claim=(epsilon, delta))
    exact = found.findings[0].lower
    return Calibration(
        name, version, epsilon, delta, sigma, exact, exact / delta, found.verdict
    )


@dataclass(frozen=True)
class Composition:
    """delta of `count` Gaussian mechanisms by one accountant, as a multiple of the exact one, and its CPU seconds."""

    peer: str
    sigma: float
    count: int
    epsilon: float
    delta: float | None
    over_exact: float | None
    seconds: float | None
    remark: str


def compositions(
    folder: Path = Path(), cases: Sequence[tuple[float, int, float]] = COMPOSITIONS
) -> list[Composition]:
    """Every accountant on every case, ours first; one without an answer says why."""
    rows = []
    for sigma, count, epsilon in cases:
        exact, seconds = cpu_seconds(partial(_exact_delta, sigma, count, epsilon))
        rows.append(
            Composition(
                "gaussveil", sigma, count, epsilon, exact, 1.0, seconds, "exact"
            )
        )
        for peer, task in ACCOUNTANTS.items():
            answer = peer.ask(
                task, {"sigma": sigma, "count": count, "epsilon": epsilon}, folder
            )
            rows.append(_composed(peer.name, sigma, count, epsilon, exact, answer))
    return rows


def _exact_delta(sigma: float, count: int, epsilon: float) -> float:
    loss = GaussianPair.mean_shift(1.0 / sigma)
    return float((loss**count if count > 1 else loss).dp_delta(epsilon))


def _composed(
    name: str,
    sigma: float,
    count: int,
    epsilon: float,
    exact: float,
    answer: dict[str, Any],
) -> Composition:
    if "failed" in answer:
        return Composition(
            name,
            sigma,
            count,
            epsilon,
            None,
            None,
            None,
            f"no answer: {answer['failed']}",
        )
    delta = float(answer["delta"])
    seconds = float(answer["seconds"])
    if not 0.0 <= delta <= 1.0:
        return Composition(
            name,
            sigma,
            count,
            epsilon,
            None,
            None,
            seconds,
            f"no probability: {delta:.3g}",
        )
    if delta < exact * (1 - 1e-6):
        remark = "too small"
    elif delta < 1.1 * exact:
        remark = ""
    else:
        remark = "too large"
    return Composition(
        name, sigma, count, epsilon, delta, delta / exact, seconds, remark
    )


def cpu_seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    """A call's value and the CPU seconds of a second call, as the peers are measured."""
    value = call()
    start = time.process_time()
    call()
    return value, time.process_time() - start


def quadratic_forms(
    folder: Path = Path(), count: int = len(PAIRS)
) -> list[dict[str, Any]]:
    """delta of two Gaussians as a difference of two tails, by gx2 and by Davies, beside a rigorous enclosure."""
    rows = []
    for name, (gap, shift, epsilon) in list(PAIRS.items())[:count]:
        pair = GaussianPair.from_reduced(gap, shift)
        enclosure = pair.enclose(epsilon)
        forms = chi_square_forms(pair, epsilon)
        row = {
            "pair": name,
            "epsilon": epsilon,
            "gaussveil": float(pair.delta(epsilon)),
            "lower": enclosure.lower,
            "upper": enclosure.upper,
        }
        for peer, answer in (
            ("gx2", GX2.ask("gx2_tails", {"forms": forms}, folder)),
            ("davies", davies_tails(forms)),
        ):
            row[peer] = _difference(answer, 0, epsilon)
        rows.append(row)
    return rows


def survey(
    count: int, seed: int, folder: Path = Path(), epsilon: float = 1.0
) -> list[dict[str, Any]]:
    """Seeded ordinary pairs in 2 to 12 dimensions: how often each method answers, errs by over 1 %, and its speed."""
    generator = np.random.default_rng(seed)
    pairs: list[PrivacyLoss] = []
    while len(pairs) < count:
        size = int(generator.integers(2, 13))
        gap = -np.expm1(
            generator.choice([0.05, 0.3, 0.8]) * generator.normal(size=size)
        )
        pair = GaussianPair.from_reduced(
            gap, generator.choice([0.1, 0.5]) * generator.normal(size=size)
        )
        if float(pair.delta(epsilon)) > SMALLEST_SURVEYED:
            pairs.append(pair)
    truth = np.array(
        [
            0.5 * (enclosed.lower + enclosed.upper)
            for enclosed in (p.enclose(epsilon) for p in pairs)
        ]
    )
    forms = [form for pair in pairs for form in chi_square_forms(pair, epsilon)]
    ours, seconds = cpu_seconds(lambda: [float(pair.delta(epsilon)) for pair in pairs])
    rows = [_surveyed("gaussveil", __version__, ours, truth, seconds)]
    for name, answer in (
        ("gx2", GX2.ask("gx2_tails", {"forms": forms}, folder)),
        ("Davies", davies_tails(forms)),
    ):
        if "failed" in answer:
            silent = dict.fromkeys(rows[0])
            rows.append(
                {
                    **silent,
                    "method": name,
                    "version": "",
                    "pairs": count,
                    "remark": answer["failed"],
                }
            )
            continue
        found = [_difference(answer, place, epsilon) for place in range(count)]
        rows.append(
            _surveyed(name, answer["version"], found, truth, float(answer["seconds"]))
        )
    return rows


def _surveyed(
    name: str,
    version: str,
    found: Sequence[Any],
    truth: NDArray[np.float64],
    seconds: float,
) -> dict[str, Any]:
    errors = [
        abs(value - exact) / exact
        for value, exact in zip(found, truth)
        if isinstance(value, float)
    ]
    return {
        "method": name,
        "version": version,
        "pairs": len(truth),
        "answered": len(errors),
        "wrong": sum(error > 0.01 for error in errors),
        "median": float(np.median(errors)) if errors else None,
        "worst": max(errors, default=None),
        "seconds": seconds / len(truth),
        "remark": "",
    }


def chi_square_forms(pair: PrivacyLoss, epsilon: float) -> list[dict[str, Any]]:
    """{L > epsilon} under X and under Y as upper tails of sum w (z + sqrt l)^2 + s z' + m (derived: docs/audit.md)."""
    gap = np.asarray(pair.variance_gap)
    shift = np.sqrt(np.asarray(pair.energy))
    ratio = 1.0 - gap
    start = -0.5 * float(np.sum(np.log(ratio)))
    equal = gap == 0.0
    forms = []
    for quadratic, straight, constant in (
        (-gap / 2, np.sqrt(ratio) * shift, shift**2 / 2),
        (-gap / (2 * ratio), shift / ratio, -(shift**2) / (2 * ratio)),
    ):
        weight = quadratic[~equal]
        line = straight[~equal]
        centre = line / (2 * weight)
        forms.append(
            {
                "at": epsilon,
                "w": weight.tolist(),
                "k": [1] * len(weight),
                "l": (centre**2).tolist(),
                "s": float(np.sqrt(np.sum(straight[equal] ** 2))),
                "m": start
                + float(np.sum(constant))
                - float(np.sum(weight * centre**2)),
            }
        )
    return forms


def _difference(answer: dict[str, Any], place: int, epsilon: float) -> Any:
    """delta of the pair at `place` from its two tails; why there is none, or None where the method refuses."""
    if "failed" in answer:
        return answer["failed"]
    under_x, under_y = answer["tails"][2 * place : 2 * place + 2]
    if under_x is None or under_y is None:
        return None
    return under_x - float(np.exp(epsilon)) * under_y
