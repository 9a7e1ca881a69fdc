"""A certificate as people read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gaussveil_studio.offers.rounding import rounded_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gaussveil.accounting import Certificate


IN_WORDS = (
    (
        r"adaptive: (filter on the sum of squared mean shifts|Renyi filter at s = \S+)",
        "an account whose releases may follow from earlier ones: shares of its budget add up",
    ),
    (r"adaptive: one release, by its exact delta", "an account for this one release"),
    (r"adaptive: no entry yet", "an account that nothing was paid from yet"),
    (
        r"planned: exact composition of a pre-registered sequence",
        "an account with a plan that was made beforehand",
    ),
    (
        r"(each unit is bounded by gaussveil\.statistics\.unit_cells as the parameters say|"
        r"what each unit adds is brought within the bounds of the parameters here); nothing is believed",
        "what each contributes is brought within the bounds before it counts; nothing is believed",
    ),
    (r"\brow_norm\b", "the largest length of a row"),
    (r"\bin l2 norm\b", "in length"),
    (r" \(see repeated_events\)", ""),
    (r"\bat most 1 rows\b", "at most 1 row"),
)


def in_words(text: str) -> str:
    """What the library says of accounts and rows, as a page says it."""
    for pattern, words in IN_WORDS:
        text = re.sub(pattern, words, text)
    return text


def paragraph(title: str, when: str, promise: Mapping[str, Any]) -> str:
    """What a release is, for somebody who was handed it: what was made of the data, and what nobody can tell by it."""
    doubt = promise.get("doubt") or f"whether any one {promise['unit']} was in the data"
    return (
        f"{title}, released on {when}. The numbers carry noise, so that whoever sees them can hardly tell {doubt}: of "
        f"100 such guesses at most {promise['guessed_right']} are right, where 50 are by chance."
    )


def explained(certificate: Certificate, title: str = "") -> list[list[str]]:
    """A certificate as pairs of term and text, for people; what it is of under our title, or as its issuer wrote it."""
    if certificate.guarantee.kind == "none":
        promise = "No privacy is promised"
    else:
        promise = "Promise"
    facts = [
        ["What", title or f"“{certificate.released}”"],
        [
            promise,
            f"epsilon {certificate.epsilon:g}, delta {rounded_up(certificate.delta)}, {certificate.guarantee}",
        ],
        [
            "Who is protected",
            f"each {certificate.adjacency.unit}; neighbours: {certificate.adjacency}",
        ],
        ["Mechanism", certificate.mechanism],
        ["Rests on", certificate.composition],
        [
            "Exact delta",
            f"at most {rounded_up(certificate.delta_upper)}, the sampler's error included",
        ],
        ["Account", certificate.account],
        ["Released", f"{certificate.released_at}, id {certificate.release_id}"],
    ]
    facts += [["Assumes", line] for line in certificate.assumptions]
    return [[term, in_words(text)] for term, text in facts]
