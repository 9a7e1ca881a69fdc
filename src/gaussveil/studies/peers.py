"""Our numbers beside those of other privacy libraries, each in an environment of its own; run with

    python -m gaussveil.studies.peers

Three questions. Does the noise a library calibrates keep its promise (our auditor decides)? What delta does its
accountant give for composed Gaussians, where the closed form is known? What delta follows from general-purpose
distributions of quadratic forms (gx2, Davies) for two Gaussians?
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.audit import audit
from gaussveil.calibration import mean_shift_for
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.studies.peer_environments import Peer, davies_tails

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
COMPOSITIONS = ((1.0, 1, 1.0), (30.0, 1000, 4.0), (1.0, 10_000, 5500.0))  # sigma, how many, epsilon
PAIRS = {
    "two variances near each other": ([0.1, -0.05], [0.4, 0.2], 0.5),
    "one variance doubled, d = 4": ([-1.0, 0.0, 0.0, 0.0], [0.3, 0.3, 0.0, 0.0], 1.0),
    "a far tail": ([0.02, -0.01, 0.015], [0.1, 0.1, 0.0], 2.0),
}


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


def calibrations(folder: Path = Path()) -> list[Calibration]:
    """Every library's noise for every promise, audited; ours first."""
    rows = [
        _audited("gaussveil", "", epsilon, delta, {"sigma": 1.0 / mean_shift_for(epsilon, delta)})
        for epsilon, delta in PROMISES
    ]
    for peer, task in CALIBRATORS.items():
        for epsilon, delta in PROMISES:
            answer = peer.ask(task, {"epsilon": epsilon, "delta": delta}, folder)
            rows.append(_audited(peer.name, answer.get("version", ""), epsilon, delta, answer))
    return rows


def _audited(name: str, version: str, epsilon: float, delta: float, answer: dict[str, Any]) -> Calibration:
    if "failed" in answer:
        return Calibration(name, version, epsilon, delta, None, None, None, f"no answer: {answer['failed']}")
    sigma = float(answer["sigma"])
    found = audit(GaussianPair.mean_shift(1.0 / sigma), claim=(epsilon, delta))
    exact = found.findings[0].lower
    return Calibration(name, version, epsilon, delta, sigma, exact, exact / delta, found.verdict)


def compositions(folder: Path = Path()) -> list[dict[str, Any]]:
    """delta of `count` Gaussian mechanisms by every accountant, as a multiple of the exact one."""
    rows = []
    for sigma, count, epsilon in COMPOSITIONS:
        loss = GaussianPair.mean_shift(1.0 / sigma)
        exact = float((loss**count if count > 1 else loss).dp_delta(epsilon))
        row: dict[str, Any] = {"sigma": sigma, "count": count, "epsilon": epsilon, "gaussveil": exact}
        for peer, task in ACCOUNTANTS.items():
            answer = peer.ask(task, {"sigma": sigma, "count": count, "epsilon": epsilon}, folder)
            delta: Any = answer.get("delta", answer.get("failed"))
            # JSON has no infinity, and an answer that is no probability is worth seeing.
            row[peer.name] = delta if isinstance(delta, str) or 0.0 <= delta <= 1.0 else f"answered {delta}"
        rows.append(row)
    return rows


def quadratic_forms(folder: Path = Path()) -> list[dict[str, Any]]:
    """delta of two Gaussians as a difference of two tails, by gx2 and by Davies, beside a rigorous enclosure."""
    rows = []
    for name, (gap, shift, epsilon) in PAIRS.items():
        pair = GaussianPair.from_reduced(gap, shift)
        enclosure = pair.enclose(epsilon)
        forms = chi_square_forms(pair, epsilon)
        answer = GX2.ask("gx2_tails", {"forms": forms}, folder)
        rows.append(
            {
                "pair": name,
                "epsilon": epsilon,
                "gaussveil": float(pair.delta(epsilon)),
                "enclosure": [enclosure.lower, enclosure.upper],
                "gx2": _difference(answer.get("tails", answer.get("failed")), epsilon),
                "Davies (mgcv)": _difference(davies_tails(forms), epsilon),
            }
        )
    return rows


def chi_square_forms(pair: PrivacyLoss, epsilon: float) -> list[dict[str, Any]]:
    """{L > epsilon} under X and under Y as upper tails of sum w (z + sqrt l)^2 + s z' + m (derived: docs/audit.md)."""
    gap, shift = np.asarray(pair.variance_gap), np.sqrt(np.asarray(pair.energy))
    ratio = 1.0 - gap
    start = -0.5 * float(np.sum(np.log(ratio)))
    equal = gap == 0.0
    forms = []
    for quadratic, straight, constant in (
        (-gap / 2, np.sqrt(ratio) * shift, shift**2 / 2),
        (-gap / (2 * ratio), shift / ratio, -(shift**2) / (2 * ratio)),
    ):
        weight, line = quadratic[~equal], straight[~equal]
        centre = line / (2 * weight)
        forms.append(
            {
                "at": epsilon,
                "w": weight.tolist(),
                "k": [1] * len(weight),
                "l": (centre**2).tolist(),
                "s": float(np.sqrt(np.sum(straight[equal] ** 2))),
                "m": start + float(np.sum(constant)) - float(np.sum(weight * centre**2)),
            }
        )
    return forms


def _difference(tails: Any, epsilon: float) -> Any:
    if isinstance(tails, str):
        return tails
    under_x, under_y = tails
    return None if under_x is None or under_y is None else under_x - float(np.exp(epsilon)) * under_y


def main(data: Path | None = None, out: Path | None = None) -> dict[str, Any]:
    """Run the study, print it and, given `out`, write peers.json there. It needs no data; `data` is ignored."""
    results = {
        "calibrations": [vars(row) for row in calibrations()],
        "compositions": compositions(),
        "quadratic_forms": quadratic_forms(),
    }
    text = json.dumps(results, indent=2)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "peers.json").write_text(text + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main(out=Path("out"))
