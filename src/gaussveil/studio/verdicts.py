"""Certificates recomputed and explained, claims decided: read from a file, decided below, told in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gaussveil.accounting import Certificate, verify
from gaussveil.audit.claims import Claim
from gaussveil.report.pair_files import read_pair
from gaussveil.studio.curves import curve, enclosure


def certificate_verdict(path: Path) -> dict[str, Any]:
    """Recompute everything a certificate says."""
    read = Certificate.read(path)
    found = verify(read)
    verdict = "verified" if found.private else "verified, but it promises nothing" if found.ok else "does not verify"
    return {
        "verdict": verdict,
        "verified": found.ok,
        "private": found.private,
        "epsilon": read.epsilon,
        "delta": read.delta,
        "delta_lower": found.delta_lower,
        "delta_upper": found.delta_upper,
        "signature": found.signature,
        "rests_on": found.rests_on,
        "problems": list(found.problems),
        "explained": explained(read),
        "certificate": read.to_dict(),
    }


def explained(certificate: Certificate) -> list[list[str]]:
    """A certificate as pairs of term and text, for people."""
    promise = "No privacy is promised" if certificate.guarantee.kind == "none" else "Promise"
    facts = [
        ["What", certificate.released],
        [promise, f"epsilon {certificate.epsilon:g}, delta {certificate.delta:g}, {certificate.guarantee}"],
        ["Who is protected", f"each {certificate.adjacency.unit}; neighbours: {certificate.adjacency}"],
        ["Mechanism", certificate.mechanism],
        ["Rests on", certificate.composition],
        ["Exact delta", f"at most {certificate.delta_upper!r}, the sampler's error included"],
        ["Account", certificate.account],
        ["Released", f"{certificate.released_at}, id {certificate.release_id}"],
    ]
    facts += [["Assumes", line] for line in certificate.assumptions]
    return facts


def claim_verdict(path: Path, times: int, epsilon: float, delta: float) -> dict[str, Any]:
    """Whether a pair keeps a claimed (epsilon, delta): the upper end certifies, the lower end refutes."""
    claim = Claim.of((epsilon, delta))
    pair = read_pair(path)
    loss = pair if times == 1 else pair**times
    ends = enclosure(loss, claim.epsilon)
    verdict = "holds" if claim.covers(ends["upper"]) else "refuted" if ends["lower"] > claim.delta else "undecided"
    return {
        "verdict": verdict,
        "claim": {"epsilon": claim.epsilon, "delta": claim.delta},
        "times": times,
        "ends": ends,
        "curve": curve(loss, 81),
    }
