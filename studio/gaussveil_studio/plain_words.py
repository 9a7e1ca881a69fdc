"""A certificate as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate


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
